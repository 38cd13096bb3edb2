//! Volumes: an exclusive one has at most one holder, no two of a machine overlap, and a placed task
//! that asks for volumes is on the machine of its claim.

use super::{Violation, Violations};
use crate::bounds::{VOLUME_CLAIMS_MAX, VOLUME_LABELS_MAX, VOLUMES_OF_A_MACHINE_MAX};
use crate::{Cell, TaskState, VolumeAsk};
use model::{TaskId, VolumeContent, VolumeSharing};

impl Cell {
    pub(super) fn check_volumes(&self, found: &mut Violations) {
        for machine in self.machines.iter() {
            found.at_most("volumes of a machine", machine.volumes.len(), VOLUMES_OF_A_MACHINE_MAX);
            for (name, volume) in machine.volumes.iter() {
                let mut wrong = |why| {
                    let (machine, volume) = (machine.name.clone(), name.clone());
                    found.add(Violation::Volume { machine, volume, why });
                };
                if *name != volume.described.name {
                    wrong("is under another name");
                }
                let path = &volume.described.path;
                let mut others = machine.volumes.values().filter(|it| it.described.name != *name);
                if others.any(|other| other.described.path.overlaps(path)) {
                    wrong("overlaps another");
                }
                if volume.described.sharing == VolumeSharing::Exclusive && volume.claims.len() > 1 {
                    wrong("is exclusive, and several tasks claim it");
                }
                if volume.described.sharing != VolumeSharing::AllUsers
                    && volume.claims.iter().any(|it| Some(&it.user) != volume.data_of.as_ref())
                {
                    wrong("is claimed by another user than has data in it");
                }
                let is_marked = volume.content == VolumeContent::Known;
                if volume.first.is_none() && (is_marked || !volume.claims.is_empty()) {
                    wrong("is claimed or known, and its mark names no task");
                }
                if !volume.claims.is_sorted() {
                    wrong("has claims out of order");
                }
                found.at_most("claims of a volume", volume.claims.len(), VOLUME_CLAIMS_MAX);
                let labels = volume.described.labels.len();
                found.at_most("labels of a volume", labels, VOLUME_LABELS_MAX);
            }
            for instance in machine.instances() {
                let Some(job) = self.jobs.get(instance.collection) else { continue };
                let Some(ask) = VolumeAsk::of(job, instance.index) else { continue };
                let TaskId { collection, index } = instance.task();
                let bound = ask.bound.as_ref();
                if bound.is_none_or(|bound| bound.machine != machine.name) {
                    let why = format!(
                        "task {index} of job {collection} asks for volumes and claims none there"
                    );
                    let (instance, machine) = (*instance, machine.id);
                    found.add(Violation::Misplaced { instance, machine, why });
                }
            }
        }
        if self.derived_claims() != self.claims {
            found.add(Violation::ClaimIndex);
        }
        for job in self.jobs.iter() {
            let pending =
                job.tasks().any(|(_, task)| !matches!(task.state, TaskState::Dead { .. }));
            let known = self.claims_of_jobs(&job.owner, &job.spec.name);
            if pending && job.claims != known {
                found.add(Violation::ClaimIndex);
            }
        }
    }
}
