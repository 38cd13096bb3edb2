//! Where the chunks of a layer are in its unpacked files, so that a machine can give others what it has without keeping
//! the chunks themselves.
//!
//! Chunks have positions: first those of the tree, then those of its files, each once, in the order of their first use.
//! Two machines with the same tree have the same positions.

use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt as _;

use model::Digest;
use nix::fcntl::OFlag;
use thiserror::Error;

use crate::beneath;
use crate::chunk::{ChunkRef, digest_of};
use crate::manifest::Layer;
use crate::tree::{EntryKind, Segment, TreeError, TreeReader};

/// The chunks of a layer by their positions, and where each is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkPlaces {
    chunks: Vec<ChunkRef>,
    places: Vec<ChunkPlace>,
    positions: HashMap<Digest, u32>,
    /// The paths of the files that have chunks of their own, one behind the other.
    paths: Vec<u8>,
    /// The number of chunks of the tree.
    of_tree: u32,
}

/// Where the bytes of a chunk are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChunkPlace {
    /// Where the path of its file begins and ends; both are 0 for a chunk of the tree.
    path: (u32, u32),
    /// Where in the file it begins, or in the encoded tree.
    offset: u64,
}

/// It cannot be told where the chunks of a layer are.
#[derive(Debug, Error)]
pub enum LocateError {
    /// The bytes are not the tree of the layer.
    #[error("the tree has the digest {found}, but should have {expected}")]
    Digest {
        /// What the manifest says.
        expected: Digest,
        /// That of the bytes.
        found: Digest,
    },
    /// They are no tree.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// There are too many chunks, or paths.
    #[error("the layer has more than {most} chunks, or paths of more than 4 GiB")]
    Many {
        /// How many chunks there may be.
        most: u32,
    },
}

impl ChunkPlaces {
    /// The places of at most so many chunks, given the layer and its encoded tree.
    ///
    /// # Errors
    ///
    /// See [`LocateError`].
    pub fn of(layer: &Layer, tree: &[u8], most: u32) -> Result<Self, LocateError> {
        let (expected, found) = (layer.digest, digest_of(tree));
        if expected != found {
            return Err(LocateError::Digest { expected, found });
        }
        let (chunks, places, positions) = (Vec::new(), Vec::new(), HashMap::new());
        let mut all = Self { chunks, places, positions, paths: Vec::new(), of_tree: 0 };
        let mut offset = 0;
        for chunk in &layer.tree {
            all.add(*chunk, ChunkPlace { path: (0, 0), offset }, most)?;
            offset += u64::from(chunk.length);
        }
        all.of_tree = u32::try_from(all.chunks.len()).unwrap_or(u32::MAX);
        for entry in TreeReader::new(tree) {
            let entry = entry?;
            let EntryKind::File { segments } = entry.kind else { continue };
            let (mut offset, mut path) = (0, None);
            for segment in segments {
                if let Segment::Chunk(chunk) = segment
                    && !all.positions.contains_key(&chunk.digest)
                {
                    let path = match path {
                        Some(path) => path,
                        None => *path.insert(all.keep(&entry.path, most)?),
                    };
                    all.add(chunk, ChunkPlace { path, offset }, most)?;
                }
                offset += segment.length();
            }
        }
        Ok(all)
    }

    fn keep(&mut self, path: &[u8], most: u32) -> Result<(u32, u32), LocateError> {
        let many = |_| LocateError::Many { most };
        let start = u32::try_from(self.paths.len()).map_err(many)?;
        self.paths.extend_from_slice(path);
        Ok((start, u32::try_from(self.paths.len()).map_err(many)?))
    }

    fn add(&mut self, chunk: ChunkRef, place: ChunkPlace, most: u32) -> Result<(), LocateError> {
        if self.positions.contains_key(&chunk.digest) {
            return Ok(());
        }
        let position = u32::try_from(self.chunks.len()).ok().filter(|position| *position < most);
        let position = position.ok_or(LocateError::Many { most })?;
        self.positions.insert(chunk.digest, position);
        self.chunks.push(chunk);
        self.places.push(place);
        Ok(())
    }

    /// The chunks, by their positions.
    #[must_use]
    pub fn chunks(&self) -> &[ChunkRef] {
        &self.chunks
    }

