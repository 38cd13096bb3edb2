//! The header of a member: one block of 512 bytes.
//!
//! Sources of the format: `pax` in POSIX.1-2008 (USTAR), and "Basic Tar Format" of GNU tar's manual.

use std::ops::Range;

/// The length of a block in bytes.
pub(super) const BLOCK_BYTES: usize = 512;

const NAME: Range<usize> = 0..100;
const MODE: Range<usize> = 100..108;
const UID: Range<usize> = 108..116;
const GID: Range<usize> = 116..124;
const SIZE: Range<usize> = 124..136;
const MODIFIED: Range<usize> = 136..148;
const CHECKSUM: Range<usize> = 148..156;
const TYPE: usize = 156;
const LINK: Range<usize> = 157..257;
const MAGIC: Range<usize> = 257..263;
const MAJOR: Range<usize> = 329..337;
const MINOR: Range<usize> = 337..345;
const PREFIX: Range<usize> = 345..500;
/// In the old format of GNU for sparse files.
const SPARSE: Range<usize> = 386..482;
const SPARSE_EXTENDED: usize = 482;
const SPARSE_REAL_SIZE: Range<usize> = 483..495;
/// In a block that continues a sparse map.
const CONTINUED: Range<usize> = 0..504;
const CONTINUED_EXTENDED: usize = 504;
/// The length of one part of a sparse map: two numbers of 12 bytes.
const PART_BYTES: usize = 24;

/// A block that is a header.
#[derive(Debug)]
pub(super) struct TarHeader(pub(super) [u8; BLOCK_BYTES]);

impl TarHeader {
    /// Whether the checksum is right. Some old programs added the bytes as signed numbers.
    pub(super) fn has_checksum(&self) -> bool {
        let Ok(expected) = number(&self.0[CHECKSUM]) else { return false };
        let byte = |(index, byte): (usize, &u8)| match CHECKSUM.contains(&index) {
            true => b' ',
            false => *byte,
        };
        let bytes = || self.0.iter().enumerate().map(byte);
        let unsigned: i64 = bytes().map(i64::from).sum();
        let signed: i64 = bytes().map(|byte| i64::from(byte.cast_signed())).sum();
        expected == unsigned || expected == signed
    }

    pub(super) fn kind(&self) -> u8 {
        self.0[TYPE]
    }

    /// The name, of USTAR with its prefix.
    pub(super) fn name(&self) -> Vec<u8> {
        let (prefix, name) = (text(&self.0[PREFIX]), text(&self.0[NAME]));
        match &self.0[MAGIC] == b"ustar\0" && !prefix.is_empty() {
            true => [prefix, b"/", name].concat(),
            false => name.to_vec(),
        }
    }

    pub(super) fn link(&self) -> Vec<u8> {
        text(&self.0[LINK]).to_vec()
    }

    pub(super) fn mode(&self) -> Result<i64, &'static str> {
        number(&self.0[MODE])
    }

    pub(super) fn uid(&self) -> Result<i64, &'static str> {
        number(&self.0[UID])
    }

    pub(super) fn gid(&self) -> Result<i64, &'static str> {
        number(&self.0[GID])
    }

    pub(super) fn size(&self) -> Result<u64, &'static str> {
        length(&self.0[SIZE])
    }

    pub(super) fn modified(&self) -> Result<i64, &'static str> {
        number(&self.0[MODIFIED])
    }

    pub(super) fn major(&self) -> Result<i64, &'static str> {
        number(&self.0[MAJOR])
    }

    pub(super) fn minor(&self) -> Result<i64, &'static str> {
        number(&self.0[MINOR])
    }

    /// The length of a sparse file with its holes, in the old format of GNU.
    pub(super) fn real_size(&self) -> Result<u64, &'static str> {
        length(&self.0[SPARSE_REAL_SIZE])
    }

    /// The first part of the map of a sparse file, and whether a block continues it.
    pub(super) fn sparse(&self) -> (impl Iterator<Item = Result<(u64, u64), &'static str>>, bool) {
        (parts(&self.0[SPARSE]), self.0[SPARSE_EXTENDED] != 0)
    }
}

/// A continued part of the map of a sparse file, and whether a block continues it.
pub(super) fn continued(
    block: &[u8; BLOCK_BYTES],
) -> (impl Iterator<Item = Result<(u64, u64), &'static str>>, bool) {
    (parts(&block[CONTINUED]), block[CONTINUED_EXTENDED] != 0)
}

/// Offsets and lengths. An empty number ends them.
fn parts(bytes: &[u8]) -> impl Iterator<Item = Result<(u64, u64), &'static str>> {
    let (parts, _) = bytes.as_chunks::<PART_BYTES>();
    let used = parts.iter().take_while(|part| part[0] != 0);
    used.map(|part| Ok((length(&part[..12])?, length(&part[12..])?)))
}

/// A field up to its first zero byte.
fn text(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn length(field: &[u8]) -> Result<u64, &'static str> {
    u64::try_from(number(field)?).map_err(|_| "a length is negative")
}

/// A number: octal digits between spaces and zero bytes, or big-endian binary if the first bit is
/// set. An empty field is 0.
fn number(field: &[u8]) -> Result<i64, &'static str> {
    if let [first, rest @ ..] = field
        && first & 0x80 != 0
    {
        // The second bit is the sign; 62 bits are enough for what a package can have.
        let start: i64 = match first & 0x40 {
            0 => i64::from(first & 0x3f),
            _ => i64::from(first | 0x80) - 0x100,
        };
        let more = |number: i64, byte: &u8| number.checked_mul(256)?.checked_add(i64::from(*byte));
        return rest.iter().try_fold(start, more).ok_or("a binary number is too large");
    }
    let blank = |byte: &u8| matches!(byte, b' ' | 0);
    let mut digits = field;
    while let [first, rest @ ..] = digits
        && blank(first)
    {
        digits = rest;
    }
    let end = digits.iter().position(blank).unwrap_or(digits.len());
    let digit = |number: i64, byte: &u8| match byte {
        b'0'..=b'7' => number.checked_mul(8)?.checked_add(i64::from(byte - b'0')),
        _ => None,
    };
    digits[..end].iter().try_fold(0, digit).ok_or("a number is not octal")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_octal_or_binary() {
        let table: &[(&[u8], Result<i64, &str>)] = &[
            (b"0000644\0", Ok(0o644)),
            (b"   644 \0", Ok(0o644)),
            (b"\0\0\0\0\0\0\0\0", Ok(0)),
            (b"77777777", Ok(0o77_777_777)),
            (b"\x80\0\0\0\0\0\x01\x02", Ok(258)),
            (b"\xff\xff\xff\xff\xff\xff\xff\xfe", Ok(-2)),
            (
                b"\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
                Err("a binary number is too large"),
            ),
            (b"0000648\0", Err("a number is not octal")),
            (b"-1\0\0\0\0\0\0", Err("a number is not octal")),
        ];
        for (field, expected) in table {
            assert_eq!(number(field), *expected, "{}", field.escape_ascii());
        }
    }
}
