//! The format of a pack.
//!
//! ```text
//! magic                       8 bytes
//! chunks, one after the other
//! footer:  moment             8 bytes, microseconds since 1970
//!          length of the user 2 bytes, and the user
//!          number of entries  4 bytes
//!          entries            digest 32, offset 4, length 4; an offset of 2³²−1: no bytes, only held
//! trailer: length of footer   4 bytes
//!          digest of footer  32 bytes, also the name of the pack
//!          magic              8 bytes
//! ```
//! Numbers are little-endian. The digest of the footer covers the size of the pack, too: with the digests of the
//! chunks in the footer, it determines every byte.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use model::{Digest, Time, UserName};
use object_store::PutPayload;

/// The maximum length of a chunk, in bytes: 16 MiB, that of a manifest.
pub const MAX_CHUNK_BYTES: u64 = 16 << 20;

/// The maximum size of a pack, in bytes: 32 MiB.
pub const MAX_PACK_BYTES: u64 = 32 << 20;

/// The maximum number of entries of a pack.
pub(crate) const MAX_ENTRIES: usize = 1 << 16;

/// The length of the trailer, in bytes.
pub(crate) const TRAILER_BYTES: u64 = TRAILER as u64;
const TRAILER: usize = 4 + 32 + 8;

const MAGIC: &[u8; 8] = b"BRGPACK1";
const ENTRY_BYTES: usize = 32 + 4 + 4;
const MAX_USER_BYTES: usize = 63;
/// The footer without its entries, at most.
const FOOTER_HEAD_BYTES: usize = 8 + 2 + MAX_USER_BYTES + 4;
const MAX_FOOTER_BYTES: usize = FOOTER_HEAD_BYTES + MAX_ENTRIES * ENTRY_BYTES;
/// The offset of an entry without bytes.
const HELD: u32 = u32::MAX;
const CONTEXT: &str = "bourg: footers of packs";

/// The maximum of the chunks of a pack together, in bytes: the rest has room for every footer.
pub(crate) const MAX_DATA_BYTES: u64 =
    MAX_PACK_BYTES - (MAX_FOOTER_BYTES as u64 + 8 + TRAILER_BYTES);

/// The name of a pack: the digest of its footer, 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackId(pub(crate) Digest);

impl fmt::Display for PackId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for PackId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for PackId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| "its name is not that of a pack".to_owned())
    }
}

/// What a pack has of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackEntry {
    pub(crate) digest: Digest,
    /// The offset from the start of the pack; [`HELD`] if the bytes are in another pack.
    offset: u32,
    length: u32,
}

impl PackEntry {
    /// An entry without bytes.
    pub(crate) fn held(digest: Digest, length: u32) -> Self {
        Self { digest, offset: HELD, length }
    }

    /// Whether the pack has the bytes.
    pub(crate) fn has_bytes(&self) -> bool {
        self.offset != HELD
    }

    /// The length of the chunk, in bytes.
    pub(crate) fn length(&self) -> u32 {
        self.length
    }

    /// Where the bytes are in the pack; `None` if it only holds the chunk.
    pub(crate) fn range(&self) -> Option<std::ops::Range<u64>> {
        let offset = u64::from(self.offset);
        self.has_bytes().then_some(offset..offset + u64::from(self.length))
    }

    /// The bytes of the chunk that are in this pack.
    pub(crate) fn bytes(&self) -> u64 {
        if self.has_bytes() { u64::from(self.length) } else { 0 }
    }
}

/// The footer of a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) at: Time,
    pub(crate) user: UserName,
    pub(crate) entries: Box<[PackEntry]>,
}

/// A pack in the making.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    chunks: Vec<Bytes>,
    data_bytes: u64,
    entries: Vec<PackEntry>,
}

impl Builder {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The chunks so far, in bytes.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// Whether a chunk of this length, or one without bytes for 0, still fits.
    pub(crate) fn has_room(&self, length: u64) -> bool {
        self.entries.len() < MAX_ENTRIES && length <= MAX_DATA_BYTES - self.data_bytes
    }

    /// Appends a chunk, which must fit and have at most [`MAX_CHUNK_BYTES`].
    pub(crate) fn append(&mut self, digest: Digest, bytes: Bytes) {
        let length = bytes.len() as u64;
        debug_assert!(self.has_room(length) && length <= MAX_CHUNK_BYTES, "the caller checks");
        let fits = |number: u64| u32::try_from(number).unwrap_or(HELD);
        let offset = fits(MAGIC.len() as u64 + self.data_bytes);
        self.entries.push(PackEntry { digest, offset, length: fits(length) });
        self.data_bytes += length;
        self.chunks.push(bytes);
    }

