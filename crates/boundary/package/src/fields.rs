//! The fields of a protobuf message, without decoding it.
//!
//! An empty message takes two bytes where it is repeated, and a hundred times as many once it is
//! decoded. So what is repeated is counted before it is.

/// The fields of a message, in their order: the number, and the bytes of what has a length. The
/// last one is none if the message is malformed.
pub(crate) struct MessageFields<'a>(&'a [u8]);

impl<'a> MessageFields<'a> {
    pub(crate) fn of(message: &'a [u8]) -> Self {
        Self(message)
    }

    fn read(&mut self) -> Option<(u64, &'a [u8])> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => self.varint().map(|_| &[][..])?,
            1 => self.take(8)?,
            2 => {
                let length = self.varint()?;
                self.take(length)?
            }
            5 => self.take(4)?,
            _ => return None,
        };
        Some((key >> 3, value))
    }

    fn varint(&mut self) -> Option<u64> {
        /// A number of 64 bits has at most ten parts of seven.
        const MAX_BYTES: usize = 10;
        let mut number = 0_u64;
        for (at, byte) in self.0.iter().enumerate().take(MAX_BYTES) {
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.0 = &self.0[at + 1..];
                return Some(number);
            }
        }
        None
    }

    fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(taken)
    }
}

impl<'a> Iterator for MessageFields<'a> {
    type Item = Option<(u64, &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_without_decoding() {
        let message = [
            &[0x08, 0xff, 0x01][..],
            &[0x12, 2, b'a', b'b'],
            &[0x19, 1, 2, 3, 4, 5, 6, 7, 8],
            &[0xa5, 0x06, 1, 2, 3, 4],
        ]
        .concat();
        let found: Vec<_> = MessageFields::of(&message).collect();
        let eight = &[1, 2, 3, 4, 5, 6, 7, 8][..];
        let expected = [(1, &[][..]), (2, b"ab"), (3, eight), (100, &[1, 2, 3, 4])];
        assert_eq!(found, expected.map(Some));
        assert_eq!(MessageFields::of(&[]).count(), 0);
        // Cut off, a group, and a number that does not end.
        for malformed in [&[0x12, 3, 1][..], &[0x0b], &[0x80; 11], &[0x08]] {
            assert_eq!(MessageFields::of(malformed).collect::<Vec<_>>(), [None], "{malformed:?}");
        }
    }
}
