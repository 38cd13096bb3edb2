//! Collects entries in any order and makes a tree of them.

use std::collections::{BTreeMap, HashMap};

use super::{Attributes, EntryKind, EntryPath, Tree, TreeEntry};

/// Entries by path. Names of the same file share an [`Inode`], so that replacing one of them does
/// not change the others.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    pub(crate) nodes: BTreeMap<EntryPath, Node>,
    inodes: Vec<Inode>,
}

/// What has a path.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Directory {
        opaque: bool,
        attributes: Attributes,
    },
    /// Everything that can have several names.
    Inode(InodeId),
    Whiteout,
}

/// A file, a symbolic link, a device or a pipe.
#[derive(Debug)]
struct Inode {
    /// Neither a directory nor a hard link nor a whiteout.
    kind: EntryKind,
    attributes: Attributes,
}

/// Names an inode of a builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InodeId(usize);

impl Builder {
    /// Adds an inode without a name.
    pub(crate) fn inode(&mut self, kind: EntryKind, attributes: Attributes) -> InodeId {
        self.inodes.push(Inode { kind, attributes });
        InodeId(self.inodes.len() - 1)
    }

    /// What an inode is.
    pub(crate) fn kind(&self, id: InodeId) -> &EntryKind {
        &self.inodes[id.0].kind
    }

    /// The tree. Of the names of a file the first one has it, and the others are hard links.
    /// Other inodes with several names become independent entries.
    pub(crate) fn finish(mut self) -> Tree {
        let mut first: HashMap<InodeId, EntryPath> = HashMap::new();
        let mut entry = |(path, node): (EntryPath, Node)| match node {
            Node::Directory { opaque, attributes } => {
                TreeEntry { path, kind: EntryKind::Directory { opaque }, attributes }
            }
            Node::Whiteout => {
                TreeEntry { path, kind: EntryKind::Whiteout, attributes: Attributes::default() }
            }
            Node::Inode(id) => {
                let inode = &mut self.inodes[id.0];
                if let Some(target) = first.get(&id) {
                    let kind = EntryKind::HardLink { target: target.clone() };
                    return TreeEntry { path, kind, attributes: Attributes::default() };
                }
                let kind = match &mut inode.kind {
                    EntryKind::File { segments } => {
                        first.insert(id, path.clone());
                        EntryKind::File { segments: std::mem::take(segments) }
                    }
                    other => other.clone(),
                };
                TreeEntry { path, kind, attributes: inode.attributes.clone() }
            }
        };
        let entries = self.nodes.into_iter().map(&mut entry).collect();
        Tree { entries }
    }
}
