//! The escape sequence fixtures of xterm.js, where they are at hand: `.in` is what a program writes to a terminal of 80
//! columns and 25 rows whose line discipline makes CR LF of LF, `.text` the screen.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use keepline_screen::{Limits, Screen, Size};

/// Disputed where they come from.
const DISPUTED: [&str; 2] = ["t0031-HBP", "t0050-ICH"];

#[test]
fn fixtures_are_shown_as_expected() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/corpus/xtermjs"));
    let Ok(entries) = std::fs::read_dir(folder) else {
        println!("left out: there is no {}", folder.display());
        return;
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".in").map(str::to_owned))
        .filter(|name| !DISPUTED.contains(&&name[..]))
        .collect();
    names.sort();
    let mut failed = Vec::new();
    for name in &names {
        let input = std::fs::read(folder.join(format!("{name}.in"))).unwrap();
        let wanted = std::fs::read_to_string(folder.join(format!("{name}.text"))).unwrap();
        let mut screen = Screen::new(Size::cells(80, 25), Limits::default());
        for byte in input {
            screen.feed(if byte == b'\n' { b"\r\n" } else { std::slice::from_ref(&byte) });
        }
        let got = screen.rows(false);
        let wanted: Vec<&str> = wanted.lines().map(|line| line.trim_end_matches(' ')).collect();
        let lines = got.len().max(wanted.len());
        let differences: Vec<String> = (0..lines)
            .filter_map(|line| {
                let got = got.get(line).map_or("", |got| got);
                let wanted = wanted.get(line).copied().unwrap_or("");
                (got != wanted).then(|| format!("  {line}: wanted {wanted:?}\n  {line}:    got {got:?}"))
            })
            .collect();
        if !differences.is_empty() {
            failed.push(format!("{name}\n{}", differences.join("\n")));
        }
    }
    assert!(failed.is_empty(), "{} of {} failed\n{}", failed.len(), names.len(), failed.join("\n"));
}
