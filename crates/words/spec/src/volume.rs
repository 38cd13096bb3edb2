//! The volumes of machines that a task asks for.

use std::fmt;

use model::{ClaimedVolumes, Labels, MachineVolume, MountPath, Span, VolumeName};

/// Where a task finds its directory in memory, if its job asks for one.
pub const SCRATCH_DIRECTORY: &str = "/scratch";

/// A volume that each task of a job asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeRequest {
    /// Which volume.
    pub of: VolumeSelector,
    /// Where the task finds it.
    pub path: MountPath,
    /// Whether the task may only read it.
    pub read_only: bool,
    /// How long a task waits for the machine of its volume before it goes elsewhere, without its data;
    /// `None`: for ever.
    pub elsewhere_after: Option<Span>,
}

/// Which volumes of machines suit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VolumeSelector {
    /// That of this name.
    Named(VolumeName),
    /// Those with these labels: at least one.
    Labelled(Labels),
}

impl VolumeSelector {
    /// Whether a volume suits.
    #[must_use]
    pub fn matches(&self, volume: &MachineVolume) -> bool {
        match self {
            Self::Named(name) => *name == volume.name,
            Self::Labelled(labels) => {
                labels.iter().all(|(key, value)| volume.labels.get(key) == Some(value))
            }
        }
    }
}

/// `data`, `with ssd=yes, zone=a`.
impl fmt::Display for VolumeSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => write!(f, "{name}"),
            Self::Labelled(labels) => {
                let terms: Vec<_> =
                    labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
                write!(f, "with {}", terms.join(", ").escape_debug())
            }
        }
    }
}

/// `data at /data`.
impl fmt::Display for VolumeRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let read_only = if self.read_only { ", read-only" } else { "" };
        write!(f, "{} at {}{read_only}", self.of, self.path)?;
        match self.elsewhere_after {
            Some(after) => write!(f, ", elsewhere after {after}"),
            None => Ok(()),
        }
    }
}

impl VolumeRequest {
    /// The volume that a task has for this request, if it has one.
    #[must_use]
    pub fn claimed<'a>(&self, claimed: &'a ClaimedVolumes) -> Option<&'a VolumeName> {
        let (_, name) = claimed.volumes.iter().find(|(at, _)| *at == self.path)?;
        match &self.of {
            VolumeSelector::Named(asked) if asked != name => None,
            _ => Some(name),
        }
    }
}
