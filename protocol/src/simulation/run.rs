//! Runs of seeds, and what becomes of a list that fails.

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;

use super::actions::{Action, draw};
use super::reference::Violation;
use super::world::{Counts, World};
use crate::fault::{self, Fault};

/// Events of a seed's list, and effective cuts in it, at least.
const ACTIONS: u64 = 1_000;
const CUTS: u64 = 5;
/// Runs that are spent on making a failing list shorter.
const SHRINKING: usize = 2_000;

/// A list that failed, and why.
struct Failed {
    real: bool,
    events: Vec<Action>,
    why: Violation,
}

/// Every twentieth seed shakes hands with Noise.
fn is_real(seed: u64) -> bool {
    seed % 20 == 7
}

fn run_seed(seed: u64) -> Result<Counts, Failed> {
    let mut random = fastrand::Rng::with_seed(seed);
    let bulky = random.u32(..8) == 0;
    let real = is_real(seed);
    let mut events = Vec::new();
    let mut run = |events: &mut Vec<Action>| {
        let mut world = World::new(real);
        while world.counts.actions < ACTIONS || world.counts.cuts < CUTS {
            let action = draw(&mut random, bulky);
            events.push(action);
            world.act(action)?;
        }
        world.calm()?;
        Ok(world.counts)
    };
    guarded(|| run(&mut events)).map_err(|why| Failed { real, events, why })
}

fn run_list(real: bool, events: &[Action]) -> Result<Counts, Violation> {
    guarded(|| {
        let mut world = World::new(real);
        events.iter().try_for_each(|&action| world.act(action))?;
        world.calm()?;
        Ok(world.counts)
    })
}

/// A panic is a violation too.
fn guarded(run: impl FnOnce() -> Result<Counts, Violation>) -> Result<Counts, Violation> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| Some((*panic.downcast_ref::<&str>()?).to_owned()));
        Err(Violation(text.unwrap_or_default()))
    })
}

impl Failed {
    /// Leaves out what is not needed to fail.
    fn shrink(mut self) -> Self {
        let mut size = self.events.len() / 2;
        let mut runs = 0;
        while size > 0 && runs < SHRINKING {
            let (before, mut start) = (self.events.len(), 0);
            while start < self.events.len() && runs < SHRINKING {
                let end = (start + size).min(self.events.len());
                let mut fewer = self.events.clone();
                fewer.drain(start..end);
                runs += 1;
                match run_list(self.real, &fewer) {
                    Err(why) => {
                        self.events = fewer;
                        self.why = why;
                    }
                    Ok(_) => start = end,
                }
            }
            if self.events.len() == before {
                size /= 2;
            }
        }
        self
    }

    fn text(&self) -> String {
        let why = self.why.0.replace('\n', "\n# ");
        let mut text = format!("# {why}\nreal {}\n", self.real);
        for event in &self.events {
            writeln!(text, "{event}").expect("text takes text");
        }
        text
    }
}

/// Reads a printed list back.
fn parse(text: &str) -> Result<(bool, Vec<Action>), String> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let real = lines.next() == Some("real true");
    let events = lines.map(str::parse).collect::<Result<_, _>>()?;
    Ok((real, events))
}

#[expect(clippy::disallowed_methods, reason = "which seeds are run is the caller's choice, not the core's")]
fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// `KEEPLINE_SEEDS=FROM..TO`, so that a long run can be split; else the first 2,000.
fn seeds() -> std::ops::Range<u64> {
    let Some(text) = setting("KEEPLINE_SEEDS") else {
        return 0..2_000;
    };
    let (from, to) = text.split_once("..").expect("KEEPLINE_SEEDS is FROM..TO");
    from.parse().expect("FROM is a number")..to.parse().expect("TO is a number")
}

#[test]
fn exactly_once_across_anything() {
    let seeds = seeds();
    let (left, counts) = (Mutex::new(seeds.clone()), Mutex::new(Counts::default()));
    let next = || left.lock().unwrap().next();
    let work = || {
        while let Some(seed) = next() {
            match run_seed(seed) {
                Ok(more) => *counts.lock().unwrap() += more,
                Err(failed) => {
                    left.lock().unwrap().start = seeds.end;
                    panic!("seed {seed} fails:\n{}", failed.shrink().text());
                }
            }
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            if let Err(panic) = worker.join() {
                resume_unwind(panic);
            }
        }
    });
    let counts = counts.into_inner().unwrap();
    println!("seeds {seeds:?}: {counts:?}");
    if seeds.end - seeds.start >= 500 {
        let nothing = format!("{counts:?}");
        assert!(!nothing.contains(": 0"), "something never happened: {nothing}");
    }
}

/// Runs the list in the file that `KEEPLINE_EVENTS` names.
#[test]
fn a_printed_list_runs_again() {
    let Some(path) = setting("KEEPLINE_EVENTS") else {
        return;
    };
    let text = std::fs::read_to_string(path).unwrap();
    let (real, events) = parse(&text).unwrap();
    let counts = run_list(real, &events).unwrap();
    println!("{} events: {counts:?}", events.len());
}

#[test]
fn a_list_is_what_its_text_says() {
    let mut random = fastrand::Rng::with_seed(3);
    let events: Vec<Action> = (0..2_000).map(|_| draw(&mut random, true)).collect();
    let failed = Failed { real: true, events, why: Violation("because".to_owned()) };
    assert_eq!(parse(&failed.text()), Ok((true, failed.events)));
}

/// How many seeds may pass before one finds a fault.
const FOUND_WITHIN: u64 = 40;

fn with<T>(fault: Fault, run: impl FnOnce() -> T) -> T {
    fault::set(Some(fault));
    let result = run();
    fault::set(None);
    result
}

/// The first seed that finds a fault, whose list, made shorter and printed, finds it too, and passes without it.
fn finds(fault: Fault) {
    let find = |seed| Some((seed, run_seed(seed).err()?));
    let found = with(fault, || (0..FOUND_WITHIN).find_map(find));
    let (seed, failed) = found.expect("a seed finds the fault");
    let failed = with(fault, || failed.shrink());
    println!("{fault:?}, seed {seed}:\n{}", failed.text());
    let (real, events) = parse(&failed.text()).unwrap();
    let again = with(fault, || run_list(real, &events));
    assert_eq!(again.err(), Some(failed.why));
    let without = run_list(real, &events);
    assert!(without.is_ok(), "the list finds something else: {without:?}");
    for seed in 0..=seed {
        assert!(run_seed(seed).is_ok(), "seed {seed} fails without the fault");
    }
}

#[test]
fn acknowledging_before_delivery_is_found() {
    finds(Fault::AcknowledgeBeforeDelivery);
}

#[test]
fn a_cursor_that_is_off_by_one_is_found() {
    finds(Fault::CursorOffByOne);
}

#[test]
fn an_epoch_that_is_not_fenced_is_found() {
    finds(Fault::EpochNotFenced);
}

#[test]
fn a_doubled_replay_is_found() {
    finds(Fault::ReplayDoubled);
}

#[test]
fn credit_on_receipt_is_found() {
    finds(Fault::CreditOnReceipt);
}

#[test]
fn a_frame_dropped_on_resume_is_found() {
    finds(Fault::FrameDroppedOnResume);
}
