//! The volumes of a job's tasks.

use model::{MountPath, Span, VolumeName};
use thiserror::Error;

use super::Problems;
use crate::path::Location;
use crate::{JobSpec, VolumeSelector, limits};

/// Why a task cannot have a volume as its job asks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum VolumeProblem {
    /// Its place is at or below that of another.
    #[error(
        "is at or below {other}, where the task has another volume: give each a place of its own"
    )]
    Below {
        /// The other place.
        other: MountPath,
    },
    /// The task runs in an alloc.
    #[error("are not possible in an alloc: leave out allocSet")]
    InAlloc,
    /// A file is at or below its place, or the reverse.
    #[error("is at, above or below {path}, where the job has a file: the volume would hide it")]
    HidesFile {
        /// The path of the file.
        path: String,
    },
    /// The job asks for that volume already.
    #[error("{name} is named twice: a task has a volume once, at one path")]
    Twice {
        /// Its name.
        name: VolumeName,
    },
    /// It is asked for by no label.
    #[error("is empty: name a label, such as {{ ssd: 'yes' }}")]
    NoLabel,
}

impl Problems {
    pub(super) fn volumes(&mut self, job: &JobSpec) {
        let (top, all) = (Location::TOP, &job.task.volumes);
        let volumes = top.field("volumes");
        self.count(&volumes, all.len(), limits::VOLUMES_MAX, "volumes");
        if job.kind.alloc_set().is_some() && !all.is_empty() {
            self.add(&volumes, VolumeProblem::InAlloc.into());
        }
        for (position, request) in all.iter().enumerate() {
            let at = volumes.element(position);
            if let VolumeSelector::Labelled(labels) = &request.of {
                let place = at.field("labels");
                self.labels(&place, labels);
                if labels.is_empty() {
                    self.add(&place, VolumeProblem::NoLabel.into());
                }
            }
            if let VolumeSelector::Named(name) = &request.of
                && all.iter().take(position).any(|other| other.of == request.of)
            {
                let name = name.clone();
                self.add(&at.field("volume"), VolumeProblem::Twice { name }.into());
            }
            if let Some(after) = request.elsewhere_after {
                let most = Span::from_secs(limits::VOLUME_WAIT_SECONDS_MAX);
                self.span(&at.field("elsewhereAfter"), after, Span::from_secs(1), most);
            }
            let mut files = job.task.files.keys().chain(job.task.secrets.keys());
            if let Some(path) = files.find(|path| request.path.meets(path)) {
                let path = path.clone();
                self.add(&at.field("path"), VolumeProblem::HidesFile { path }.into());
            }
            let mut earlier = all.iter().take(position);
            if let Some(other) = earlier.find(|other| other.path.overlaps(&request.path)) {
                let other = other.path.clone();
                self.add(&at.field("path"), VolumeProblem::Below { other }.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::testing::job;
    use crate::{Kind, VolumeRequest};

    fn request(name: &str, path: &str) -> VolumeRequest {
        VolumeRequest {
            of: VolumeSelector::Named(name.parse().expect("a name")),
            path: path.parse().expect("a path"),
            read_only: false,
            elsewhere_after: None,
        }
    }

    fn problems(volumes: Vec<VolumeRequest>, change: impl FnOnce(&mut JobSpec)) -> Vec<String> {
        let mut job = job();
        job.task.volumes = volumes;
        change(&mut job);
        job.problems().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_volume_has_a_place_of_its_own() {
        let (data, logs) = (request("data", "/data"), request("logs", "/logs"));
        assert_eq!(problems(vec![data.clone(), logs], |_| {}), [""; 0]);
        assert_eq!(
            problems(vec![data.clone(), request("more", "/data/more")], |_| {}),
            [
                "volumes[1].path: is at or below /data, where the task has another volume: give each \
                 a place of its own"
            ]
        );
        assert_eq!(
            problems(vec![data.clone(), request("data", "/again")], |_| {}),
            ["volumes[1].volume: data is named twice: a task has a volume once, at one path"]
        );
        let many = (0..17)
            .map(|number| request(&format!("data-{number}"), &format!("/data-{number}")))
            .collect();
        assert_eq!(problems(many, |_| {}), ["volumes: has 17 volumes, at most 16 are allowed"]);
        let unlabelled =
            VolumeRequest { of: VolumeSelector::Labelled(BTreeMap::new()), ..data.clone() };
        assert_eq!(
            problems(vec![unlabelled], |_| {}),
            ["volumes[0].labels: is empty: name a label, such as { ssd: 'yes' }"]
        );
        let early = VolumeRequest { elsewhere_after: Some(Span::ZERO), ..data.clone() };
        assert_eq!(
            problems(vec![early], |_| {}),
            ["volumes[0].elsewhereAfter: must be 1 s to 365 d, is 0 s"]
        );
        let with_secret = |path: &'static str| {
            move |job: &mut JobSpec| {
                job.task.secrets = [(path.to_owned(), "key".parse().expect("a name"))].into();
            }
        };
        for path in ["/data", "/data/key"] {
            assert_eq!(
                problems(vec![data.clone()], with_secret(path)),
                [format!(
                    "volumes[0].path: is at, above or below {path}, where the job has a file: the \
                     volume would hide it"
                )]
            );
        }
        assert_eq!(problems(vec![data.clone()], with_secret("/database")), [""; 0]);
        let in_alloc = |job: &mut JobSpec| {
            job.kind = Kind::Job { alloc_set: Some("room".parse().expect("a reference")) };
        };
        assert_eq!(
            problems(vec![data], in_alloc),
            ["volumes: are not possible in an alloc: leave out allocSet"]
        );
    }
}
