//! Decisions from a fuzzer's bytes.

/// What is left of an input. Past its end everything is zero.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    pub(crate) fn number(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    pub(crate) fn large(&mut self) -> u64 {
        (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    /// At most `most` bytes.
    pub(crate) fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    /// At most 255 bytes as text.
    pub(crate) fn text(&mut self) -> String {
        let length = self.byte().into();
        String::from_utf8_lossy(self.bytes(length)).into_owned()
    }
}
