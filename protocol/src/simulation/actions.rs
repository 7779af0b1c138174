//! What is done to a world: a list that follows from a seed, is printed when it fails, and can be read back.

use std::fmt;
use std::str::FromStr;

use super::reference::End;
use crate::lane::Lane;

/// One event of the list. Numbers are taken modulo what there is, so that any part of a list is a list too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Open(End, Lane),
    /// Writes so many bytes at most, on one of the streams that take some.
    Send(End, u32, u32),
    Finish(End, u32),
    Reset(End, u32, u16),
    Release(End, u32),
    /// Reads so many times.
    Consume(End, u32, u32),
    /// Breaks the client's carrier: so many of the bytes under way to the daemon and to the client still arrive.
    Cut(u32, u32),
    /// The client's carrier goes silent and does not fail.
    Silence,
    /// The client tries now, giving up what it has: what it tells of its cursors, and milliseconds of the way.
    Dial(Told, u32),
    /// What goes to this end takes so many milliseconds from now on.
    Delay(End, u32),
    /// What goes to this end stands still for so many milliseconds.
    Stall(End, u32),
    /// So many milliseconds pass.
    Wait(u32),
    /// The client has no carrier for so many seconds.
    Away(u32),
    /// The client begins a new link though the daemon keeps the old one.
    Restart,
    /// Somebody sends so many of a recorded client's messages again.
    Replay(u32, u32),
    /// Somebody asks for the link who must not get it.
    Intrude(Intruder),
}

/// What an attempt says of the client's cursors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Truth,
    /// So many frames less on each lane.
    Behind(u32),
    /// More than there ever was.
    Beyond,
}

/// Who must not get the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intruder {
    /// Another device that knows the link's id.
    Thief,
    /// The device, with an epoch that was used.
    Latecomer,
}

/// The next event of a seed's list. `bulky` lists send enough to turn windows over.
pub(super) fn draw(random: &mut fastrand::Rng, bulky: bool) -> Action {
    let end = if random.bool() { End::Client } else { End::Daemon };
    let stream = random.u32(..if bulky { 2 } else { 64 });
    match random.u32(..1000) {
        // Few streams that live long, and are read.
        0..60 | 340..380 if bulky && random.u32(..8) > 0 => Action::Consume(end, stream, 100),
        0..60 => Action::Open(end, Lane::ALL[random.usize(..4)]),
        60..340 => {
            let most = match random.u32(..10) {
                0 if bulky => 200_000,
                1..4 if bulky => 60_000,
                0 => 20_000,
                1..4 => 2_000,
                _ => 100,
            };
            Action::Send(end, stream, random.u32(1..most))
        }
        340..360 => Action::Finish(end, stream),
        360..370 => Action::Reset(end, stream, random.u16(2..100)),
        370..380 => Action::Release(end, stream),
        380..660 => Action::Consume(end, stream, random.u32(1..6)),
        660..685 => Action::Cut(random.u32(..), random.u32(..)),
        685..688 => Action::Silence,
        688..706 => {
            let told = match random.u32(..24) {
                0..20 => Told::Truth,
                20..23 => Told::Behind(random.u32(1..4)),
                _ => Told::Beyond,
            };
            Action::Dial(told, random.u32(1..150))
        }
        706..714 => Action::Delay(end, random.u32(1..150)),
        714..720 => {
            let longest = 1 << random.u32(5..13);
            Action::Stall(end, random.u32(1..longest))
        }
        720..723 => Action::Away(random.u32(1..200)),
        723..724 => Action::Restart,
        724..735 => Action::Replay(random.u32(..), if random.bool() { 1 } else { 9 }),
        735..742 => Action::Intrude(Intruder::Thief),
        742..746 => Action::Intrude(Intruder::Latecomer),
        _ => Action::Wait(random.u32(..40)),
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Action::Open(end, lane) => write!(f, "open {end} {}", lane.index()),
            Action::Send(end, stream, bytes) => write!(f, "send {end} {stream} {bytes}"),
            Action::Finish(end, stream) => write!(f, "finish {end} {stream}"),
            Action::Reset(end, stream, code) => write!(f, "reset {end} {stream} {code}"),
            Action::Release(end, stream) => write!(f, "release {end} {stream}"),
            Action::Consume(end, stream, times) => write!(f, "consume {end} {stream} {times}"),
            Action::Cut(to_daemon, to_client) => write!(f, "cut {to_daemon} {to_client}"),
            Action::Silence => f.write_str("silence"),
            Action::Dial(Told::Truth, ms) => write!(f, "dial truth 0 {ms}"),
            Action::Dial(Told::Behind(frames), ms) => write!(f, "dial behind {frames} {ms}"),
            Action::Dial(Told::Beyond, ms) => write!(f, "dial beyond 0 {ms}"),
            Action::Delay(end, ms) => write!(f, "delay {end} {ms}"),
            Action::Stall(end, ms) => write!(f, "stall {end} {ms}"),
            Action::Wait(ms) => write!(f, "wait {ms}"),
            Action::Away(seconds) => write!(f, "away {seconds}"),
            Action::Restart => f.write_str("restart"),
            Action::Replay(recording, messages) => write!(f, "replay {recording} {messages}"),
            Action::Intrude(Intruder::Thief) => f.write_str("intrude thief"),
            Action::Intrude(Intruder::Latecomer) => f.write_str("intrude latecomer"),
        }
    }
}

impl FromStr for Action {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        parse(line).ok_or_else(|| format!("'{line}' is no event"))
    }
}

fn parse(line: &str) -> Option<Action> {
    let mut words = line.split_whitespace();
    let verb = words.next()?;
    let mut word = || words.next();
    fn number<T: FromStr>(word: Option<&str>) -> Option<T> {
        word?.parse().ok()
    }
    let end = |word: Option<&str>| match word? {
        "client" => Some(End::Client),
        "daemon" => Some(End::Daemon),
        _ => None,
    };
    Some(match verb {
        "open" => Action::Open(end(word())?, *Lane::ALL.get(number::<usize>(word())?)?),
        "send" => Action::Send(end(word())?, number(word())?, number(word())?),
        "finish" => Action::Finish(end(word())?, number(word())?),
        "reset" => Action::Reset(end(word())?, number(word())?, number(word())?),
        "release" => Action::Release(end(word())?, number(word())?),
        "consume" => Action::Consume(end(word())?, number(word())?, number(word())?),
        "cut" => Action::Cut(number(word())?, number(word())?),
        "silence" => Action::Silence,
        "dial" => {
            let (kind, frames) = (word()?, number(word())?);
            let told = match kind {
                "truth" => Told::Truth,
                "behind" => Told::Behind(frames),
                "beyond" => Told::Beyond,
                _ => return None,
            };
            Action::Dial(told, number(word())?)
        }
        "delay" => Action::Delay(end(word())?, number(word())?),
        "stall" => Action::Stall(end(word())?, number(word())?),
        "wait" => Action::Wait(number(word())?),
        "away" => Action::Away(number(word())?),
        "restart" => Action::Restart,
        "replay" => Action::Replay(number(word())?, number(word())?),
        "intrude" => Action::Intrude(match word()? {
            "thief" => Intruder::Thief,
            "latecomer" => Intruder::Latecomer,
            _ => return None,
        }),
        _ => return None,
    })
}
