//! What tasks wait for that have a machine and do not run yet: names of other jobs that stand for nothing, and starts
//! that are tried again.

use std::cell::RefCell;
use std::collections::BTreeMap;

use api::v1;
use cell::{Cell, Job, NoAddress, Phase};
use model::{TaskIndex, TaskSelection, UserName};
use spec::NameReference;

/// How many groups of tasks that are being started again an answer has.
const STARTING_GROUPS_MAX: usize = 20;

/// Which names of other jobs stand for nothing that the tasks of a job refer to.
pub(crate) struct AwaitedNames<'a> {
    cell: &'a Cell,
    job: &'a Job,
    /// What each name was found to be: many tasks refer to the same.
    found: RefCell<BTreeMap<NameReference, Option<String>>>,
}

impl<'a> AwaitedNames<'a> {
    /// The names of a job.
    pub(crate) fn of(cell: &'a Cell, job: &'a Job) -> Self {
        Self { cell, job, found: RefCell::default() }
    }

    /// The first name for which a task waits that is about to start, in words; `None`: it waits for none.
    pub(crate) fn of_task(&self, index: TaskIndex) -> Option<String> {
        let names = self.job.described(index).task(index).names();
        names.iter().find_map(|name| {
            let mut found = self.found.borrow_mut();
            found.entry(name.clone()).or_insert_with(|| self.awaited(name)).clone()
        })
    }

    fn awaited(&self, name: &NameReference) -> Option<String> {
        let why = self.cell.resolve(&self.job.owner, name).err()?;
        Some(waits_for(&self.job.owner, name, &why))
    }
}

/// `it waits for ${bns.db.port}: no job ana/db runs`.
pub(crate) fn waits_for(owner: &UserName, name: &NameReference, why: &NoAddress) -> String {
    let job = format!("{}/{}", name.owner(owner), name.job.job);
    let task = name.task.map_or_else(|| job.clone(), |index| format!("{job}/{index}"));
    let why = match why {
        NoAddress::NoJob => format!("no job {job} runs"),
        NoAddress::NoTask => format!("there is no task {task}"),
        NoAddress::NotPlaced => format!("task {task} has no machine"),
        NoAddress::NoneServes => format!("no task of {job} serves: see bourg bns get {job}"),
        NoAddress::NoPort(port) => format!("{task} has no port {port}"),
        NoAddress::WhichPort => {
            format!("{task} does not have one port: name one, as in ${{bns.{task}.port.http}}")
        }
    };
    format!("it waits for ${{{name}}}: {why}")
}

/// The chosen tasks that are being started again after starts that were lost, or wait for a name, in groups that wait for
/// the same.
pub(crate) fn waiting(cell: &Cell, job: &Job, chosen: &TaskSelection) -> Vec<v1::StartingGroup> {
    let one = |index: TaskIndex| v1::IndexRange { first: index.0, last: index.0 };
    let awaited = AwaitedNames::of(cell, job);
    let mut groups: Vec<v1::StartingGroup> = Vec::new();
    for index in chosen.of(job.size()) {
        let placed = job.instance(index).and_then(|instance| cell.placement(instance));
        let Some(placed) =
            placed.filter(|placed| placed.phase == Phase::Starting && placed.stop.is_none())
        else {
            continue;
        };
        let waits_for = awaited.of_task(index).unwrap_or_default();
        let tries = placed.lost_starts;
        let last = job.task(index).and_then(|task| task.last_incarnation.as_ref());
        let last_end = last.filter(|_| tries > 0).map(|last| v1::End::from(&last.end));
        if waits_for.is_empty() && last_end.is_none() {
            continue;
        }
        let same = |group: &v1::StartingGroup| {
            group.tries == tries && group.last_end == last_end && group.waits_for == waits_for
        };
        let place = groups.iter().position(same);
        let has_room = groups.len() < STARTING_GROUPS_MAX;
        match place.and_then(|place| groups.get_mut(place)) {
            Some(group) => match group.tasks.last_mut() {
                Some(range) if range.last.checked_add(1) == Some(index.0) => range.last = index.0,
                _ => group.tasks.push(one(index)),
            },
            None if has_room => {
                let tasks = vec![one(index)];
                groups.push(v1::StartingGroup { tasks, tries, last_end, waits_for });
            }
            // Later tasks may still belong to the groups before.
            None => {}
        }
    }
    groups
}
