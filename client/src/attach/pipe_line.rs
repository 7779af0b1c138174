//! A line on the stdin of `attach --pipe-io`.

use bytes::Bytes;
use keepline_protocol::api::{Blob, Size};
use serde::Deserialize;

use crate::bounds::SIDE_MAX;

/// What a line asks for. A line of unknown keys asks for nothing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) input: Bytes,
    pub(super) resize: Option<Size>,
}

#[derive(Deserialize)]
struct Wire {
    #[serde(default)]
    input: Blob,
    #[serde(default)]
    resize: Option<WireSize>,
}

#[derive(Deserialize)]
struct WireSize {
    cols: u16,
    rows: u16,
    #[serde(default)]
    x_pixels: u16,
    #[serde(default)]
    y_pixels: u16,
}

/// Reads a line, or says in a few words what is wrong with it, without quoting it: it may be what a person typed.
pub(super) fn parse(line: &[u8]) -> Result<Asked, String> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return Ok(Asked::default());
    }
    // serde would read an array as a struct's fields in order.
    if line.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err("it is no JSON object".to_owned());
    }
    let wire: Wire = serde_json::from_slice(line).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => {
            format!("it asks for no input in base64 and no size (byte {})", error.column())
        }
        _ => format!("it is no JSON (byte {})", error.column()),
    })?;
    let resize = match wire.resize {
        None => None,
        Some(size) if (1..=SIDE_MAX).contains(&size.cols) && (1..=SIDE_MAX).contains(&size.rows) => {
            Some(Size { cols: size.cols, rows: size.rows, x_pixels: size.x_pixels, y_pixels: size.y_pixels })
        }
        Some(_) => return Err(format!("a size has 1 to {SIDE_MAX} columns and rows")),
    };
    Ok(Asked { input: wire.input.0, resize })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_unknown_keys_ignored() {
        let asked = |line: &str| parse(line.as_bytes()).unwrap();
        assert_eq!(asked(r#"{"input":"bHMN"}"#).input, Bytes::from_static(b"ls\r"));
        assert_eq!(
            asked(r#" {"resize":{"cols":80,"rows":24,"why":"x"},"later":[1]} "#).resize,
            Some(Size::cells(80, 24))
        );
        assert_eq!(asked("{}"), Asked::default());
        assert_eq!(asked(" \r"), Asked::default());
    }

    #[test]
    fn a_malformed_line_is_refused_without_being_quoted() {
        for line in [
            "secret",
            r#"["secret"]"#,
            r#"{"input":"secret!"}"#,
            r#"{"input":{"secret":1}}"#,
            r#"{"input":"bHMN""#,
            r#"{"resize":{"cols":0,"rows":24}}"#,
            r#"{"resize":{"cols":80}}"#,
            r#"{"resize":{"cols":80,"rows":70000}}"#,
            r#"{"resize":"secret"}"#,
            "{\"input\":\"\u{e9}\"}",
        ] {
            let fault = parse(line.as_bytes()).unwrap_err();
            assert!(!fault.contains("secret"), "{fault}");
        }
        assert!(parse(b"{\"input\":\"\xff\"}").is_err());
    }
}
