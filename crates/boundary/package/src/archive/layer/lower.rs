//! What the layers below one have.

use std::collections::BTreeMap;

use super::build::remove_below;
use crate::archive::path::{EntryPath, in_order};
use crate::tree::{EntryKind, TreeEntry};

/// The layers below another one, as if they were unpacked one after the other.
#[derive(Debug, Default)]
pub(in crate::archive) struct LowerLayers {
    /// The entries of each layer, in their order.
    trees: Vec<Vec<TreeEntry>>,
    /// The visible entries: the number of the tree, and of the entry in it.
    visible: BTreeMap<EntryPath, (usize, usize)>,
}

impl LowerLayers {
    /// Adds a layer on top.
    pub(super) fn push(&mut self, entries: Vec<TreeEntry>) {
        let number = self.trees.len();
        for (index, entry) in entries.iter().enumerate() {
            // What is in a tree has a path of one.
            let Ok(path) = EntryPath::new(&entry.path) else { continue };
            let hides = match &entry.kind {
                EntryKind::Directory { opaque } => *opaque || !self.is_directory(&path),
                _ => true,
            };
            if hides {
                remove_below(&mut self.visible, &path);
            }
            match &entry.kind {
                EntryKind::Whiteout => self.visible.remove(&path),
                _ => self.visible.insert(path, (number, index)),
            };
        }
        self.trees.push(entries);
    }

    /// Whether there are no entries.
    pub(super) fn is_empty(&self) -> bool {
        self.visible.is_empty()
    }

    /// The visible entry with a path. For a hard link it is the entry of the file, with the path of
    /// the file.
    pub(super) fn get(&self, path: &EntryPath) -> Option<&TreeEntry> {
        let (tree, index) = self.visible.get(path)?;
        let tree = self.trees.get(*tree)?;
        match tree.get(*index)? {
            TreeEntry { kind: EntryKind::HardLink { target }, .. } => {
                let found = tree.binary_search_by(|entry| in_order(&entry.path, target));
                found.ok().map(|index| &tree[index])
            }
            entry => Some(entry),
        }
    }

    /// The paths at the top.
    pub(super) fn top(&self) -> impl Iterator<Item = &EntryPath> {
        self.visible.keys().filter(|path| path.parent().is_none())
    }

    fn is_directory(&self, path: &EntryPath) -> bool {
        self.get(path).is_some_and(|entry| matches!(entry.kind, EntryKind::Directory { .. }))
    }
}
