//! The `keepline` binary: the composition root.

fn main() {}
