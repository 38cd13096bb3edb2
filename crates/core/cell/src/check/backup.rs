//! The beginning of the cell and its last backup are in its past.

use super::{Violation, Violations};
use crate::Cell;

impl Cell {
    pub(super) fn check_backups(&self, found: &mut Violations) {
        if let Some(last) = &self.last_backup
            && (last.index >= self.index || last.at > self.time)
        {
            found.add(Violation::LaterThanTheCell("last backup"));
        }
        if self.bootstrapped.is_some_and(|at| at > self.time || self.name.is_none()) {
            found.add(Violation::LaterThanTheCell("bootstrap"));
        }
    }
}
