//! Deliberate faults, in test builds alone: what the simulation must find.

use std::cell::Cell;

/// A fault that somebody could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A frame is acknowledged before its stream has it.
    AcknowledgeBeforeDelivery,
    /// An end tells a cursor one too high.
    CursorOffByOne,
    /// An attempt of an older epoch is taken.
    EpochNotFenced,
    /// A resumed lane sends a frame again under a new sequence.
    ReplayDoubled,
    /// Credit is granted when bytes arrive.
    CreditOnReceipt,
    /// A resumed lane leaves out a frame that the peer misses.
    FrameDroppedOnResume,
}

thread_local! {
    static PRESENT: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Whether this thread has the fault.
pub(crate) fn is(fault: Fault) -> bool {
    PRESENT.get() == Some(fault)
}

/// Gives this thread a fault, or takes it.
pub(crate) fn set(fault: Option<Fault>) {
    PRESENT.set(fault);
}
