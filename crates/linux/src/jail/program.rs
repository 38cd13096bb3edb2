//! Showing this very program in the jail, so that a task can be a `bourg` command.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;

use super::mounts::{bind_at, overlay};
use super::{JailError, make_dir};
use crate::error::At;

/// Where the program is in every jail.
const PROGRAM: &str = "/run/bourg/bourg";
/// A directory with one link to it, to be laid over the real `/usr/bin`.
const LINK_DIRECTORY: &str = "/run/bourg/bin";
const BIN: &str = "/usr/bin";

/// Binds the program into the jail at `base`, which is not the root yet.
pub(super) fn show(executable: &Path, base: &Path) -> Result<(), JailError> {
    let in_base = |path: &str| base.join(path.trim_start_matches('/'));
    make_dir(&in_base("/run/bourg"))?;
    make_dir(&in_base(LINK_DIRECTORY))?;
    let program = in_base(PROGRAM);
    File::create_new(&program).at("create", &program)?;
    bind_at(executable, &program, false)?;
    let link = in_base(LINK_DIRECTORY).join("bourg");
    symlink(PROGRAM, &link).at("create link", &link)?;
    Ok(())
}

/// Makes the program available as `/usr/bin/bourg` in the jail, which is the root by now; a package's
/// own links can therefore not lead out of it. Returns what could not be done.
pub(super) fn link_into_path() -> Vec<String> {
    let bin = Path::new(BIN);
    if !bin.is_dir() {
        // A package without /usr/bin: the tmpfs root can still get one unless /usr is the package's.
        let made = fs::create_dir_all(bin).and_then(|()| symlink(PROGRAM, bin.join("bourg")));
        return match made {
            Ok(()) => Vec::new(),
            Err(error) => vec![format!("bourg is only at {PROGRAM} in the jail: {BIN}: {error}")],
        };
    }
    let existing = bin.join("bourg");
    if fs::symlink_metadata(&existing).is_ok_and(|metadata| metadata.is_file()) {
        return match bind_at(Path::new(PROGRAM), &existing, false) {
            Ok(()) => Vec::new(),
            Err(error) => vec![format!("bourg is only at {PROGRAM} in the jail: {error}")],
        };
    }
    match overlay(&format!("{LINK_DIRECTORY}:{BIN}"), bin) {
        Ok(()) => Vec::new(),
        Err(error) => vec![format!(
            "bourg is only at {PROGRAM} in the jail: {error}; a kernel with overlayfs would put it into {BIN}"
        )],
    }
}
