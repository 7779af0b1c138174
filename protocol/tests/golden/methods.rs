//! Requests and answers of every method.

use bytes::Bytes;
use keepline_protocol::api::{Blob, Empty, Json, Receipt, remote, server, session, terminal};
use keepline_protocol::identity::IdentityKey;
use keepline_protocol::message::{encode_answer, encode_request};
use keepline_protocol::registry::{METHODS, Method, by_number, method};
use serde_json::{Value, json};

use super::{
    ATTACHMENT, CURSOR, DEVICE, GENERATION, INVITATION, LINK, MOMENT, SIZE, TERMINAL, check, document, hex, message,
    places, some, text,
};

#[derive(Default)]
pub(super) struct Methods(Vec<Value>);

impl Methods {
    /// Pins parameters and answers of `M`: the first of each has every optional field.
    pub(super) fn pin<M: Method>(&mut self, params: &[M::Params], answers: Vec<M::Answer>) {
        let entry = by_number(M::NUMBER).unwrap();
        let requests = params.iter().map(|params| {
            let wire = encode_request::<M>(params);
            let message = message(&wire);
            let json = serde_json::to_value(params).unwrap();
            assert_eq!(
                (entry.params_from_json)(json.clone()).unwrap(),
                message.body,
                "the JSON form of {} says the same",
                M::NAME
            );
            let again: M::Params = message.parse().unwrap();
            assert_eq!(encode_request::<M>(&again), wire);
            json!({ "params": json, "message": hex(&wire) })
        });
        let requests: Vec<Value> = requests.collect();
        let answers = answers.into_iter().map(|answer| {
            let json = serde_json::to_value(&answer).unwrap();
            let wire = encode_answer::<M>(&Ok(answer));
            let message = message(&wire);
            let shown = (entry.answer_to_json)(&message.body).unwrap();
            assert_eq!(serde_json::from_str::<Value>(shown.get()).unwrap(), json);
            let again = message.answer::<M>().unwrap();
            assert_eq!(encode_answer::<M>(&again), wire);
            json!({ "answer": json, "message": hex(&wire) })
        });
        let answers: Vec<Value> = answers.collect();
        self.0.push(json!({
            "method": M::NAME,
            "number": M::NUMBER,
            "requests": requests,
            "answers": answers,
        }));
    }
}

pub(super) fn receipt<T>(value: T) -> Receipt<T> {
    Receipt { value, generation: GENERATION, revision: 301, replayed: true }
}

fn session_methods(methods: &mut Methods) {
    methods.pin::<method::SessionSnapshot>(&[Empty {}], vec![session::Snapshot { document: document() }]);
    methods.pin::<method::SessionEvents>(
        &[session::Events { since: Some(CURSOR) }, session::Events { since: None }],
        vec![
            session::EventsStarted { reset: some("initial"), document: Some(document()) },
            session::EventsStarted { reset: None, document: None },
        ],
    );
    places::workspace_methods(methods);
}

