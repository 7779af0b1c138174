//! What keys, pasted text and the mouse send in the modes that a program sets.

use keepline_screen::{Key, Limits, Mouse, Screen, Size};

fn screen(setup: &str) -> Screen {
    let mut screen = Screen::new(Size { cols: 80, rows: 24, x_pixels: 800, y_pixels: 480 }, Limits::default());
    screen.feed(setup.as_bytes());
    screen
}

fn keys(setup: &str, cases: &[(&str, &str)]) {
    let screen = screen(setup);
    for (name, expected) in cases {
        let key = Key::named(name).unwrap_or_else(|| panic!("{name} is a key"));
        let sent = String::from_utf8(screen.key_bytes(key)).expect("keys are text");
        assert_eq!(sent, *expected, "{name} after {setup:?}");
    }
}

#[test]
fn keys_without_modes() {
    keys(
        "",
        &[
            ("a", "a"),
            ("é", "é"),
            ("-", "-"),
            ("S-a", "A"),
            ("C-c", "\x03"),
            ("C-Space", "\0"),
            ("C-?", "\x7f"),
            ("C-[", "\x1b"),
            ("C-_", "\x1f"),
            ("C--", "-"),
            ("M-x", "\x1bx"),
            ("C-M-a", "\x1b\x01"),
            ("Enter", "\r"),
            ("M-Enter", "\x1b\r"),
            ("Tab", "\t"),
            ("S-Tab", "\x1b[Z"),
            ("BTab", "\x1b[Z"),
            ("Escape", "\x1b"),
            ("Backspace", "\x7f"),
            ("C-Backspace", "\x08"),
            ("Space", " "),
            ("Up", "\x1b[A"),
            ("S-Left", "\x1b[1;2D"),
            ("C-M-Home", "\x1b[1;7H"),
            ("End", "\x1b[F"),
            ("Delete", "\x1b[3~"),
            ("S-PageUp", "\x1b[5;2~"),
            ("F1", "\x1bOP"),
            ("C-F1", "\x1b[1;5P"),
            ("F5", "\x1b[15~"),
            ("f12", "\x1b[24~"),
        ],
    );
}

#[test]
fn keys_in_the_modes_of_old() {
    keys("\x1b[?1h", &[("Up", "\x1bOA"), ("Home", "\x1bOH"), ("S-Up", "\x1b[1;2A"), ("Delete", "\x1b[3~")]);
    keys("\x1b[20h", &[("Enter", "\r\n")]);
    keys("\x1b[?67h", &[("Backspace", "\x08"), ("C-Backspace", "\x7f")]);
    keys("\x1b[>4;1m", &[("C-c", "\x03"), ("C-1", "\x1b[27;5;49~"), ("C-Enter", "\x1b[27;5;13~"), ("a", "a")]);
    keys("\x1b[>4;2m", &[("C-c", "\x1b[27;5;99~"), ("M-x", "\x1b[27;3;120~"), ("S-a", "A"), ("S-Tab", "\x1b[Z")]);
}

#[test]
fn keys_in_the_kitty_protocol() {
    keys(
        "\x1b[>1u",
        &[
            ("a", "a"),
            ("A", "A"),
            ("C-c", "\x1b[99;5u"),
            ("M-x", "\x1b[120;3u"),
            ("C-A", "\x1b[97;6u"),
            ("Escape", "\x1b[27u"),
            ("Enter", "\r"),
            ("S-Enter", "\x1b[13;2u"),
            ("Tab", "\t"),
            ("S-Tab", "\x1b[9;2u"),
            ("Up", "\x1b[A"),
            ("C-Up", "\x1b[1;5A"),
            ("F1", "\x1b[P"),
            ("F3", "\x1b[13~"),
            ("S-F3", "\x1b[13;2~"),
        ],
    );
    keys("\x1b[?1h\x1b[>1u", &[("Up", "\x1b[A")]);
    keys("\x1b[>8u", &[("a", "\x1b[97u"), ("A", "\x1b[97;2u"), ("Enter", "\x1b[13u"), ("Backspace", "\x1b[127u")]);
    keys("\x1b[>12u", &[("A", "\x1b[97:65;2u")]);
    keys("\x1b[>24u", &[("a", "\x1b[97;;97u"), ("A", "\x1b[97;2;65u"), ("C-a", "\x1b[97;5u")]);
    // What was pushed is popped, and the buffers have stacks of their own.
    keys("\x1b[>1u\x1b[<u", &[("C-c", "\x03")]);
    keys("\x1b[>1u\x1b[?1049h", &[("C-c", "\x03")]);
}

