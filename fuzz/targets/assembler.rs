//! See [`keepline_fuzz::assembler`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    keepline_fuzz::assembler(input);
});
