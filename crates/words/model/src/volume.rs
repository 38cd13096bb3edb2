//! Volumes: directories of machines that outlive tasks, and who claims them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

use crate::{Bytes, InstanceId, JobName, Labels, MachineName, TaskIndex, UserName, VolumeName};

/// Maximum length of the path of a volume, on its machine or in a task, in bytes.
pub const VOLUME_PATH_BYTES_MAX: usize = 512;

/// Directories of a machine that are no volumes, with all that is below them.
const OF_SYSTEM: [&str; 12] = [
    "/proc", "/sys", "/dev", "/run", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64",
    "/boot",
];
/// Directories of a task where no volume can be, with all that is below them.
const OF_TASK: [&str; 13] = [
    "/proc",
    "/sys",
    "/dev",
    "/run",
    "/etc",
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/tmp",
    "/packages",
];

/// The directory of a volume on its machine: absolute, without `.` and `..`, and not the system's.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumePath(Arc<str>);

/// Where a task finds a volume: absolute, without `.` and `..`, and not where every task has something
/// of the system.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MountPath(Arc<str>);

/// The text is not the path of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum VolumePathError {
    /// It is relative, or has `.`, `..`, an empty component or a control character.
    #[error(
        "'{}' is not the path of a volume: write an absolute one without '.' and '..', such as {example}",
        .text.escape_debug()
    )]
    NotNormal {
        /// The text.
        text: String,
        /// A path of the kind.
        example: &'static str,
    },
    /// It is longer than [`VOLUME_PATH_BYTES_MAX`].
    #[error("the path of a volume has at most {VOLUME_PATH_BYTES_MAX} bytes, this one has {0}")]
    TooLong(usize),
    /// It is a directory of the system.
    #[error(
        "{text} is a directory of the system, and no volume: choose another, such as {example}"
    )]
    OfSystem {
        /// The text.
        text: String,
        /// A path of the kind.
        example: &'static str,
    },
}

/// Directories of a task that are no volume, and below which one can be.
const ABOVE_VOLUMES: [&str; 5] = ["/home", "/home/task", "/var", "/root", "/alloc"];

fn checked(
    text: &str,
    system: &[&str],
    exactly: &[&str],
    example: &'static str,
) -> Result<Arc<str>, VolumePathError> {
    if text.len() > VOLUME_PATH_BYTES_MAX {
        return Err(VolumePathError::TooLong(text.len()));
    }
    let plain = |part: &str| {
        !part.is_empty() && part != "." && part != ".." && !part.chars().any(char::is_control)
    };
    let text = text.to_owned();
    match text.strip_prefix('/') {
        Some("") => Err(VolumePathError::OfSystem { text, example }),
        Some(rest) if rest.split('/').all(plain) => {
            let is_system = exactly.contains(&&*text);
            match is_system || system.iter().any(|other| is_within(&text, other)) {
                true => Err(VolumePathError::OfSystem { text, example }),
                false => Ok(text.into()),
            }
        }
        _ => Err(VolumePathError::NotNormal { text, example }),
    }
}

/// Whether a path is another or below it.
fn is_within(path: &str, other: &str) -> bool {
    path.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

macro_rules! path {
    ($name:ident, $system:expr, $exactly:expr, $example:literal) => {
        impl $name {
            /// The path as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Whether one of both is the other or below it.
            #[must_use]
            pub fn overlaps(&self, other: &Self) -> bool {
                self.meets(&other.0)
            }

            /// The same of an absolute path without `.` and `..`.
            #[must_use]
            pub fn meets(&self, path: &str) -> bool {
                is_within(&self.0, path) || is_within(path, &self.0)
            }
        }

        impl FromStr for $name {
            type Err = VolumePathError;

            fn from_str(text: &str) -> Result<Self, VolumePathError> {
                checked(text, $system, $exactly, $example).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }
    };
}

path!(VolumePath, &OF_SYSTEM, &[], "/srv/data");
path!(MountPath, &OF_TASK, &ABOVE_VOLUMES, "/data");

/// Whose tasks may have a volume at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VolumeSharing {
    /// One task.
    #[default]
    Exclusive,
    /// Any number of tasks of one user.
    OneUser,
    /// Any number of tasks of all users.
    AllUsers,
}

impl VolumeSharing {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Exclusive, Self::OneUser, Self::AllUsers];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::OneUser => "user",
            Self::AllUsers => "all",
        }
    }
}

