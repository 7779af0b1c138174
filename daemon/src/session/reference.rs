//! References: what a person types for a thing that has an id and a name.

use std::fmt::Display;

use keepline_protocol::failure::{Code, Failure};

use crate::bounds::CANDIDATES_MAX;

/// The one of `matching` (id and name), which were found by `text`.
///
/// # Errors
/// [`Code::NotFound`] when there is none; [`Code::Ambiguous`] with the candidates as `id name` when there are several.
pub(super) fn only<I: Display + Copy, N: Display>(
    kind: &str,
    text: &str,
    matching: impl IntoIterator<Item = (I, N)>,
) -> Result<I, Failure> {
    let mut matching = matching.into_iter();
    let Some((first, name)) = matching.next() else {
        let shown: String = text.chars().take(80).collect();
        return Err(Failure::new(Code::NotFound, format!("no {kind} has the id or name '{shown}'")));
    };
    let Some((second, other)) = matching.next() else {
        return Ok(first);
    };
    let candidates: Vec<String> = [(first, name), (second, other)]
        .into_iter()
        .chain(matching)
        .take(CANDIDATES_MAX)
        .map(|(id, name)| format!("{id} {name}"))
        .collect();
    Err(Failure {
        code: Code::Ambiguous,
        message: format!("'{text}' fits more than one {kind}; use an id"),
        candidates,
    })
}

/// Whether `text` looks like the start of an id: a kind's prefix and at least four digits.
pub(super) fn is_start_of_id(text: &str) -> bool {
    text.split_once('_').is_some_and(|(_, digits)| {
        digits.len() >= 4 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// `text` cut to at most `bytes` bytes, at a character's border.
pub(super) fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}
