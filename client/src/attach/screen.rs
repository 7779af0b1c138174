//! A person's terminal: into raw mode and back, on every way out.

use std::io::Write;
use std::os::fd::AsFd;
use std::sync::{Mutex, Once, PoisonError};

use keepline_protocol::api::Size;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Every mode that a program may have set, back to what a shell expects, on the main screen. It starts by ending a
/// sequence that was cut, and moves the cursor.
macro_rules! modes_off {
    () => {
        concat!(
            // End a string that was cut; end a synchronized update.
            "\x1b\\",
            "\x1b[?2026l",
            // Kitty keyboard: each screen has a stack of its own, so before and after leaving the alternate one.
            "\x1b[<99u\x1b[=0u",
            "\x1b[?1047l\x1b[?47l\x1b[?1049l",
            "\x1b[<99u\x1b[=0u",
            // modifyOtherKeys; what does not know it reads SGR 4, which is undone below.
            "\x1b[>4m",
            // Mouse and its encodings, focus, bracketed paste, colour scheme reports.
            "\x1b[?9l\x1b[?1000l\x1b[?1001l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?1007l\x1b[?1015l\x1b[?1016l",
            "\x1b[?1004l\x1b[?2004l\x1b[?2031l\x1b[?2048l",
            // Application cursor and keypad; insert and newline mode.
            "\x1b[?1l\x1b>\x1b[4l\x1b[20l",
            // Origin, margins, wrap, reverse video.
            "\x1b[?6l\x1b[?69l\x1b[r\x1b[?7h\x1b[?5l",
            // Charsets, attributes, protection, link.
            "\x0f\x1b(B\x1b)B\x1b*B\x1b+B\x1b[m\x1b[0\"q\x1b]8;;\x1b\\",
            // Palette and default colours.
            "\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\",
            // Cursor style, shown.
            "\x1b[0 q\x1b[?25h",
        )
    };
}

/// What a person's terminal gets at the end: every mode off, its title back, and the cursor on a fresh line below the
/// output.
pub(super) const RESTORE: &str = concat!(modes_off!(), "\x1b[23;2t", "\x1b[999;1H\r\n");

/// What comes before a snapshot that is not the first: the screen as a fresh terminal, history left alone.
pub(super) const AFRESH: &str = concat!(modes_off!(), "\x1b[?5W", "\x1b[H\x1b[2J");

/// What comes before the first snapshot: the title is kept aside, and what the screen shows moves into history.
pub(super) fn entry(rows: u16) -> String {
    format!("\x1b[22;2t\x1b[m\x1b[999;1H{}\x1b[H\x1b[2J", "\r\n".repeat(usize::from(rows)))
}

/// A line over the last row of the screen, in reverse video, cut to `cols` characters.
pub(super) fn status(text: &str, cols: u16) -> String {
    let text: String = text.chars().take(usize::from(cols.max(2)) - 1).collect();
    format!("\x1b\\\x1b[?2026l\x1b7\x1b[?6l\x1b[r\x1b[999;1H\x1b[0;7m\x1b[2K{text}\x1b[m\x1b8")
}

/// The size of this terminal, when it says one.
pub(super) fn size() -> Option<Size> {
    let size = tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some(Size {
        cols: size.ws_col,
        rows: size.ws_row,
        x_pixels: size.ws_xpixel,
        y_pixels: size.ws_ypixel,
    })
}

/// How the terminal was before raw mode. It is global because a panic hook has nothing else.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);
static HOOK: Once = Once::new();

/// Raw mode. Dropping it, or a panic anywhere in the process, restores the terminal.
#[derive(Debug)]
pub(super) struct Raw(());

impl Raw {
    /// Turns raw mode on.
    pub(super) fn enter() -> std::io::Result<Self> {
        let before = tcgetattr(std::io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        HOOK.call_once(|| {
            let previous = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                previous(panic);
            }));
        });
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        tcsetattr(std::io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Raw(()))
    }

    /// Turns raw mode off, when [`RESTORE`] was written already.
    pub(super) fn leave(self) {
        if let Some(before) = taken() {
            // A terminal that is gone has no modes to restore.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &before);
        }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}

fn taken() -> Option<Termios> {
    BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn restore() {
    if let Some(before) = taken() {
        // The other way out of raw mode, and as good: there is nobody left to tell of a failure.
        if let Ok(fd) = std::io::stdout().as_fd().try_clone_to_owned() {
            let _ = std::fs::File::from(fd).write_all(RESTORE.as_bytes());
        }
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &before);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    /// The panic itself, which happens in a process of its own.
    #[test]
    #[ignore = "only a_panic_restores_the_terminal runs it, on a PTY"]
    fn panics_in_raw_mode() {
        let raw = Raw::enter().unwrap();
        std::thread::spawn(|| panic!("of another thread")).join().unwrap_err();
        // What would restore it as well must not hide that the hook did.
        std::mem::forget(raw);
    }

    #[tokio::test]
    async fn a_panic_restores_the_terminal() {
        let (mut pty, pts) = pty_process::open().unwrap();
        pty.resize(pty_process::Size::new(24, 80)).unwrap();
        let before = tcgetattr(&pty).unwrap();
        let mut child = pty_process::Command::new(std::env::current_exe().unwrap())
            .args(["attach::screen::tests::panics_in_raw_mode", "--exact", "--ignored", "--nocapture"])
            .spawn(pts)
            .unwrap();
        let mut shown = Vec::new();
        while let Ok(1..) = pty.read_buf(&mut shown).await {}
        assert!(child.wait().await.unwrap().success());
        let shown = String::from_utf8_lossy(&shown);
        let restored = shown.find(RESTORE).expect("the restoring bytes");
        let message = shown.find("of another thread").expect("the panic's message");
        assert!(restored < message, "the message is read on the main screen");
        let after = tcgetattr(&pty).unwrap();
        assert_eq!(after.local_modes, before.local_modes);
        assert_eq!(after.output_modes, before.output_modes);
    }
}
