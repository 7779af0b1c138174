//! See [`keepline_fuzz::invitation`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    keepline_fuzz::invitation(input);
});
