//! The processes of a terminal's session.

use std::collections::BTreeSet;

use rustix::process::{Pid, Signal, kill_process_group};

/// The process groups of the session whose leader is `leader`, as `/proc` shows them; where there is none, the leader's
/// own.
pub(super) fn groups(leader: Pid) -> BTreeSet<i32> {
    let session = leader.as_raw_nonzero().get();
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return BTreeSet::from([session]);
    };
    processes
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok())
        .filter_map(|stat| group_and_session(&stat))
        .filter(|(_, of)| *of == session)
        .map(|(group, _)| group)
        .collect()
}

/// Sends a signal to each of these groups; those that are gone do not matter.
pub(super) fn signal(groups: &BTreeSet<i32>, signal: Signal) {
    for pid in groups.iter().filter(|group| **group > 1).filter_map(|group| Pid::from_raw(*group)) {
        let _ = kill_process_group(pid, signal);
    }
}

/// The process group and session in the text of `/proc/PID/stat`. The second field is a name that may hold anything, in
/// parentheses.
fn group_and_session(stat: &str) -> Option<(i32, i32)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// The signal of this name, with or without `SIG`.
pub(super) fn named(name: &str) -> Option<Signal> {
    Some(match name.strip_prefix("SIG").unwrap_or(name) {
        "INT" => Signal::INT,
        "TERM" => Signal::TERM,
        "HUP" => Signal::HUP,
        "QUIT" => Signal::QUIT,
        "KILL" => Signal::KILL,
        "STOP" => Signal::STOP,
        "CONT" => Signal::CONT,
        "USR1" => Signal::USR1,
        "USR2" => Signal::USR2,
        "WINCH" => Signal::WINCH,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_cannot_fool_the_reader() {
        assert_eq!(group_and_session("12 (a) S 1 99 99) R 1 5 6 7"), Some((5, 6)));
        assert_eq!(group_and_session("12 (sh"), None);
    }
}
