//! The mount namespace of a task: the files of the machine that it sees, and nothing else.
//!
//! ```text
//! /            tmpfs, read-only in the end        /proc   of the task's pid namespace
//! /usr /bin …  of the host, read-only             /dev    few devices, own /dev/pts and /dev/shm
//! /etc         generated, plus some host files    /tmp    tmpfs of a bounded size, also at /var/tmp
//! /home/task   the task's own directory           /run/bourg/bourg   this program
//! /sys/fs/cgroup   the task's own cgroup, read-only
//! ```
//!
//! `/usr/bin/bourg` is a link to `/run/bourg/bourg`, placed over the real `/usr/bin` with an
//! overlay. A `bourg` in `/usr/local/bin` or `/usr/local/sbin`, which come first in search paths,
//! is hidden.
//!
//! If the root is an image's ([`image`]), then all its files are there and writable, except for those
//! listed above, and of `/etc` only what depends on the machine or names the task is generated.
//!
//! Not here: the pid, ipc and uts namespaces and the privileges, which the init handles.

mod accounts;
mod cgroup;
mod dev;
mod etc;
mod idmap;
mod image;
mod mounts;
mod place;
mod program;
mod volumes;

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, MsFlags, umount2};
use nix::sys::stat::Mode;
use nix::unistd::{chdir, fchdir, pivot_root};

use crate::cgroup::CgroupError;
use crate::error::At;
use crate::record::{HOME_DIRECTORY, HOME_IN_JAIL, Launch, ROOT_DIRECTORY, Root, SCRATCH_IN_JAIL};
use crate::{FileError, Isolation};
use accounts::AccountError;
use mounts::{bind_at, tmpfs};
use place::{Base, JailPlace, PlaceKind};

/// Limits of the tmpfs that contains the root: mount points and the generated files.
const ROOT_OPTIONS: &str = "mode=755,size=1m,nr_inodes=4096";

/// The flags of all mounts where a task can create files.
const NOSUID_NODEV: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV);
/// Limits of the tmpfs with the names of an image's layers, each of which may take a page.
const NAMES_OPTIONS: &str = "mode=755,size=4m,nr_inodes=4096";
/// Limits of the tmpfs at an image's `/sys`, with the cgroup's mount points.
const SYS_OPTIONS: &str = "mode=755,size=64k,nr_inodes=256";

/// What a machine, and no image, is to blame for when a mount point cannot be made. A path that is resolved
/// below a root is to be tried again if something was renamed meanwhile (EAGAIN).
const OF_MACHINE: [i32; 8] = [
    libc::ENOSPC,
    libc::EDQUOT,
    libc::EIO,
    libc::ENOMEM,
    libc::EMFILE,
    libc::ENFILE,
    libc::EAGAIN,
    libc::EINTR,
];

/// A jail could not be built.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JailError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    #[error("the jail cannot have a mount point at {}: {source}", target.display())]
    MountPoint { target: PathBuf, source: io::Error },
    #[error(
        "the task cannot have a file at {}: {source}; a system directory of the machine takes no new files: \
         choose another path, such as one in /etc, /opt or /home/task, or run the job in an image",
        target.display()
    )]
    NoPlace { target: PathBuf, source: io::Error },
    #[error("the jail cannot have its own {}: {source}", target.display())]
    NotReplaced { target: PathBuf, source: io::Error },
    #[error(transparent)]
    Account(#[from] AccountError),
    #[error(
        "the layer {} of the task's image is not a directory: unpack the image again",
        path.display()
    )]
    NoLayer { path: PathBuf },
    #[error("the volume {} cannot be used: {why}", path.display())]
    Volume { path: PathBuf, why: String },
    #[error(
        "the layers of the task's image cannot be mounted as its root below {}: {source}; that needs \
         overlayfs (`modprobe overlay`), and a directory of tasks on ext4, xfs or btrfs",
        dir.display()
    )]
    Overlay { dir: PathBuf, source: io::Error },
}

impl JailError {
    /// Whether the task's image or description is the reason, so that every machine would say the same.
    pub(crate) fn is_of_task(&self, root: &Root) -> bool {
        let of_machine =
            |source: &io::Error| source.raw_os_error().is_some_and(|is| OF_MACHINE.contains(&is));
        match self {
            Self::Account(_) => true,
            Self::NoPlace { source, .. } => !of_machine(source),
            Self::MountPoint { source, .. } | Self::NotReplaced { source, .. } => {
                matches!(root, Root::Image(_)) && !of_machine(source)
            }
            _ => false,
        }
    }
}

