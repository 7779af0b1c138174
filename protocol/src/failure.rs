//! How a request fails.
//!
//! A failure says whose fault it was by its code, what happened in one sentence, and which candidates there were when a
//! name fitted several. Codes stand on the wire as numbers and are never reused; [`Code::exit`] is the one place that maps a code to an
//! exit code, [`Code::name`] the one that names it in JSON.

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[$doc:meta])* $number:literal $variant:ident $name:literal $exit:literal;)*) => {
        /// Why a request failed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$doc])* $variant,)*
            /// A code this version does not know.
            Unknown(u16),
        }

        impl Code {
            /// Every code of this version.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)*];

            /// The number on the wire.
            #[must_use]
            pub const fn number(self) -> u16 {
                match self { $(Code::$variant => $number,)* Code::Unknown(number) => number }
            }

            /// The code with this number on the wire.
            #[must_use]
            pub const fn from_number(number: u16) -> Self {
                match number { $($number => Code::$variant,)* other => Code::Unknown(other) }
            }

            /// The name in JSON.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Code::$variant => $name,)* Code::Unknown(_) => "unknown" }
            }

            /// The code with this name in JSON.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Code::$variant),)* _ => None }
            }

            /// The exit code of a command that failed this way.
            #[must_use]
            pub const fn exit(self) -> u8 {
                match self { $(Code::$variant => $exit,)* Code::Unknown(_) => 1 }
            }
        }
    };
}

codes! {
    /// The world failed: disk, system call, a program that could not be run to its end.
    1 Failed "failed" 1;
    /// The request is malformed or out of bounds.
    2 Invalid "invalid" 2;
    /// Something else holds what was asked for.
    3 Busy "busy" 3;
    /// Nothing has that id or name.
    4 NotFound "not-found" 4;
    /// A name fits several things.
    5 Ambiguous "ambiguous" 4;
    /// The target is gone, or the generation changed.
    6 Gone "gone" 5;
    /// The asker may not do this.
    7 Refused "refused" 6;
    /// The idempotency key was used with other parameters, or the expected revision is not the current one.
    8 Conflict "conflict" 6;
    /// The answer, or the graph with this change, would be larger than its bound.
    9 TooLarge "too-large" 1;
    /// The machine cannot be reached; nothing was sent.
    10 Unreachable "unreachable" 1;
    /// The deadline passed while the link was up, or the request changes nothing.
    11 Timeout "timeout" 124;
    /// The link failed after the request was sent: whether it took effect is not known.
    12 OutcomeUnknown "outcome-unknown" 125;
    /// The peer does not know this method.
    13 UnknownMethod "unknown-method" 1;
    /// The program exists and cannot be started.
    14 CannotStart "cannot-start" 126;
    /// There is no such program.
    15 NoSuchProgram "no-such-program" 127;
    /// A bug of ours, seen and named.
    16 Internal "internal" 1;
}

/// A request's failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Why.
    pub code: Code,
    /// One sentence: what happened, to what, and what to do next.
    pub message: String,
    /// What an ambiguous name could have meant.
    pub candidates: Vec<String>,
}

impl Failure {
    /// A failure with one sentence.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Failure { code, message: message.into(), candidates: Vec::new() }
    }
}

/// The form of a [`Failure`] on the link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureBody {
    /// [`Code::number`].
    pub code: u16,
    /// One sentence.
    pub message: String,
    /// What an ambiguous name could have meant.
    pub candidates: Vec<String>,
}

impl From<Failure> for FailureBody {
    fn from(failure: Failure) -> Self {
        FailureBody { code: failure.code.number(), message: failure.message, candidates: failure.candidates }
    }
}

impl From<FailureBody> for Failure {
    fn from(body: FailureBody) -> Self {
        Failure { code: Code::from_number(body.code), message: body.message, candidates: body.candidates }
    }
}
