//! Moves a file or a directory from one tree into another one, below both.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, renameat};
use nix::sys::stat::{Mode, mkdirat};

use crate::sys;

/// Moves what is at a path below one directory to the same path below another one, of the same file
/// system, and returns whether there was anything: what is behind a link or a file counts as nothing. A link
/// at the end is moved as it is.
///
/// # Errors
/// If the path is not relative and plain, or the kernel returns an error.
pub fn move_beneath(from: &Path, path: &Path, to: &Path) -> io::Result<bool> {
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    let (true, Some(name)) = (plain, path.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a path below a directory"));
    };
    let parent = path.parent().unwrap_or(Path::new(""));
    let source = match directory(&File::open(from)?, parent) {
        // What is on the way is no directory, or a link.
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => return Ok(false),
        opened => opened?,
    };
    let root = File::open(to)?;
    let mut place = directory(&root, Path::new(""))?;
    for part in parent.components() {
        let part = Path::new(part.as_os_str());
        match mkdirat(&place, part, Mode::S_IRWXU) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(error) => return Err(error.into()),
        }
        place = directory(&place, part)?;
    }
    match renameat(&source, name, &place, name) {
        Ok(()) => {
            File::from(place).sync_all()?;
            Ok(true)
        }
        Err(Errno::ENOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens a directory below another one, without links on the way.
fn directory(root: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS;
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    sys::open_resolved(root.as_fd(), path, OpenHow::new().flags(flags).resolve(resolve))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_what_is_below_is_moved_and_links_stay_links() {
        let place = tempfile::tempdir().unwrap();
        let [home, kept, other] = ["home", "kept", "other"].map(|name| place.path().join(name));
        for directory in [&home, &kept, &other] {
            fs::create_dir(directory).unwrap();
        }
        fs::create_dir_all(home.join("out/a")).unwrap();
        fs::write(home.join("out/a/n"), "1").unwrap();
        fs::write(other.join("secret"), "s").unwrap();
        symlink(other.join("secret"), home.join("link")).unwrap();
        symlink(&other, home.join("way")).unwrap();
        let moved = |path: &str| move_beneath(&home, Path::new(path), &kept).unwrap();
        assert!(moved("out/a"));
        assert!(!moved("out/a"), "it is moved already");
        assert!(!moved("none") && !moved("none/n"));
        assert!(moved("link"));
        assert!(!moved("way/secret"));
        assert_eq!(fs::read_to_string(kept.join("out/a/n")).unwrap(), "1");
        assert!(kept.join("link").is_symlink());
        assert!(other.join("secret").exists() && !kept.join("way").exists());
        for path in ["../other/secret", "/etc/passwd", "", "out/../../other"] {
            assert!(move_beneath(&home, Path::new(path), &kept).is_err(), "{path}");
        }
    }
}
