//! What the layers below one have.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::tree::{EntryKind, EntryPath, Tree, TreeEntry};

/// The layers below another one, as if they were unpacked one after the other.
#[derive(Debug, Default)]
pub struct Lower {
    trees: Vec<Tree>,
    /// The visible entries: the number of the tree, and of the entry in it.
    visible: BTreeMap<EntryPath, (usize, usize)>,
}

impl Lower {
    /// Adds a layer on top.
    pub fn push(&mut self, tree: Tree) {
        let number = self.trees.len();
        for (index, entry) in tree.entries.iter().enumerate() {
            let hides = match &entry.kind {
                EntryKind::Directory { opaque } => *opaque || !self.is_directory(&entry.path),
                _ => true,
            };
            if hides {
                self.remove_below(&entry.path);
            }
            match &entry.kind {
                EntryKind::Whiteout => self.visible.remove(&entry.path),
                _ => self.visible.insert(entry.path.clone(), (number, index)),
            };
        }
        self.trees.push(tree);
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.visible.is_empty()
    }

    /// The visible entry with a path. For a hard link it is the entry of the file, with the path
    /// of the file.
    #[must_use]
    pub fn get(&self, path: &EntryPath) -> Option<&TreeEntry> {
        let (tree, index) = self.visible.get(path)?;
        let tree = self.trees.get(*tree)?;
        match tree.entries.get(*index)? {
            TreeEntry { kind: EntryKind::HardLink { target }, .. } => tree.get(target.as_bytes()),
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

    fn remove_below(&mut self, path: &EntryPath) {
        remove_below(&mut self.visible, path);
    }
}

/// Removes all paths below one.
pub(super) fn remove_below<T>(map: &mut BTreeMap<EntryPath, T>, path: &EntryPath) {
    // Paths like `PATH.a` are between the path and those below it.
    let begin = path.as_bytes();
    let after = map
        .range((Bound::Excluded(path), Bound::Unbounded))
        .take_while(|(next, _)| next.as_bytes().starts_with(begin));
    let below: Vec<EntryPath> = after
        .filter(|(next, _)| path.is_above(next.as_bytes()))
        .map(|(next, _)| next.clone())
        .collect();
    for path in &below {
        map.remove(path);
    }
}