/// Moves this process, which must be alone in a new mount namespace, into the jail of the task in
/// `dir`; its working directory is then the task's.
///
/// Returns missing optional features as text for the shim's log.
pub(crate) fn build(launch: &Launch, dir: &Path) -> Result<Vec<String>, JailError> {
    // Nothing that happens here may propagate to the host's mounts.
    mounts::change("/", MsFlags::MS_REC | MsFlags::MS_PRIVATE)?;
    // A directory of the host must carry the new root until the switch.
    let at = dir.join(ROOT_DIRECTORY);
    make_dir(&at)?;
    let options = match launch.jail.root {
        Root::HostSystem => ROOT_OPTIONS,
        Root::Image(_) => NAMES_OPTIONS,
    };
    tmpfs(&at, options, NOSUID_NODEV)?;
    let (base, mut remarks) = match &launch.jail.root {
        Root::HostSystem => {
            let base = host_system(launch, &at)?;
            show_own(&base, launch)?;
            (base, Vec::new())
        }
        Root::Image(image) => {
            let mounted = image::mount(image, launch, dir, &at)?;
            let base = Base::open(&at, mounted.root)?;
            show_own(&base, launch)?;
            // Afterwards: the image's /etc may be a link to where something is mounted.
            etc::fill_image(&base, launch, mounted.user)?;
            (base, mounted.remark.into_iter().collect())
        }
    };
    let is_image = matches!(launch.jail.root, Root::Image(_));
    show_binds(&base, launch, dir)?;
    volumes::show(&base, launch)?;
    program::show(&launch.jail.bourg_executable, &base)?;
    match launch.jail.root {
        Root::HostSystem => program::prepare_links(&base)?,
        Root::Image(_) => program::link_into_image(&base)?,
    }
    let owner = (launch.isolation == Isolation::Jail).then_some((launch.uid, launch.gid));
    base.directory_of(launch.starts_in(), owner)?;

    enter(base.root(), &at)?;
    drop(base);
    let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
    if !is_image {
        remarks.extend(program::link_into_path());
        mounts::change("/", read_only | NOSUID_NODEV)?;
    }
    if launch.isolation == Isolation::Rootless {
        // Rootless, the task's user owns that directory; with root it does not.
        mounts::change("/dev", read_only | MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC)?;
    }
    enter_working_directory(launch)?;
    Ok(remarks)
}

/// Fills a new root with the system directories of the host.
fn host_system(launch: &Launch, at: &Path) -> Result<Base, JailError> {
    let base = Base::open(at, None)?;
    for directory in &launch.jail.system_dirs {
        show_read_only(Path::new(directory), &base, Path::new(directory))?;
    }
    etc::fill(&base, launch)?;
    Ok(base)
}

/// Mounts `/proc`, `/dev`, `/sys` and `/tmp`, which every task has of its own.
fn show_own(base: &Base, launch: &Launch) -> Result<(), JailError> {
    for name in ["proc", "dev", "sys"] {
        base.make_own(name)?;
    }
    mount_at(base, "proc", mounts::proc)?;
    let dev = mount_at(base, "dev", dev::mount)?;
    dev.with(|dev| dev::fill(dev, launch.tmp_bytes_max))?;
    let sys = match launch.jail.root {
        Root::HostSystem => None,
        Root::Image(_) => Some(mount_at(base, "sys", |sys| tmpfs(sys, SYS_OPTIONS, NOSUID_NODEV))?),
    };
    base.directory("sys/fs/cgroup")?.with(|top| cgroup::show(launch, top))?;
    if let Some(sys) = sys {
        mounts::make_read_only(sys.file()).at("make read-only", "/sys")?;
    }
    let options = format!("mode=1777,size={}", tmp_bytes(launch.tmp_bytes_max));
    let tmp = mount_at(base, "tmp", |tmp| tmpfs(tmp, &options, NOSUID_NODEV))?;
    show_var_tmp(base, &tmp)?;
    if let Some(bytes_max) = launch.scratch_bytes_max {
        let options = format!("mode=1777,size={}", tmp_bytes(bytes_max));
        mount_at(base, SCRATCH_IN_JAIL, |scratch| tmpfs(scratch, &options, NOSUID_NODEV))?;
    }
    Ok(())
}

