//! Public and secret files: written atomically, with exactly the intended permissions.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// The mode of a public file.
pub(crate) const PUBLIC: u32 = 0o644;
/// The mode of a secret file.
pub(crate) const SECRET: u32 = 0o600;

/// Writes a file atomically and durably; it has exactly this mode from the start.
pub(crate) fn write(path: &Path, content: &str, mode: u32) -> Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".tmp");
    let unfinished = PathBuf::from(unfinished);
    // A file left by a crash may have another mode.
    match fs::remove_file(&unfinished) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io("remove the incomplete", &unfinished)(e));
        }
        _ => {}
    }
    let write = || {
        let mut options = OpenOptions::new();
        let mut file =
            options.write(true).create_new(true).mode(mode & SECRET).open(&unfinished)?;
        // The umask may have restricted the mode.
        file.set_permissions(Permissions::from_mode(mode))?;
        file.write_all(content.as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, path)
    };
    let written = write();
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written.map_err(Error::io("write", path))?;
    sync(path.parent().unwrap_or_else(|| Path::new("")))
}

/// Makes the entries of a directory durable.
pub(crate) fn sync(directory: &Path) -> Result<()> {
    let here = directory.as_os_str().is_empty();
    let directory = if here { Path::new(".") } else { directory };
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(Error::io("write", directory))
}

/// Reads a public file.
pub(crate) fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(Error::io("read", path))
}

/// Reads a secret key. Rejects one that others can read, since they may have read it.
pub(crate) fn read_secret(path: &Path) -> Result<String> {
    let file = File::open(path).map_err(Error::io("read", path))?;
    let found = file.metadata().map_err(Error::io("inspect", path))?;
    let mode = found.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(Error::ExposedKey { path: path.to_owned(), mode });
    }
    io::read_to_string(file).map_err(Error::io("read", path))
}
