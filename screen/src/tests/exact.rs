//! A snapshot at any cut and the rest are as good as never having cut.

use super::inspect::assert_same;
use super::streams::{Random, Step, bytes_of, random_steps};
use crate::history::Limits;
use crate::screen::{Screen, Size};

/// Shows at the end what state is left: tabs, saved cursors, charsets, REP, margins, titles, keyboard, modes, the other
/// buffer.
pub(super) const PROBE: &[u8] = b"q\t+\x1b[3b\x1b[22tx\x1b[23t\x1b[?u\x1b[?1$p\x1b[?7$p\x1b[?2026$p\x1b[?25$p\x1b[4$p\x1bP$qr\x1b\\\x1bP$qs\x1b\\\
    \x1bP$qm\x1b\\\x1bP$q q\x1b\\\x1b]11;?\x07\x1b]4;1;?\x07\x1b[?4m\x0eq\x0fq\x1bnq\x1boq\x0f\x1b8\x1b[6n$\x1b[?47hA\x1b[?u\x1b8q\x1b[6n\x1b[?47l\x1b[23t\
    \x1b[2;2HB\r\n\n\n\x1b[?6h\x1b[H$\x1b[?6l\x1b[9;9H\x1bM\x1b[999;999Hxyz\x1b[6n";

fn run(screen: &mut Screen, steps: &[Step]) -> Vec<u8> {
    let mut replies = Vec::new();
    for step in steps {
        match step {
            Step::Byte(byte) => replies.extend(screen.feed(&[*byte]).reply_bytes()),
            Step::Resize(size) => screen.resize(*size),
        }
    }
    replies
}

/// The screen that somebody has who got the VT bytes.
pub(super) fn through_vt(screen: &Screen, context: &str) -> Screen {
    let vt = screen.snapshot_vt(usize::MAX, usize::MAX);
    let mut fresh = Screen::new(screen.size(), Limits::default());
    let effects = fresh.feed(&vt);
    assert_eq!(effects.replies, [], "a snapshot asks nothing: {context}");
    fresh
}

pub(super) fn through_state(screen: &Screen) -> Screen {
    let bytes = postcard::to_stdvec(&screen.save()).unwrap();
    Screen::restore(postcard::from_bytes(&bytes).unwrap()).unwrap()
}

/// Gives `fresh` what `spec/screen.md` says VT bytes cannot say, and counts it.
pub(super) fn forgive(screen: &Screen, fresh: &mut Screen, forgiven: &mut usize, context: &str) {
    let cursor = &screen.model.cursor;
    if cursor.pending && !fresh.model.cursor.pending {
        let row = &screen.model.grids[screen.model.shown][cursor.row];
        let mut last = cursor.column;
        while row.cell(last).is_spacer() {
            last -= 1;
        }
        let mut before = last - 1;
        while row.cell(before).is_spacer() {
            before -= 1;
        }
        let text = |cell| crate::view::glyph(cell, &screen.model.tables).text;
        let next = text(row.cell(last)).chars().next().unwrap();
        assert!(crate::width::joins(&text(row.cell(before)), next), "waiting was lost: {context}");
        fresh.model.cursor.pending = true;
        *forgiven += 1;
    }
    if screen.model.printed != fresh.model.printed {
        let (was, is) = (&screen.model, &fresh.model);
        let wide = was.printed.is_some_and(|c| crate::width::char_width(c) == 2);
        let room = was.grids[was.shown].iter().any(|row| {
            let cell = |column: usize| row.cell(column);
            (0..was.columns.saturating_sub(1 + usize::from(wide)))
                .any(|column| cell(column) == cell(column).erased() && (!wide || cell(column + 1) == cell(column)))
        });
        let reason = was.printed.is_none() || was.cursor.pending || !room;
        assert!(reason, "{:?} came back as {:?}: {context}", was.printed, is.printed);
        fresh.model.printed = screen.model.printed;
        *forgiven += 1;
    }
}