#[test]
fn names_that_are_no_keys() {
    for name in ["", "C-", "Ctrl-c", "ab", "F13", "X-a", "\u{1}"] {
        assert_eq!(Key::named(name), None, "{name:?}");
    }
}

#[test]
fn pasted_text_is_clean_and_in_brackets_when_asked_for() {
    let text = "one\r\ntwo\n\tthree\x1b[201~\x03\u{9b}é";
    assert_eq!(screen("").paste_bytes(text), "one\rtwo\r\tthree[201~é".as_bytes());
    assert_eq!(screen("\x1b[?2004h").paste_bytes(text), "\x1b[200~one\rtwo\r\tthree[201~é\x1b[201~".as_bytes());
}

fn mouse(setup: &str, action: &str, button: u8) -> Option<String> {
    let mouse = Mouse::named(action, button, 9, 4).unwrap_or_else(|| panic!("{action} is an action"));
    screen(setup).mouse_bytes(mouse).map(|sent| String::from_utf8_lossy(&sent).into_owned())
}

#[test]
fn the_mouse_is_reported_as_the_program_asked() {
    assert_eq!(mouse("", "press", 0), None);
    assert_eq!(mouse("\x1b[?9h", "click", 2).as_deref(), Some("\x1b[M\"*%"));
    assert_eq!(mouse("\x1b[?9h", "release", 2), None);
    assert_eq!(mouse("\x1b[?1000h", "click", 0).as_deref(), Some("\x1b[M *%\x1b[M#*%"));
    assert_eq!(mouse("\x1b[?1000h", "move", 0), None);
    let sgr = "\x1b[?1006h";
    assert_eq!(mouse(&format!("{sgr}\x1b[?1000h"), "C-click", 1).as_deref(), Some("\x1b[<17;10;5M\x1b[<17;10;5m"));
    assert_eq!(mouse(&format!("{sgr}\x1b[?1002h"), "move", 0).as_deref(), Some("\x1b[<32;10;5M"));
    assert_eq!(mouse(&format!("{sgr}\x1b[?1002h"), "move", 3), None);
    assert_eq!(mouse(&format!("{sgr}\x1b[?1003h"), "move", 3).as_deref(), Some("\x1b[<35;10;5M"));
    assert_eq!(mouse(&format!("{sgr}\x1b[?1003h"), "S-wheel-down", 0).as_deref(), Some("\x1b[<69;10;5M"));
    assert_eq!(mouse("\x1b[?1015h\x1b[?1000h", "press", 0).as_deref(), Some("\x1b[32;10;5M"));
    assert_eq!(mouse("\x1b[?1016h\x1b[?1000h", "press", 0).as_deref(), Some("\x1b[<0;96;91M"));
}

#[test]
fn the_wheel_scrolls_where_nothing_else_can() {
    assert_eq!(mouse("\x1b[?1007h", "wheel-up", 0), None);
    assert_eq!(mouse("\x1b[?1007h\x1b[?1049h", "wheel-up", 0).as_deref(), Some("\x1b[A\x1b[A\x1b[A"));
    assert_eq!(mouse("\x1b[?1007h\x1b[?1049h", "press", 0), None);
}