/// Binds the task's directory, and what it has been given.
fn show_binds(base: &Base, launch: &Launch, dir: &Path) -> Result<(), JailError> {
    let home = base.mount_point(HOME_IN_JAIL, PlaceKind::Directory)?;
    home.with(|home| bind_at(&dir.join(HOME_DIRECTORY), home, true))?;
    for extra in &launch.jail.binds {
        let place = base.mount_point(&extra.target, kind_of(&extra.source)?);
        let place = place.map_err(|error| match (error, &launch.jail.root) {
            (JailError::MountPoint { target, source }, Root::HostSystem) => {
                JailError::NoPlace { target, source }
            }
            (error, _) => error,
        })?;
        place.with(|target| bind_at(&extra.source, target, extra.writable))?;
    }
    Ok(())
}

/// Mounts something on a directory; returns the directory that is there then.
fn mount_at(
    base: &Base,
    name: &str,
    mount: impl FnOnce(&Path) -> Result<(), FileError>,
) -> Result<JailPlace, JailError> {
    base.mount_point(name, PlaceKind::Directory)?.with(mount)?;
    base.directory(name)
}

/// Makes `root`, which is mounted at `at`, the root and unmounts the old one.
fn enter(root: impl AsFd, at: &Path) -> Result<(), FileError> {
    fchdir(root).at("enter", at)?;
    // Both paths are the same: the old root ends up mounted over the new one, so no directory is
    // needed for it.
    pivot_root(".", ".").at("pivot into", at)?;
    umount2(".", MntFlags::MNT_DETACH).at("leave the old root of", at)?;
    chdir("/").at("enter", "/")
}

/// Makes the task's working directory this process's. The jail must be its root.
///
/// The task may have replaced it by a link: which must not lead to what this process has open.
pub(crate) fn enter_working_directory(launch: &Launch) -> Result<(), FileError> {
    let path = launch.starts_in();
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let root = open("/", flags, Mode::empty()).at("open", "/")?;
    let directory = place::resolve_in(root.as_fd(), relative(path), flags).at("enter", path)?;
    fchdir(directory).at("enter", path)
}

/// A tmpfs of size 0 would be unlimited.
fn tmp_bytes(bytes_max: u64) -> u64 {
    bytes_max.max(4096)
}

fn relative(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

fn kind_of(source: &Path) -> Result<PlaceKind, FileError> {
    let found = fs::metadata(source).at("look at", source)?;
    Ok(if found.is_dir() { PlaceKind::Directory } else { PlaceKind::File })
}

/// Binds `source` of the host at `name` in the jail, read-only: a link is recreated, a missing path
/// is skipped.
fn show_read_only(source: &Path, base: &Base, name: &Path) -> Result<(), JailError> {
    let kind = match fs::symlink_metadata(source) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(FileError::new("look at", source, error).into()),
    };
    if kind.is_symlink() {
        let leads_to = fs::read_link(source).at("read link", source)?;
        let parent = base.directory(name.parent().unwrap_or(name))?;
        return parent.link(name.file_name().unwrap_or_default(), &leads_to);
    }
    let place = base.mount_point(name, kind_of(source)?)?;
    place.with(|target| bind_at(source, target, false))
}

/// `/var/tmp` is the same as `/tmp`, if it can be.
fn show_var_tmp(base: &Base, tmp: &JailPlace) -> Result<(), JailError> {
    match base.mount_point("var/tmp", PlaceKind::Directory) {
        // An image may have a link there.
        Ok(place) if place.is(tmp) => Ok(()),
        Ok(place) => place.with(|target| bind_at(tmp.path(), target, true)),
        Err(JailError::MountPoint { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn make_dir(path: &Path) -> Result<(), FileError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result.at("create directory", path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ImageRoot;

    #[test]
    fn what_every_machine_would_say_is_of_the_task() {
        let image = Root::Image(ImageRoot { layers: Vec::new(), user: String::new() });
        let failed = |number| JailError::MountPoint {
            target: PathBuf::from("/etc"),
            source: io::Error::from_raw_os_error(number),
        };
        let at = |number| JailError::NoPlace {
            target: PathBuf::from("/usr/lib/a"),
            source: io::Error::from_raw_os_error(number),
        };
        for (number, is_of_task) in [
            (libc::EROFS, true),
            (libc::ENOTDIR, true),
            (libc::EISDIR, true),
            (libc::ENOSPC, false),
        ] {
            assert_eq!(at(number).is_of_task(&Root::HostSystem), is_of_task, "{number}");
        }
        for (number, is_of_task) in [
            (libc::ENOTDIR, true),
            (libc::ELOOP, true),
            (libc::ENOSPC, false),
            (libc::EAGAIN, false),
            (libc::EINTR, false),
        ] {
            assert_eq!(failed(number).is_of_task(&image), is_of_task, "{number}");
            assert!(!failed(number).is_of_task(&Root::HostSystem), "{number}");
        }
    }
}
