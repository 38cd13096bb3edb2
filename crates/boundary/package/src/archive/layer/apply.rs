//! Makes the tree of a layer: replaces, removes, and resolves the directories above members.

use std::collections::VecDeque;

use super::build::{BuiltNode, FileId, TreeBuilder, remove_below};
use super::lower::LowerLayers;
use crate::archive::error::ArchiveError;
use crate::archive::limits::ImportBudget;
use crate::archive::path::EntryPath;
use crate::archive::tar::{LayerMember, MemberKind, metadata};
use crate::tree::{EntryAttributes, EntryKind, TreeEntry, printable};

/// How many symbolic links the path of a member has at most: as many as Linux follows.
const MAX_LINKS: usize = 40;

/// The entries of a layer, in their order.
pub(super) fn apply(
    members: Vec<LayerMember>,
    lower: &LowerLayers,
    budget: &mut ImportBudget,
) -> Result<Vec<TreeEntry>, ArchiveError> {
    let mut layer = Applied { builder: TreeBuilder::default(), lower, budget, last: None };
    let (hiding, adding): (Vec<_>, Vec<_>) = members.into_iter().partition(|member| {
        use MemberKind::{Opaque, OpaqueRoot, Whiteout};
        matches!(member.kind, Whiteout | Opaque | OpaqueRoot)
    });
    if hiding.iter().any(|member| matches!(member.kind, MemberKind::OpaqueRoot)) {
        layer.hide_all()?;
    }
    for member in hiding {
        layer.hide(&member)?;
        layer.last = None;
    }
    for member in adding {
        layer.add(member)?;
    }
    Ok(layer.builder.finish())
}

/// The entries of a layer so far.
struct Applied<'a> {
    builder: TreeBuilder,
    lower: &'a LowerLayers,
    budget: &'a mut ImportBudget,
    /// The directory of the last member and its real path, while no link has changed.
    last: Option<(Vec<u8>, Vec<u8>)>,
}

fn fault(path: &EntryPath, why: impl Into<String>) -> ArchiveError {
    ArchiveError::Member { path: printable(path.as_bytes()), why: why.into() }
}

fn no_target(path: &EntryPath, target: &EntryPath) -> ArchiveError {
    fault(path, format!("it is a hard link to '{target}', which is not there"))
}

/// The attributes of a directory that no archive describes: 0755, owned by root, of 1970.
fn implied() -> EntryAttributes {
    EntryAttributes { mode: 0o755, ..EntryAttributes::default() }
}

