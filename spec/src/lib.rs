//! The written protocol of keepline: start with `README.md` in this directory.
//!
//! The crate has no code. Its tests compare the text's tables with the code's numbers, so that the two cannot drift apart.
