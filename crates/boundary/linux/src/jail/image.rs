//! The root of a task whose files are an image's: an overlay of the image's layers, which all tasks
//! share, below a directory of the task's own, to which it writes.
//!
//! The task is not root. So the layers are shown with other owners ([`super::idmap`]): what belongs to
//! the image's user is the task's.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, lchown, symlink};
use std::path::Path;

use nix::mount::{MntFlags, umount2};
use nix::unistd::chdir;

use super::accounts::ImageUser;
use super::idmap::{self, IdMapping};
use super::mounts::{self, c_path};
use super::place::{Base, Owner};
use super::{JailError, make_dir};
use crate::error::At;
use crate::record::{IMAGE_DIRECTORY, ImageRoot, Launch, UPPER_DIRECTORY, WORK_DIRECTORY};
use crate::{Isolation, sys};

/// What a mapping of owners fails with where the kernel, the file system of the layers, or the container
/// around this machine does not have it.
const NO_MAPPING: [i32; 4] = [libc::EINVAL, libc::ENOSYS, libc::EPERM, libc::ENOSPC];
/// The root is thrown away with its task, so nothing waits for it to be on the disk, least of all the
/// task's end.
const OPTIONS: &str = "volatile";
/// What root could switch on, and what hostile layers must not use.
const OPTIONS_OF_ROOT: &str = "index=off,metacopy=off,redirect_dir=nofollow";
/// Rootless, the attributes of an overlay are those that users may set.
const OPTIONS_ROOTLESS: &str = "userxattr";

/// A mounted root.
pub(super) struct Mounted {
    /// The image's own.
    pub(super) user: ImageUser,
    /// Whom the task sees as the owner of what belongs to root in the image; `None`: this process.
    pub(super) root: Option<Owner>,
    /// What is missing.
    pub(super) remark: Option<String>,
}

/// How the owners of an image's files are shown.
#[derive(Clone, Copy)]
struct Mapping {
    users: IdMapping,
    groups: IdMapping,
}

impl Mapping {
    fn shown(self, uid: u32, gid: u32) -> Owner {
        (self.users.shown(uid), self.groups.shown(gid))
    }
}

/// Mounts the root of an image at `at`, a new tmpfs and this process's working directory afterwards; `dir`
/// is the directory of the task, which has it.
pub(super) fn mount(
    image: &ImageRoot,
    launch: &Launch,
    dir: &Path,
    at: &Path,
) -> Result<Mounted, JailError> {
    let Launch { isolation, uid, gid, .. } = *launch;
    let site = Site { image, isolation, dir, at };
    site.name_layers()?;
    let user = ImageUser::find(&image.user, || site.look())?;
    for name in [IMAGE_DIRECTORY, UPPER_DIRECTORY, WORK_DIRECTORY] {
        let path = dir.join(name);
        DirBuilder::new().mode(0o700).create(&path).at("create directory", &path)?;
    }
    if isolation == Isolation::Rootless {
        // All files are this process's, and so the task's.
        site.lay(plain, None)?;
        return Ok(Mounted { user, root: None, remark: None });
    }
    let mapping = Mapping {
        users: IdMapping { image: user.uid, task: uid },
        groups: IdMapping { image: user.gid, task: gid },
    };
    let why = match site.map(mapping).and_then(|()| site.lay(mapped, Some(mapping))) {
        Ok(()) => {
            return Ok(Mounted { user, root: Some(mapping.shown(0, 0)), remark: None });
        }
        Err(JailError::File(error)) if is_no_mapping(&error.source) => error.to_string(),
        Err(JailError::Overlay { source, .. }) if is_no_mapping(&source) => source.to_string(),
        Err(error) => return Err(error),
    };
    site.renew_work()?;
    site.lay(plain, None)?;
    let remark = format!(
        "the files of the image keep their owners, so the task may only write where everybody may: \
         {why}; Linux 5.19 and newer can show them as the task's, if the layers are on ext4, xfs or \
         btrfs"
    );
    Ok(Mounted { user, root: Some((0, 0)), remark: Some(remark) })
}

fn is_no_mapping(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|number| NO_MAPPING.contains(&number))
}

/// The name of a layer with its own owners.
fn plain(index: usize) -> String {
    index.to_string()
}

/// The name of a layer with the owners that the task sees.
fn mapped(index: usize) -> String {
    format!("m{index}")
}

