//! See [`keepline_fuzz::link`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    keepline_fuzz::link(input);
});
