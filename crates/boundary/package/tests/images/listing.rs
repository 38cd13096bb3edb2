//! Lists everything that a package keeps of a directory, one line for each entry.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{lgetxattr, llistxattr, major, minor};

/// What is compared of each entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compare {
    /// Owner and time.
    pub(crate) attributes: bool,
}

/// The lines by path. Files with several names have a line `= PATH` for all but the first.
pub(crate) fn list(root: &Path, compare: Compare) -> BTreeMap<PathBuf, String> {
    let mut paths = Vec::new();
    collect(root, &mut paths);
    paths.sort_by(|one, other| one.as_os_str().as_bytes().cmp(other.as_os_str().as_bytes()));
    let mut inodes: BTreeMap<u64, PathBuf> = BTreeMap::new();
    let mut lines = BTreeMap::new();
    for path in paths {
        let below = path.strip_prefix(root).unwrap().to_owned();
        let seen = path.symlink_metadata().unwrap();
        let mut line = String::new();
        if seen.is_file() && seen.nlink() > 1 {
            if let Some(first) = inodes.get(&seen.ino()) {
                lines.insert(below, format!("= {}", first.display()));
                continue;
            }
            inodes.insert(seen.ino(), below.clone());
        }
        let kind = seen.file_type();
        let number = (major(seen.rdev()), minor(seen.rdev()));
        match () {
            () if kind.is_dir() => line.push_str("directory"),
            () if kind.is_symlink() => {
                write!(line, "→ {}", fs::read_link(&path).unwrap().display()).unwrap();
            }
            () if kind.is_char_device() => write!(line, "char {number:?}").unwrap(),
            () if kind.is_block_device() => write!(line, "block {number:?}").unwrap(),
            () if kind.is_fifo() => line.push_str("fifo"),
            () => {
                let digest = blake3::hash(&fs::read(&path).unwrap());
                write!(line, "file of {} {}", seen.len(), &digest.to_hex()[..12]).unwrap();
            }
        }
        write!(line, " {:o}", seen.mode() & 0o7777).unwrap();
        if compare.attributes {
            let (uid, gid) = (seen.uid(), seen.gid());
            write!(line, " {uid}:{gid} {}.{:09}", seen.mtime(), seen.mtime_nsec()).unwrap();
            for (name, value) in xattrs(&path) {
                write!(line, " {name}={}", value.escape_ascii()).unwrap();
            }
        }
        lines.insert(below, line);
    }
    lines
}

fn collect(directory: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        paths.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), paths);
        }
    }
}

fn xattrs(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut names, mut value) = ([0; 4_096], [0; 65_536]);
    let length = llistxattr(path, &mut names).unwrap();
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let names = names.map(|name| str::from_utf8(name).unwrap());
    let with_value = |name: &str| {
        let length = lgetxattr(path, name, &mut value).unwrap();
        (name.to_owned(), value[..length].to_vec())
    };
    names.map(with_value).collect()
}
