//! The keepline link, without I/O.
//!
//! This crate says what two keepline processes say to each other and when: identities and certificates, the Noise
//! handshake, packets of frames, four lanes with replay, streams with credit, and the messages by number. It has no
//! clock, no randomness, no socket and no task: time and entropy are arguments, bytes go in and come out.
//!
//! # Rooms, from the wire inwards
//!
//! | module | holds |
//! |---|---|
//! | [`identity`], [`invitation`] | who is who: Ed25519 identities, certificates for Noise keys, invitation files |
//! | [`handshake`] | the clear head, XXpsk3 and IKpsk2 with ML-KEM, what each handshake message carries, refusals |
//! | [`frame`] | packets and the frames in them |
//! | [`lane`], [`stream`] | sequences, acknowledgement and replay; credit and fairness |
//! | [`link`] | the root type [`Link`](link::Link), which drives all of the above |
//! | [`message`], [`registry`], [`api`] | messages by method number and their structs |
//! | [`scope`] | what a device may do |
//! | [`record`] | what an attachment carries once it is open |
//! | [`bounds`] | every limit, with its unit and its reason |

pub mod api;
pub mod bounds;
pub mod cipher;
pub mod failure;
#[cfg(test)]
mod fault;
pub mod frame;
pub mod handshake;
pub mod id;
pub mod identity;
pub mod invitation;
pub mod lane;
pub mod link;
pub mod message;
pub mod record;
pub mod refusal;
pub mod registry;
pub mod scope;
#[cfg(test)]
mod simulation;
pub mod stream;
mod time;

pub use time::Time;
