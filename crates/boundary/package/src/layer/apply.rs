//! Makes the tree of a layer: replaces, removes, and resolves the directories above members.

use std::collections::VecDeque;

use super::LayerError;
use super::lower::{Lower, remove_below};
use super::read::{Member, MemberKind};
use crate::tree::{Attributes, Builder, EntryKind, EntryPath, InodeId, Node, Tree, TreeEntry};

/// The maximum number of symbolic links in the path of a member: that of Linux.
const LINKS_MAX: usize = 40;

pub(super) fn apply(members: Vec<Member>, lower: &Lower) -> Result<Tree, LayerError> {
    let mut layer = Layer { builder: Builder::default(), lower, last: None };
    let hides = |member: &&Member| {
        use MemberKind::{Opaque, OpaqueRoot, Whiteout};
        matches!(member.kind, Whiteout | Opaque | OpaqueRoot)
    };
    for member in members.iter().filter(hides) {
        layer.hide(member)?;
        layer.last = None;
    }
    for member in members.into_iter().filter(|member| !hides(&member)) {
        layer.add(member)?;
    }
    Ok(layer.builder.finish())
}

struct Layer<'a> {
    builder: Builder,
    lower: &'a Lower,
    /// The directory of the last member and its real path, while no link has changed.
    last: Option<(Vec<u8>, Vec<u8>)>,
}

fn fault(path: &EntryPath, why: impl Into<String>) -> LayerError {
    LayerError::Member { path: path.as_bytes().to_vec(), why: why.into() }
}

