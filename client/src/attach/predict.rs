//! Predictive echo: what a person types is shown at once, underlined until the program's own echo confirms it.
//!
//! A [`Predictor`] has a screen of its own, which sees what the person's terminal is shown. It guesses that a printable
//! character appears at the cursor, and that Backspace takes the last guess back, where the screen says that this is
//! likely. Guesses are shown only while they have proved right: any other key, an echo that does not come and a cursor
//! that goes elsewhere make the next ones silent until one comes true. So a password is never shown, and neither is the
//! first character at a new prompt before its echo.
//!
//! ```text
//!  typed ──▶ typed() ─▶ guesses ──▶ over() the person's terminal
//!  output ─▶ hide() what is over it ─▶ (output is shown) ─▶ fed() ─▶ confirmed or withdrawn ─▶ over() the rest
//! ```
//!
//! Time is an argument. Nothing here is drawn while a sequence is cut in half, so the output stays what it is.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use keepline_protocol::api::Size;
use keepline_screen::{Limits, Screen};
use unicode_width::UnicodeWidthChar;

use crate::bounds::{ECHO_TIME, PREDICT_ABOVE, PREDICTED_MAX};

/// When predictions are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// While the round trip is longer than [`PREDICT_ABOVE`].
    Slow,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What is guessed of one cell.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Guess {
    row: u16,
    column: u16,
    /// The character, or nothing where Backspace leaves a blank.
    text: Option<char>,
    /// Where the input ends that it follows from.
    input: u64,
    typed: Instant,
    /// When the daemon had written that input to the program.
    written: Option<Instant>,
    shown: bool,
}

/// What came of guesses, for those who measure it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Guesses that were shown before their echo.
    pub shown: u64,
    /// Those of them that were withdrawn.
    pub wrong: u64,
}

/// See the module.
pub struct Predictor {
    when: When,
    screen: Screen,
    /// Whether the person's terminal has the size of the screen: else nothing is where it seems to be.
    fits: bool,
    guesses: VecDeque<Guess>,
    /// Whether the last guess that was decided came true, and no other key was pressed since.
    confident: bool,
    /// The round trip, smoothed.
    round_trip: Option<Duration>,
    /// Cells that show something else than the program wrote there.
    drawn: Vec<(u16, u16)>,
    outcome: Outcome,
}

impl Predictor {
    /// One that knows nothing yet.
    #[must_use]
    pub fn new(when: When) -> Self {
        let limits = Limits { history_bytes: 0, history_lines: 0 };
        Predictor {
            when,
            screen: Screen::new(keepline_screen::Size::cells(80, 24), limits),
            fits: false,
            guesses: VecDeque::new(),
            confident: false,
            round_trip: None,
            drawn: Vec::new(),
            outcome: Outcome::default(),
        }
    }

    /// What came of guesses so far.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The screen is a new one of this size; `fits` when the person's terminal has it too.
    pub fn begin(&mut self, size: Size, fits: bool) {
        self.screen = Screen::new(sized(size), self.screen.limits());
        self.fits = fits;
        self.drawn.clear();
        self.give_up();
    }

    /// The terminal has this size from here on; `fits` when the person's terminal has it too.
    pub fn resized(&mut self, size: Size, fits: bool) {
        self.screen.resize(sized(size));
        self.fits = fits;
        self.give_up();
    }

    /// Takes what was typed; `input` is where the input then ends.
    pub fn typed(&mut self, bytes: &[u8], input: u64, now: Instant) {
        if self.when == When::Never {
            return;
        }
        let text = std::str::from_utf8(bytes).unwrap_or("\x1b");
        if text.chars().count() > PREDICTED_MAX {
            self.confident = false;
            return;
        }
        for c in text.chars() {
            let guess = match c {
                '\x7f' | '\x08' => self.erased(),
                c if c.width() == Some(1) && !c.is_control() => self.appended(c),
                _ => {
                    // What comes of other keys is not guessed, nor whether the next ones are echoed.
                    self.confident = false;
                    return;
                }
            };
            if let Some((row, column, text)) = guess {
                self.guesses.push_back(Guess { row, column, text, input, typed: now, written: None, shown: false });
            }
        }
    }

    /// Where the cursor is when all guesses are right.
    fn cursor(&self) -> (u16, u16) {
        let (column, row) = self.screen.cursor();
        self.guesses.back().map_or((row, column), |guess| match guess.text {
            Some(_) => (guess.row, guess.column + 1),
            None => (guess.row, guess.column),
        })
    }

