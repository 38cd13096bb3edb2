//! The layers of an image, one on the other.
//!
//! A layer of an image is an archive of changes. What the archive says, and what the tree has:
//! - A later member replaces an earlier one of the same path. A directory over a directory keeps
//!   what is in it; everything else does not.
//! - `.wh.NAME` of any type removes NAME of lower layers, and `.wh..wh..opq` all that they have in
//!   its directory. Both apply before the members of this layer, wherever they are in the archive.
//! - The directory above a member may be a symbolic link, of this layer or of a lower one. It is
//!   resolved here, within the package, so the tree has the real path.
//! - A directory above a member that is no member itself has the attributes that it has in lower
//!   layers, or the mode 0755 and no others.
//! - A hard link to a file of a lower layer copies that file's entry into this layer, as overlay
//!   mounts do.
//! - Not kept: the attributes of the root, `security.selinux`, and the extended attributes of
//!   overlay mounts.

use std::io::Read;

pub(super) use self::lower::LowerLayers;
use super::error::ArchiveError;
use super::limits::{ImportBudget, ImportLimits};
use super::tar::{LayerMember, members};
use crate::chunk::ChunkSink;
use crate::contents::Contents;
use crate::layer::{LayerWriteError, LayerWriter};
use crate::manifest::Layer;

mod apply;
mod build;
mod lower;

/// The layers of an image from uncompressed archives, the lowest first.
#[derive(Debug)]
pub struct LayerStack {
    lower: LowerLayers,
    budget: ImportBudget,
}

impl LayerStack {
    /// No layers. The limits are those of all that will be added.
    #[must_use]
    pub fn new(limits: &ImportLimits) -> Self {
        Self { lower: LowerLayers::default(), budget: ImportBudget::new(limits) }
    }

    /// Adds a layer on top. Its chunks go to the sink, those of files first. What follows the end of
    /// the archive is not looked at.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong with the archive, or an error of the sink. Nothing was added.
    pub fn push(
        &mut self,
        archive: &mut dyn Read,
        sink: &mut dyn ChunkSink,
    ) -> Result<Layer, ArchiveError> {
        let mut budget = self.budget;
        let members = members(archive, &mut Contents::new(), sink, &mut budget)?;
        let layer = add(members, &mut self.lower, sink, &mut budget)?;
        self.budget = budget;
        Ok(layer)
    }
}

/// Adds a layer on top of others, and writes its tree.
pub(super) fn add(
    members: Vec<LayerMember>,
    lower: &mut LowerLayers,
    sink: &mut dyn ChunkSink,
    budget: &mut ImportBudget,
) -> Result<Layer, ArchiveError> {
    let entries = apply::apply(members, lower, budget)?;
    let mut writer = LayerWriter::new();
    for entry in &entries {
        writer.write(entry, sink).map_err(|error| match error {
            LayerWriteError::Tree(source) => ArchiveError::Tree(source),
            LayerWriteError::Sink(source) => ArchiveError::Sink(source),
        })?;
    }
    let layer = writer.finish(sink).map_err(ArchiveError::Sink)?;
    lower.push(entries);
    Ok(layer)
}
