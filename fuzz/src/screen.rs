//! The screen of a terminal, which any program may write to.

use keepline_screen::{Limits, Line, Modes, Screen, Size};

use crate::input::Input;
use crate::{Reach, Reached};

/// Bytes that a screen of the sizes used here may take: both buffers, its tables and half a sequence.
const MEMORY_MAX: usize = 32 << 20;
const LIMITS: Limits = Limits { history_bytes: 1 << 20, history_lines: 300 };

/// What can be seen of a screen, without what VT bytes cannot say.
fn seen(screen: &Screen) -> (Vec<Line>, Vec<Line>, (u16, u16), Modes, String) {
    let history = screen.history();
    (
        screen.lines(),
        history.filter_map(|id| screen.line(id)).collect(),
        screen.cursor(),
        screen.modes(),
        screen.title().to_owned(),
    )
}

/// What programs write, and the sizes that the terminal has: a step below 192 is so many bytes of output and one more, one
/// below 224 a size, any other a cut. A screen that was cut goes on as the uncut one, and its bytes show the same.
pub fn screen(input: &[u8]) -> Reach {
    let mut reach = Reach::new();
    let mut input = Input(input);
    let size = |input: &mut Input| Size {
        cols: input.byte().into(),
        rows: (input.byte() % 64).into(),
        x_pixels: 800,
        y_pixels: 600,
    };
    let mut uncut = Screen::new(size(&mut input), LIMITS);
    let mut cut = uncut.clone();
    while !input.is_empty() {
        match input.byte() {
            length @ 0..192 => {
                let bytes = input.bytes(usize::from(length) + 1);
                let effects = uncut.feed(bytes);
                assert_eq!(cut.feed(bytes), effects);
                assert!(effects.replies.iter().all(|reply| reply.at <= bytes.len()));
                if !effects.replies.is_empty() {
                    reach.insert(Reached::Read("a query"));
                }
                if !effects.events.is_empty() {
                    reach.insert(Reached::Read("an event"));
                }
            }
            192..224 => {
                let size = size(&mut input);
                uncut.resize(size);
                cut.resize(size);
                reach.insert(Reached::Read("a size"));
            }
            kind => {
                let state = uncut.save();
                cut = Screen::restore(state.clone()).unwrap();
                assert_eq!(cut.save(), state);
                if kind % 2 == 0 {
                    cut.shrink();
                }
                let vt = uncut.snapshot_vt(usize::MAX, usize::MAX);
                let mut shown = Screen::new(uncut.size(), LIMITS);
                assert_eq!(shown.feed(&vt).replies, []);
                assert_eq!(seen(&shown), seen(&uncut));
                reach.insert(Reached::Read("a cut"));
                if uncut.alternate() {
                    reach.insert(Reached::Read("a cut on the alternate screen"));
                }
                if uncut.history().start < uncut.history().end {
                    reach.insert(Reached::Read("a cut with history"));
                }
            }
        }
        assert!(uncut.memory() < MEMORY_MAX);
    }
    assert_eq!(cut.save(), uncut.save());
    assert_eq!(cut.digest(), uncut.digest());
    reach
}
