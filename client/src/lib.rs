//! The keepline client.