/// Not a way to share a volume.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{}' is not a way to share a volume: use exclusive, user or all", .0.escape_debug())]
pub struct NoSuchSharing(String);

impl FromStr for VolumeSharing {
    type Err = NoSuchSharing;

    fn from_str(text: &str) -> Result<Self, NoSuchSharing> {
        let found = Self::ALL.into_iter().find(|sharing| sharing.name() == text);
        found.ok_or_else(|| NoSuchSharing(text.to_owned()))
    }
}

impl fmt::Display for VolumeSharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A directory of a machine, as its operator describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineVolume {
    /// Its name, unique on its machine.
    pub name: VolumeName,
    /// The directory.
    pub path: VolumePath,
    /// How large it may become, for display: nothing enforces it. `None`: not said.
    pub size: Option<Bytes>,
    /// Labels, by which jobs can ask for it.
    pub labels: Labels,
    /// Whose tasks may have it at the same time.
    pub sharing: VolumeSharing,
}

/// Why tasks cannot have the directory of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VolumeFault {
    /// There is nothing at its path.
    Missing,
    /// It is a file, or something else that is no directory.
    NotADirectory,
    /// Its machine's Borglet cannot look at it.
    Inaccessible,
    /// Nothing can be written there, so only tasks that ask for it `readOnly` can have it.
    ReadOnly,
}

impl VolumeFault {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Missing, Self::NotADirectory, Self::Inaccessible, Self::ReadOnly];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::NotADirectory => "not a directory",
            Self::Inaccessible => "inaccessible",
            Self::ReadOnly => "read-only",
        }
    }

    /// Whether a task cannot have it that only reads it, or also writes.
    #[must_use]
    pub fn hinders(self, read_only: bool) -> bool {
        !(read_only && self == Self::ReadOnly)
    }
}

/// Not a word for what is wrong with a volume's directory.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "'{}' is not a fault of a volume's directory: it is missing, not a directory, inaccessible or read-only",
    .0.escape_debug()
)]
pub struct NoSuchFault(String);

impl FromStr for VolumeFault {
    type Err = NoSuchFault;

    fn from_str(text: &str) -> Result<Self, NoSuchFault> {
        let found = Self::ALL.into_iter().find(|fault| fault.name() == text);
        found.ok_or_else(|| NoSuchFault(text.to_owned()))
    }
}

impl fmt::Display for VolumeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How full the file system of a volume's directory is, as its machine measures it from time to time; and whether tasks
/// can have that directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeFill {
    /// The volume.
    pub volume: VolumeName,
    /// What is in use.
    pub used: Bytes,
    /// The size of the file system.
    pub size: Bytes,
    /// Whether the volume is a part of it: then the rest counts, too.
    pub is_part: bool,
    /// Why tasks cannot have it. What is not there has no size.
    pub fault: Option<VolumeFault>,
}

impl VolumeFill {
    /// Whether it differs so much from an earlier measurement that it is worth a report: by a fiftieth
    /// of the size.
    #[must_use]
    pub fn differs(&self, before: &Self) -> bool {
        let same = |of: &Self| (of.volume.clone(), of.size, of.is_part, of.fault);
        let change = self.used.0.abs_diff(before.used.0);
        same(self) != same(before) || change > 0 && change >= self.size.0 / 50
    }
}

/// A task that has a volume, or had it and comes back to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeClaim {
    /// The owner of its job.
    pub user: UserName,
    /// The name of its job. A later job of the same name has the claim too.
    pub job: JobName,
    /// Its index.
    pub index: TaskIndex,
    /// Where it finds the volume.
    pub at: MountPath,
}

/// `ana/db/0`.
impl fmt::Display for VolumeClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.user, self.job, self.index)
    }
}

/// The machine on which a task has its volumes, and which.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimedVolumes {
    /// The machine's name.
    pub machine: MachineName,
    /// The volumes, by where the task finds them.
    pub volumes: Vec<(MountPath, VolumeName)>,
}

/// `volume data of m1`.
impl fmt::Display for ClaimedVolumes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.volumes.iter().map(|(_, name)| name.as_str()).collect();
        let s = if names.len() == 1 { "" } else { "s" };
        write!(f, "volume{s} {} of {}", names.join(", "), self.machine)
    }
}

