//! Collects entries in any order and makes a tree of them.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use crate::archive::path::EntryPath;
use crate::tree::{EntryAttributes, EntryKind, TreeEntry};

/// Entries by path. Names of the same file share one [`BuiltFile`], so that replacing one of them
/// does not change the others.
#[derive(Debug, Default)]
pub(super) struct TreeBuilder {
    pub(super) nodes: BTreeMap<EntryPath, BuiltNode>,
    files: Vec<BuiltFile>,
}

/// What has a path.
#[derive(Clone, Debug)]
pub(super) enum BuiltNode {
    Directory {
        opaque: bool,
        attributes: EntryAttributes,
    },
    /// Everything that can have several names.
    File(FileId),
    Whiteout,
}

/// A file, a symbolic link, a device or a pipe.
#[derive(Debug)]
pub(super) struct BuiltFile {
    /// Neither a directory nor a hard link nor a whiteout.
    pub(super) kind: EntryKind,
    pub(super) attributes: EntryAttributes,
}

/// Names a file of a builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileId(usize);

impl TreeBuilder {
    /// Adds a file without a name.
    pub(super) fn add_file(&mut self, kind: EntryKind, attributes: EntryAttributes) -> FileId {
        self.files.push(BuiltFile { kind, attributes });
        FileId(self.files.len() - 1)
    }

    pub(super) fn file(&self, id: FileId) -> &BuiltFile {
        &self.files[id.0]
    }

    /// The entries of the tree in their order. Of the names of a file the first one has it, and the
    /// others are hard links. Of what is no file each name becomes an entry of its own.
    pub(super) fn finish(self) -> Vec<TreeEntry> {
        let Self { nodes, mut files } = self;
        let mut first: HashMap<FileId, Vec<u8>> = HashMap::new();
        let entry = |(path, node): (EntryPath, BuiltNode)| {
            let path = path.into_bytes();
            let (kind, attributes) = match node {
                BuiltNode::Directory { opaque, attributes } => {
                    (EntryKind::Directory { opaque }, attributes)
                }
                BuiltNode::Whiteout => (EntryKind::Whiteout, EntryAttributes::default()),
                BuiltNode::File(id) => match first.get(&id) {
                    Some(target) => {
                        let target = target.clone();
                        (EntryKind::HardLink { target }, EntryAttributes::default())
                    }
                    None => named(&mut files[id.0], || _ = first.insert(id, path.clone())),
                },
            };
            TreeEntry { path, kind, attributes }
        };
        nodes.into_iter().map(entry).collect()
    }
}

/// The entry of a file under its first name, or of something else under any name.
fn named(file: &mut BuiltFile, mut is_file: impl FnMut()) -> (EntryKind, EntryAttributes) {
    match &mut file.kind {
        EntryKind::File { segments } => {
            is_file();
            let segments = std::mem::take(segments);
            (EntryKind::File { segments }, std::mem::take(&mut file.attributes))
        }
        other => (other.clone(), file.attributes.clone()),
    }
}

/// Removes all paths below one.
pub(super) fn remove_below<T>(map: &mut BTreeMap<EntryPath, T>, path: &EntryPath) {
    loop {
        // They follow it directly.
        let mut after = map.range::<EntryPath, _>((Bound::Excluded(path), Bound::Unbounded));
        match after.next() {
            Some((next, _)) if path.is_above(next.as_bytes()) => {
                let next = next.clone();
                map.remove(&next);
            }
            _ => return,
        }
    }
}