fn terminal_methods(methods: &mut Methods) {
    methods.pin::<method::TerminalNew>(
        &[
            terminal::TerminalNew {
                key: some("key-1"),
                expect: Some(CURSOR),
                workspace: some("main"),
                detached: Some(false),
                caller: Some(TERMINAL),
                name: some("build"),
                cwd: some("/srv"),
                size: Some(SIZE),
                argv: Some(vec![text("sh"), text("-c"), text("make")]),
            },
            terminal::TerminalNew {
                key: None,
                expect: None,
                workspace: None,
                detached: None,
                caller: None,
                name: None,
                cwd: None,
                size: None,
                argv: None,
            },
        ],
        places::paths(),
    );
    methods.pin::<method::TerminalRename>(
        &[terminal::TerminalRename {
            key: some("key-1"),
            expect: Some(CURSOR),
            terminal: TERMINAL.to_string(),
            name: text(""),
        }],
        places::paths(),
    );
    methods.pin::<method::TerminalClose>(
        &[terminal::TerminalClose { key: some("key-1"), expect: Some(CURSOR), terminal: text("build") }],
        places::paths(),
    );
    methods.pin::<method::TerminalResize>(
        &[
            terminal::TerminalResize {
                key: some("key-1"),
                expect: Some(CURSOR),
                terminal: text("build"),
                size: Some(SIZE),
                policy: None,
            },
            terminal::TerminalResize {
                terminal: text("build"),
                policy: some("latest"),
                ..terminal::TerminalResize::default()
            },
        ],
        places::paths(),
    );
    methods.pin::<method::TerminalSend>(
        &[
            terminal::TerminalSend {
                terminal: text("build"),
                attachment: Some(ATTACHMENT),
                data: Blob(Bytes::from_static(b"ls\r\x00\xff")),
            },
            terminal::TerminalSend { terminal: text("build"), attachment: None, data: Blob(Bytes::new()) },
        ],
        vec![terminal::Sent { written: 5 }],
    );
    methods.pin::<method::TerminalSignal>(
        &[terminal::TerminalSignal { terminal: text("build"), signal: text("INT") }],
        vec![Empty {}],
    );
    let lines = terminal::LineRange { epoch: Some(1), from: Some(-100), to: Some(70) };
    methods.pin::<method::TerminalRead>(
        &[
            terminal::TerminalRead { terminal: text("build"), ansi: Some(true), ..terminal::TerminalRead::default() },
            terminal::TerminalRead {
                terminal: text("build"),
                styled: Some(true),
                lines: Some(lines.clone()),
                last_command: Some(false),
                ..terminal::TerminalRead::default()
            },
        ],
        vec![terminal::ScreenText {
            terminal: TERMINAL,
            rows: vec![text("$ echo 42"), text("42"), text("")],
            styled: Some(Json::from_trusted(text("[]"))),
            cursor_column: 2,
            cursor_row: 2,
            size: SIZE,
            through: 70_000,
            alternate: false,
            epoch: 1,
            first: 20,
            end: 70,
            from: Some(70),
            rest: Some(lines),
            status: Some(-1),
            digest: text("00000000cbf29ce4"),
        }],
    );
    methods.pin::<method::TerminalAttach>(
        &[
            terminal::TerminalAttach {
                terminal: TERMINAL.to_string(),
                attachment: ATTACHMENT,
                size: Some(SIZE),
                observer: Some(false),
                from_offset: Some(70_000),
                history: Some(1_000),
            },
            terminal::TerminalAttach {
                terminal: text("build"),
                attachment: ATTACHMENT,
                size: None,
                observer: None,
                from_offset: None,
                history: None,
            },
        ],
        vec![terminal::Attached { terminal: TERMINAL, written: 5, remembered: true, size: SIZE }],
    );
    methods.pin::<method::TerminalWait>(
        &[
            terminal::TerminalWait {
                terminal: text("build"),
                matching: some("^done"),
                ..terminal::TerminalWait::default()
            },
            terminal::TerminalWait {
                terminal: text("build"),
                exit: Some(true),
                idle_ms: Some(500),
                prompt: Some(true),
                ..terminal::TerminalWait::default()
            },
        ],
        vec![terminal::Waited {
            terminal: TERMINAL,
            matched: some("done"),
            exit: Some(Json::from_trusted(text("{\"status\":0}"))),
            status: Some(0),
            through: 70_000,
        }],
    );
    let sent = || vec![terminal::Sent { written: 5 }];
    methods.pin::<method::TerminalKeys>(
        &[terminal::TerminalKeys {
            terminal: text("build"),
            attachment: Some(ATTACHMENT),
            keys: vec![text("C-c"), text("Enter")],
        }],
        sent(),
    );
    methods.pin::<method::TerminalPaste>(
        &[terminal::TerminalPaste { terminal: text("build"), attachment: None, text: text("a\nb") }],
        sent(),
    );
    methods.pin::<method::TerminalMouse>(
        &[terminal::TerminalMouse {
            terminal: text("build"),
            attachment: Some(ATTACHMENT),
            action: text("S-click"),
            button: some("right"),
            column: 10,
            row: 5,
        }],
        sent(),
    );
}

