//! The directories that tasks and allocs fill, and those that are still to be deleted.

use std::path::PathBuf;

use linux::alloc::SHARED_DIRECTORY;
use linux::record;
use linux::tree::Used;
use model::InstanceId;

use super::{Files, RETIRED_FILE};

/// The directories of a task with its own files: the second is there if its root is an image.
const OWN_DIRECTORIES: [&str; 2] = [record::HOME_DIRECTORY, record::IMAGE_DIRECTORY];

/// The directories that a task fills.
pub(crate) struct FilledDirectories {
    /// Those of [`OWN_DIRECTORIES`].
    pub(crate) own: [PathBuf; OWN_DIRECTORIES.len()],
    /// Its logs, which a shim writes for it.
    pub(crate) logs: PathBuf,
}

impl Files {
    /// The directories that active instances can write to, with their owners. Logs are included:
    /// the shims write them on behalf of tasks.
    pub(crate) fn measured(&self) -> anyhow::Result<Vec<(InstanceId, PathBuf)>> {
        let mut found = Vec::new();
        for name in linux::task::scan(&self.tasks())? {
            let Ok(instance) = name.parse() else { continue };
            let directory = self.tasks().join(name);
            if !directory.join(RETIRED_FILE).exists() {
                let own = OWN_DIRECTORIES.map(|own| (instance, directory.join(own)));
                found.extend(own.into_iter().filter(|(_, own)| own.exists()));
                found.push((instance, directory.join(record::LOG_DIRECTORY)));
            }
        }
        for name in self.alloc_names()? {
            let Ok(instance) = name.parse() else { continue };
            found.push((instance, self.allocs().join(name).join(SHARED_DIRECTORY)));
        }
        Ok(found)
    }

    /// The disk usage of an instance's open but unlinked files. Requires root.
    pub(crate) fn unnamed(&self, instance: InstanceId) -> Used {
        let look = || {
            let Some(cgroup) = self.task(instance)?.cgroup()? else { return Ok(Used::default()) };
            anyhow::Ok(linux::disk::unnamed(&cgroup, &self.directory)?)
        };
        look().unwrap_or_else(|error| {
            tracing::debug!("cannot list the open files of {instance}: {error:#}");
            Used::default()
        })
    }

    /// The directories of a task that it fills: its files, what it changed in its image, and its logs.
    pub(crate) fn filled(&self, instance: InstanceId) -> anyhow::Result<FilledDirectories> {
        let task = self.task(instance)?;
        let own = OWN_DIRECTORIES.map(|own| task.path().join(own));
        Ok(FilledDirectories { own, logs: task.path().join(record::LOG_DIRECTORY) })
    }

    /// The directory that the tasks of an alloc share.
    pub(crate) fn shared(&self, alloc: InstanceId) -> PathBuf {
        self.allocs().join(alloc.to_string()).join(SHARED_DIRECTORY)
    }

    /// Discarded directories that are still to be deleted.
    pub(crate) fn discarded(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut found = linux::task::discarded(&self.tasks())?;
        let allocs = self.allocs();
        if allocs.exists() {
            found.extend(linux::task::discarded(&allocs)?);
        }
        let outputs = self.outputs();
        if outputs.exists() {
            found.extend(linux::task::discarded(&outputs)?);
        }
        Ok(found)
    }
}
