//! The jail's `/dev`: the devices that every program expects, and no real hardware.

use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::Path;

use nix::mount::MsFlags;
use nix::sys::stat::{Mode, SFlag, makedev, mknod, umask};

use super::mounts::{bind, devpts, tmpfs};
use super::{make_dir, tmp_bytes};
use crate::FileError;
use crate::error::At;

/// Name, major and minor number.
const DEVICES: [(&str, u64, u64); 6] = [
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
];

const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Mounts it on the directory `dev`.
pub(super) fn mount(dev: &Path) -> Result<(), FileError> {
    // Without nodev, unlike everywhere else.
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    tmpfs(dev, "mode=755,size=64k,nr_inodes=64", flags)
}

/// Fills it, once it is mounted.
pub(super) fn fill(dev: &Path, tmp_bytes_max: u64) -> Result<(), FileError> {
    // Usable by everyone, whatever umask was inherited.
    let usual = umask(Mode::empty());
    let made = make_devices(dev, Mode::from_bits_truncate(0o666));
    umask(usual);
    made?;
    for (name, leads_to) in LINKS {
        let link = dev.join(name);
        symlink(leads_to, &link).at("create link", &link)?;
    }
    make_dir(&dev.join("pts"))?;
    devpts(&dev.join("pts"))?;
    make_dir(&dev.join("shm"))?;
    let shm = format!("mode=1777,size={}", tmp_bytes(tmp_bytes_max));
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    tmpfs(&dev.join("shm"), &shm, flags)
}

fn make_devices(dev: &Path, mode: Mode) -> Result<(), FileError> {
    for (name, major, minor) in DEVICES {
        let path = dev.join(name);
        match mknod(&path, SFlag::S_IFCHR, mode, makedev(major, minor)) {
            Ok(()) => {}
            Err(nix::Error::EPERM) => {
                // In a container root may not create devices, but may bind the existing ones.
                File::create_new(&path).at("create", &path)?;
                bind(&Path::new("/dev").join(name), &path)?;
            }
            Err(error) => return Err(FileError::new("make device", &path, error.into())),
        }
    }
    Ok(())
}
