//! The files of allocs: one directory for each, with what was desired of it and the files that its
//! tasks share.

use std::fs;
use std::path::PathBuf;

use borglet::{ALLOC_DIRECTORY, DesiredAlloc, RecoveredAlloc};
use linux::alloc::Alloc;
use linux::cgroup::Limits;
use linux::record::Bind;
use linux::task::Resized;
use model::{Bytes, InstanceId, Resources};
use proto::v1;

use super::tasks::{Files, limits, read, write};

/// What was desired of an alloc, with the newest limit that it was held to.
const DESIRED_FILE: &str = "alloc.json";

impl Files {
    pub(super) fn allocs(&self) -> PathBuf {
        self.directory.join("allocs")
    }

    fn alloc(&self, instance: InstanceId) -> anyhow::Result<Alloc> {
        let (name, cgroup) = (instance.to_string(), self.cgroup_of(instance, None));
        Ok(Alloc::open(&self.allocs(), &name, &cgroup, self.isolation)?)
    }

    /// What a task in an alloc sees of it.
    pub(super) fn shown_alloc(&self, instance: InstanceId) -> anyhow::Result<Bind> {
        Ok(self.alloc(instance)?.bind(ALLOC_DIRECTORY))
    }

    /// The names of the allocs that are here. A Borglet of an earlier release had no place for any.
    pub(super) fn alloc_names(&self) -> anyhow::Result<Vec<String>> {
        let allocs = self.allocs();
        if allocs.exists() { Ok(linux::task::scan(&allocs)?) } else { Ok(Vec::new()) }
    }

    /// What was desired of an alloc; none where it is not here, or was never made.
    pub(super) fn read_alloc(&self, instance: InstanceId) -> anyhow::Result<Option<DesiredAlloc>> {
        let path = self.allocs().join(instance.to_string()).join(DESIRED_FILE);
        let Some(text) = read(&path)? else { return Ok(None) };
        let desired: v1::DesiredAlloc = serde_json::from_str(&text)?;
        Ok(Some(desired.try_into()?))
    }

    fn write_alloc(&self, alloc: &Alloc, desired: &DesiredAlloc) -> anyhow::Result<()> {
        let text = serde_json::to_string(&v1::DesiredAlloc::from(desired))?;
        write(alloc.path(), DESIRED_FILE, &text)
    }

    /// Makes what is missing of an alloc. Nothing is left of one that cannot be made.
    pub(crate) fn make_alloc(&self, desired: &DesiredAlloc) -> anyhow::Result<()> {
        let alloc = self.alloc(desired.instance)?;
        let make = || {
            alloc.make_directory()?;
            self.write_alloc(&alloc, desired)?;
            fs::File::open(self.allocs())?.sync_all()?;
            anyhow::Ok(alloc.make(&shared_limits(desired.limit))?)
        };
        make().inspect_err(|_| {
            if let Err(error) = alloc.remove() {
                tracing::error!("what is left of {} cannot be removed: {error}", desired.instance);
            }
        })
    }

    /// Holds an alloc to another limit, and notes that for whoever adopts it. What it is held to then:
    /// more memory than that where its tasks have more; none where it is not there.
    pub(crate) fn resize_alloc(
        &self,
        instance: InstanceId,
        limit: Resources,
    ) -> anyhow::Result<Option<Resources>> {
        let alloc = self.alloc(instance)?;
        let held = match alloc.resize(&shared_limits(limit))? {
            Resized::Done => limit,
            Resized::Refused { memory_bytes } => Resources { ram: Bytes(memory_bytes), ..limit },
            Resized::StillStarting | Resized::Gone => return Ok(None),
        };
        if let Some(mut desired) = self.read_alloc(instance)?
            && desired.limit != held
        {
            desired.limit = held;
            self.write_alloc(&alloc, &desired)?;
        }
        Ok(Some(held))
    }

    /// Discards an alloc with its files; where they are now, if there are any.
    pub(crate) fn discard_alloc(&self, instance: InstanceId) -> anyhow::Result<Option<PathBuf>> {
        Ok(self.alloc(instance)?.discard()?)
    }