/// What is mounted, and where.
struct Site<'a> {
    image: &'a ImageRoot,
    isolation: Isolation,
    /// The directory of the task.
    dir: &'a Path,
    /// A directory in it, with the names of the layers, below the root in the end.
    at: &'a Path,
}

impl Site<'_> {
    /// Gives the layers short names, relative to the working directory: an overlay gets those of all its
    /// layers in one page.
    fn name_layers(&self) -> Result<(), JailError> {
        chdir(self.at).at("enter", self.at)?;
        for (index, layer) in self.image.layers.iter().enumerate() {
            if !layer.is_dir() {
                return Err(JailError::NoLayer { path: layer.clone() });
            }
            let name = self.at.join(plain(index));
            symlink(layer, &name).at("create link", &name)?;
        }
        Ok(())
    }

    /// The files of the image as they are, to read its accounts.
    fn look(&self) -> Result<Base, JailError> {
        if let [layer] = self.image.layers.as_slice() {
            return Ok(Base::open(layer, None)?);
        }
        let place = self.at.join("look");
        make_dir(&place)?;
        self.overlay(plain, "", &place)?;
        let base = Base::open(&place, None)?;
        // What is open stays until it is closed.
        umount2(&place, MntFlags::MNT_DETACH).at("unmount", &place)?;
        Ok(base)
    }

    /// Mounts each layer with the owners that the task sees.
    fn map(&self, mapping: Mapping) -> Result<(), JailError> {
        let owners = idmap::namespace(mapping.users, mapping.groups)
            .at("map the owners of files of", &self.image.layers[0])?;
        for (index, layer) in self.image.layers.iter().enumerate() {
            let place = self.at.join(mapped(index));
            make_dir(&place)?;
            let mount = sys::clone_mount(&c_path(layer)?, false).at("clone the mount of", layer)?;
            sys::map_owners(mount.as_fd(), owners.as_fd())
                .at("map the owners of files of", layer)?;
            sys::attach_mount(mount.as_fd(), &c_path(&place)?).at("mount", layer)?;
        }
        Ok(())
    }

    /// Makes the work directory again: a mount that failed may have marked it as one of a volatile overlay, and
    /// no other may use that (Linux 5.12 to 5.18 find out about the owners only afterwards).
    fn renew_work(&self) -> Result<(), JailError> {
        let path = self.dir.join(WORK_DIRECTORY);
        fs::remove_dir_all(&path).at("remove directory", &path)?;
        Ok(DirBuilder::new().mode(0o700).create(&path).at("create directory", &path)?)
    }

    /// Mounts the root: the layers of these names, below the task's own directory.
    fn lay(&self, name: fn(usize) -> String, mapping: Option<Mapping>) -> Result<(), JailError> {
        self.make_upper_like_root(mapping)?;
        // The names are below a directory of the task's, beside the others.
        let own = format!(",upperdir=../{UPPER_DIRECTORY},workdir=../{WORK_DIRECTORY},{OPTIONS}");
        self.overlay(name, &own, self.at)
    }

    fn overlay(
        &self,
        name: fn(usize) -> String,
        more: &str,
        target: &Path,
    ) -> Result<(), JailError> {
        let layers = (0..self.image.layers.len()).rev().map(name).collect::<Vec<_>>().join(":");
        let usual = match self.isolation {
            Isolation::Jail => OPTIONS_OF_ROOT,
            Isolation::Rootless => OPTIONS_ROOTLESS,
        };
        mounts::image_overlay(&format!("lowerdir={layers}{more},{usual}"), target)
            .map_err(|source| JailError::Overlay { dir: self.dir.to_owned(), source })
    }

    /// Gives the task's own directory what the highest layer says about the root: an overlay shows that
    /// of its upper directory.
    fn make_upper_like_root(&self, mapping: Option<Mapping>) -> Result<(), JailError> {
        let Some(top) = self.image.layers.last() else { return Ok(()) };
        let upper = self.dir.join(UPPER_DIRECTORY);
        let found = fs::metadata(top).at("look at", top)?;
        let mode = fs::Permissions::from_mode(found.mode() & 0o7777);
        fs::set_permissions(&upper, mode).at("set the mode of", &upper)?;
        if self.isolation == Isolation::Rootless {
            return Ok(());
        }
        let (uid, gid) = (found.uid(), found.gid());
        let (uid, gid) = mapping.map_or((uid, gid), |mapping| mapping.shown(uid, gid));
        Ok(lchown(&upper, Some(uid), Some(gid)).at("set the owner of", &upper)?)
    }
}
