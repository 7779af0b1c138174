//! The keepline daemon.