/// A volume as a task on its machine gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeMount {
    /// Its name.
    pub name: VolumeName,
    /// Its directory on the machine.
    pub source: VolumePath,
    /// Where the task finds it.
    pub target: MountPath,
    /// Whether the task may only read it.
    pub read_only: bool,
    /// Whether no other task may have it at the same time.
    pub exclusive: bool,
    /// What its directory has to say of itself.
    pub mark: VolumeMark,
}

/// What is known of the directory of a volume before a task starts with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VolumeContent {
    /// Nothing: no task has run with it yet. Data of another user is not shown.
    #[default]
    Unknown,
    /// An administrator has said that tasks may have whatever is in it.
    Accepted,
    /// A task has run with it, so it has the mark: without it, it is another directory, such as that
    /// below a disk that is not mounted.
    Known,
}

impl VolumeContent {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Unknown, Self::Accepted, Self::Known];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Accepted => "accepted",
            Self::Known => "known",
        }
    }
}

/// Not a word for what is known of a volume's directory.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{}' is not known of a volume's directory: it is unknown, accepted or known", .0.escape_debug())]
pub struct NoSuchContent(String);

impl FromStr for VolumeContent {
    type Err = NoSuchContent;

    fn from_str(text: &str) -> Result<Self, NoSuchContent> {
        let found = Self::ALL.into_iter().find(|content| content.name() == text);
        found.ok_or_else(|| NoSuchContent(text.to_owned()))
    }
}

impl fmt::Display for VolumeContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The mark that a Borglet gives the directory of a volume, and looks for at each start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeMark {
    /// The task that was placed first since the volume has its data: unique in the cell.
    pub first: InstanceId,
    /// Whose data is in it; `None`: it is shared by all users.
    pub owner: Option<UserName>,
    /// What is known of the directory.
    pub content: VolumeContent,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_absolute_and_not_the_systems() {
        for good in ["/srv/data", "/mnt/ssd-1/pg", "/home/x", "/device"] {
            assert_eq!(good.parse::<VolumePath>().map(|path| path.to_string()), Ok(good.into()));
        }
        for bad in ["", "data", "/", "/srv//x", "/srv/", "/srv/../etc", "/srv/./x", "/a\nb"] {
            assert!(bad.parse::<VolumePath>().is_err(), "{bad}");
            assert!(bad.parse::<MountPath>().is_err(), "{bad}");
        }
        for of_system in ["/proc", "/sys/fs", "/dev/shm", "/etc", "/run/x"] {
            let error = of_system.parse::<VolumePath>().expect_err("of the system").to_string();
            assert_eq!(
                error,
                format!(
                    "{of_system} is a directory of the system, and no volume: choose another, such as \
                     /srv/data"
                )
            );
        }
        assert!("/tmp/x".parse::<MountPath>().is_err());
        for (path, is_place) in [("/home", false), ("/home/task/x", true), ("/var", false)] {
            assert_eq!(path.parse::<MountPath>().is_ok(), is_place, "{path}");
        }
        assert!("/var/lib/x".parse::<MountPath>().is_ok());
        assert!("/x/".repeat(300).parse::<MountPath>().is_err());
    }

    #[test]
    fn a_fiftieth_of_the_size_is_worth_a_report() {
        let fill = |used: u64, size: u64| VolumeFill {
            volume: "data".parse().expect("a name"),
            used: Bytes(used),
            size: Bytes(size),
            is_part: false,
            fault: None,
        };
        for (before, after, differs) in [
            ((100, 1_000), (100, 1_000), false),
            ((100, 1_000), (119, 1_000), false),
            ((100, 1_000), (120, 1_000), true),
            ((100, 1_000), (80, 1_000), true),
            ((100, 1_000), (100, 2_000), true),
            ((0, 0), (0, 0), false),
        ] {
            let [before, after] = [before, after].map(|(used, size)| fill(used, size));
            assert_eq!(after.differs(&before), differs, "{before:?} {after:?}");
        }
    }

    #[test]
    fn a_path_overlaps_those_below_it() {
        let path = |text: &str| text.parse::<VolumePath>().expect("a path");
        assert!(path("/srv/a").overlaps(&path("/srv/a")));
        assert!(path("/srv/a").overlaps(&path("/srv")) && path("/srv").overlaps(&path("/srv/a")));
        assert!(!path("/srv/a").overlaps(&path("/srv/ab")));
    }
}