    /// Whether echo is likely at all.
    fn is_likely(&self) -> bool {
        self.fits && !self.screen.alternate() && self.screen.writes_plainly() && self.guesses.len() < PREDICTED_MAX
    }

    fn appended(&self, c: char) -> Option<(u16, u16, Option<char>)> {
        let (row, column) = self.cursor();
        // Not in the last column, where it would wrap, nor in front of text, which it would shift.
        let free = |column| self.screen.glyph(row, column).text.trim().is_empty();
        let last = self.screen.size().cols - 1;
        let likely = self.is_likely() && column < last && (column..=last).all(free);
        likely.then_some((row, column, Some(c)))
    }

    /// Backspace takes back what was typed last, as long as that is a guess of its own.
    fn erased(&mut self) -> Option<(u16, u16, Option<char>)> {
        let (row, column) = self.cursor();
        let own = self.guesses.iter().any(|guess| guess.text.is_some() && guess.column + 1 == column);
        if !own || !self.is_likely() {
            self.confident = false;
            return None;
        }
        Some((row, column - 1, None))
    }

    /// The daemon has written the input below `offset`.
    pub fn written(&mut self, offset: u64, now: Instant) {
        for guess in self.guesses.iter_mut().filter(|guess| guess.input <= offset && guess.written.is_none()) {
            guess.written = Some(now);
            let sample = now.saturating_duration_since(guess.typed);
            self.round_trip = Some(self.round_trip.map_or(sample, |known| (known * 7 + sample) / 8));
        }
    }

    /// The program's output, as it is shown.
    pub fn fed(&mut self, bytes: &[u8], now: Instant) {
        self.screen.feed(bytes);
        if self.when == When::Never {
            return;
        }
        while let Some(guess) = self.guesses.front() {
            if !self.came_true(guess) {
                break;
            }
            self.guesses.pop_front();
            self.confident = true;
        }
        if self.is_led_astray() {
            self.give_up();
        }
        self.expire(now);
    }

    fn came_true(&self, guess: &Guess) -> bool {
        let (column, row) = self.screen.cursor();
        let glyph = self.screen.glyph(guess.row, guess.column);
        match guess.text {
            Some(c) => row == guess.row && column > guess.column && glyph.text.chars().eq([c]),
            None => (row, column) == (guess.row, guess.column) && glyph.text.trim().is_empty(),
        }
    }

    /// Whether the cursor is where no echo leaves it.
    fn is_led_astray(&self) -> bool {
        let (column, row) = self.screen.cursor();
        self.guesses.front().is_some_and(|guess| {
            let before = column == guess.column || guess.text.is_none() && column == guess.column + 1;
            row != guess.row || !before || self.screen.alternate()
        })
    }

    /// Withdraws guesses whose echo should have come.
    pub fn expire(&mut self, now: Instant) {
        if self.due().is_some_and(|due| due <= now) {
            self.give_up();
        }
    }

    /// When [`expire`](Self::expire) is to be called, if nothing else happens.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.guesses.front().and_then(|guess| guess.written).map(|written| written + ECHO_TIME)
    }

    /// The next output may be anything: guesses are withdrawn.
    pub fn give_up(&mut self) {
        self.outcome.wrong += self.guesses.iter().filter(|guess| guess.shown).count() as u64;
        self.guesses.clear();
        self.confident = false;
    }

    /// Whether guesses are over the screen.
    #[must_use]
    pub fn is_drawn(&self) -> bool {
        !self.drawn.is_empty()
    }

    /// What brings the person's terminal to where the program left it.
    #[must_use]
    pub fn hide(&mut self) -> String {
        let mut out = String::new();
        for (row, column) in self.drawn.drain(..) {
            let glyph = self.screen.glyph(row, column);
            let text = if glyph.text.is_empty() { " " } else { &glyph.text };
            out.push_str(&format!("\x1b[{};{}H{}{text}", row + 1, column + 1, glyph.style.sgr()));
        }
        if !out.is_empty() {
            let (column, row) = self.screen.cursor();
            out.push_str(&format!("\x1b[{};{}H{}", row + 1, column + 1, self.screen.pen().sgr()));
        }
        out
    }

    /// What shows the guesses over the screen as the program left it.
    #[must_use]
    pub fn over(&mut self) -> String {
        let slow = self.round_trip.is_some_and(|time| time > PREDICT_ABOVE);
        let shows = self.confident && (self.when == When::Always || self.when == When::Slow && slow);
        // Those that were shown stay until they are decided.
        if self.guesses.is_empty() || !self.is_drawable() || !shows && !self.guesses.iter().any(|guess| guess.shown) {
            return String::new();
        }
        let pen = self.screen.pen().sgr();
        let mut out = String::new();
        let mut cursor = self.screen.cursor();
        for guess in self.guesses.iter_mut().filter(|guess| shows || guess.shown) {
            self.outcome.shown += u64::from(!std::mem::replace(&mut guess.shown, true));
            let (row, column) = (guess.row + 1, guess.column + 1);
            self.drawn.push((guess.row, guess.column));
            match guess.text {
                Some(c) => {
                    out.push_str(&format!("\x1b[{row};{column}H{pen}\x1b[4m{c}"));
                    cursor = (guess.column + 1, guess.row);
                }
                None => {
                    out.push_str(&format!("\x1b[{row};{column}H{pen} "));
                    cursor = (guess.column, guess.row);
                }
            }
        }
        out.push_str(&format!("\x1b[{};{}H{pen}", cursor.1 + 1, cursor.0 + 1));
        out
    }

    fn is_drawable(&self) -> bool {
        self.fits && self.screen.writes_plainly()
    }
}

