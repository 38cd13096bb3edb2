//! The maps of sparse files: which parts of a file are in the archive.
//!
//! Source of the formats: "Storing Sparse Files" of GNU tar's manual. Its versions 0.0 and 0.1 have
//! the map in extended headers, 1.0 before the contents, and the old format in the header.

use super::header::{BLOCK_BYTES, TarHeader, continued};
use super::pax::{SPARSE_MAP, decimal};
use super::read::{RawMember, Skip, TarReader};
use crate::archive::error::ArchiveError;

/// How many parts a sparse file has at most.
const MAX_PARTS: usize = 1 << 20;
/// How long the map of version 1.0 is at most, in bytes: two numbers of 20 digits for each part.
const MAX_MAP_BYTES: usize = MAX_PARTS * 42;

/// Where the contents of a sparse file belong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SparseMap {
    /// The length of the file with its holes.
    pub(super) real_size: u64,
    /// Offsets and lengths, which do not overlap.
    pub(super) parts: Vec<(u64, u64)>,
}

impl SparseMap {
    /// Checks a map.
    fn new(real_size: u64, parts: Vec<(u64, u64)>) -> Result<Self, &'static str> {
        let mut end = 0;
        for (offset, length) in &parts {
            if *offset < end {
                return Err("the parts of a sparse file overlap or are not sorted");
            }
            end = offset.checked_add(*length).unwrap_or(u64::MAX);
            if end > real_size {
                return Err("a part of a sparse file is after its end");
            }
        }
        Ok(Self { real_size, parts })
    }

    /// The sum of the lengths of the parts. No sum overflows, since they do not overlap.
    pub(super) fn stored(&self) -> u64 {
        self.parts.iter().map(|(_, length)| length).sum()
    }
}

impl<S: Skip> TarReader<S> {
    /// The map of a sparse file and the bytes that follow it, or `None` of another file.
    pub(super) fn map(
        &mut self,
        raw: &RawMember,
    ) -> Result<Option<(SparseMap, u64)>, ArchiveError> {
        let number = |key: &[u8]| raw.records.number(key).map_err(|why| self.fault(why));
        let (major, size) = (number(b"GNU.sparse.major")?, number(b"GNU.sparse.size")?);
        let (minor, real_size) = (number(b"GNU.sparse.minor")?, number(b"GNU.sparse.realsize")?);
        let (parts, stored, real_size) = match (raw.header.kind(), major) {
            (b'S', _) => {
                let real_size = raw.header.real_size().map_err(|why| self.fault(why))?;
                (self.map_of_header(&raw.header)?, raw.size, real_size)
            }
            (_, Some(1)) if minor.unwrap_or_default() == 0 => {
                let (parts, length) = self.map_of_lines(raw.size)?;
                let missing = || self.fault("a sparse file has no GNU.sparse.realsize");
                (parts, raw.size - length, real_size.ok_or_else(missing)?)
            }
            (_, Some(1..)) => {
                return Err(self.fault(
                    "a sparse file has a version that is not known: 0.0, 0.1, \
                                       1.0 and the old format of GNU are",
                ));
            }
            (_, _) => match (raw.records.get(SPARSE_MAP), size.or(real_size)) {
                (Some(map), Some(size)) => {
                    (of_text(map).map_err(|why| self.fault(why))?, raw.size, size)
                }
                (None, None) => return Ok(None),
                (Some(_), None) => return Err(self.fault("a sparse file has no GNU.sparse.size")),
                // All of it is a hole.
                (None, Some(size)) => (Vec::new(), raw.size, size),
            },
        };
        let map = SparseMap::new(real_size, parts).map_err(|why| self.fault(why))?;
        Ok(Some((map, stored)))
    }

    fn map_of_header(&mut self, header: &TarHeader) -> Result<Vec<(u64, u64)>, ArchiveError> {
        let (parts, mut more) = header.sparse();
        let mut all = parts.collect::<Result<Vec<_>, _>>().map_err(|why| self.fault(why))?;
        while more {
            let block = self.block()?;
            let block = block.ok_or_else(|| self.fault("it ends within a sparse map"))?;
            let (parts, continues) = continued(&block);
            for part in parts {
                all.push(part.map_err(|why| self.fault(why))?);
            }
            if all.len() > MAX_PARTS {
                return Err(self.fault("a sparse file has more than 1,048,576 parts"));
            }
            more = continues;
        }
        Ok(all)
    }