    /// Appends an entry without bytes, which must fit.
    pub(crate) fn hold(&mut self, digest: Digest, length: u32) {
        debug_assert!(self.has_room(0), "the caller checks");
        self.entries.push(PackEntry::held(digest, length));
    }

    /// The pack: its name, its footer and its bytes.
    pub(crate) fn finish(self, user: &UserName, at: Time) -> (PackId, Footer, PutPayload) {
        let footer = Footer { at, user: user.clone(), entries: self.entries.into() };
        let encoded = footer.encode();
        let size = MAGIC.len() as u64 + self.data_bytes + encoded.len() as u64 + TRAILER_BYTES;
        let id = footer_digest(&encoded, size);
        let mut tail = encoded;
        let length = u32::try_from(tail.len()).unwrap_or(u32::MAX);
        tail.extend_from_slice(&length.to_le_bytes());
        tail.extend_from_slice(id.0.as_bytes());
        tail.extend_from_slice(MAGIC);
        let mut parts = vec![Bytes::from_static(MAGIC)];
        parts.extend(self.chunks);
        parts.push(tail.into());
        (id, footer, parts.into_iter().collect())
    }
}

impl Footer {
    fn encode(&self) -> Vec<u8> {
        let user = self.user.as_str().as_bytes();
        let mut bytes =
            Vec::with_capacity(FOOTER_HEAD_BYTES + self.entries.len() * ENTRY_BYTES + 44);
        bytes.extend_from_slice(&self.at.0.to_le_bytes());
        // Names have at most 63 bytes, and a pack at most 65,536 entries.
        bytes.extend_from_slice(&u16::try_from(user.len()).unwrap_or(u16::MAX).to_le_bytes());
        bytes.extend_from_slice(user);
        let count = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&count.to_le_bytes());
        for entry in &self.entries {
            bytes.extend_from_slice(entry.digest.as_bytes());
            bytes.extend_from_slice(&entry.offset.to_le_bytes());
            bytes.extend_from_slice(&entry.length.to_le_bytes());
        }
        bytes
    }

    /// Reads the footer from the end of a pack of a name and a size. `tail` are its last bytes.
    pub(crate) fn read(id: PackId, size: u64, tail: &[u8]) -> Result<Tail, String> {
        let trailer = tail.split_last_chunk::<TRAILER>();
        let Some((before, trailer)) = trailer else {
            return Err(format!("it has only {size} bytes"));
        };
        let mut read = FooterReader(trailer);
        let (length, digest, magic) = (read.u32()?, read.array::<32>()?, read.array::<8>()?);
        if magic != *MAGIC {
            return Err("it does not end like a pack: it was cut off, or is something else".into());
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let rest = TRAILER_BYTES + MAGIC.len() as u64;
        let fits = size <= MAX_PACK_BYTES && length as u64 <= size.saturating_sub(rest);
        if length > MAX_FOOTER_BYTES || !fits {
            return Err(format!("its footer cannot have {length} bytes"));
        }
        let Some(from) = before.len().checked_sub(length) else {
            return Ok(Tail::Longer(length as u64 + TRAILER_BYTES));
        };
        let encoded = before.get(from..).unwrap_or_default();
        if PackId(Digest::from_bytes(digest)) != id || footer_digest(encoded, size) != id {
            return Err("its footer does not match its name".into());
        }
        Self::decode(encoded, size - TRAILER_BYTES - length as u64).map(Tail::Footer)
    }

    /// Decodes a footer of a pack whose chunks end at an offset.
    fn decode(bytes: &[u8], end: u64) -> Result<Self, String> {
        let mut read = FooterReader(bytes);
        let at = Time(u64::from_le_bytes(read.array()?));
        let length = usize::from(u16::from_le_bytes(read.array()?));
        let user = std::str::from_utf8(read.take(length)?).map_err(|error| error.to_string())?;
        let user = user.parse::<UserName>().map_err(|error| error.to_string())?;
        let count = usize::try_from(read.u32()?).unwrap_or(usize::MAX);
        if count > MAX_ENTRIES || count * ENTRY_BYTES != read.0.len() {
            return Err(format!("its footer does not have {count} entries"));
        }
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            let digest = Digest::from_bytes(read.array()?);
            let entry = PackEntry { digest, offset: read.u32()?, length: read.u32()? };
            let within = entry
                .range()
                .is_none_or(|range| range.start >= MAGIC.len() as u64 && range.end <= end);
            let length = u64::from(entry.length);
            if !within || length == 0 || length > MAX_CHUNK_BYTES {
                return Err(format!("it has no room for chunk {digest}"));
            }
            entries.push(entry);
        }
        Ok(Self { at, user, entries: entries.into() })
    }
}

