//! The files that tasks bring: written into the directory of the task, from where its jail shows each at its path.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use anyhow::Context;
use borglet::Launch;
use linux::Isolation;
use linux::record::Bind;
use linux::task::TaskDirectory;

/// Exists while the files of a running task are read again.
const READING: &str = "reading-again";

/// Notes that the files of a running task are read again, until [`end_reading`]. Returns whether that was noted already:
/// what was read then may be written in part, or not told.
pub(super) fn begin_reading(task: &TaskDirectory) -> anyhow::Result<bool> {
    let path = task.path().join(READING);
    match File::options().write(true).create_new(true).open(&path) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(true),
        Err(error) => Err(error).with_context(|| format!("cannot create {}", path.display())),
    }
}

/// Whether a Borglet that has ended was reading the files of a task again.
pub(super) fn is_reading(task: &TaskDirectory) -> bool {
    task.path().join(READING).exists()
}

/// All files are written.
pub(super) fn end_reading(task: &TaskDirectory) -> anyhow::Result<()> {
    let path = task.path().join(READING);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// The name of the directory of a task with the files that it brings.
const DIRECTORY: &str = "files";

/// Writes the files of a task that is about to start. Returns their bind mounts.
pub(super) fn prepare(
    task: &TaskDirectory,
    launch: &Launch,
    isolation: Isolation,
) -> anyhow::Result<Vec<Bind>> {
    let directory = task.path().join(DIRECTORY);
    let mut binds = Vec::new();
    for (position, file) in launch.files().enumerate() {
        if position == 0 {
            make(&directory)?;
        }
        let source = directory.join(position.to_string());
        write(&source, &file.content, file.mode.bits(), launch.uid, isolation)?;
        binds.push(Bind { source, target: PathBuf::from(file.path), writable: false });
    }
    Ok(binds)
}

/// Removes the files of a task that has ended.
pub(super) fn remove(task: &TaskDirectory) {
    let directory = task.path().join(DIRECTORY);
    match fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::error!("cannot remove {}: {error}", directory.display());
        }
        _ => {}
    }
}

/// Writes the files of a running task again. What its jail shows are these files themselves, so they stay the same
/// files: one that is read meanwhile may have its old end. One that refers to a name that stands for nothing now stays
/// as it is. Notes whether one has another content.
pub(super) fn rewrite_all(
    task: &TaskDirectory,
    launch: &Launch,
    changed: &mut bool,
) -> anyhow::Result<()> {
    let directory = task.path().join(DIRECTORY);
    for (position, file) in launch.files().enumerate() {
        if !file.is_complete {
            continue;
        }
        let path = directory.join(position.to_string());
        *changed |= rewrite(&path, &file.content)?;
    }
    Ok(())
}

/// Gives an existing file another content. Returns whether it had another one.
pub(super) fn rewrite(path: &Path, content: &[u8]) -> anyhow::Result<bool> {
    let written = || -> std::io::Result<bool> {
        if fs::read(path)? == content {
            return Ok(false);
        }
        let open = || File::options().write(true).open(path);
        let mut file = match open() {
            // Without root it is the Borglet's own file, which nobody may write.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                let mode = fs::metadata(path)?.permissions();
                let writable = Permissions::from_mode(mode.mode() | 0o200);
                fs::set_permissions(path, writable)?;
                let file = open();
                fs::set_permissions(path, mode)?;
                file?
            }
            opened => opened?,
        };
        file.write_all(content)?;
        file.set_len(content.len() as u64)?;
        Ok(true)
    };
    written().with_context(|| format!("cannot write {} again", path.display()))
}

/// Creates a directory that only the Borglet's user may enter.
pub(super) fn make(directory: &Path) -> anyhow::Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.with_context(|| format!("cannot create {}", directory.display()))
}

/// Writes a new file for the user of a task; without root it is the Borglet's own user.
pub(super) fn write(
    path: &Path,
    content: &[u8],
    mode: u32,
    uid: u32,
    isolation: Isolation,
) -> anyhow::Result<()> {
    let written = || -> std::io::Result<()> {
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(content)?;
        file.set_permissions(Permissions::from_mode(mode))?;
        match isolation {
            Isolation::Jail => chown(path, Some(uid), Some(uid)),
            Isolation::Rootless => Ok(()),
        }
    };
    written().with_context(|| format!("cannot write {}", path.display()))
}
