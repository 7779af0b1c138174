//! See [`keepline_fuzz::packet`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    keepline_fuzz::packet(input);
});
