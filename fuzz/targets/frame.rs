//! See [`keepline_fuzz::frame`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    keepline_fuzz::frame(input);
});
