//! See [`keepline_fuzz::message`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    keepline_fuzz::message(input);
});
