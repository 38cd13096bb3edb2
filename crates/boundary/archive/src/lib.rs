//! Files and directories as an archive: written on one machine, and unpacked on another one that does not
//! trust it.
//!
//! `bourg cp` and `bourg results` use it: the one end is a task or its machine, the other a user's. An
//! archive has one entry at the top, files, directories, and links that lead to something in it.
//!
//! Deliberately absent: how an archive travels, packages and images (crate `package`).

mod pack;
#[cfg(test)]
mod tests;
mod unpack;

use std::path::{Component, Path};

pub use pack::{pack, pack_as};
pub use unpack::{Top, unpack};

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// The number of files.
    pub files: u64,
    /// Their sizes together.
    pub bytes: u64,
}

impl Copied {
    fn add(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// Whether a link in an archive leads to something in the archive, wherever that is unpacked. `name` is
/// the link with the entry at the top first.
///
/// A link may go up from its own directory, and then only down: what it passes on the way down may be
/// links, of which each stays inside, too.
fn stays_inside(name: &Path, target: &Path) -> bool {
    let Some(ups) = name.components().count().checked_sub(2) else { return false };
    let mut parts = target.components().filter(|part| *part != Component::CurDir).peekable();
    let mut up = 0;
    while parts.next_if_eq(&Component::ParentDir).is_some() {
        up += 1;
    }
    up <= ups
        && !target.as_os_str().is_empty()
        && parts.all(|part| matches!(part, Component::Normal(_)))
}
