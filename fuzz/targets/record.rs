//! See [`keepline_fuzz::record`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    keepline_fuzz::record(input);
});
