//! Published Noise vectors through our own use of snow: `noise::start`, `write`, `read`, and the cipher behind them.
//!
//! They are those of the cacophony project for our suite, and lie beside the project, not in it: without them the test
//! says so and passes.

use std::path::Path;

use data_encoding::HEXLOWER;
use serde::Deserialize;

use super::Pattern;
use super::noise::{self, Side};
use crate::cipher::Cipher;

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/corpus/noise/cacophony-subset.json");

/// Every pattern that we use.
const PATTERNS: &[Pattern] = &[Pattern::Xx, Pattern::Ik];

#[derive(Deserialize)]
struct Vectors {
    vectors: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    protocol_name: String,
    init_prologue: String,
    init_static: String,
    init_ephemeral: String,
    /// The responder's static key, where the initiator knows it.
    init_remote_static: Option<String>,
    #[serde(default)]
    init_psks: Vec<String>,
    resp_prologue: String,
    resp_static: String,
    resp_ephemeral: String,
    #[serde(default)]
    resp_psks: Vec<String>,
    handshake_hash: String,
    messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    payload: String,
    ciphertext: String,
}

fn bytes(hex: &str) -> Vec<u8> {
    HEXLOWER.decode(hex.as_bytes()).unwrap()
}

fn key(hex: &str) -> [u8; 32] {
    bytes(hex).try_into().unwrap()
}

/// Plays a vector between two ends of ours.
fn play(pattern: Pattern, vector: &Vector) {
    let [psk] = &vector.init_psks[..] else { panic!("our patterns have one psk") };
    assert_eq!(vector.resp_psks, vector.init_psks);
    let start = |side, prologue: &str, secret: &str, peer: Option<&String>, ephemeral: &str| {
        let (prologue, secret) = (bytes(prologue), key(secret));
        let peer = peer.map(|peer| key(peer));
        noise::start(side, pattern, &prologue, &secret, peer.as_ref(), key(ephemeral))
    };
    let mut ends = [
        start(
            Side::Initiator,
            &vector.init_prologue,
            &vector.init_static,
            vector.init_remote_static.as_ref(),
            &vector.init_ephemeral,
        ),
        start(Side::Responder, &vector.resp_prologue, &vector.resp_static, None, &vector.resp_ephemeral),
    ];
    for end in &mut ends {
        noise::set_psk(end, pattern, &key(psk));
    }
    let mut messages = vector.messages.iter();
    let mut writer = 0;
    for message in messages.by_ref() {
        let (payload, ciphertext) = (bytes(&message.payload), bytes(&message.ciphertext));
        let mut written = Vec::new();
        noise::write(&mut ends[writer], &payload, &mut written);
        assert_eq!(written, ciphertext);
        assert_eq!(noise::read(&mut ends[1 - writer], &written), Ok(payload));
        writer = 1 - writer;
        if ends[0].is_handshake_finished() {
            break;
        }
    }
    for end in &ends {
        assert_eq!(end.get_handshake_hash(), bytes(&vector.handshake_hash));
    }
    let mut ends = ends.map(Cipher::noise);
    let mut packets = 0;
    for message in messages {
        let (payload, ciphertext) = (bytes(&message.payload), bytes(&message.ciphertext));
        let sealed = ends[writer].seal(&payload);
        assert_eq!(sealed, ciphertext);
        assert_eq!(ends[1 - writer].open(&sealed), Ok(payload));
        writer = 1 - writer;
        packets += 1;
    }
    assert!(packets > 1, "packets in both directions");
}

#[test]
fn published_vectors_pass_through_our_wrapper() {
    let text = match std::fs::read_to_string(Path::new(VECTORS)) {
        Ok(text) => text,
        Err(error) => return println!("skipped: the published vectors are not here: {error}"),
    };
    let Vectors { vectors } = serde_json::from_str(&text).unwrap();
    for &pattern in PATTERNS {
        let mut named = vectors.iter();
        let vector = named.find(|vector| vector.protocol_name == pattern.noise_name());
        play(pattern, vector.expect("a vector for each pattern of ours"));
    }
}
