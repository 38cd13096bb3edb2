//! Volumes of machines: given, taken, released by operators, and claimed by tasks.

use std::collections::BTreeMap;
use std::sync::Arc;

use event::{EventKind, Subject};
use model::{
    ClaimedVolumes, InstanceId, JobName, MachineId, MachineName, MachineVolume, TaskId, TaskIndex,
    UserName, VolumeClaim, VolumeContent, VolumeName, VolumeSharing,
};

use super::{Events, full};
use crate::apply::mutation::Change;
use crate::bounds::{VOLUME_LABELS_MAX, VOLUMES_OF_A_MACHINE_MAX};
use crate::feasibility::{Offer, is_available};
use crate::state::ClaimsOfJobs;
use crate::{
    Cell, Countable, Job, MachinePermission, Permission, Rejection, Reply, TaskState, Volume,
    VolumeAsk, VolumeHindrance,
};

/// Maximum length of a label of a volume, in characters.
const LABEL_CHARACTERS: usize = 256;

/// Give a machine a volume, or change the description of the one of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetVolume {
    /// The machine.
    pub machine: MachineName,
    /// The volume.
    pub volume: Arc<MachineVolume>,
}

/// Take a volume from a machine. Its directory and what is in it stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoveVolume {
    /// The machine.
    pub machine: MachineName,
    /// The volume.
    pub volume: VolumeName,
    /// Whether claims of it end; else it is rejected if there are any.
    pub force: bool,
}

/// End the claims of a volume: tasks of any user may have it from then on, with what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseVolume {
    /// The machine.
    pub machine: MachineName,
    /// The volume.
    pub volume: VolumeName,
}

/// Say that what is in the directory of a volume is right: its next task gets it, whatever mark it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptVolume {
    /// The machine.
    pub machine: MachineName,
    /// The volume.
    pub volume: VolumeName,
}

fn only_operators(cell: &Cell, by: &UserName, machine: &MachineName) -> Result<(), Rejection> {
    cell.only_administrators(by, || Permission::OfMachine {
        machine: machine.clone(),
        what: MachinePermission::SetVolumes,
    })
}

fn rejected(machine: &MachineName, volume: &VolumeName, why: VolumeHindrance) -> Rejection {
    Rejection::Volume { machine: machine.clone(), volume: volume.clone(), why }
}

impl Change for SetVolume {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        only_operators(cell, by, &self.machine)
    }

    fn within_bounds(&self) -> Result<(), Rejection> {
        let labels = &self.volume.labels;
        let bad = |text: &String| {
            text.chars().count() > LABEL_CHARACTERS || text.chars().any(char::is_control)
        };
        let bad_key = |key: &String| key.is_empty() || bad(key);
        if labels.len() > VOLUME_LABELS_MAX
            || labels.iter().any(|(key, value)| bad_key(key) || bad(value))
        {
            return Err(rejected(&self.machine, &self.volume.name, VolumeHindrance::Labels));
        }
        Ok(())
    }

    fn apply(
        &self,
        cell: &mut Cell,
        _: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        self.within_bounds()?;
        let Self { machine: name, volume } = self;
        let id = cell.machine_id(name)?;
        let Some(machine) = cell.machines.get(id) else { return Ok(Reply::Done) };
        let known = machine.volumes.get(&volume.name);
        if known.is_some_and(|known| known.described == *volume) {
            return Ok(Reply::Done);
        }
        let mut others = machine.volumes.values().filter(|it| it.described.name != volume.name);
        if let Some(other) = others.find(|other| other.described.path.overlaps(&volume.path)) {
            let why = VolumeHindrance::Overlaps(other.described.name.clone());
            return Err(rejected(name, &volume.name, why));
        }
        match known {
            Some(known) => {
                if let Some(user) = &known.data_of
                    && known.described.path != volume.path
                {
                    let why = VolumeHindrance::DataOf(user.clone());
                    return Err(rejected(name, &volume.name, why));
                }
                let is = |of: &MachineVolume| (of.path.clone(), of.sharing);
                if let Some(by) = known.claims.first()
                    && is(&known.described) != is(volume)
                {
                    return Err(rejected(name, &volume.name, VolumeHindrance::Claimed(by.clone())));
                }
            }
            None => {
                let what = Countable::VolumesOf(name.clone());
                full(what, machine.volumes.len() as u64, VOLUMES_OF_A_MACHINE_MAX as u64)?;
            }
        }
        if let Some(machine) = cell.machines.get_mut(id) {
            let all = Arc::make_mut(&mut machine.volumes);
            let new = || Volume::new(Arc::clone(volume));
            let kept = all.entry(volume.name.clone()).or_insert_with(new);
            if kept.described.path != volume.path {
                // It is another directory.
                *kept = new();
            }
            kept.described = Arc::clone(volume);
        }
        let volume = Arc::clone(volume);
        events.add(Subject::Machine(id), EventKind::VolumeAdded { volume });
        // It looks at the directory.
        events.reorder(id);
        Ok(Reply::Done)
    }
}