    /// Every alloc that is here: those that outlived the Borglet before.
    pub(crate) fn recover_allocs(&self) -> anyhow::Result<Vec<RecoveredAlloc>> {
        let mut found = Vec::new();
        for name in self.alloc_names()? {
            let Ok(instance) = name.parse::<InstanceId>() else {
                tracing::warn!("{} is not the directory of an alloc", name.escape_debug());
                continue;
            };
            // Without a record it is known all the same, and an order says what it is.
            let desired = self.read_alloc(instance).unwrap_or_else(|error| {
                tracing::error!("the record of {instance} cannot be read: {error:#}");
                None
            });
            let limit = desired.map(|desired| desired.limit).unwrap_or_default();
            found.push(RecoveredAlloc { instance, limit, made: self.alloc(instance)?.is_made() });
        }
        Ok(found)
    }
}

/// What the kernel is to hold the tasks of an alloc to together. Each has a number of processes of its
/// own, and they need no other.
fn shared_limits(limit: Resources) -> Limits {
    limits(limit, u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use borglet::{Borglet, Effect, Order, Settings, TaskStatus};
    use linux::Isolation;
    use model::{Band, CellName, JobName, MilliCores, Stamp, Time, UserName};
    use std::sync::Arc;

    fn desired(mib: u64) -> DesiredAlloc {
        let (cpu, ram) = (MilliCores(1_000), Bytes(mib << 20));
        DesiredAlloc {
            instance: "9-0-1".parse().expect("an id"),
            cell: CellName::new("dev").expect("a name"),
            user: UserName::new("ana").expect("a name"),
            name: JobName::new("room").expect("a name"),
            priority: Band::Production.usual(),
            limit: Resources { cpu, ram, ..Resources::default() },
        }
    }

    #[test]
    fn an_alloc_is_found_again_with_the_limit_that_it_is_held_to() {
        for isolation in [Isolation::Jail, Isolation::Rootless] {
            let place = tempfile::tempdir().expect("a temporary directory");
            let files = Files::found(place.path(), isolation).expect("a directory");
            assert_eq!(files.recover_allocs().expect("a list"), [], "of an earlier release");
            let alloc = desired(64);
            let found = |limit, made| RecoveredAlloc { instance: alloc.instance, limit, made };
            files.make_alloc(&alloc).expect("it can be made");
            let recovered = || files.recover_allocs().expect("a list");
            assert_eq!(recovered(), [found(alloc.limit, true)]);
            let larger = desired(96).limit;
            let held = files.resize_alloc(alloc.instance, larger).expect("it can be resized");
            assert_eq!(held, Some(larger));
            assert_eq!(recovered(), [found(larger, true)]);
            // A reboot takes the group, and with it nothing of the files.
            files.remove_cgroup().expect("nobody is in it");
            assert_eq!(recovered(), [found(larger, isolation == Isolation::Rootless)]);
            let record = files.allocs().join("9-0-1").join(DESIRED_FILE);
            fs::write(record, "{").expect("it can be damaged");
            assert_eq!(recovered()[0].limit, Resources::default(), "it is known all the same");
            files.discard_alloc(alloc.instance).expect("it can be removed");
            assert_eq!(recovered(), []);
        }
    }

    #[test]
    fn an_alloc_that_cannot_be_made_leaves_nothing() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let files = Files::found(place.path(), Isolation::Rootless).expect("a directory");
        let own = files.allocs().join("9-0-1");
        fs::create_dir_all(&own).expect("a directory");
        fs::write(own.join("shared"), "").expect("a file in the way");
        let error = files.make_alloc(&desired(64)).expect_err("there is a file");
        assert!(!own.exists(), "{error:#}");
    }

    #[test]
    fn one_that_was_adopted_and_is_not_ordered_any_more_is_removed() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let files = Files::found(place.path(), Isolation::Rootless).expect("a directory");
        files.make_alloc(&desired(64)).expect("it can be made");
        let allocs = files.recover_allocs().expect("a list");
        let stamp = Stamp::default();
        let mut borglet =
            Borglet::new(Settings::default(), Arc::default(), stamp, allocs, Vec::new());
        let status = |borglet: &Borglet| borglet.report().tasks[0].status.clone();
        assert_eq!(status(&borglet), TaskStatus::Running { healthy: Some(true) });
        let mut effects = Vec::new();
        borglet.obey(Time(1), Order::default(), &mut effects).expect("the first order");
        assert_eq!(effects, [Effect::RemoveAlloc(desired(64).instance)]);
        assert_eq!(status(&borglet), TaskStatus::Stopping);
    }
}
