//! Volumes of machines, and what tasks ask and claim of them: `job.proto`.

use std::sync::Arc;

use model::{
    Bytes, MachineVolume, TaskIndex, VolumeClaim, VolumeFill, VolumeMark, VolumeMount,
    VolumeSharing,
};
use poll::VolumeDirectory;
use spec::{VolumeRequest, VolumeSelector};

use crate::duration::duration;
use crate::error::{Fault, Malformed};
use crate::{read, v1};

impl From<&VolumeRequest> for v1::VolumeRequest {
    fn from(request: &VolumeRequest) -> Self {
        let (volume, labels) = match &request.of {
            VolumeSelector::Named(name) => (Some(name.to_string()), Default::default()),
            VolumeSelector::Labelled(labels) => (None, labels.clone()),
        };
        Self {
            volume,
            labels,
            path: request.path.to_string(),
            read_only: request.read_only,
            elsewhere_after: request.elsewhere_after.map(duration),
        }
    }
}

impl TryFrom<v1::VolumeRequest> for VolumeRequest {
    type Error = Malformed;

    fn try_from(request: v1::VolumeRequest) -> Result<Self, Malformed> {
        let of = match (request.volume, request.labels.is_empty()) {
            (None, _) => VolumeSelector::Labelled(request.labels),
            (Some(name), true) => VolumeSelector::Named(read::name(&name, "volume")?),
            _ => return Err(Fault::Contradiction("of volume and labels give one").into()),
        };
        let after = request.elsewhere_after;
        let after = after.map(|after| read::span(Some(after), "elsewhereAfter")).transpose()?;
        Ok(Self {
            of,
            path: read::name(&request.path, "path")?,
            read_only: request.read_only,
            elsewhere_after: after,
        })
    }
}

impl From<&MachineVolume> for v1::MachineVolume {
    fn from(volume: &MachineVolume) -> Self {
        Self {
            name: volume.name.to_string(),
            path: volume.path.to_string(),
            size_bytes: volume.size.map_or(0, |size| size.0),
            labels: volume.labels.clone(),
            sharing: volume.sharing.to_string(),
        }
    }
}

impl TryFrom<v1::MachineVolume> for MachineVolume {
    type Error = Malformed;

    fn try_from(volume: v1::MachineVolume) -> Result<Self, Malformed> {
        Ok(Self {
            name: read::name(&volume.name, "name")?,
            path: read::name(&volume.path, "path")?,
            size: (volume.size_bytes > 0).then_some(Bytes(volume.size_bytes)),
            labels: volume.labels,
            sharing: match volume.sharing.as_str() {
                "" => VolumeSharing::default(),
                word => read::name(word, "sharing")?,
            },
        })
    }
}

/// A volume that is shared in memory.
///
/// # Errors
/// If it is missing or malformed.
pub fn shared(
    volume: Option<v1::MachineVolume>,
    field: &str,
) -> Result<Arc<MachineVolume>, Malformed> {
    read::message(volume, field).map(Arc::new)
}

impl From<&VolumeFill> for v1::VolumeFill {
    fn from(fill: &VolumeFill) -> Self {
        Self {
            volume: fill.volume.to_string(),
            used_bytes: fill.used.0,
            size_bytes: fill.size.0,
            is_part: fill.is_part,
            fault: fill.fault.map(|fault| fault.name().to_owned()).unwrap_or_default(),
        }
    }
}

impl From<&VolumeDirectory> for v1::VolumeDirectory {
    fn from(directory: &VolumeDirectory) -> Self {
        Self { volume: directory.volume.to_string(), path: directory.path.to_string() }
    }
}

impl TryFrom<v1::VolumeDirectory> for VolumeDirectory {
    type Error = Malformed;

    fn try_from(directory: v1::VolumeDirectory) -> Result<Self, Malformed> {
        Ok(Self {
            volume: read::name(&directory.volume, "volume")?,
            path: read::name(&directory.path, "path")?,
        })
    }
}

impl TryFrom<v1::VolumeFill> for VolumeFill {
    type Error = Malformed;

    fn try_from(fill: v1::VolumeFill) -> Result<Self, Malformed> {
        Ok(Self {
            volume: read::name(&fill.volume, "volume")?,
            used: Bytes(fill.used_bytes),
            size: Bytes(fill.size_bytes),
            is_part: fill.is_part,
            fault: match fill.fault.as_str() {
                "" => None,
                word => Some(read::name(word, "fault")?),
            },
        })
    }
}

impl From<&VolumeClaim> for v1::VolumeClaim {
    fn from(claim: &VolumeClaim) -> Self {
        Self {
            user: claim.user.to_string(),
            job: claim.job.to_string(),
            index: claim.index.0,
            at: claim.at.to_string(),
        }
    }
}

impl TryFrom<v1::VolumeClaim> for VolumeClaim {
    type Error = Malformed;

    fn try_from(claim: v1::VolumeClaim) -> Result<Self, Malformed> {
        Ok(Self {
            user: read::name(&claim.user, "user")?,
            job: read::name(&claim.job, "job")?,
            index: TaskIndex(claim.index),
            at: read::name(&claim.at, "at")?,
        })
    }
}

impl From<&VolumeMount> for v1::VolumeMount {
    fn from(mount: &VolumeMount) -> Self {
        Self {
            name: mount.name.to_string(),
            source: mount.source.to_string(),
            target: mount.target.to_string(),
            read_only: mount.read_only,
            shared: !mount.exclusive,
            marked_first: Some(mount.mark.first.into()),
            marked_owner: mount.mark.owner.as_ref().map(ToString::to_string).unwrap_or_default(),
            content: mount.mark.content.to_string(),
        }
    }
}

impl TryFrom<v1::VolumeMount> for VolumeMount {
    type Error = Malformed;

    fn try_from(mount: v1::VolumeMount) -> Result<Self, Malformed> {
        Ok(Self {
            name: read::name(&mount.name, "name")?,
            source: read::name(&mount.source, "source")?,
            target: read::name(&mount.target, "target")?,
            read_only: mount.read_only,
            exclusive: !mount.shared,
            mark: VolumeMark {
                first: read::required(mount.marked_first, "markedFirst")?.into(),
                owner: read::optional_name(&mount.marked_owner, "markedOwner")?,
                content: read::name(&mount.content, "content")?,
            },
        })
    }
}
