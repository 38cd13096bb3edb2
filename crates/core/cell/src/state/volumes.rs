//! Volumes of machines, with who claims them.
//!
//! A claim is of a task: owner, job and index. It begins when the task is first placed, and outlives
//! each of its incarnations and its job: so the next job of that name finds its data.

use std::sync::Arc;

use model::{
    ClaimedVolumes, InstanceId, JobName, MachineVolume, MountPath, TaskIndex, UserName,
    VolumeClaim, VolumeContent, VolumeFault, VolumeMark, VolumeName, VolumeSharing,
};
use spec::VolumeRequest;

use super::{Job, Machine};
use crate::bounds::{VOLUME_CLAIMS_MAX, VOLUME_CLAIMS_OF_A_USER_MAX};

/// A volume of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// As its operator describes it.
    pub described: Arc<MachineVolume>,
    /// Whose data is in it, since the first claim; tasks of no other user get it until an operator has
    /// released it, unless it is shared by all.
    pub data_of: Option<UserName>,
    /// The tasks that claim it, in order.
    pub claims: Vec<VolumeClaim>,
    /// The task with the first claim since it has its data: the mark of its directory names it.
    pub first: Option<InstanceId>,
    /// What is known of its directory.
    pub content: VolumeContent,
}

impl Volume {
    /// A volume that nobody has claimed.
    #[must_use]
    pub fn new(described: Arc<MachineVolume>) -> Self {
        let (data_of, claims, first) = (None, Vec::new(), None);
        Self { described, data_of, claims, first, content: VolumeContent::Unknown }
    }

    /// The mark that its directory has or gets; `None`: no task has claimed it.
    #[must_use]
    pub fn mark(&self) -> Option<VolumeMark> {
        let by_all = self.described.sharing == VolumeSharing::AllUsers;
        let owner = self.data_of.clone().filter(|_| !by_all);
        Some(VolumeMark { first: self.first?, owner, content: self.content })
    }
}

/// A task that asks for volumes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeAsk {
    /// The owner of its job.
    pub user: UserName,
    /// The name of its job.
    pub job: JobName,
    /// Its index.
    pub index: TaskIndex,
    /// What it asks for.
    pub requests: Vec<VolumeRequest>,
    /// The machine where its data is, and in which volumes: it is placed nowhere else.
    pub bound: Option<Arc<ClaimedVolumes>>,
}

/// Why a machine has no volume for a task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoVolume {
    /// None of its volumes is one that is asked for.
    Missing {
        /// What is asked for, as text.
        asked: String,
    },
    /// Another task claims it.
    Claimed {
        /// The volume.
        volume: VolumeName,
        /// That task.
        by: VolumeClaim,
    },
    /// It has data of another user.
    DataOf {
        /// The volume.
        volume: VolumeName,
        /// That user.
        user: UserName,
    },
    /// As many tasks claim it as may.
    Full {
        /// The volume.
        volume: VolumeName,
    },
    /// Tasks cannot have its directory, as the machine says.
    Faulty {
        /// The volume.
        volume: VolumeName,
        /// Why.
        fault: VolumeFault,
    },
    /// The data of the task is on another machine.
    Elsewhere {
        /// Where.
        bound: Arc<ClaimedVolumes>,
    },
}

impl VolumeAsk {
    /// What a task of a job asks for; `None` if it asks for no volume.
    #[must_use]
    pub fn of(job: &Job, index: TaskIndex) -> Option<Self> {
        let requests = &job.described(index).task.volumes;
        if requests.is_empty() {
            return None;
        }
        let bound = job
            .claims
            .get(&index)
            .filter(|claimed| requests.iter().any(|request| request.claimed(claimed).is_some()));
        Some(Self {
            user: job.owner.clone(),
            job: job.spec.name.clone(),
            index,
            requests: requests.clone(),
            bound: bound.cloned(),
        })
    }

    fn is(&self, claim: &VolumeClaim) -> bool {
        (&claim.user, &claim.job, claim.index) == (&self.user, &self.job, self.index)
    }

