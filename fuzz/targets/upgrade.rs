//! See [`keepline_fuzz::upgrade`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    keepline_fuzz::upgrade(input);
});