fn sized(size: Size) -> keepline_screen::Size {
    keepline_screen::Size { cols: size.cols, rows: size.rows, x_pixels: size.x_pixels, y_pixels: size.y_pixels }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Duration = Duration::from_millis(100);

    /// A person's terminal, the predictor before it, and a clock.
    struct Bench {
        predictor: Predictor,
        terminal: Screen,
        input: u64,
        now: Instant,
    }

    impl Bench {
        fn new(when: When) -> Self {
            let size = Size::cells(20, 5);
            let mut predictor = Predictor::new(when);
            predictor.begin(size, true);
            let terminal = Screen::new(sized(size), Limits::default());
            let mut bench = Bench { predictor, terminal, input: 0, now: Instant::now() };
            bench.output("$ ");
            bench
        }

        fn show(&mut self, text: &str) {
            self.terminal.feed(text.as_bytes());
        }

        fn type_text(&mut self, text: &str) {
            self.input += text.len() as u64;
            self.predictor.typed(text.as_bytes(), self.input, self.now);
            self.draw();
        }

        fn draw(&mut self) {
            let hidden = self.predictor.hide();
            self.show(&hidden);
            let over = self.predictor.over();
            self.show(&over);
        }

        fn output(&mut self, text: &str) {
            let hidden = self.predictor.hide();
            self.show(&hidden);
            self.show(text);
            self.predictor.fed(text.as_bytes(), self.now);
            let over = self.predictor.over();
            self.show(&over);
        }

        /// The round trip later everything is written and echoed so.
        fn answer(&mut self, text: &str) {
            self.now += TRIP;
            self.predictor.written(self.input, self.now);
            self.output(text);
        }

        /// One key that is echoed, after which guesses are shown.
        fn trusting(when: When) -> Self {
            let mut bench = Bench::new(when);
            bench.type_text("l");
            assert_eq!(bench.row(), "$", "nothing is shown before anything was echoed");
            bench.answer("l");
            bench
        }

        fn row(&self) -> String {
            self.terminal.rows(false)[usize::from(self.terminal.cursor().1)].clone()
        }

        fn assert_exact(&mut self) {
            let hidden = self.predictor.hide();
            self.show(&hidden);
            assert_eq!(self.terminal.digest(), self.predictor.screen.digest());
            assert_eq!(self.terminal.pen(), self.predictor.screen.pen());
        }
    }

    #[test]
    fn what_is_typed_is_shown_at_once_and_underlined_until_it_is_echoed() {
        let mut bench = Bench::trusting(When::Slow);
        bench.type_text("s ");
        bench.type_text("-a");
        assert_eq!((bench.row().as_str(), bench.terminal.cursor().0), ("$ ls -a", 7));
        let underlined = |bench: &Bench, column| bench.terminal.glyph(0, column).style != Style::default();
        assert!(underlined(&bench, 3) && underlined(&bench, 6) && !underlined(&bench, 2));
        bench.answer("s ");
        assert!(!underlined(&bench, 3) && underlined(&bench, 6));
        bench.answer("-a");
        assert_eq!(bench.row(), "$ ls -a");
        assert_eq!(bench.predictor.outcome(), Outcome { shown: 4, wrong: 0 });
        bench.assert_exact();
    }

    #[test]
    fn a_short_round_trip_needs_no_guesses() {
        let mut bench = Bench::new(When::Slow);
        bench.type_text("a");
        bench.now += Duration::from_millis(5);
        bench.predictor.written(bench.input, bench.now);
        bench.output("a");
        bench.type_text("b");
        assert_eq!(bench.row(), "$ a");
        let mut always = Bench::trusting(When::Always);
        always.type_text("b");
        assert_eq!(always.row(), "$ lb");
        let mut never = Bench::trusting(When::Never);
        never.type_text("b");
        assert_eq!(never.row(), "$ l");
    }

    #[test]
    fn backspace_takes_back_what_was_guessed() {
        let mut bench = Bench::trusting(When::Slow);
        bench.type_text("xy");
        bench.type_text("\x7f");
        assert_eq!((bench.row().as_str(), bench.terminal.cursor().0), ("$ lx", 4));
        bench.answer("xy");
        assert_eq!(bench.row(), "$ lx");
        // Its echo comes in two pieces.
        bench.output("\x08");
        assert_eq!(bench.row(), "$ lx");
        bench.output(" \x08");
        assert_eq!(bench.predictor.outcome(), Outcome { shown: 3, wrong: 0 });
        bench.assert_exact();
    }

    #[test]
    fn a_password_is_never_shown() {
        let mut bench = Bench::trusting(When::Slow);
        bench.type_text("\r");
        bench.answer("\r\nPassword: ");
        for c in ["s", "e", "c", "r", "e", "t"] {
            bench.type_text(c);
            assert_eq!(bench.row(), "Password:");
        }
        bench.now += TRIP;
        bench.predictor.written(bench.input, bench.now);
        bench.now += ECHO_TIME;
        bench.predictor.expire(bench.now);
        bench.draw();
        bench.type_text("!");
        assert_eq!(bench.row(), "Password:");
        assert_eq!(bench.predictor.outcome().wrong, 0);
        bench.assert_exact();
    }

    #[test]
    fn a_wrong_guess_is_withdrawn_when_its_echo_does_not_come() {
        let mut bench = Bench::trusting(When::Slow);
        bench.type_text("q");
        assert_eq!(bench.row(), "$ lq");
        bench.now += TRIP;
        bench.predictor.written(bench.input, bench.now);
        let due = bench.predictor.due().unwrap();
        assert_eq!(due, bench.now + ECHO_TIME);
        bench.predictor.expire(due);
        bench.draw();
        assert_eq!(bench.row(), "$ l");
        assert_eq!(bench.predictor.outcome(), Outcome { shown: 1, wrong: 1 });
        bench.assert_exact();
    }

    #[test]
    fn output_that_goes_elsewhere_withdraws_at_once_and_keeps_its_own_look() {
        let mut bench = Bench::trusting(When::Slow);
        bench.type_text("q");
        bench.output("\r\n\x1b[31mnews\r\n");
        assert_eq!(bench.terminal.rows(false)[..2], ["$ l", "news"]);
        bench.type_text("x");
        assert_eq!(bench.row(), "", "not before something is echoed again");
        bench.answer("x");
        bench.type_text("y");
        assert_eq!(bench.row(), "xy");
        bench.assert_exact();
    }

    #[test]
    fn nothing_is_guessed_where_echo_is_not_plain() {
        for setup in [
            "\x1b[?1049h",
            "\x1b[?25l",
            "\x1b[4h",
            "\x1b[?6h",
            "\x1b(0",
            "\x1b[?2026h",
            "\x1b[31",
            "\x1b[1;3Hbehind\x1b[1;4H",
        ] {
            let mut bench = Bench::trusting(When::Slow);
            bench.output(setup);
            let before = bench.terminal.digest();
            bench.type_text("x");
            assert_eq!(bench.terminal.digest(), before, "{setup:?}");
        }
        // Nor in the last column, where it would wrap.
        let mut bench = Bench::trusting(When::Slow);
        bench.type_text("0123456789abcdefghi");
        assert_eq!(bench.row(), "$ l0123456789abcdef");
        let mut other = Bench::trusting(When::Slow);
        other.predictor.resized(Size::cells(20, 5), false);
        other.type_text("x");
        assert_eq!(other.row(), "$ l");
    }

    use keepline_screen::Style;
}