    /// The volumes of a machine that it gets there, one for each request.
    ///
    /// # Errors
    /// If there is none for one of them.
    pub fn find(&self, machine: &Machine) -> Result<Vec<(MountPath, VolumeName)>, NoVolume> {
        let bound = self.bound.as_ref();
        if let Some(bound) = bound.filter(|bound| bound.machine != machine.name) {
            return Err(NoVolume::Elsewhere { bound: Arc::clone(bound) });
        }
        let mut found: Vec<(MountPath, VolumeName)> = Vec::new();
        // Those that it has come first: nobody else takes them.
        for request in &self.requests {
            let had = bound.and_then(|bound| request.claimed(bound));
            if let Some(name) = had {
                usable(machine, name, request.read_only)?;
            }
            found.extend(had.map(|name| (request.path.clone(), name.clone())));
        }
        for request in &self.requests {
            if found.iter().any(|(at, _)| *at == request.path) {
                continue;
            }
            let mut why = NoVolume::Missing { asked: request.of.to_string() };
            let suits = |volume: &&Volume| request.of.matches(&volume.described);
            let mut chosen = None;
            for volume in machine.volumes.values().filter(suits) {
                let name = &volume.described.name;
                if found.iter().any(|(_, taken)| taken == name) {
                    continue;
                }
                let may = self.may_have(volume);
                match may.and_then(|()| usable(machine, name, request.read_only)) {
                    Ok(()) => {
                        chosen = Some(name.clone());
                        break;
                    }
                    Err(not) => why = not,
                }
            }
            found.push((request.path.clone(), chosen.ok_or(why)?));
        }
        Ok(found)
    }

    /// Whether its machine says of a volume in which its data is that no task can have it now.
    #[must_use]
    pub fn waits_for_volume(&self, machine: &Machine) -> bool {
        let Some(bound) = &self.bound else { return false };
        self.requests.iter().any(|request| {
            let had = request.claimed(bound);
            had.is_some_and(|name| usable(machine, name, request.read_only).is_err())
        })
    }

    fn may_have(&self, volume: &Volume) -> Result<(), NoVolume> {
        let name = || volume.described.name.clone();
        let of_user = volume.claims.iter().filter(|claim| claim.user == self.user).count();
        let shared_by_all = volume.described.sharing == VolumeSharing::AllUsers;
        if volume.claims.len() >= VOLUME_CLAIMS_MAX
            || shared_by_all && of_user >= VOLUME_CLAIMS_OF_A_USER_MAX
        {
            return Err(NoVolume::Full { volume: name() });
        }
        let other = volume.claims.iter().find(|claim| !self.is(claim));
        if let (VolumeSharing::Exclusive, Some(by)) = (volume.described.sharing, other) {
            return Err(NoVolume::Claimed { volume: name(), by: by.clone() });
        }
        match &volume.data_of {
            Some(user)
                if *user != self.user && volume.described.sharing != VolumeSharing::AllUsers =>
            {
                Err(NoVolume::DataOf { volume: name(), user: user.clone() })
            }
            _ => Ok(()),
        }
    }
}

/// Whether a task can have a volume, as its machine says: one of which it says nothing is usable.
fn usable(machine: &Machine, volume: &VolumeName, read_only: bool) -> Result<(), NoVolume> {
    let mut said = machine.report.volumes.iter();
    let fault = said.find(|said| said.volume == *volume).and_then(|said| said.fault);
    match fault.filter(|fault| fault.hinders(read_only)) {
        None => Ok(()),
        Some(fault) => Err(NoVolume::Faulty { volume: volume.clone(), fault }),
    }
}

/// `has no volume data`, `has the volume data claimed by ana/db/0`, …
impl std::fmt::Display for NoVolume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing { asked } => write!(f, "has no volume {asked}"),
            Self::Claimed { volume, by } => write!(f, "has the volume {volume} claimed by {by}"),
            Self::DataOf { volume, user } => {
                write!(f, "has the volume {volume} with data of {user}, which nobody has released")
            }
            Self::Full { volume } => write!(f, "has the volume {volume} claimed by too many tasks"),
            Self::Faulty { volume, fault } => {
                write!(f, "has the volume {volume}, which is {fault}")
            }
            Self::Elsewhere { bound } => {
                write!(f, "has not its data, which is in {bound}")
            }
        }
    }
}