impl Layer<'_> {
    /// Hides entries of lower layers.
    fn hide(&mut self, member: &Member) -> Result<(), LayerError> {
        if let MemberKind::OpaqueRoot = member.kind {
            for path in self.lower.top() {
                self.builder.nodes.entry(path.clone()).or_insert(Node::Whiteout);
            }
            return Ok(());
        }
        let path = self.resolve(&member.path)?;
        self.directories_above(&path)?;
        if let MemberKind::Opaque = member.kind {
            let attributes = match self.below(&path).map(|entry| (&entry.kind, &entry.attributes)) {
                Some((EntryKind::Directory { .. }, attributes)) => attributes.clone(),
                _ => Attributes::implied(),
            };
            self.builder.nodes.insert(path, Node::Directory { opaque: true, attributes });
        } else if !matches!(self.builder.nodes.get(&path), Some(Node::Directory { .. })) {
            self.builder.nodes.insert(path, Node::Whiteout);
        } else {
            // Its directory is hidden, and something in it is opaque or hidden, too.
            let attributes = Attributes::implied();
            self.builder.nodes.insert(path, Node::Directory { opaque: true, attributes });
        }
        Ok(())
    }

    fn add(&mut self, member: Member) -> Result<(), LayerError> {
        let path = self.resolve(&member.path)?;
        self.directories_above(&path)?;
        let Member { kind, attributes, .. } = member;
        let kind = match kind {
            MemberKind::Directory => {
                self.add_directory(path, attributes);
                return Ok(());
            }
            MemberKind::HardLink(target) => return self.add_link(path, &target),
            MemberKind::File(segments) => EntryKind::File { segments },
            MemberKind::Symlink(target) => EntryKind::Symlink { target },
            MemberKind::CharDevice(device) => EntryKind::CharDevice(device),
            MemberKind::BlockDevice(device) => EntryKind::BlockDevice(device),
            MemberKind::Fifo => EntryKind::Fifo,
            MemberKind::Whiteout | MemberKind::Opaque | MemberKind::OpaqueRoot => return Ok(()),
        };
        let id = self.builder.inode(kind, attributes);
        self.add_inode(path, id);
        Ok(())
    }

    fn add_directory(&mut self, path: EntryPath, attributes: Attributes) {
        let opaque = match self.builder.nodes.get(&path) {
            Some(Node::Directory { opaque, .. }) => *opaque,
            // Nothing of a lower directory comes back.
            Some(Node::Whiteout | Node::Inode(_)) => {
                self.last = None;
                true
            }
            None => {
                self.last = None;
                false
            }
        };
        self.builder.nodes.insert(path, Node::Directory { opaque, attributes });
    }

    fn add_inode(&mut self, path: EntryPath, id: InodeId) {
        let symlink = matches!(self.builder.kind(id), EntryKind::Symlink { .. });
        let before = self.builder.nodes.get(&path);
        if symlink || before.is_some() {
            self.last = None;
        }
        if let Some(Node::Directory { .. }) = before {
            remove_below(&mut self.builder.nodes, &path);
        }
        self.builder.nodes.insert(path, Node::Inode(id));
    }

    fn add_link(&mut self, path: EntryPath, target: &EntryPath) -> Result<(), LayerError> {
        let target = self.resolve(target)?;
        let id = match self.builder.nodes.get(&target) {
            Some(Node::Inode(id)) => *id,
            Some(Node::Directory { .. }) => {
                return Err(fault(&path, format!("it is a hard link to '{target}', a directory")));
            }
            here @ (Some(Node::Whiteout) | None) => {
                let below = self.below(&target).filter(|_| here.is_none());
                let Some(TreeEntry { kind, attributes, .. }) = below else {
                    let why = format!("it is a hard link to '{target}', which is not there");
                    return Err(fault(&path, why));
                };
                if let EntryKind::Directory { .. } = kind {
                    let why = format!("it is a hard link to '{target}', a directory");
                    return Err(fault(&path, why));
                }
                let (kind, attributes) = (kind.clone(), attributes.clone());
                let id = self.builder.inode(kind, attributes);
                // Both names are in this layer, or they would not be the same file.
                self.directories_above(&target)?;
                self.add_inode(target.clone(), id);
                id
            }
        };
        if path != target {
            self.add_inode(path, id);
        }
        Ok(())
    }

    /// Adds the directories above a path, if they are not there.
    fn directories_above(&mut self, path: &EntryPath) -> Result<(), LayerError> {
        let slashes = path.as_bytes().iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let ends: Vec<usize> = slashes.map(|(index, _)| index).collect();
        // Usually the nearest one is there, and then all are.
        let mut missing = Vec::new();
        for end in ends.into_iter().rev() {
            let above = EntryPath::new(&path.as_bytes()[..end])?;
            let opaque = match self.builder.nodes.get(&above) {
                Some(Node::Directory { .. }) => break,
                Some(Node::Whiteout) => true,
                Some(Node::Inode(_)) => {
                    let why = format!("'{above}' above it is not a directory");
                    return Err(fault(path, why));
                }
                None => false,
            };
            missing.push((above, opaque));
        }
        for (above, opaque) in missing {
            let attributes = match self.below(&above) {
                Some(TreeEntry { kind: EntryKind::Directory { .. }, attributes, .. })
                    if !opaque =>
                {
                    attributes.clone()
                }
                _ => Attributes::implied(),
            };
            self.builder.nodes.insert(above, Node::Directory { opaque, attributes });
        }
        Ok(())
    }

    /// The entry of lower layers with this path, unless this layer hides it by something above.
    fn below(&self, path: &EntryPath) -> Option<&TreeEntry> {
        if self.lower.is_empty() || self.hides(path.as_bytes()) {
            return None;
        }
        self.lower.get(path)
    }

    /// Whether a directory above a path hides what lower layers have there.
    fn hides(&self, path: &[u8]) -> bool {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut above = slashes.filter_map(|(end, _)| EntryPath::new(&path[..end]).ok());
        above.any(|above| match self.builder.nodes.get(&above) {
            Some(Node::Directory { opaque, .. }) => *opaque,
            Some(Node::Inode(_) | Node::Whiteout) => true,
            None => false,
        })
    }

    /// The real path of a member: symbolic links above it are resolved, itself not.
    fn resolve(&mut self, path: &EntryPath) -> Result<EntryPath, LayerError> {
        let Some(parent) = path.parent() else { return Ok(path.clone()) };
        let real = match &self.last {
            Some((last, real)) if last == parent => real.clone(),
            _ => {
                let real = self.resolve_directory(path, parent)?;
                self.last = Some((parent.to_vec(), real.clone()));
                real
            }
        };
        match &real[..] {
            b"" => Ok(EntryPath::new(path.name())?),
            _ if real == parent => Ok(path.clone()),
            _ => Ok(EntryPath::new(&[&real[..], b"/", path.name()].concat())?),
        }
    }

    fn resolve_directory(&self, path: &EntryPath, parent: &[u8]) -> Result<Vec<u8>, LayerError> {
        let components = |text: &[u8]| -> VecDeque<Vec<u8>> {
            let components = text.split(|byte| *byte == b'/');
            components.filter(|name| !matches!(*name, b"" | b".")).map(<[u8]>::to_vec).collect()
        };
        let (mut left, mut real, mut links) = (components(parent), Vec::new(), 0);
        while let Some(name) = left.pop_front() {
            if name == b".." {
                // Nothing is above the root.
                let slash = real.iter().rposition(|byte| *byte == b'/');
                real.truncate(slash.unwrap_or_default());
                continue;
            }
            let length = real.len();
            real.extend_from_slice(if length == 0 { b"" } else { b"/" });
            real.extend_from_slice(&name);
            let Some(target) = self.symlink(&EntryPath::new(&real)?) else { continue };
            links += 1;
            if links > LINKS_MAX {
                return Err(fault(path, "more than 40 symbolic links are above it, or a loop"));
            }
            real.truncate(if target.starts_with(b"/") { 0 } else { length });
            let mut resolved = components(target);
            resolved.append(&mut left);
            left = resolved;
        }
        Ok(real)
    }

    /// The target of the symbolic link with this path, if it is one.
    fn symlink(&self, path: &EntryPath) -> Option<&[u8]> {
        let kind = match self.builder.nodes.get(path) {
            Some(Node::Inode(id)) => self.builder.kind(*id),
            Some(Node::Directory { .. } | Node::Whiteout) => return None,
            None => &self.below(path)?.kind,
        };
        match kind {
            EntryKind::Symlink { target } => Some(target),
            _ => None,
        }
    }
}
