//! The volumes of this machine that tasks have.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use borglet::Desired;
use linux::record::Bind;

use crate::tasks::Files;

impl Files {
    /// The volumes of a task, as its jail shows them. The Borglet's own files are none.
    pub(crate) fn volumes_of(&self, desired: &Desired) -> anyhow::Result<Vec<Bind>> {
        let own = fs::canonicalize(&self.directory).context("cannot find the own directory")?;
        let volumes = desired.volumes.iter().map(|volume| {
            let (source, target) = (volume.source.as_str(), volume.target.as_str());
            let unusable = || format!("the volume {} ({source}) cannot be used", volume.name);
            let source = fs::canonicalize(source).with_context(unusable)?;
            ensure!(
                !source.starts_with(&own) && !own.starts_with(&source),
                "{}: it has the files of the Borglet, {}",
                unusable(),
                own.display()
            );
            Ok(Bind { source, target: PathBuf::from(target), writable: !volume.read_only })
        });
        volumes.collect()
    }
}
