//! Volumes in the mixed load: the administrator gives machines volumes, one for each user, and users' jobs
//! ask for them. Half of the worlds have them.

use std::collections::BTreeMap;
use std::sync::Arc;

use cell::{AcceptVolume, Mutation, ReleaseVolume, SetVolume};
use model::{MachineName, MachineVolume, Random, Span, VolumeName, VolumeSharing};
use spec::{JobSpec, Kind, VolumeRequest, VolumeSelector};

use crate::load::Action;

/// The most tasks of a job with volumes.
const TASKS: u32 = 3;

/// Who gives and asks for volumes. It draws from random numbers of its own, so that everything else stays
/// that of the seed.
#[derive(Debug)]
pub(crate) struct VolumeLoad {
    random: Random,
    /// None: this world has no volumes.
    machines: Vec<MachineName>,
    users: usize,
}

impl VolumeLoad {
    pub(crate) fn new(
        seed: u64,
        machines: impl Iterator<Item = MachineName>,
        users: usize,
    ) -> Self {
        let has_volumes = seed.is_multiple_of(2);
        let machines = if has_volumes { machines.collect() } else { Vec::new() };
        Self { random: Random::new(seed), machines, users }
    }

    fn name(owner: usize) -> Option<VolumeName> {
        format!("v{owner}").parse().ok()
    }

    /// What the administrator does.
    pub(crate) fn actions(&mut self) -> Vec<Action> {
        if self.machines.is_empty() || !self.random.chance(300) {
            return Vec::new();
        }
        let mut given = || {
            let machine = self.random.one_of(&self.machines)?.clone();
            let owner = 1 + self.random.index(self.users.saturating_sub(1));
            let name = Self::name(owner)?;
            if self.random.chance(100) {
                return Some(Mutation::AcceptVolume(AcceptVolume { machine, volume: name }));
            }
            if self.random.chance(100) {
                // Rejected while a task has it.
                let release = ReleaseVolume { machine, volume: name };
                return Some(Mutation::ReleaseVolume(release));
            }
            let volume = Arc::new(MachineVolume {
                path: format!("/srv/v{owner}").parse().ok()?,
                name,
                size: None,
                labels: BTreeMap::new(),
                sharing: VolumeSharing::Exclusive,
            });
            Some(Mutation::SetVolume(SetVolume { machine, volume }))
        };
        given().map(|mutation| Action::Request(0, mutation)).into_iter().collect()
    }

    /// Lets the tasks of some jobs ask for the volume of their owner.
    pub(crate) fn ask(&mut self, owner: usize, spec: &mut JobSpec) {
        let is_alone = matches!(spec.kind, Kind::Job { alloc_set: None });
        if self.machines.is_empty() || !is_alone || !self.random.chance(250) {
            return;
        }
        let (Some(name), Ok(path)) = (Self::name(owner), "/data".parse()) else { return };
        let after = self.random.chance(300).then(|| Span::from_secs(self.random.within(10..120)));
        spec.tasks = spec.tasks.min(TASKS);
        spec.task.volumes = vec![VolumeRequest {
            of: VolumeSelector::Named(name),
            path,
            read_only: false,
            elsewhere_after: after,
        }];
    }
}