impl Change for RemoveVolume {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        only_operators(cell, by, &self.machine)
    }

    fn apply(
        &self,
        cell: &mut Cell,
        _: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let Self { machine: name, volume, force } = self;
        let id = cell.unused_volume(name, volume)?;
        let claims = cell.claims_of(id, volume);
        if let (Some(by), false) = (claims.first(), force) {
            return Err(rejected(name, volume, VolumeHindrance::Claimed(by.clone())));
        }
        claims.iter().for_each(|claim| cell.release_volume(id, volume, claim, events));
        if let Some(machine) = cell.machines.get_mut(id) {
            Arc::make_mut(&mut machine.volumes).remove(volume);
        }
        let volume = volume.clone();
        events.add(Subject::Machine(id), EventKind::VolumeRemoved { volume });
        events.reorder(id);
        Ok(Reply::Done)
    }
}

impl Change for ReleaseVolume {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        only_operators(cell, by, &self.machine)
    }

    fn apply(
        &self,
        cell: &mut Cell,
        _: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let Self { machine: name, volume } = self;
        let id = cell.unused_volume(name, volume)?;
        for claim in cell.claims_of(id, volume) {
            cell.release_volume(id, volume, &claim, events);
        }
        if let Some(machine) = cell.machines.get_mut(id)
            && let Some(volume) = Arc::make_mut(&mut machine.volumes).get_mut(volume)
            && (volume.first.is_some() || volume.content != VolumeContent::Accepted)
        {
            (volume.data_of, volume.first) = (None, None);
            volume.content = VolumeContent::Accepted;
            let volume = Arc::clone(&volume.described);
            events.add(Subject::Machine(id), EventKind::VolumeAdded { volume });
        }
        Ok(Reply::Done)
    }
}

impl Change for AcceptVolume {
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
        only_operators(cell, by, &self.machine)
    }

    fn apply(
        &self,
        cell: &mut Cell,
        _: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        let Self { machine: name, volume } = self;
        let id = cell.machine_id(name)?;
        if let Some(machine) = cell.machines.get_mut(id) {
            let Some(kept) = Arc::make_mut(&mut machine.volumes).get_mut(volume) else {
                return Err(rejected(name, volume, VolumeHindrance::NoSuch));
            };
            if kept.content != VolumeContent::Accepted {
                kept.content = VolumeContent::Accepted;
                let volume = Arc::clone(&kept.described);
                events.add(Subject::Machine(id), EventKind::VolumeAdded { volume });
            }
        }
        Ok(Reply::Done)
    }
}