    /// The map before the contents of a file, and its length.
    fn map_of_lines(&mut self, size: u64) -> Result<(Vec<(u64, u64)>, u64), ArchiveError> {
        let (mut lines, mut length) = (MapLines::default(), 0);
        while length < size.min(MAX_MAP_BYTES as u64) {
            let block = self.block()?;
            let block = block.ok_or_else(|| self.fault("it ends within a sparse map"))?;
            length += BLOCK_BYTES as u64;
            if let Some(parts) = lines.block(&block).map_err(|why| self.fault(why))? {
                return Ok((parts, length.min(size)));
            }
        }
        Err(self.fault("the map of a sparse file has no end"))
    }
}

/// The parts in a text of numbers and commas: versions 0.0 and 0.1.
fn of_text(text: &[u8]) -> Result<Vec<(u64, u64)>, &'static str> {
    const INVALID: &str = "the map of a sparse file is not valid";
    let numbers: Option<Vec<u64>> = match text {
        [] => Some(Vec::new()),
        _ => text.split(|byte| *byte == b',').map(decimal).collect(),
    };
    let numbers = numbers.ok_or(INVALID)?;
    let (pairs, rest) = numbers.as_chunks::<2>();
    match rest.is_empty() && pairs.len() <= MAX_PARTS {
        true => Ok(pairs.iter().map(|[offset, length]| (*offset, *length)).collect()),
        false => Err(INVALID),
    }
}

/// Reads the map of version 1.0 block by block: a count and then as many offsets and lengths, each
/// number followed by a newline, and zero bytes up to the end of the block.
#[derive(Debug, Default)]
struct MapLines {
    numbers: Vec<u64>,
    digits: Vec<u8>,
}

impl MapLines {
    /// Adds a block, and returns the parts if it was the last one.
    fn block(&mut self, block: &[u8]) -> Result<Option<Vec<(u64, u64)>>, &'static str> {
        for byte in block {
            match byte {
                b'\n' => {
                    let number =
                        decimal(&self.digits).ok_or("a line of a sparse map is no number")?;
                    self.digits.clear();
                    self.numbers.push(number);
                    if self.numbers[0] > MAX_PARTS as u64 {
                        return Err("a sparse file has more than 1,048,576 parts");
                    }
                }
                // Longer ones are no numbers of 64 bits.
                _ if self.digits.len() > 20 => return Err("a line of a sparse map is too long"),
                _ => self.digits.push(*byte),
            }
            if let [count, numbers @ ..] = &self.numbers[..]
                && numbers.len() as u64 == count * 2
            {
                let (pairs, _) = numbers.as_chunks::<2>();
                return Ok(Some(pairs.iter().map(|[offset, length]| (*offset, *length)).collect()));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_checked() {
        let good = SparseMap::new(10, vec![(0, 2), (2, 3), (10, 0)]).unwrap();
        assert_eq!(good.stored(), 5);
        for bad in [vec![(0, 2), (1, 1)], vec![(5, 1), (0, 1)], vec![(9, 2)], vec![(1, u64::MAX)]] {
            assert!(SparseMap::new(10, bad.clone()).is_err(), "{bad:?}");
        }
        assert_eq!(of_text(b"1,2,3,4"), Ok(vec![(1, 2), (3, 4)]));
        assert_eq!(of_text(b""), Ok(vec![]));
        for bad in ["1", "1,2,3", "1,x", ",", "1,2,"] {
            assert!(of_text(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn lines_may_be_in_several_blocks() {
        let mut lines = MapLines::default();
        assert_eq!(lines.block(b"2\n1\n"), Ok(None));
        assert_eq!(lines.block(b"2\n3"), Ok(None));
        assert_eq!(lines.block(b"0\n4\n\0\0"), Ok(Some(vec![(1, 2), (30, 4)])));
        assert_eq!(MapLines::default().block(b"0\n\0"), Ok(Some(vec![])));
        for bad in [&b"x\n"[..], b"\0\0", b"9999999\n", b"111111111111111111111111"] {
            let read = MapLines::default().block(bad);
            assert!(read.is_err() || read == Ok(None), "{}", bad.escape_ascii());
        }
    }
}
