//! The names of the cell (crate `bns`), as reads see them.

use bns::Changes;
use cell::Cell;

use crate::view::View;

/// A cell, and when its names changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names<'a> {
    pub(crate) cell: &'a Cell,
    pub(crate) changes: &'a Changes,
}

impl View {
    /// Its names.
    pub(crate) fn names(&self) -> Names<'_> {
        Names { cell: &self.cell, changes: &self.name_changes }
    }
}