impl Cell {
    /// A task has started: the directories of its volumes have their marks from now on.
    pub(super) fn volumes_are_known(&mut self, instance: InstanceId, id: MachineId) {
        let Some(claimed) =
            self.jobs.get(instance.collection).and_then(|job| job.claims.get(&instance.index))
        else {
            return;
        };
        let claimed = Arc::clone(claimed);
        let Some(machine) = self.machines.get(id).filter(|it| it.name == claimed.machine) else {
            return;
        };
        let is_new = |name: &VolumeName| {
            let volume = machine.volumes.get(name);
            volume.is_some_and(|volume| volume.content != VolumeContent::Known)
        };
        let new: Vec<_> = claimed.volumes.iter().filter(|(_, name)| is_new(name)).collect();
        if new.is_empty() {
            return;
        }
        if let Some(machine) = self.machines.get_mut(id) {
            let volumes = Arc::make_mut(&mut machine.volumes);
            for (_, name) in new {
                if let Some(volume) = volumes.get_mut(name) {
                    volume.content = VolumeContent::Known;
                }
            }
        }
    }

    /// The first claim of a volume of a machine, and how many more there are.
    pub(super) fn first_claim_on(&self, id: MachineId) -> Option<(VolumeName, VolumeClaim, u64)> {
        let machine = self.machines.get(id)?;
        let claims = machine.volumes.values().map(|volume| volume.claims.len() as u64).sum::<u64>();
        let mut volumes = machine.volumes.iter();
        volumes.find_map(|(name, volume)| {
            let first = volume.claims.first()?;
            Some((name.clone(), first.clone(), claims.saturating_sub(1)))
        })
    }

    /// The machine of a volume that no task uses now.
    fn unused_volume(
        &self,
        name: &MachineName,
        volume: &VolumeName,
    ) -> Result<MachineId, Rejection> {
        let id = self.machine_id(name)?;
        let Some(machine) = self.machines.get(id) else { return Ok(id) };
        if !machine.volumes.contains_key(volume) {
            return Err(rejected(name, volume, VolumeHindrance::NoSuch));
        }
        let claims = self.claims_of(id, volume);
        let user = claims.into_iter().find(|claim| self.uses_volume(id, claim));
        match user {
            Some(by) => Err(rejected(name, volume, VolumeHindrance::InUse(by))),
            None => Ok(id),
        }
    }

    /// Whether the task of a claim is on the machine.
    fn uses_volume(&self, id: MachineId, claim: &VolumeClaim) -> bool {
        let jobs = self.jobs_named(&claim.user, &claim.job);
        let mut tasks = jobs.filter_map(|job| job.task(claim.index));
        tasks.any(|task| matches!(&task.state, TaskState::Running(placed) if placed.machine == id))
    }

    /// The jobs of a name that are not forgotten.
    fn jobs_named(&self, user: &UserName, name: &JobName) -> impl Iterator<Item = &Arc<Job>> {
        let (first, last) = (model::CollectionId(0), model::CollectionId(u64::MAX));
        let range = (user.clone(), name.clone(), first)..=(user.clone(), name.clone(), last);
        self.job_names.range(range).filter_map(|(.., id)| self.jobs.get(*id))
    }

    fn claims_of(&self, id: MachineId, volume: &VolumeName) -> Vec<VolumeClaim> {
        let volume = self.machines.get(id).and_then(|machine| machine.volumes.get(volume));
        volume.map(|volume| volume.claims.clone()).unwrap_or_default()
    }

    /// All volumes of a machine lose their claims: it leaves the cell.
    pub(super) fn release_volumes(&mut self, id: MachineId, events: &mut Events) {
        let Some(machine) = self.machines.get(id) else { return };
        let volumes = Arc::clone(&machine.volumes);
        for (name, volume) in volumes.iter() {
            for claim in &volume.claims {
                self.release_volume(id, name, claim, events);
            }
        }
    }

    fn release_volume(
        &mut self,
        id: MachineId,
        name: &VolumeName,
        claim: &VolumeClaim,
        events: &mut Events,
    ) {
        if let Some(machine) = self.machines.get_mut(id)
            && let Some(volume) = Arc::make_mut(&mut machine.volumes).get_mut(name)
        {
            volume.claims.retain(|other| other != claim);
        }
        let (volume, by) = (name.clone(), claim.clone());
        events.add(Subject::Machine(id), EventKind::VolumeReleased { volume, by });
        self.recount_claims(&claim.user, &claim.job, |claims| {
            let Some(claimed) = claims.get_mut(&claim.index) else { return };
            let claimed = Arc::make_mut(claimed);
            claimed.volumes.retain(|(at, _)| *at != claim.at);
            if claimed.volumes.is_empty() {
                claims.remove(&claim.index);
            }
        });
        self.touch_claimant(claim, events);
    }

