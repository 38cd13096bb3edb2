//! Which replica a data directory is of, and where it finds the others before it has the cell:
//! `replica.toml`. The replica that founds the cell needs none: it is the first.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use model::ReplicaId;
use serde::{Deserialize, Serialize};

use crate::joining;

const FILE: &str = "replica.toml";
/// The replica that founds a cell.
pub(crate) const FIRST: ReplicaId = ReplicaId(1);

/// This replica is none of the cell any more, so that it is of no use to start it again: why.
#[derive(Clone, Debug)]
pub(crate) struct Dismissed(pub(crate) String);

impl std::fmt::Display for Dismissed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Dismissed {}

/// A replica, as its directory says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Itself {
    /// Its id.
    id: u64,
    /// Where others answer, by their id.
    #[serde(default)]
    replicas: BTreeMap<String, String>,
}

impl Itself {
    /// A replica that finds others at these addresses.
    pub(crate) fn new(
        id: ReplicaId,
        replicas: impl IntoIterator<Item = (ReplicaId, String)>,
    ) -> Self {
        let replicas = replicas.into_iter().map(|(id, address)| (id.to_string(), address));
        Self { id: id.0, replicas: replicas.collect() }
    }

    /// Reads it from a data directory.
    pub(crate) fn read(directory: &Path) -> anyhow::Result<Self> {
        let path = directory.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::new(FIRST, []));
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        let read: Self = toml::from_str(&text).with_context(|| format!("in {}", path.display()))?;
        ensure!(read.id > 0, "in {}: replicas count from 1", path.display());
        for id in read.replicas.keys() {
            ensure!(id.parse::<u64>().is_ok(), "in {}: '{id}' is no replica's id", path.display());
        }
        Ok(read)
    }

    /// Writes it into a data directory.
    pub(crate) fn write(&self, directory: &Path) -> anyhow::Result<()> {
        let path = directory.join(FILE);
        let text = toml::to_string(self)?;
        let written = joining::replace(&path, &directory.join("replica.toml.tmp"), &text);
        written.with_context(|| format!("cannot write {}", path.display()))
    }

    /// Its id.
    pub(crate) fn id(&self) -> ReplicaId {
        ReplicaId(self.id)
    }

    /// Where others answer.
    pub(crate) fn replicas(&self) -> BTreeMap<ReplicaId, Arc<str>> {
        let id = |id: &String| id.parse().ok().map(ReplicaId);
        let replicas = self.replicas.iter();
        replicas.filter_map(|(text, at)| Some((id(text)?, Arc::from(at.as_str())))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_the_file_is_the_first_replicas() {
        let place = tempfile::tempdir().expect("a directory");
        assert_eq!(Itself::read(place.path()).expect("none is needed").id(), FIRST);
        let third = Itself::new(ReplicaId(3), [(FIRST, "m1:7800".to_owned())]);
        third.write(place.path()).expect("there is room");
        let read = Itself::read(place.path()).expect("it is there");
        assert_eq!(read, third);
        assert_eq!(read.replicas(), [(FIRST, Arc::from("m1:7800"))].into());
        std::fs::write(place.path().join(FILE), "id = 0").expect("there is room");
        let said = Itself::read(place.path()).expect_err("no id").to_string();
        assert!(said.ends_with("replicas count from 1"), "{said}");
    }
}
