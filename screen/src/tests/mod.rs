//! Tests that look inside.

mod exact;
mod inspect;
mod streams;
