//! See [`keepline_fuzz::screen`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    keepline_fuzz::screen(input);
});
