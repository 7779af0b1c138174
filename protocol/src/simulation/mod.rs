//! The link against a reference model, in virtual time, under random events.
//!
//! ```text
//!  seed ─▶ events ─▶ world: laptop ⇄ carriers that fail anywhere ⇄ host
//!                              │                                   │
//!                              └── every byte read ─▶ reference ◀──┘
//! ```
//!
//! `KEEPLINE_SEEDS=FROM..TO` chooses the seeds, so that a long run can be split. A failing seed is shortened to the events
//! that it needs and printed as a list; `KEEPLINE_EVENTS=FILE` with `KEEPLINE_SEEDS=SEED..` replays one.

// The driver of the tests, unlike the core, is told by its environment which seeds to run.
#![allow(clippy::disallowed_methods)]

mod action;
mod host;
mod laptop;
mod reference;
mod wire;
mod world;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use action::{Action, from_text, generate, to_text};
use world::{Counts, World};

use crate::fault::{self, Fault};

/// Events of a seed, before those that follow until it was cut often enough.
const EVENTS: usize = 1_000;
/// Cuts of a seed, at least.
const CUTS: u64 = 5;

fn run(seed: u64, actions: &[Action]) -> Counts {
    let mut world = World::new(seed);
    for action in actions {
        world.apply(*action);
    }
    world.calm();
    world.counts()
}

/// The events of a seed, with as many more as it takes to have been cut often enough.
fn events(seed: u64) -> Vec<Action> {
    let mut actions = generate(seed, EVENTS);
    let cut = [
        Action::Connect {
            known: true,
            force: true,
        },
        Action::Pass { ms: 400 },
        Action::Cut {
            pick: 255,
            to_daemon: 9,
            to_client: 90,
        },
        Action::Pass { ms: 100 },
    ];
    for _ in 0..2 * CUTS {
        actions.extend(cut);
    }
    actions
}

/// Runs a list of events; the message of what fails.
fn attempt(seed: u64, actions: &[Action]) -> Result<Counts, String> {
    catch_unwind(AssertUnwindSafe(|| run(seed, actions))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_default()
    })
}

/// The list without what it fails without as well.
fn shortened(seed: u64, mut actions: Vec<Action>) -> Vec<Action> {
    let mut piece = actions.len() / 2;
    while piece > 0 {
        let mut from = 0;
        while from < actions.len() {
            let mut fewer = actions.clone();
            fewer.drain(from..(from + piece).min(fewer.len()));
            if attempt(seed, &fewer).is_err() {
                actions = fewer;
            } else {
                from += piece;
            }
        }
        piece /= 2;
    }
    actions
}

fn seeds(default: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var("KEEPLINE_SEEDS") else {
        return default;
    };
    let (from, to) = text.split_once("..").expect("KEEPLINE_SEEDS is FROM..TO");
    let number = |text: &str| text.parse().expect("KEEPLINE_SEEDS is FROM..TO");
    let from = number(from);
    from..if to.is_empty() { from + 1 } else { number(to) }
}

#[test]
fn exactly_once_across_anything() {
    let seeds = seeds(0..2_000);
    if let Ok(path) = std::env::var("KEEPLINE_EVENTS") {
        let text = std::fs::read_to_string(path).expect("KEEPLINE_EVENTS is a file");
        println!("{:?}", run(seeds.start, &from_text(&text)));
        return;
    }
    let total = Mutex::new(Counts::default());
    let next = Mutex::new(seeds.clone());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let work = || {
            loop {
                let Some(seed) = next.lock().expect("nobody fails with it").next() else {
                    return;
                };
                let actions = events(seed);
                match attempt(seed, &actions) {
                    Ok(counts) => {
                        assert!(
                            counts.cuts >= CUTS,
                            "seed {seed} was cut {} times",
                            counts.cuts
                        );
                        total.lock().expect("nobody fails with it").add(&counts);
                    }
                    Err(why) => {
                        let list = to_text(&shortened(seed, actions));
                        panic!("seed {seed} failed: {why}\nthe events that it takes:\n{list}");
                    }
                }
            }
        };
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            if let Err(panic) = worker.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
    let total = total.into_inner().expect("nobody failed with it");
    println!("seeds {seeds:?}, {EVENTS} events and more each: {total:?}");
    if seeds.end - seeds.start >= 100 {
        let Counts {
            cuts,
            links,
            resumes,
            duplicates,
            lease_ends,
            window_wraps,
            refusals,
            recordings,
            silences,
        } = total;
        for (what, count) in [
            ("cuts", cuts),
            ("links", links),
            ("resumes", resumes),
            ("duplicates dropped", duplicates),
            ("lease ends", lease_ends),
            ("window wraps", window_wraps),
            ("refusals", refusals),
            ("recordings", recordings),
            ("silences", silences),
        ] {
            assert!(count > 0, "no {what} in all these seeds");
        }
    }
}

#[test]
fn events_are_written_and_read_back() {
    let actions = events(7);
    assert_eq!(from_text(&to_text(&actions)), actions);
}

/// Each deliberate fault is found within so many seeds, which pass without it (they are among those of the test above).
#[test]
fn deliberate_faults_are_found() {
    const WITHIN: u64 = 40;
    for fault in Fault::ALL {
        fault::set(Some(fault));
        let found =
            (0..WITHIN).find_map(|seed| attempt(seed, &events(seed)).err().map(|why| (seed, why)));
        fault::set(None);
        let (seed, why) = found.unwrap_or_else(|| panic!("{fault:?} is not found"));
        let why = why.lines().next().unwrap_or_default().to_owned();
        println!("{fault:?}: seed {seed}: {why}");
    }
}
