//! The parameters of a control sequence.

use vte::Params;

/// Numbers that a sequence may have, subparameters counted; as many as the parser keeps.
const MAX: usize = 32;

/// Parameters with their subparameters.
#[derive(Clone, Copy)]
pub(crate) struct Numbers {
    values: [u16; MAX],
    length: usize,
    /// By bits: which values are subparameters of the parameter before.
    joined: u32,
}

impl Numbers {
    /// Reads the digits, semicolons and colons between `ESC [` and the final byte; nothing if there are other bytes, or
    /// too many numbers.
    #[inline]
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut numbers = Numbers { values: [0; MAX], length: 0, joined: 0 };
        let mut value = 0u16;
        for byte in bytes {
            match byte {
                b'0'..=b'9' => value = value.saturating_mul(10).saturating_add(u16::from(byte - b'0')),
                b':' | b';' if numbers.length + 1 < MAX => {
                    numbers.values[numbers.length] = value;
                    numbers.length += 1;
                    numbers.joined |= u32::from(*byte == b':') << numbers.length;
                    value = 0;
                }
                _ => return None,
            }
        }
        numbers.values[numbers.length] = value;
        numbers.length += 1;
        Some(numbers)
    }

    /// How many parameters there are, subparameters not counted.
    pub(crate) fn len(&self) -> usize {
        self.length - self.joined.count_ones() as usize
    }

    /// The parameters, each with its subparameters.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u16]> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let first = from;
            if first >= self.length {
                return None;
            }
            from += 1;
            while from < self.length && self.joined >> from & 1 > 0 {
                from += 1;
            }
            Some(&self.values[first..from])
        })
    }

    /// The parameter at this place, 0 if there is none.
    #[inline]
    pub(crate) fn at(&self, place: usize) -> u16 {
        if self.joined == 0 {
            // The rest is zero.
            return self.values.get(place).copied().unwrap_or(0);
        }
        self.iter().nth(place).map_or(0, |param| param[0])
    }

    /// The number of times to do something: 1 if there is no number, or 0.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        usize::from(self.at(0).max(1))
    }

    /// A row or column from 0.
    #[inline]
    pub(crate) fn index(&self, place: usize) -> usize {
        usize::from(self.at(place).max(1)) - 1
    }

    /// Four numbers from this place on.
    pub(crate) fn rectangle(&self, from: usize) -> [usize; 4] {
        [0, 1, 2, 3].map(|place| usize::from(self.at(from + place)))
    }
}

impl From<&Params> for Numbers {
    fn from(params: &Params) -> Self {
        let mut numbers = Numbers { values: [0; MAX], length: 0, joined: 0 };
        for param in params {
            for (index, value) in param.iter().enumerate() {
                if numbers.length < MAX {
                    numbers.values[numbers.length] = *value;
                    numbers.joined |= u32::from(index > 0) << numbers.length;
                    numbers.length += 1;
                }
            }
        }
        numbers
    }
}
