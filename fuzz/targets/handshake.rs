//! See [`keepline_fuzz::handshake`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    keepline_fuzz::handshake(input);
});