    /// How many of them are chunks of the tree: the first ones.
    #[must_use]
    pub fn of_tree(&self) -> u32 {
        self.of_tree
    }

    /// Where in the encoded tree a chunk of it begins.
    #[must_use]
    pub fn offset_in_tree(&self, position: u32) -> Option<u64> {
        let place = self.places.get(position as usize).filter(|_| position < self.of_tree);
        place.map(|place| place.offset)
    }

    /// The position of a chunk.
    #[must_use]
    pub fn position(&self, chunk: Digest) -> Option<u32> {
        self.positions.get(&chunk).copied()
    }

    /// Reads a chunk of a file from the directory that the layer was unpacked into. Who gets it checks it.
    ///
    /// # Errors
    ///
    /// It is no chunk of a file, or the file cannot be read.
    pub fn read(&self, position: u32, unpacked: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
        let found = position as usize;
        let (Some(chunk), Some(place)) = (self.chunks.get(found), self.places.get(found)) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let (start, end) = (place.path.0 as usize, place.path.1 as usize);
        let path = self.paths.get(start..end).filter(|_| position >= self.of_tree);
        let path = path.ok_or(io::ErrorKind::NotFound)?;
        let file = beneath::open(unpacked, path, OFlag::O_RDONLY | OFlag::O_NONBLOCK)?;
        let mut bytes = vec![0; chunk.length as usize];
        std::fs::File::from(file).read_exact_at(&mut bytes, place.offset)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd as _;

    use super::*;
    use crate::chunk::{ChunkSource as _, MemoryChunks};
    use crate::{Form, PackLimits, pack, unpack};

    #[test]
    fn every_chunk_of_a_layer_is_read_from_its_unpacked_files() {
        let place = tempfile::tempdir().unwrap();
        let (from, into) = (place.path().join("from"), place.path().join("into"));
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::create_dir(&into).unwrap();
        let large: Vec<u8> = (0..500_000_u32).flat_map(|it| (it ^ it >> 7).to_le_bytes()).collect();
        fs::write(from.join("a/large"), &large).unwrap();
        fs::write(from.join("a/b/same"), &large).unwrap();
        fs::write(from.join("small"), b"small").unwrap();
        fs::write(from.join("empty"), b"").unwrap();
        let mut chunks = MemoryChunks::new();
        let packed = pack(&from, &mut chunks, &PackLimits::default()).unwrap();
        let layer = &packed.manifest.variants[0].layers[0];
        let directory = fs::File::open(&into).unwrap();
        unpack(layer, &mut chunks, directory.as_fd(), Form::Overlay).unwrap();

        let (mut tree, mut part) = (Vec::new(), Vec::new());
        for chunk in &layer.tree {
            chunks.get(chunk, &mut part).unwrap();
            tree.extend_from_slice(&part);
        }
        let places = ChunkPlaces::of(layer, &tree, 1_000).unwrap();
        assert_eq!(places.of_tree() as usize, layer.tree.len());
        // Two equal files, and everything but the manifest.
        assert_eq!(places.chunks().len(), chunks.len() - 1);
        for (position, chunk) in (0..).zip(places.chunks()) {
            assert_eq!(places.position(chunk.digest), Some(position));
            match places.read(position, directory.as_fd()) {
                Ok(bytes) => assert_eq!(digest_of(&bytes), chunk.digest),
                Err(_) => {
                    let offset = usize::try_from(places.offset_in_tree(position).unwrap()).unwrap();
                    let bytes = &tree[offset..offset + chunk.length as usize];
                    assert_eq!(digest_of(bytes), chunk.digest);
                }
            }
        }
        assert!(places.read(1_000_000, directory.as_fd()).is_err());

        // Nothing outside of the directory is read.
        fs::remove_file(into.join("small")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", into.join("small")).unwrap();
        let small = places.position(digest_of(b"small")).unwrap();
        assert!(places.read(small, directory.as_fd()).is_err());

        let few = ChunkPlaces::of(layer, &tree, 3);
        assert!(matches!(few, Err(LocateError::Many { most: 3 })), "{few:?}");
        tree.push(0);
        assert!(matches!(ChunkPlaces::of(layer, &tree, 9), Err(LocateError::Digest { .. })));
    }
}