fn remote_and_server_methods(methods: &mut Methods) {
    methods.pin::<method::RemoteInvite>(
        &[
            remote::Invite {
                ttl_seconds: Some(300),
                no_approval: Some(true),
                routes: Some(vec![text("ws://127.0.0.1:7001/v1/link")]),
                scopes: Some(vec![text("view"), text("type")]),
            },
            remote::Invite { ttl_seconds: None, no_approval: None, routes: None, scopes: None },
        ],
        vec![remote::Invited { invitation: INVITATION, file: text("{}\n"), expires_ms: MOMENT }],
    );
    let fingerprint = || IdentityKey::from_bytes([9; 32]).fingerprint();
    methods.pin::<method::RemotePending>(
        &[Empty {}],
        vec![remote::PendingDevices {
            pending: vec![remote::PendingDevice {
                id: DEVICE,
                device: DEVICE,
                name: text("laptop"),
                fingerprint: fingerprint(),
                since: MOMENT,
                scopes: vec![text("view")],
            }],
        }],
    );
    let reference = || remote::DeviceRef { device: DEVICE.to_string() };
    let changed = |state| remote::DeviceChanged { device: DEVICE, state: text(state) };
    methods.pin::<method::RemoteApprove>(&[reference()], vec![changed("enrolled")]);
    methods.pin::<method::RemoteDeny>(&[reference()], vec![changed("denied")]);
    methods.pin::<method::RemoteDevices>(
        &[Empty {}],
        vec![remote::Devices {
            devices: vec![remote::Device {
                device: DEVICE,
                name: text("laptop"),
                fingerprint: fingerprint(),
                state: text("enrolled"),
                since: MOMENT,
                scopes: vec![text("view")],
            }],
        }],
    );
    let connection = |rtt_us, lease_ms| remote::Connection {
        link: LINK,
        device: DEVICE,
        name: text("laptop"),
        client: text("client-1"),
        epoch: 20,
        state: text("up"),
        carrier: text("ws"),
        peer: text("127.0.0.1:50000"),
        rtt_us,
        since: MOMENT,
        lease_ms,
    };
    methods.pin::<method::RemoteConnections>(
        &[Empty {}],
        vec![remote::Connections { connections: vec![connection(Some(1_500), None), connection(None, Some(90_000))] }],
    );
    methods.pin::<method::RemoteRevoke>(&[reference()], vec![changed("revoked")]);
    methods.pin::<method::RemoteScope>(
        &[remote::DeviceScopes { device: DEVICE.to_string(), scopes: vec![text("view"), text("exec")] }],
        vec![changed("enrolled")],
    );
    methods.pin::<method::RemoteRotateKey>(&[Empty {}], vec![remote::KeyRotated { serial: 2 }]);
    methods.pin::<method::ServerStatus>(
        &[Empty {}],
        vec![server::Status {
            pid: 4_711,
            version: text("0.1.0"),
            generation: GENERATION,
            fingerprint: fingerprint(),
            listeners: vec![text("127.0.0.1:7001")],
            terminals: 3,
            links: 1,
            state_dir: text("/home/o/.local/state/keepline"),
        }],
    );
    methods.pin::<method::ServerStop>(&[Empty {}], vec![Empty {}]);
    methods.pin::<method::ServerAudit>(
        &[server::AuditQuery { device: some("laptop") }, server::AuditQuery { device: None }],
        vec![server::Audit {
            entries: vec![
                server::AuditEntry {
                    at: MOMENT,
                    event: text("mutation"),
                    device: Some(DEVICE),
                    by: Some(DEVICE),
                    detail: some("terminal.rename"),
                    peer: some("127.0.0.1:50000"),
                    cursor: Some(CURSOR),
                    count: 1,
                },
                server::AuditEntry { at: MOMENT, event: text("refused"), count: 300, ..server::AuditEntry::default() },
            ],
        }],
    );
}

#[test]
fn every_method_has_its_bytes() {
    let mut methods = Methods::default();
    session_methods(&mut methods);
    terminal_methods(&mut methods);
    remote_and_server_methods(&mut methods);
    places::screen_methods(&mut methods);
    places::pane_methods(&mut methods);
    places::tab_methods(&mut methods);
    places::layout_methods(&mut methods);
    places::notification_methods(&mut methods);
    let pinned: Vec<u64> = methods.0.iter().map(|vector| vector["number"].as_u64().unwrap()).collect();
    let registered: Vec<u64> = METHODS.iter().map(|entry| u64::from(entry.number)).collect();
    assert_eq!(pinned, registered, "every method of the registry is pinned");
    check(
        "methods.json",
        "Requests and answers of every method: the JSON form, and the message on a stream in hex.",
        methods.0,
    );
}
