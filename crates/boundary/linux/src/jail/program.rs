//! Makes this program available in the jail, so that a task can run `bourg` commands.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use nix::sys::stat::{Mode, SFlag, makedev, mknod};

use super::JailError;
use super::mounts::{bind_at, overlay};
use super::place::{Base, PlaceKind};
use crate::error::At;

/// The path of the program in every jail.
const PROGRAM: &str = "/run/bourg/bourg";
/// A directory with one link to it, to be placed over the real `/usr/bin`.
const LINK_DIRECTORY: &str = "/run/bourg/bin";
/// A directory that, placed over another one, hides the `bourg` in it.
const HIDING_DIRECTORY: &str = "/run/bourg/hiding";
const BIN: &str = "/usr/bin";
/// Directories that most search paths list before [`BIN`], where the host may have another `bourg`,
/// perhaps of another release than the task's cell.
const BEFORE_BIN: [&str; 2] = ["/usr/local/sbin", "/usr/local/bin"];

/// Binds the program into the jail.
pub(super) fn show(executable: &Path, base: &Base) -> Result<(), JailError> {
    let program = base.mount_point(PROGRAM, PlaceKind::File)?;
    program.with(|path| bind_at(executable, path, false))
}

/// Makes the program available as `/usr/bin/bourg` in the writable root of an image, in place of a
/// `bourg` that is there.
pub(super) fn link_into_image(base: &Base) -> Result<(), JailError> {
    base.directory(BIN)?.link("bourg", Path::new(PROGRAM))
}

/// Prepares what [`link_into_path`] places over other directories.
pub(super) fn prepare_links(base: &Base) -> Result<(), JailError> {
    base.directory(LINK_DIRECTORY)?.link("bourg", Path::new(PROGRAM))?;
    // A whiteout of overlayfs, which needs no privilege.
    base.directory(HIDING_DIRECTORY)?.with(|hiding| {
        let whiteout = hiding.join("bourg");
        mknod(&whiteout, SFlag::S_IFCHR, Mode::empty(), makedev(0, 0))
            .at("create whiteout", &whiteout)
    })
}

/// Makes the program available as `/usr/bin/bourg` in the jail, which is the root by now, over
/// the host's own system directories. Other `bourg`s that would be found first are hidden. Returns what
/// failed.
pub(super) fn link_into_path() -> Vec<String> {
    let mut remarks: Vec<_> =
        BEFORE_BIN.iter().filter_map(|directory| hide_in(Path::new(directory))).collect();
    remarks.extend(link_into_bin());
    remarks
}

/// Hides the `bourg` in a directory, or replaces it by this program. Returns the reason if both
/// fail.
fn hide_in(directory: &Path) -> Option<String> {
    let stranger = directory.join("bourg");
    if fs::symlink_metadata(&stranger).is_err() {
        return None;
    }
    overlay(&format!("{HIDING_DIRECTORY}:{}", directory.display()), directory)
        .or_else(|_without_overlayfs| bind_at(Path::new(PROGRAM), &stranger, false))
        .err()
        .map(|error| format!("{} in the jail is not the cell's: {error}", stranger.display()))
}

fn link_into_bin() -> Option<String> {
    let bin = Path::new(BIN);
    if !bin.is_dir() {
        // A host without /usr/bin: the tmpfs root can still get one unless /usr is the host's.
        let made = fs::create_dir_all(bin).and_then(|()| symlink(PROGRAM, bin.join("bourg")));
        return match made {
            Ok(()) => None,
            Err(error) => Some(format!("bourg is only at {PROGRAM} in the jail: {BIN}: {error}")),
        };
    }
    let existing = bin.join("bourg");
    if fs::symlink_metadata(&existing).is_ok_and(|metadata| metadata.is_file()) {
        return match bind_at(Path::new(PROGRAM), &existing, false) {
            Ok(()) => None,
            Err(error) => Some(format!("bourg is only at {PROGRAM} in the jail: {error}")),
        };
    }
    match overlay(&format!("{LINK_DIRECTORY}:{BIN}"), bin) {
        Ok(()) => None,
        Err(error) => Some(format!(
            "bourg is only at {PROGRAM} in the jail: {error}; a kernel with overlayfs would put it into {BIN}"
        )),
    }
}