    /// A task that is placed has exactly the volumes that it asks for.
    pub(super) fn claim_volumes(
        &mut self,
        instance: InstanceId,
        id: MachineId,
        events: &mut Events,
    ) {
        let Some(job) = self.jobs.get(instance.collection) else { return };
        let ask = VolumeAsk::of(job, instance.index);
        let had = job.claims.get(&instance.index).cloned();
        if ask.is_none() && had.is_none() {
            return;
        }
        let (user, name, index) = (job.owner.clone(), job.spec.name.clone(), instance.index);
        let Some(machine) = self.machines.get(id) else { return };
        let machine_name = machine.name.clone();
        // It was checked before it was placed.
        let mut wanted = ask.and_then(|ask| ask.find(machine).ok()).unwrap_or_default();
        if let Some(had) = had {
            let there = had.machine == machine_name;
            let gone = had.volumes.iter().filter(|one| !there || !wanted.contains(one));
            let on = self.machine_names.get(&had.machine).copied();
            for (at, volume) in gone {
                let (user, job, at) = (user.clone(), name.clone(), at.clone());
                let claim = VolumeClaim { user, job, index, at };
                if let Some(on) = on {
                    self.release_volume(on, volume, &claim, events);
                }
            }
        }
        wanted.sort();
        for (at, volume) in &wanted {
            let (user, job, at) = (user.clone(), name.clone(), at.clone());
            let by = VolumeClaim { user, job, index, at };
            let Some(machine) = self.machines.get_mut(id) else { return };
            let Some(kept) = Arc::make_mut(&mut machine.volumes).get_mut(volume) else { continue };
            if let Err(place) = kept.claims.binary_search(&by) {
                if kept.described.sharing != VolumeSharing::AllUsers {
                    kept.data_of = Some(by.user.clone());
                }
                kept.first.get_or_insert(instance);
                kept.claims.insert(place, by.clone());
                let volume = volume.clone();
                events.add(Subject::Machine(id), EventKind::VolumeClaimed { volume, by });
            }
        }
        if !wanted.is_empty() {
            let claimed = Arc::new(ClaimedVolumes { machine: machine_name, volumes: wanted });
            self.recount_claims(&user, &name, |claims| drop(claims.insert(index, claimed)));
        }
    }

    /// Changes what is known of the claims of the jobs of a name.
    fn recount_claims(
        &mut self,
        user: &UserName,
        name: &JobName,
        change: impl FnOnce(&mut BTreeMap<TaskIndex, Arc<ClaimedVolumes>>),
    ) {
        let key = (user.clone(), name.clone());
        let mut claims = self.claims.get(&key).cloned().unwrap_or_default();
        change(Arc::make_mut(&mut claims));
        match claims.is_empty() {
            true => drop(self.claims.remove(&key)),
            false => drop(self.claims.insert(key, Arc::clone(&claims))),
        }
        let ids: Vec<_> = self.jobs_named(user, name).map(|job| job.id).collect();
        for id in ids {
            if let Some(job) = self.jobs.get_mut(id) {
                job.claims = Arc::clone(&claims);
            }
        }
    }

    /// What tasks of a new job of a name find: the claims of its predecessors.
    pub(crate) fn claims_of_jobs(
        &self,
        user: &UserName,
        name: &JobName,
    ) -> Arc<BTreeMap<TaskIndex, Arc<ClaimedVolumes>>> {
        self.claims.get(&(user.clone(), name.clone())).cloned().unwrap_or_default()
    }

