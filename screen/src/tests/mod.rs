//! Tests that look inside.

mod exact;
mod inspect;
mod recordings;
mod streams;
