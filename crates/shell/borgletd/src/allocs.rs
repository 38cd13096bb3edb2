//! The files of allocs: one directory for each, with its specification and the files that its tasks
//! share.

use std::fs;
use std::path::PathBuf;

use api::v1;
use borglet::{ALLOC_DIRECTORY, DesiredAlloc, KeptData, RecoveredAlloc};
use linux::alloc::Alloc;
use linux::record::Bind;
use linux::task::Resized;
use model::{Appclass, Bytes, InstanceId, Resources};
use process::clock::wall_clock;

use super::tasks::{Files, read, write};

/// An alloc's specification, with the newest limit applied to it.
const DESIRED_FILE: &str = "alloc.json";

impl Files {
    pub(super) fn allocs(&self) -> PathBuf {
        self.directory.join("allocs")
    }

    fn alloc(&self, instance: InstanceId) -> anyhow::Result<Alloc> {
        // Only one that does not exist yet needs it.
        let appclass = self.read_alloc(instance).ok().flatten().map(|desired| desired.appclass);
        self.alloc_for(instance, appclass.unwrap_or_default())
    }

    fn alloc_for(&self, instance: InstanceId, appclass: Appclass) -> anyhow::Result<Alloc> {
        let (name, cgroup) = (instance.to_string(), self.cgroup_of_alloc(instance, appclass)?);
        Ok(Alloc::open(&self.allocs(), &name, &cgroup, self.isolation)?)
    }

    /// The bind mount through which a task sees its alloc.
    pub(super) fn shown_alloc(&self, instance: InstanceId) -> anyhow::Result<Bind> {
        Ok(self.alloc(instance)?.bind(ALLOC_DIRECTORY))
    }

    /// The file that holds the network of an alloc, if that is its own.
    pub(super) fn alloc_network(&self, instance: InstanceId) -> anyhow::Result<PathBuf> {
        Ok(self.alloc(instance)?.network_file())
    }

    /// Lets go of the networks of all allocs, once their tasks have ended for good.
    pub(crate) fn release_alloc_networks(&self) {
        for name in self.alloc_names().unwrap_or_default() {
            let Ok(instance) = name.parse::<InstanceId>() else { continue };
            let released = self.alloc(instance).and_then(|alloc| Ok(alloc.release_network()?));
            if let Err(error) = released {
                tracing::error!("cannot let go of the network of {instance}: {error:#}");
            }
        }
    }

    /// The names of the allocs on this machine; empty if an earlier release created the data
    /// directory.
    pub(super) fn alloc_names(&self) -> anyhow::Result<Vec<String>> {
        let allocs = self.allocs();
        if allocs.exists() { Ok(linux::task::scan(&allocs)?) } else { Ok(Vec::new()) }
    }

    /// An alloc's specification; `None` if it does not exist or was never completed.
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

    /// Creates whatever is missing of an alloc. On failure, removes all of it.
    pub(crate) fn make_alloc(&self, desired: &DesiredAlloc) -> anyhow::Result<()> {
        let alloc = self.alloc_for(desired.instance, desired.appclass)?;
        let make = || {
            alloc.make_directory()?;
            self.write_alloc(&alloc, desired)?;
            fs::File::open(self.allocs())?.sync_all()?;
            let network = desired.address.map(|address| self.network(address)).transpose()?;
            anyhow::Ok(alloc.make(&self.limits_of_alloc(desired.limit), network.as_ref())?)
        };
        make().inspect_err(|_| {
            if let Err(error) = alloc.remove() {
                tracing::error!("cannot remove the remains of {}: {error}", desired.instance);
            }
        })
    }

    /// Changes an alloc's limit and records it for the next Borglet. Returns the limit in force,
    /// with more memory than requested if the tasks use more; `None` if the alloc does not exist.
    pub(crate) fn resize_alloc(
        &self,
        instance: InstanceId,
        limit: Resources,
    ) -> anyhow::Result<Option<Resources>> {
        let alloc = self.alloc(instance)?;
        let held = match alloc.resize(&self.limits_of_alloc(limit))? {
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

    /// Keeps the files that the tasks of an alloc shared for its saver, if its set has one.
    pub(crate) fn keep_alloc(&self, instance: InstanceId) -> anyhow::Result<Option<KeptData>> {
        let Some(desired) = self.read_alloc(instance)? else { return Ok(None) };
        match KeptData::of_alloc(&desired, wall_clock()) {
            Some(kept) => self.keep(&self.alloc(instance)?.shared(), kept),
            None => Ok(None),
        }
    }

    /// Discards an alloc with its files; returns their new location, if there are any.
    pub(crate) fn discard_alloc(&self, instance: InstanceId) -> anyhow::Result<Option<PathBuf>> {
        Ok(self.alloc(instance)?.discard()?)
    }

    /// Every alloc that an earlier Borglet left on this machine.
    pub(crate) fn recover_allocs(&self) -> anyhow::Result<Vec<RecoveredAlloc>> {
        let mut found = Vec::new();
        for name in self.alloc_names()? {
            let Ok(instance) = name.parse::<InstanceId>() else {
                tracing::warn!("{} is not the directory of an alloc", name.escape_debug());
                continue;
            };
            // An alloc without a readable record is reported all the same: the next order describes
            // it.
            let desired = self.read_alloc(instance).unwrap_or_else(|error| {
                tracing::error!("cannot read the record of {instance}: {error:#}");
                None
            });
            let limit = desired.map(|desired| desired.limit).unwrap_or_default();
            found.push(RecoveredAlloc { instance, limit, made: self.alloc(instance)?.is_made() });
        }
        Ok(found)
    }
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
            appclass: Appclass::Batch,
            limit: Resources { cpu, ram, ..Resources::default() },
            saver: None,
            address: None,
        }
    }

    #[test]
    fn an_alloc_is_recovered_with_its_limit_in_force() {
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
            // A reboot removes the cgroup but not the files.
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
    fn an_adopted_alloc_without_an_order_is_removed() {
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
        let instance = desired(64).instance;
        assert_eq!(effects, [Effect::RemoveAlloc { instance, save: true }]);
        assert_eq!(status(&borglet), TaskStatus::Stopping);
    }
}