/// The seeds to run: as many as `count`, or `KEEPLINE_TEST_SEEDS` (`FROM..TO`) to look for more or to replay one.
#[allow(clippy::disallowed_methods, reason = "a test may be told what to do")]
fn seeds(count: u64) -> std::ops::Range<u64> {
    match std::env::var("KEEPLINE_TEST_SEEDS") {
        Ok(range) => {
            let (from, to) = range.split_once("..").expect("FROM..TO");
            from.parse().unwrap()..to.parse().unwrap()
        }
        Err(_) => 0..count,
    }
}

fn check(seed: u64, resizes: bool, forgiven: &mut usize) -> usize {
    let mut random = Random::new(seed);
    let size = Size::cells(2 + random.below(18) as u16, 1 + random.below(7) as u16);
    let steps = random_steps(&mut random, 40, resizes);
    let mut whole = Screen::new(size, Limits::default());
    let mut answers = run(&mut whole, &steps);
    let ended = whole.clone();
    answers.extend(whole.feed(PROBE).reply_bytes());
    let mut first = Screen::new(size, Limits::default());
    let mut answered = Vec::new();
    let mut cuts = 0;
    for cut in 0..=steps.len() {
        let context = format!(
            "seed {seed}, cut {cut} after {:?} before {:?}",
            String::from_utf8_lossy(&bytes_of(&steps[..cut])),
            String::from_utf8_lossy(&bytes_of(&steps[cut..]))
        );
        for vt in [false, true] {
            if !vt && random.below(4) > 0 {
                continue;
            }
            cuts += 1;
            let mut fresh = if vt { through_vt(&first, &context) } else { through_state(&first) };
            if vt {
                forgive(&first, &mut fresh, forgiven, &context);
            }
            assert_same(&format!("at the cut, {context}"), &fresh, &first, vt);
            let mut rest = run(&mut fresh, &steps[cut..]);
            assert_same(&format!("after {context}"), &fresh, &ended, vt);
            rest.extend(fresh.feed(PROBE).reply_bytes());
            assert_same(&format!("after the probe, {context}"), &fresh, &whole, vt);
            let all = [&answered[..], &rest].concat();
            assert_eq!(String::from_utf8_lossy(&all), String::from_utf8_lossy(&answers), "{context}");
        }
        if let Some(step) = steps.get(cut) {
            answered.extend(run(&mut first, std::slice::from_ref(step)));
        }
    }
    cuts
}

#[test]
fn a_snapshot_at_any_cut_and_the_rest_are_as_good_as_never_having_cut() {
    let (mut cuts, mut forgiven) = (0, 0);
    for seed in seeds(120) {
        cuts += check(seed, seed % 2 == 1, &mut forgiven);
    }
    println!("{cuts} cuts, REP's character lost at {forgiven}");
    assert!(forgiven * 8 < cuts.max(8), "{forgiven} of {cuts}");
}

#[test]
fn pieces_do_not_matter() {
    for seed in seeds(300) {
        let mut random = Random::new(seed);
        let bytes = bytes_of(&random_steps(&mut random, 100, false));
        let mut whole = Screen::new(Size::cells(12, 5), Limits::default());
        let effects = whole.feed(&bytes);
        let mut pieces = Screen::new(Size::cells(12, 5), Limits::default());
        let mut replies = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let length = (1 + random.below(9)).min(bytes.len() - at);
            for mut reply in pieces.feed(&bytes[at..at + length]).replies {
                reply.at += at;
                replies.push(reply);
            }
            at += length;
        }
        assert_same(&format!("seed {seed}"), &pieces, &whole, false);
        assert_eq!(replies, effects.replies, "seed {seed}");
    }
}

#[test]
fn no_output_and_no_size_breaks_a_screen() {
    for seed in seeds(1500) {
        let mut random = Random::new(seed);
        let mut screen = Screen::new(Size::cells(12, 5), Limits::default());
        let steps = random_steps(&mut random, 200, true);
        run(&mut screen, &steps);
        let noise: Vec<u8> = (0..300).map(|_| random.below(256) as u8).collect();
        screen.feed(&noise);
        screen.shrink();
        assert_same(&format!("seed {seed}"), &through_state(&screen), &screen, false);
    }
}
