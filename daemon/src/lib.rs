//! The keepline daemon.

pub mod bounds;
pub mod terminal;
