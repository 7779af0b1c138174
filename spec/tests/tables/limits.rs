//! `limits.md`.

use std::time::Duration;

use super::table;

const TEXT: &str = include_str!("../../limits.md");

/// How a bound stands in the text: numbers with commas, durations in milliseconds, several joined by a dot.
trait Figure {
    fn figure(&self) -> String;
}

impl Figure for u64 {
    fn figure(&self) -> String {
        let digits = self.to_string();
        let mut out = String::new();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                out.push(',');
            }
            out.push(digit);
        }
        out
    }
}

impl Figure for usize {
    fn figure(&self) -> String {
        (*self as u64).figure()
    }
}

impl Figure for u32 {
    fn figure(&self) -> String {
        u64::from(*self).figure()
    }
}

impl Figure for u16 {
    fn figure(&self) -> String {
        u64::from(*self).figure()
    }
}

impl Figure for Duration {
    fn figure(&self) -> String {
        u64::try_from(self.as_millis()).unwrap().figure()
    }
}

impl<T: Figure, const N: usize> Figure for [T; N] {
    fn figure(&self) -> String {
        self.iter().map(Figure::figure).collect::<Vec<_>>().join(" · ")
    }
}

impl Figure for (Duration, Duration) {
    fn figure(&self) -> String {
        [self.0, self.1].figure()
    }
}

/// Compares a table with the bounds of a crate, in the table's order.
macro_rules! compare {
    ($heading:literal, $owner:ident { $($name:ident),* $(,)? }) => {{
        let code = [$((stringify!($name).to_owned(), $owner::bounds::$name.figure())),*];
        let written: Vec<_> = table(TEXT, $heading)
            .into_iter()
            .map(|row| (row[0].clone(), row[1].clone()))
            .collect();
        assert_eq!(written, code);
    }};
}

/// The names of the constants in a file of bounds.
fn names(source: &str) -> Vec<&str> {
    source
        .lines()
        .filter_map(|line| line.strip_prefix("pub const "))
        .filter_map(|rest| rest.split(':').next())
        .collect()
}

/// Every bound of `source` stands in the table, but those that no peer can meet.
fn complete(heading: &str, source: &str, inner: &[&str]) {
    let written = table(TEXT, heading);
    for name in names(source) {
        let stands = written.iter().any(|row| row[0] == name);
        assert_ne!(stands, inner.contains(&name), "{name} in limits.md");
    }
}

#[test]
fn protocol() {
    compare!(
        "Protocol",
        keepline_protocol {
            PACKET_MAX,
            FRAME_PAYLOAD_MAX,
            MESSAGE_MAX,
            ROW_MAX,
            HANDSHAKE_PAYLOAD_MAX,
            HANDSHAKE_TIME,
            CLIENT_ID_MAX,
            NAME_MAX,
            REKEY_PACKETS,
            REKEY_AFTER,
            AHEAD_MAX,
            STREAMS_MAX,
            STREAMS_GRACE,
            STREAM_WINDOW_FIRST,
            STREAM_WINDOW,
            STREAM_WINDOW_MAX,
            WINDOWS_LINK_MAX,
            GATHERED_LINK_MAX,
            REPLAY_LANE_MAX,
            REPLAY_LINK_MAX,
            STREAM_QUEUE,
            PACKET_TIME,
            PACKET_PLAIN_MIN,
            UNSENT_TIME,
            UNSENT_MIN,
            RATE_FIRST,
            RATE_MARKS,
            RATE_ROUNDS,
            RATE_WINDOW,
            ROUND_TRIP_WINDOW,
            STREAM_QUANTUM,
            LANE_TURN,
            ACK_BYTES,
            ACK_DELAY,
            PROBE_AFTER,
            PROBE_BUSY,
            DEAD_AFTER,
            PROBED_DEAD_AFTER,
            AWAITED_LOOK,
            ASLEEP_AFTER,
        }
    );
    complete("Protocol", include_str!("../../../protocol/src/bounds.rs"), &[]);
}

#[test]
fn carriers() {
    compare!(
        "Carriers",
        keepline_carrier {
            REQUEST_HEAD_MAX,
            REQUEST_FIELDS_MAX,
            REFUSED_LINGER,
            CONNECT_TIME,
            FAREWELL_TIME,
            SSH_GREETING_MAX,
        }
    );
    complete(
        "Carriers",
        include_str!("../../../carrier/src/bounds.rs"),
        &["MEMORY_PACKETS", "SSH_BUFFER", "SSH_SAYS_MAX"],
    );
}

#[test]
fn daemon() {
    compare!(
        "Daemon",
        keepline_daemon {
            HALF_OPEN_MAX,
            HALF_OPEN_DEVICE_MAX,
            SOURCES_MAX,
            BAD_BEHAVIOUR_MAX,
            BAD_BEHAVIOUR_HALVES,
            LINKS_MAX,
            LINKS_DEVICE_MAX,
            LINKS_ENDED_MAX,
            REPLAY_DAEMON_MAX,
            REQUESTS_AT_ONCE,
            PARTING_TIME,
            PENDING_HELD,
            PENDING_SILENCE,
            INVITATION_TTL,
            INVITATION_TTL_MAX_MS,
            INVITATION_KEPT_MS,
            INVITATION_ROUTES_MAX,
            INVITATION_ROUTE_MAX,
            INVITATIONS_MAX,
            PENDING_MAX_MS,
            DEVICES_MAX,
            AUDIT_MAX,
            AUDIT_MUTATIONS_MAX,
            AUDIT_GATHERED_MAX,
            AUDIT_PAUSE,
            KEY_MAX,
            RECEIPTS_MAX,
            LABEL_MAX,
            TITLE_MAX,
            CWD_MAX,
            ARGV_MAX,
            ROWS_MAX,
            PANES_MAX,
            NOTIFICATIONS_MAX,
            NOTIFICATION_TITLE_MAX,
            NOTIFICATION_BODY_MAX,
            NOTICES_AT_ONCE,
            READ_BY_MAX,
            CLIENT_ID_MAX,
            ATTACHED_SHOWN_MAX,
            CANDIDATES_MAX,
            LIVE_TERMINALS_MAX,
            ENDED_TERMINALS_MAX,
            TAIL_DELTAS_MAX,
            TAIL_BYTES_MAX,
            OUTPUT_MAX,
            INTERRUPTED_MAX,
            INTERRUPTED_MS,
            OUTPUT_QUIET,
            OUTPUT_PIECE,
            SNAPSHOT_HISTORY_LINES,
            SNAPSHOT_HISTORY_MAX,
            SNAPSHOT_MAX,
            READ_MAX,
            PATTERN_MAX,
            PATTERN_COMPILED_MAX,
            INPUT_WAITING_MAX,
            ATTACHMENTS_REMEMBERED,
            COLUMNS_MIN,
            SIDE_MAX,
            CELLS_MAX,
            VOTE_KEPT,
            CLOSE_TIME,
        }
    );
}

#[test]
fn local_socket() {
    compare!(
        "Local socket",
        keepline_client {
            LINE_TO_SERVER_MAX,
            LINE_TO_CONSUMER_MAX,
            SOCKET_PATH_MAX,
            MACHINE_NAME_MAX,
            REQUESTS_AT_ONCE,
            REQUEST_TIME,
            CARRIER_WAIT,
            RECEIPT_WAIT,
            TAIL_MAX,
        }
    );
}
