//! The volumes of the machine that a task has: directories that outlive it, shown as its own.
//!
//! On disk all files of a volume belong to the owner of its directory, which is never root. Each task has
//! a user id of its own, and sees files of that owner as its own ([`super::idmap`]). An empty directory of
//! root is first given to the task's user: otherwise a task could leave set-uid programs of root on the
//! machine.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use nix::unistd::{AccessFlags, access};

use super::idmap::{self, IdMapping};
use super::mounts::c_path;
use super::place::{Base, PlaceKind};
use super::{JailError, mounts};
use crate::error::At;
use crate::record::{Bind, Launch};
use crate::{Isolation, sys};

/// Mounts the volumes of a task below a root that is being built.
pub(super) fn show(base: &Base, launch: &Launch) -> Result<(), JailError> {
    launch.jail.volumes.iter().try_for_each(|volume| show_one(base, launch, volume))
}

fn show_one(base: &Base, launch: &Launch, volume: &Bind) -> Result<(), JailError> {
    let source = &volume.source;
    let unusable = |why: String| JailError::Volume { path: source.clone(), why };
    let found = fs::symlink_metadata(source).map_err(|error| unusable(error.to_string()))?;
    if found.is_symlink() {
        // Two volumes could be one directory.
        return Err(unusable("it is a symbolic link: name the directory itself".to_owned()));
    }
    if !found.is_dir() {
        return Err(unusable("it is not a directory".to_owned()));
    }
    let needed = if volume.writable { AccessFlags::W_OK } else { AccessFlags::R_OK };
    access(source, needed).map_err(|error| unusable(io::Error::from(error).to_string()))?;
    let mapping = match launch.isolation {
        Isolation::Rootless => None,
        Isolation::Jail => mapping(source, found.uid(), found.gid(), launch, volume.writable)
            .map_err(|error| unusable(error.to_string()))?,
    };
    let place = base.mount_point(&volume.target, PlaceKind::Directory)?;
    place.with(|target| mount(volume, mapping, target))
}

/// How owners are shown; `None`: as they are.
fn mapping(
    source: &Path,
    mut uid: u32,
    mut gid: u32,
    launch: &Launch,
    writable: bool,
) -> io::Result<Option<(IdMapping, IdMapping)>> {
    if uid == 0 && writable {
        if fs::read_dir(source)?.next().is_some() {
            return Err(io::Error::other(
                "it belongs to root and is not empty: give it with its content to another user (chown \
                 -R), as whose files a task then stores its own",
            ));
        }
        chown(source, Some(launch.uid), Some(launch.gid))?;
        fs::set_permissions(source, fs::Permissions::from_mode(0o700))?;
        (uid, gid) = (launch.uid, launch.gid);
    }
    // No file of a task belongs to the group of root.
    if gid == 0 && writable {
        gid = uid;
    }
    if (uid, gid) == (launch.uid, launch.gid) {
        return Ok(None);
    }
    let users = IdMapping { image: uid, task: launch.uid };
    Ok(Some((users, IdMapping { image: gid, task: launch.gid })))
}

/// Only the directory's own file system is shown, and no set-uid programs and devices work in it.
fn mount(
    volume: &Bind,
    mapping: Option<(IdMapping, IdMapping)>,
    target: &Path,
) -> Result<(), JailError> {
    let source = &volume.source;
    let mount = sys::clone_mount(&c_path(source)?, false).at("clone the mount of", source)?;
    if let Some((users, groups)) = mapping {
        let shown = idmap::namespace(users, groups)
            .and_then(|owners| sys::map_owners(mount.as_fd(), owners.as_fd()));
        shown.map_err(|error| JailError::Volume {
            path: source.clone(),
            why: format!(
                "its files cannot be shown as the task's: {error}; that needs Linux 5.12 or newer and \
                 a file system such as ext4, xfs or btrfs"
            ),
        })?;
    }
    mounts::restrict(mount.as_fd(), target, volume.writable)?;
    Ok(sys::attach_mount(mount.as_fd(), &c_path(target)?).at("mount on", target)?)
}
