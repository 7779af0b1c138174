//! The link against a reference model, in virtual time.
//!
//! A [`world`] has both ends, carriers of bytes between them, and the daemon's decisions on links. A seed gives a list of
//! [`actions`]; after each event the world is held against the [`reference`] model and some invariants; in the end it gets
//! calm, and everything that was sent must have arrived. A list that fails is made shorter, printed, and can be read back.
//!
//! | room | holds |
//! |---|---|
//! | [`reference`] | the model: what may arrive, given what was sent |
//! | [`actions`] | the events of a list, their drawing and their text |
//! | [`world`], [`traffic`] | what the events do; what happens when time passes |
//! | [`wire`], [`handshake`], [`daemon`] | bytes under way; shaking hands; who gets which link |
//! | [`run`] | the tests; the six deliberate faults are those of [`crate::fault`] |

mod actions;
mod daemon;
mod handshake;
mod reference;
mod run;
mod traffic;
mod wire;
mod world;
