//! Recordings of real programs (`tests/recordings`), cut at many places, half of them within something half said.

use std::path::Path;

use super::exact::{PROBE, forgive, through_state, through_vt};
use super::inspect::assert_same;
use super::streams::Random;
use crate::history::Limits;
use crate::screen::{Screen, Size};
use crate::stream::State;

const CUTS: usize = 200;
const SIZE: Size = Size::cells(80, 24);

/// What a recording is cut into: bytes, and a size from then on.
struct Take<'a> {
    bytes: &'a [u8],
    /// Where the terminal is resized, and how.
    resizes: Vec<(usize, Size)>,
}

impl Take<'_> {
    /// Feeds the bytes `from..to` with the resizes among them.
    fn play(&self, screen: &mut Screen, mut from: usize, to: usize) -> Vec<u8> {
        let mut replies = Vec::new();
        for (at, size) in self.resizes.iter().filter(|(at, _)| (from..to).contains(at)).copied().collect::<Vec<_>>() {
            replies.extend(screen.feed(&self.bytes[from..at]).reply_bytes());
            screen.resize(size);
            from = at;
        }
        replies.extend(screen.feed(&self.bytes[from..to]).reply_bytes());
        replies
    }

    fn check(&self, name: &str, random: &mut Random) {
        let end = self.bytes.len();
        let mut half_said = Vec::new();
        let mut screen = Screen::new(SIZE, Limits::default());
        for at in 0..end {
            self.play(&mut screen, at, at + 1);
            if screen.stream.state != State::Ground {
                half_said.push(at + 1);
            }
        }
        let mut whole = Screen::new(SIZE, Limits::default());
        let mut answers = self.play(&mut whole, 0, end);
        answers.extend(whole.feed(PROBE).reply_bytes());
        let any = (0..CUTS / 2).map(|_| random.below(end + 1)).collect::<Vec<_>>();
        let within = (0..CUTS / 2).map(|_| *random.pick(&half_said)).collect::<Vec<_>>();
        let mut cuts = [any, within].concat();
        cuts.sort_unstable();
        let mut first = Screen::new(SIZE, Limits::default());
        let (mut at, mut answered, mut forgiven) = (0, Vec::new(), 0);
        for cut in cuts {
            answered.extend(self.play(&mut first, at, cut));
            at = cut;
            for vt in [false, true] {
                let context = format!("{name}, cut at {cut}, as VT: {vt}");
                let mut fresh = if vt { through_vt(&first, &context) } else { through_state(&first) };
                if vt {
                    forgive(&first, &mut fresh, &mut forgiven, &context);
                }
                assert_same(&context, &fresh, &first, vt);
                let mut rest = self.play(&mut fresh, cut, end);
                rest.extend(fresh.feed(PROBE).reply_bytes());
                assert_same(&format!("after {context}"), &fresh, &whole, vt);
                assert_eq!([&answered[..], &rest].concat(), answers, "{context}");
            }
        }
        println!("{name}: {CUTS} cuts of {end} bytes, REP's character lost at {forgiven}");
    }
}

#[test]
#[allow(clippy::disallowed_types, reason = "a test reads its recordings")]
fn recordings_cut_anywhere_go_on_as_if_uncut() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let mut names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| path.extension().is_some_and(|extension| extension == "vt"));
    names.sort();
    assert!(names.len() >= 9, "{names:?}");
    std::thread::scope(|scope| {
        for (seed, path) in names.iter().enumerate() {
            scope.spawn(move || {
                let bytes = std::fs::read(path).unwrap();
                assert!((20_000..=64_000).contains(&bytes.len()), "{}", path.display());
                let name = path.file_stem().unwrap().to_string_lossy().into_owned();
                let mut random = Random::new(seed as u64);
                let middle = |random: &mut Random| random.below(bytes.len());
                let mut resizes =
                    vec![(middle(&mut random), Size::cells(60, 20)), (middle(&mut random), Size::cells(100, 30))];
                resizes.sort_unstable_by_key(|(at, _)| *at);
                Take { bytes: &bytes, resizes: Vec::new() }.check(&name, &mut random);
                Take { bytes: &bytes, resizes }.check(&format!("{name}, resized"), &mut random);
            });
        }
    });
}