    /// Tells followers that a pending task may be placed elsewhere from now on.
    fn touch_claimant(&self, claim: &VolumeClaim, events: &mut Events) {
        let job = self.job_named(&claim.user, &claim.job);
        let pending = job.filter(|job| {
            let state = job.task(claim.index).map(|task| &task.state);
            matches!(state, Some(TaskState::Pending { .. }))
        });
        if let Some(instance) = pending.and_then(|job| job.instance(claim.index)) {
            events.add(Subject::Task(instance), EventKind::UpdatePending);
        }
    }

    /// The pending tasks that need not wait for the machines of their volumes any longer, at a moment;
    /// at most `most`.
    #[must_use]
    pub fn tasks_due_elsewhere(&self, now: model::Time, most: usize) -> Vec<TaskId> {
        let jobs = self.jobs_with_pending_tasks().filter(|job| !job.claims.is_empty());
        let tasks = jobs.flat_map(|job| {
            let indexes = job.claims.keys().copied();
            indexes.map(|index| TaskId { collection: job.id, index })
        });
        tasks.filter(|task| self.is_due_elsewhere(*task, now)).take(most).collect()
    }

    fn is_due_elsewhere(&self, task: TaskId, now: model::Time) -> bool {
        let due = || {
            let job = self.jobs.get(task.collection)?;
            let TaskState::Pending { since, .. } = job.task(task.index)?.state else { return None };
            let ask = VolumeAsk::of(job, task.index)?;
            let bound = ask.bound.as_ref()?;
            let had = ask.requests.iter().filter(|request| request.claimed(bound).is_some());
            // A task with one volume that it may not leave stays with all of its volumes.
            let waits: Option<Vec<_>> = had.map(|request| request.elsewhere_after).collect();
            let id = self.machine_names.get(&bound.machine)?;
            let machine = self.machines.get(*id)?;
            let available = is_available(&Offer::of(machine)) && !ask.waits_for_volume(machine);
            (!available).then_some(since + waits?.into_iter().max()?)
        };
        due().is_some_and(|due| due <= now)
    }

    /// Ends the claims of tasks that have waited long enough for their machines.
    pub(super) fn send_elsewhere(&mut self, tasks: &[TaskId], events: &mut Events) {
        for task in tasks {
            if !self.is_due_elsewhere(*task, self.time) {
                continue;
            }
            let Some(job) = self.jobs.get(task.collection) else { continue };
            let (user, name) = (job.owner.clone(), job.spec.name.clone());
            let Some(claimed) = job.claims.get(&task.index).cloned() else { continue };
            let Some(id) = self.machine_names.get(&claimed.machine).copied() else { continue };
            for (at, volume) in &claimed.volumes {
                let (user, job, at) = (user.clone(), name.clone(), at.clone());
                let claim = VolumeClaim { user, job, index: task.index, at };
                self.release_volume(id, volume, &claim, events);
            }
        }
    }

    /// Computes from the volumes of the machines where each job has its claims.
    pub(crate) fn derived_claims(&self) -> imbl::OrdMap<(UserName, JobName), ClaimsOfJobs> {
        let mut found: BTreeMap<(UserName, JobName), BTreeMap<TaskIndex, ClaimedVolumes>> =
            BTreeMap::new();
        for machine in self.machines.iter() {
            for (name, volume) in machine.volumes.iter() {
                for VolumeClaim { user, job, index, at } in &volume.claims {
                    let of_job = found.entry((user.clone(), job.clone())).or_default();
                    let none =
                        || ClaimedVolumes { machine: machine.name.clone(), volumes: Vec::new() };
                    let claimed = of_job.entry(*index).or_insert_with(none);
                    claimed.volumes.push((at.clone(), name.clone()));
                }
            }
        }
        let shared = |claims: BTreeMap<TaskIndex, ClaimedVolumes>| {
            let sorted = claims.into_iter().map(|(index, mut claimed)| {
                claimed.volumes.sort();
                (index, Arc::new(claimed))
            });
            Arc::new(sorted.collect())
        };
        found.into_iter().map(|(key, claims)| (key, shared(claims))).collect()
    }
}
