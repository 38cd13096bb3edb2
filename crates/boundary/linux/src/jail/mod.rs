//! The mount namespace of a task: the files of the machine that it sees, and nothing else.
//!
//! ```text
//! /            tmpfs, read-only in the end        /proc   of the task's pid namespace
//! /usr /bin …  of the host or a package, read-only /dev    few devices, own /dev/pts and /dev/shm
//! /etc         generated, plus some host files    /tmp    tmpfs of a bounded size, also at /var/tmp
//! /home/task   the task's own directory           /run/bourg/bourg   this program
//! /sys/fs/cgroup   the task's own cgroup, read-only
//! ```
//!
//! `/usr/bin/bourg` is a link to `/run/bourg/bourg`, placed over the real `/usr/bin` with an
//! overlay. A `bourg` in `/usr/local/bin` or `/usr/local/sbin`, which come first in search paths,
//! is hidden.
//!
//! Not here: the pid, ipc and uts namespaces and the privileges, which the init handles.

mod cgroup;
mod dev;
mod etc;
mod mounts;
mod program;

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, umount2};
use nix::unistd::{chdir, pivot_root};

use crate::cgroup::CgroupError;
use crate::error::At;
use crate::record::{HOME_DIRECTORY, Launch, ROOT_DIRECTORY, Root};
use crate::{FileError, Isolation};
use mounts::{bind_at, tmpfs};

/// Limits of the tmpfs that contains the root: mount points and the generated files.
const ROOT_OPTIONS: &str = "mode=755,size=1m,nr_inodes=4096";

/// Names in the root of a package that the jail fills itself.
const OURS: [&str; 7] = ["dev", "etc", "home", "proc", "run", "sys", "tmp"];

/// A jail could not be built.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JailError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    #[error("the jail cannot have a mount point at {}: {why}", target.display())]
    MountPoint { target: PathBuf, why: String },
    #[error("the package root {} is not a directory", path.display())]
    NoRoot { path: PathBuf },
}

/// Moves this process, which must be alone in a new mount namespace, into the jail of the task in
/// `dir`; its working directory is then the task's.
///
/// Returns missing optional features as text for the shim's log.
pub(crate) fn build(launch: &Launch, dir: &Path) -> Result<Vec<String>, JailError> {
    // Nothing that happens here may propagate to the host's mounts.
    mounts::change("/", MsFlags::MS_REC | MsFlags::MS_PRIVATE)?;
    // A directory of the host must carry the new root until the switch.
    let base = dir.join(ROOT_DIRECTORY);
    make_dir(&base)?;
    let nosuid_nodev = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    tmpfs(&base, ROOT_OPTIONS, nosuid_nodev)?;

    let etc_of_package = match &launch.jail.root {
        Root::HostSystem => {
            for system_dir in &launch.jail.system_dirs {
                show_read_only(Path::new(system_dir), &base, relative(Path::new(system_dir)))?;
            }
            None
        }
        Root::Directory(package) => {
            show_package(package, &base)?;
            Some(package.join("etc"))
        }
    };
    etc::fill(&base, launch, etc_of_package.as_deref())?;
    dev::fill(&base, launch.tmp_bytes_max)?;
    make_dir(&base.join("proc"))?;
    mounts::proc(&base.join("proc"))?;
    for name in ["home", "home/task", "run", "sys", "tmp", "var"] {
        make_dir(&base.join(name))?;
    }
    cgroup::show(launch, &base)?;
    let tmp = format!("mode=1777,size={}", tmp_bytes(launch.tmp_bytes_max));
    tmpfs(&base.join("tmp"), &tmp, nosuid_nodev)?;
    show_var_tmp(&base)?;
    bind_at(&dir.join(HOME_DIRECTORY), &base.join("home/task"), true)?;
    for extra in &launch.jail.binds {
        let target = mount_point(&base, &extra.source, relative(&extra.target))?;
        bind_at(&extra.source, &target, extra.writable)?;
    }
    program::show(&launch.jail.bourg_executable, &base)?;

    enter(&base)?;
    let remarks = program::link_into_path();
    let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
    mounts::change("/", read_only | nosuid_nodev)?;
    if launch.isolation == Isolation::Rootless {
        // Rootless, the task's user owns that directory; with root it does not.
        mounts::change("/dev", read_only | MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC)?;
    }
    chdir("/home/task").at("enter", "/home/task")?;
    Ok(remarks)
}