/// What the end of a pack contains.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// The whole footer.
    Footer(Footer),
    /// A part of it: so many bytes from the end are needed.
    Longer(u64),
}

fn footer_digest(encoded: &[u8], size: u64) -> PackId {
    let mut hash = blake3::Hasher::new_derive_key(CONTEXT);
    hash.update(encoded);
    hash.update(&size.to_le_bytes());
    PackId(Digest::from_bytes(*hash.finalize().as_bytes()))
}

/// What is left of bytes to read.
struct FooterReader<'a>(&'a [u8]);

impl<'a> FooterReader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or("its footer is cut off")?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or("its footer is cut off")?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(bytes: &[u8]) -> Digest {
        Digest::from_bytes(*blake3::hash(bytes).as_bytes())
    }

    fn built() -> (PackId, Footer, Vec<u8>) {
        let mut builder = Builder::default();
        for chunk in [&b"one"[..], b"second", b"3"] {
            builder.append(digest(chunk), Bytes::copy_from_slice(chunk));
        }
        builder.hold(digest(b"elsewhere"), 9);
        let (id, footer, payload) = builder.finish(&"ana".parse().unwrap(), Time(7));
        (id, footer, Bytes::from(payload).to_vec())
    }

    #[test]
    fn a_pack_is_read_as_it_was_written() {
        let (id, footer, bytes) = built();
        let size = bytes.len() as u64;
        assert_eq!(Footer::read(id, size, &bytes), Ok(Tail::Footer(footer.clone())));
        let mut chunks = footer.entries.iter().filter_map(PackEntry::range).map(|range| {
            let (from, to) = (range.start.try_into().unwrap(), range.end.try_into().unwrap());
            bytes.get::<std::ops::Range<usize>>(from..to).unwrap()
        });
        assert!(chunks.by_ref().eq([&b"one"[..], b"second", b"3"]));
        // The last bytes are enough; with too few of them it says how many it needs.
        let Ok(Tail::Longer(more)) = Footer::read(id, size, &bytes[bytes.len() - 60..]) else {
            panic!("the footer is longer");
        };
        let tail = &bytes[bytes.len() - usize::try_from(more).unwrap()..];
        assert_eq!(Footer::read(id, size, tail), Ok(Tail::Footer(footer)));
    }

    #[test]
    fn a_pack_that_is_cut_off_or_changed_is_recognized() {
        let (id, footer, bytes) = built();
        for length in 0..bytes.len() {
            let cut = Footer::read(id, length as u64, &bytes[..length]);
            assert!(cut.is_err(), "{length} of {}", bytes.len());
        }
        let data: usize = 8 + 3 + 6 + 1;
        for at in data..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let read = Footer::read(id, changed.len() as u64, &changed);
            assert!(!matches!(read, Ok(Tail::Footer(_))), "byte {at}");
        }
        let longer = Footer::read(id, bytes.len() as u64 + 1, &bytes);
        assert_eq!(longer, Err("its footer does not match its name".to_owned()));
        let mut other = Builder::default();
        footer.entries.iter().for_each(|entry| other.hold(entry.digest, entry.length));
        let (other, ..) = other.finish(&footer.user, footer.at);
        assert_ne!(other, id);
    }

    #[test]
    fn footers_that_lie_are_rejected() {
        let entry = |offset, length| PackEntry { digest: digest(b"x"), offset, length };
        for (entry, why) in [
            (entry(0, 1), "within the magic"),
            (entry(8, 11), "into the footer"),
            (entry(8, 0), "empty"),
            (entry(HELD, 0), "empty and held"),
            (entry(HELD, u32::MAX), "longer than a chunk can be"),
            (entry(HELD - 1, 2), "far outside"),
        ] {
            let user = "ana".parse().unwrap();
            let footer = Footer { at: Time(7), user, entries: Box::new([entry]) };
            assert!(Footer::decode(&footer.encode(), 18).is_err(), "{why}");
        }
    }

    #[test]
    fn a_full_pack_is_within_its_bound() {
        let mut builder = Builder::default();
        let chunk = Bytes::from(vec![1; 1 << 20]);
        while builder.has_room(chunk.len() as u64) {
            builder.append(digest(&chunk), chunk.clone());
        }
        while builder.has_room(0) {
            builder.hold(digest(b"x"), 1);
        }
        let (_, _, payload) = builder.finish(&"a".repeat(63).parse().unwrap(), Time(0));
        let size = payload.content_length() as u64;
        assert!(size <= MAX_PACK_BYTES && size > MAX_PACK_BYTES - (2 << 20), "{size}");
    }
}