impl Applied<'_> {
    /// Hides everything of lower layers.
    fn hide_all(&mut self) -> Result<(), ArchiveError> {
        for path in self.lower.top() {
            self.budget.entry(path.as_bytes().len())?;
            self.builder.nodes.insert(path.clone(), BuiltNode::Whiteout);
        }
        Ok(())
    }

    /// Hides entries of lower layers.
    fn hide(&mut self, member: &LayerMember) -> Result<(), ArchiveError> {
        if let MemberKind::OpaqueRoot = member.kind {
            return Ok(());
        }
        let path = self.resolve(&member.path)?;
        self.directories_above(&path)?;
        if let MemberKind::Opaque = member.kind {
            let kind = EntryKind::Directory { opaque: true };
            let attributes = match self.below(&path) {
                Some(entry) if matches!(entry.kind, EntryKind::Directory { .. }) => {
                    entry.attributes.clone()
                }
                _ => implied(),
            };
            self.budget.metadata(metadata(&kind, &attributes))?;
            self.builder.nodes.insert(path, BuiltNode::Directory { opaque: true, attributes });
        } else if !matches!(self.builder.nodes.get(&path), Some(BuiltNode::Directory { .. })) {
            self.builder.nodes.insert(path, BuiltNode::Whiteout);
        } else {
            // Its directory is hidden, and something in it is opaque or hidden, too.
            let attributes = implied();
            self.builder.nodes.insert(path, BuiltNode::Directory { opaque: true, attributes });
        }
        Ok(())
    }

    fn add(&mut self, member: LayerMember) -> Result<(), ArchiveError> {
        let path = self.resolve(&member.path)?;
        self.directories_above(&path)?;
        let LayerMember { kind, attributes, .. } = member;
        let kind = match kind {
            MemberKind::Directory => {
                self.add_directory(path, attributes);
                return Ok(());
            }
            MemberKind::HardLink(target) => return self.add_link(path, &target),
            MemberKind::File(segments) => EntryKind::File { segments },
            MemberKind::Symlink(target) => EntryKind::Symlink { target },
            MemberKind::CharDevice { major, minor } => EntryKind::CharDevice { major, minor },
            MemberKind::BlockDevice { major, minor } => EntryKind::BlockDevice { major, minor },
            MemberKind::Fifo => EntryKind::Fifo,
            MemberKind::Whiteout | MemberKind::Opaque | MemberKind::OpaqueRoot => return Ok(()),
        };
        let id = self.builder.add_file(kind, attributes);
        self.add_name(path, id);
        Ok(())
    }

    fn add_directory(&mut self, path: EntryPath, attributes: EntryAttributes) {
        let opaque = match self.builder.nodes.get(&path) {
            Some(BuiltNode::Directory { opaque, .. }) => *opaque,
            // Nothing of a lower directory comes back.
            Some(BuiltNode::Whiteout | BuiltNode::File(_)) => {
                self.last = None;
                true
            }
            None => {
                self.last = None;
                false
            }
        };
        self.builder.nodes.insert(path, BuiltNode::Directory { opaque, attributes });
    }

    fn add_name(&mut self, path: EntryPath, id: FileId) {
        let symlink = matches!(self.builder.file(id).kind, EntryKind::Symlink { .. });
        let before = self.builder.nodes.get(&path);
        if symlink || before.is_some() {
            self.last = None;
        }
        if let Some(BuiltNode::Directory { .. }) = before {
            remove_below(&mut self.builder.nodes, &path);
        }
        self.builder.nodes.insert(path, BuiltNode::File(id));
    }

    fn add_link(&mut self, path: EntryPath, target: &EntryPath) -> Result<(), ArchiveError> {
        let target = self.resolve(target)?;
        let id = match self.builder.nodes.get(&target) {
            Some(BuiltNode::File(id)) => *id,
            Some(BuiltNode::Directory { .. }) => {
                return Err(fault(&path, format!("it is a hard link to '{target}', a directory")));
            }
            Some(BuiltNode::Whiteout) => return Err(no_target(&path, &target)),
            None => self.add_lower(&path, &target)?,
        };
        let file = self.builder.file(id);
        if !matches!(file.kind, EntryKind::File { .. }) {
            // Each name of it is an entry with all of this.
            self.budget.metadata(metadata(&file.kind, &file.attributes))?;
        }
        if path != target {
            self.add_name(path, id);
        }
        Ok(())
    }

    /// Adds what a hard link names in a lower layer. Both names are in this layer, or they would not
    /// be the same file.
    fn add_lower(&mut self, path: &EntryPath, target: &EntryPath) -> Result<FileId, ArchiveError> {
        let (kind, attributes) = match self.below(target) {
            None => return Err(no_target(path, target)),
            Some(TreeEntry { kind: EntryKind::Directory { .. }, .. }) => {
                return Err(fault(path, format!("it is a hard link to '{target}', a directory")));
            }
            Some(entry) => (entry.kind.clone(), entry.attributes.clone()),
        };
        let length = target.as_bytes().len();
        self.budget.entry(length + metadata(&kind, &attributes))?;
        let id = self.builder.add_file(kind, attributes);
        self.directories_above(target)?;
        self.add_name(target.clone(), id);
        Ok(id)
    }

    /// Adds the directories above a path, if they are not there.
    fn directories_above(&mut self, path: &EntryPath) -> Result<(), ArchiveError> {
        let slashes = path.as_bytes().iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let ends: Vec<usize> = slashes.map(|(index, _)| index).collect();
        // Usually the nearest one is there, and then all are.
        let mut missing = Vec::new();
        for end in ends.into_iter().rev() {
            let above = EntryPath::new(&path.as_bytes()[..end])?;
            let opaque = match self.builder.nodes.get(&above) {
                Some(BuiltNode::Directory { .. }) => break,
                Some(BuiltNode::Whiteout) => true,
                Some(BuiltNode::File(_)) => {
                    let why = format!("'{above}' above it is not a directory");
                    return Err(fault(path, why));
                }
                None => false,
            };
            missing.push((above, opaque));
        }
        let Some((highest, _)) = missing.last() else { return Ok(()) };
        let mut hidden = self.lower.is_empty() || self.hides(highest.as_bytes());
        for (above, opaque) in missing.into_iter().rev() {
            hidden |= opaque;
            let attributes = match self.lower.get(&above).filter(|_| !hidden) {
                Some(TreeEntry { kind: EntryKind::Directory { .. }, attributes, .. }) => {
                    attributes.clone()
                }
                _ => implied(),
            };
            let kind = EntryKind::Directory { opaque };
            self.budget.entry(above.as_bytes().len() + metadata(&kind, &attributes))?;
            self.builder.nodes.insert(above, BuiltNode::Directory { opaque, attributes });
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
            Some(BuiltNode::Directory { opaque, .. }) => *opaque,
            Some(BuiltNode::File(_) | BuiltNode::Whiteout) => true,
            None => false,
        })
    }

    /// The real path of a member: symbolic links above it are resolved, itself not.
    fn resolve(&mut self, path: &EntryPath) -> Result<EntryPath, ArchiveError> {
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

    fn resolve_directory(&self, path: &EntryPath, parent: &[u8]) -> Result<Vec<u8>, ArchiveError> {
        let components = |text: &[u8]| -> VecDeque<Vec<u8>> {
            let components = text.split(|byte| *byte == b'/');
            components.filter(|name| !matches!(*name, b"" | b".")).map(<[u8]>::to_vec).collect()
        };
        let (mut left, mut real, mut links) = (components(parent), Vec::new(), 0);
        // Whether what lower layers have in the directory is hidden.
        let mut hidden = self.lower.is_empty();
        while let Some(name) = left.pop_front() {
            if name == b".." {
                // Nothing is above the root.
                let slash = real.iter().rposition(|byte| *byte == b'/');
                real.truncate(slash.unwrap_or_default());
                hidden = self.hides_in(&real);
                continue;
            }
            let length = real.len();
            real.extend_from_slice(if length == 0 { b"" } else { b"/" });
            real.extend_from_slice(&name);
            let found = self.visible(&EntryPath::new(&real)?, &mut hidden);
            let Some(EntryKind::Symlink { target }) = found else { continue };
            links += 1;
            if links > MAX_LINKS {
                return Err(fault(path, "more than 40 symbolic links are above it, or a loop"));
            }
            real.truncate(if target.starts_with(b"/") { 0 } else { length });
            hidden = self.hides_in(&real);
            let mut resolved = components(target);
            resolved.append(&mut left);
            left = resolved;
        }
        Ok(real)
    }

    /// What has a path, in this layer or in a lower one that is not hidden. Tells whether it hides
    /// what lower layers have below the path.
    fn visible(&self, path: &EntryPath, hidden: &mut bool) -> Option<&EntryKind> {
        match self.builder.nodes.get(path) {
            Some(BuiltNode::File(id)) => {
                *hidden = true;
                Some(&self.builder.file(*id).kind)
            }
            Some(BuiltNode::Directory { opaque, .. }) => {
                *hidden |= *opaque;
                None
            }
            Some(BuiltNode::Whiteout) => {
                *hidden = true;
                None
            }
            None if *hidden => None,
            None => self.lower.get(path).map(|entry| &entry.kind),
        }
    }

    /// Whether this layer hides what lower layers have in a directory.
    fn hides_in(&self, directory: &[u8]) -> bool {
        self.lower.is_empty() || self.hides(&[directory, b"/"].concat())
    }
}