/// Makes `base` the root and unmounts the old one.
fn enter(base: &Path) -> Result<(), FileError> {
    chdir(base).at("enter", base)?;
    // Both paths are the same: the old root ends up mounted over the new one, so no directory is
    // needed for it.
    pivot_root(".", ".").at("pivot into", base)?;
    umount2(".", MntFlags::MNT_DETACH).at("leave the old root of", base)?;
    chdir("/").at("enter", "/")
}

/// A tmpfs of size 0 would be unlimited.
fn tmp_bytes(bytes_max: u64) -> u64 {
    bytes_max.max(4096)
}

fn relative(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// Binds `source` of the host at `name` in the jail, read-only: a link is recreated, a missing path
/// is skipped.
fn show_read_only(source: &Path, base: &Path, name: &Path) -> Result<(), JailError> {
    let kind = match fs::symlink_metadata(source) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(FileError::new("look at", source, error).into()),
    };
    if kind.is_symlink() {
        let leads_to = fs::read_link(source).at("read link", source)?;
        let link = base.join(name);
        if let Some(parent) = link.parent() {
            fs::create_dir_all(parent).at("create directory", parent)?;
        }
        symlink(&leads_to, &link).at("create link", &link)?;
        return Ok(());
    }
    let target = mount_point(base, source, name)?;
    Ok(bind_at(source, &target, false)?)
}

/// Binds every entry of a package's root except those that the jail fills itself.
fn show_package(package: &Path, base: &Path) -> Result<(), JailError> {
    if !package.is_dir() {
        return Err(JailError::NoRoot { path: package.to_owned() });
    }
    for entry in fs::read_dir(package).at("list", package)? {
        let entry = entry.at("list", package)?;
        let name = entry.file_name();
        if !OURS.iter().any(|ours| name == *ours) {
            show_read_only(&entry.path(), base, Path::new(&name))?;
        }
    }
    Ok(())
}

/// `/var/tmp` is the same as `/tmp`.
fn show_var_tmp(base: &Path) -> Result<(), JailError> {
    let target = base.join("var/tmp");
    // The /var of a package is read-only: it may have none, or a link.
    let _exists = make_dir(&target);
    let is_dir = fs::symlink_metadata(&target).is_ok_and(|found| found.is_dir());
    if is_dir { Ok(bind_at(&base.join("tmp"), &target, true)?) } else { Ok(()) }
}

/// Creates the directory or empty file on which `source` can be mounted, and its parent
/// directories.
///
/// Does not follow links: they could lead out of the jail, whose root is not yet the root.
fn mount_point(base: &Path, source: &Path, name: &Path) -> Result<PathBuf, JailError> {
    let mut target = base.to_owned();
    let refused = |why: String| JailError::MountPoint { target: Path::new("/").join(name), why };
    let is_dir = fs::metadata(source).at("look at", source)?.is_dir();
    let mut parts = name.components().peekable();
    while let Some(part) = parts.next() {
        target.push(part);
        let made = if parts.peek().is_some() || is_dir {
            fs::create_dir(&target)
        } else {
            fs::File::create_new(&target).map(drop)
        };
        match made {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if target.is_symlink() {
                    return Err(refused("a part of it is a symbolic link".to_owned()));
                }
            }
            Err(error) => return Err(refused(error.to_string())),
        }
    }
    Ok(target)
}

fn make_dir(path: &Path) -> Result<(), FileError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result.at("create directory", path),
    }
}
