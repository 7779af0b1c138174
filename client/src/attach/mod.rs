//! Attaching to a terminal through a local socket.
//!
//! [`session`] is the engine: it keeps one attachment alive across lost connections and gives every event once.
//! [`pipe_io`] puts it between a program's pipes, [`person`] on a person's terminal. Input that is not acknowledged yet
//! is kept in a [`Tail`](input::Tail).

pub mod input;
pub mod person;
pub mod pipe_io;
pub mod record;
pub mod session;

mod escape;
mod pipe_line;
pub mod predict;
mod queries;
mod screen;
mod writer;
