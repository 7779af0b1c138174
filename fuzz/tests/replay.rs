//! Every committed input of every target, without a fuzzer; together they reach all that a peer can name.

use std::collections::BTreeSet;
use std::path::Path;

use keepline_fuzz::{Reach, Reached, TARGETS};
use keepline_protocol::frame::kind;
use keepline_protocol::refusal::Refusal;
use keepline_protocol::registry::{ANSWER, DELTA, FAILURE, METHODS, RESET};

/// Bytes of all corpora together: they are committed, so they stay small.
const CORPORA_MAX: u64 = 300 << 10;

fn corpora() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/corpus"))
}

/// Runs every input of a target's corpus and gives all that they reach.
fn replay(name: &str) -> Reach {
    let (_, target) = TARGETS.iter().find(|target| target.0 == name).unwrap();
    let mut reach = Reach::new();
    let mut inputs = 0;
    for entry in std::fs::read_dir(corpora().join(name)).unwrap() {
        let path = entry.unwrap().path();
        // Seen when the input is a finding.
        println!("{}", path.display());
        reach.extend(target(&std::fs::read(path).unwrap()));
        inputs += 1;
    }
    assert!(inputs > 0, "the corpus of {name} is empty");
    reach
}

/// Requires that `reach` has each of `wanted`.
fn require(reach: &Reach, wanted: impl IntoIterator<Item = Reached>) {
    let missing: BTreeSet<_> = wanted.into_iter().filter(|it| !reach.contains(it)).collect();
    assert!(missing.is_empty(), "not reached: {missing:?}");
}

fn refusals() -> impl Iterator<Item = Refusal> {
    Refusal::ALL.iter().copied()
}

#[test]
fn handshakes_reach_every_refusal() {
    let reach = replay("handshake");
    let in_clear = refusals().filter(|refusal| refusal.in_clear());
    require(&reach, in_clear.map(|refusal| Reached::RefusedInClear(refusal.number())));
    require(&reach, refusals().map(|refusal| Reached::Refused(refusal.number())));
    // The third, `busy`, is said by who counts connections.
    let refuses = [Refusal::Version, Refusal::StaleKey];
    require(&reach, refuses.map(|refusal| Reached::Refuses(refusal.number())));
    require(&reach, [Reached::Accepted, Reached::Violation]);
    let read = [
        "first message of XX",
        "first message of IK",
        "reply of XX",
        "reply of IK",
        "third message",
        "an answer to a probe",
    ];
    require(&reach, read.map(Reached::Read));
}

#[test]
fn packets_frames_and_links_reach_every_kind_and_every_end() {
    let kinds = || kind::ALL.iter().map(|kind| Reached::Frame(*kind));
    let ends = || refusals().map(|refusal| Reached::Closed(refusal.number()));
    let reach = replay("packet");
    require(&reach, kinds().chain(ends()));
    let reach = replay("frame");
    require(&reach, kinds().chain(ends()).chain([Reached::SkippedFrame]));
    let reach = replay("link");
    // A verdict on an open link is a violation, and a close is known by its refusal.
    let taken = kind::ALL.iter().filter(|&&kind| ![kind::VERDICT, kind::CLOSE].contains(&kind));
    require(&reach, taken.map(|kind| Reached::Frame(*kind)));
    require(&reach, ends());
    require(&reach, [Reached::Violation, Reached::Resumed, Reached::Rekeyed]);
}

#[test]
fn messages_reach_every_number() {
    let methods = METHODS.iter().map(|method| method.number);
    let methods = methods.flat_map(|number| [Reached::Request(number), Reached::Answer(number)]);
    let others = [FAILURE, DELTA, RESET].map(Reached::Other);
    let records = (1..=8).map(Reached::Record);
    let all: Reach = methods.chain(others).chain(records.clone()).collect();
    assert_eq!(u32::from(FAILURE | ANSWER), 0xffff);
    require(&replay("message"), all.clone());
    require(&replay("assembler"), all);
    require(&replay("record"), records);
}

#[test]
fn files_and_requests_reach_every_kind_of_answer() {
    let read = ["invitation", "credentials", "route"];
    require(&replay("invitation"), read.map(Reached::Read));
    let answers = [
        "upgrade",
        "part of a request",
        "no HTTP",
        "400 Bad Request",
        "403 Forbidden",
        "404 Not Found",
        "405 Method Not Allowed",
        "426 Upgrade Required",
        "431 Request Header Fields Too Large",
    ];
    require(&replay("upgrade"), answers.map(Reached::Read));
}

#[test]
fn screens_reach_cuts_of_every_kind() {
    let read = ["a query", "an event", "a size", "a cut", "a cut on the alternate screen", "a cut with history"];
    require(&replay("screen"), read.map(Reached::Read));
}

#[test]
fn the_corpora_are_those_of_the_targets_and_small() {
    let mut bytes = 0;
    let mut found = BTreeSet::new();
    for corpus in std::fs::read_dir(corpora()).unwrap() {
        let corpus = corpus.unwrap();
        found.insert(corpus.file_name().into_string().unwrap());
        for input in std::fs::read_dir(corpus.path()).unwrap() {
            bytes += input.unwrap().metadata().unwrap().len();
        }
    }
    let targets: BTreeSet<_> = TARGETS.iter().map(|target| target.0.to_owned()).collect();
    assert_eq!(found, targets);
    assert!(bytes <= CORPORA_MAX, "{bytes} bytes");
}
