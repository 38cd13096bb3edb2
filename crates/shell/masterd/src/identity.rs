//! The identity of a data directory's replica, and the addresses of the others before it has the
//! cell: `replica.toml`. The replica that bootstraps the cell needs none: it is the first.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use model::{ReplicaId, RestoreEpoch};
use process::joining;
use replica::{ReplicaError, UnknownOperation};
use serde::{Deserialize, Serialize};
use store::DataDirectory;

const FILE: &str = "replica.toml";
/// The replica that bootstraps a cell.
pub const FIRST: ReplicaId = ReplicaId(1);

/// Why this replica must not be restarted as it is: it was removed from the cell, or its directory
/// must not be used.
#[derive(Clone, Debug)]
pub struct Dismissed(pub(crate) String);

impl Dismissed {
    /// The error that ended a replica: [`Dismissed`] if its directory must not be used again.
    pub(super) fn or(error: ReplicaError) -> anyhow::Error {
        match error {
            ReplicaError::LostRecords { .. }
            | ReplicaError::AnotherDirectory { .. }
            | ReplicaError::Contradicted { .. } => Self(with_remedy(&error)).into(),
            ReplicaError::UnknownOperation(_) => anyhow::anyhow!(with_remedy(&error)),
            ReplicaError::Consensus(_) => error.into(),
        }
    }
}

/// The error that ended a replica, with the commands that help.
fn with_remedy(error: &ReplicaError) -> String {
    let add = "add a new one with an empty directory (`bourg master add`)";
    match error {
        ReplicaError::LostRecords { .. } => {
            format!("{error}. Remove this replica (`bourg master remove`) and {add}")
        }
        ReplicaError::AnotherDirectory { replica, .. } => {
            let remove = format!("`bourg master remove {replica}`");
            format!("{error}. Remove replica {replica} ({remove}) and {add}")
        }
        ReplicaError::Contradicted { .. } => format!(
            "{error}. To continue with them, stop the other replicas for good and run `bourg master \
             restore` here; to continue without them, remove this replica (`bourg master remove`) and {add}"
        ),
        ReplicaError::UnknownOperation(UnknownOperation::Malformed { .. }) => {
            format!("{error}: remove this replica (`bourg master remove`) and {add}")
        }
        ReplicaError::UnknownOperation(UnknownOperation::Level { .. })
        | ReplicaError::Consensus(_) => error.to_string(),
    }
}

impl std::fmt::Display for Dismissed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Dismissed {}

/// A replica's `replica.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicaIdentity {
    /// Its id.
    id: u64,
    /// The addresses of the others, by id.
    #[serde(default)]
    replicas: BTreeMap<String, String>,
    /// The restore epoch to which this replica was restored, and the addresses of the cell's former
    /// replicas, by id: it serves only after it has verified that they are gone. Both are removed
    /// then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    restored: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    former: BTreeMap<String, String>,
    /// The crc32c of all other fields, in hexadecimal; empty in a file of an older build or one
    /// made by hand.
    #[serde(default)]
    checksum: String,
}

impl ReplicaIdentity {
    /// A replica that finds the others at these addresses.
    pub fn new(id: ReplicaId, replicas: impl IntoIterator<Item = (ReplicaId, String)>) -> Self {
        let replicas = named(replicas);
        Self {
            id: id.0,
            replicas,
            restored: None,
            former: BTreeMap::new(),
            checksum: String::new(),
        }
    }

    /// The same for a restored cell, whose former replicas had these addresses.
    pub fn restored(
        mut self,
        restore_epoch: RestoreEpoch,
        former: impl IntoIterator<Item = (ReplicaId, String)>,
    ) -> Self {
        (self.restored, self.former) = (Some(restore_epoch.to_string()), named(former));
        self
    }

    /// Reads it from a data directory.
    pub fn read(directory: &Path) -> anyhow::Result<Self> {
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
        let damaged = |why: &dyn std::fmt::Display| {
            let path = path.display();
            format!(
                "{path} is damaged, so that it is not known which replica this is ({why}): {ANEW}"
            )
        };
        let read: Self =
            toml::from_str(&text).map_err(|error| Dismissed(damaged(&error.message())))?;
        if !read.checksum.is_empty() && read.checksum != read.digest()? {
            return Err(Dismissed(damaged(&"its checksum does not match")).into());
        }
        ensure!(read.id > 0, "in {}: replicas count from 1", path.display());
        for id in read.replicas.keys().chain(read.former.keys()) {
            ensure!(id.parse::<u64>().is_ok(), "in {}: '{id}' is no replica's id", path.display());
        }
        Ok(read)
    }

    /// The checksum of everything but itself.
    fn digest(&self) -> anyhow::Result<String> {
        let rest = Self { checksum: String::new(), ..self.clone() };
        Ok(format!("{:08x}", crc32c::crc32c(toml::to_string(&rest)?.as_bytes())))
    }

    /// Writes it into a data directory.
    pub fn write(&self, directory: &Path) -> anyhow::Result<()> {
        let path = directory.join(FILE);
        let text = toml::to_string(&Self { checksum: self.digest()?, ..self.clone() })?;
        let written = joining::replace(&path, &directory.join("replica.toml.tmp"), &text);
        written.with_context(|| format!("cannot write {}", path.display()))
    }

    /// Its id.
    pub fn id(&self) -> ReplicaId {
        ReplicaId(self.id)
    }

    /// The addresses of the others.
    pub fn replicas(&self) -> BTreeMap<ReplicaId, Arc<str>> {
        numbered(&self.replicas)
    }

    /// Rejects bootstrapping a cell in an emptied directory: its replica would be the first of
    /// another cell, at the address of the former one.
    pub(super) fn check_founds(&self, directory: &DataDirectory) -> Result<(), Dismissed> {
        let path = directory.path();
        let why = if self.replicas.is_empty() {
            let modified = |path: &Path| std::fs::metadata(path)?.modified();
            let authority = modified(&directory.tls().join("ca.pem"));
            let made = modified(&path.join("directory-id"));
            let older = authority.is_ok_and(|authority| made.is_ok_and(|made| authority < made));
            older.then_some("the authority of a cell is in it, from before it was made")
        } else {
            Some("it is of a cell with other replicas")
        };
        why.map_or(Ok(()), |why| {
            let path = path.display();
            Err(Dismissed(format!(
                "{path} was emptied: there is nothing in it of the cell, and {why}. If the cell \
                 has other replicas, {ANEW}. If all of them are lost, continue from a saved \
                 checkpoint (bourg checkpoint load)"
            )))
        })
    }

    /// Whether it was restored and has not served since.
    pub fn is_restored(&self) -> bool {
        self.restored.is_some()
    }

    /// The addresses of the former cell's replicas, until they are known to be gone, if it was
    /// restored to this restore epoch.
    pub(super) fn former(&self, restore_epoch: RestoreEpoch) -> BTreeMap<ReplicaId, Arc<str>> {
        match self.restored.as_deref() == Some(&*restore_epoch.to_string()) {
            true => numbered(&self.former),
            // The restoration was interrupted.
            false => BTreeMap::new(),
        }
    }
}

/// Opens a data directory that has to exist.
pub(super) fn existing(path: &Path) -> anyhow::Result<DataDirectory> {
    DataDirectory::open(path).map_err(|error| match error {
        store::Error::NotADataDirectory { .. } => Dismissed(format!(
            "the data directory of this replica is gone: {error}. A new one would be another \
             replica: where the cell has others, {ANEW}"
        ))
        .into(),
        error => error.into(),
    })
}

/// Rejects a used directory that may lack acknowledged records.
pub(super) fn check(directory: &DataDirectory, id: ReplicaId) -> Result<(), Dismissed> {
    let Some(doubt) = directory.doubt().filter(|_| directory.log_begun()) else { return Ok(()) };
    let path = directory.path().display();
    Err(Dismissed(format!(
        "{path} must not be used as it is: {doubt}. It may lack what replica {id} has \
         acknowledged, and replica {id} may run elsewhere. If the cell has other replicas, \
         {ANEW}. If this is all that is left of the cell, or its only replica in another place, \
         continue from it with bourg master restore --dir {path}"
    )))
}

/// What to do with a replica whose directory cannot be used.
const ANEW: &str = "remove this replica and add a new one with an empty directory (bourg master \
                    remove, bourg master add)";

fn named(replicas: impl IntoIterator<Item = (ReplicaId, String)>) -> BTreeMap<String, String> {
    let replicas = replicas.into_iter();
    replicas.map(|(id, address)| (id.to_string(), address)).collect()
}

fn numbered(replicas: &BTreeMap<String, String>) -> BTreeMap<ReplicaId, Arc<str>> {
    let id = |id: &String| id.parse().ok().map(ReplicaId);
    let replicas = replicas.iter();
    replicas.filter_map(|(text, at)| Some((id(text)?, Arc::from(at.as_str())))).collect()
}

#[cfg(test)]
mod tests {
    use model::{DirectoryId, LogIndex};

    use super::*;

    #[test]
    fn an_error_that_ends_a_replica_names_the_command_that_helps() {
        let (replica, index) = (ReplicaId(3), LogIndex(9));
        let (recorded, own) = (DirectoryId(1), DirectoryId(2));
        let what = "no operation".to_owned();
        let add = "add a new one with an empty directory (`bourg master add`)";
        for (error, help) in [
            (
                ReplicaError::LostRecords { committed: index, last: LogIndex(7) },
                "it lost acknowledged records. Remove this replica (`bourg master remove`) and",
            ),
            (
                ReplicaError::AnotherDirectory { replica, recorded, own },
                "or is another replica's. Remove replica 3 (`bourg master remove 3`) and",
            ),
            (
                ReplicaError::Contradicted { leader: replica, index, committed: index },
                "stop the other replicas for good and run `bourg master restore` here; to continue \
                 without them, remove this replica (`bourg master remove`) and",
            ),
            (
                UnknownOperation::Malformed { index, what }.into(),
                "record 9 cannot be read (no operation): remove this replica (`bourg master remove`) and",
            ),
        ] {
            let said = with_remedy(&error);
            assert!(said.ends_with(&format!("{help} {add}")), "{said}");
        }
    }

    #[test]
    fn a_directory_without_the_file_is_the_first_replicas() {
        let place = tempfile::tempdir().expect("a directory");
        assert_eq!(ReplicaIdentity::read(place.path()).expect("none is needed").id(), FIRST);
        let third = ReplicaIdentity::new(ReplicaId(3), [(FIRST, "m1:7800".to_owned())]);
        third.write(place.path()).expect("there is room");
        let read = ReplicaIdentity::read(place.path()).expect("it is there");
        assert_eq!((read.id(), read.former(RestoreEpoch::NEVER)), (ReplicaId(3), BTreeMap::new()));
        assert_eq!(read.replicas(), [(FIRST, Arc::from("m1:7800"))].into());
        let former = [(FIRST, "m1:7800".to_owned())];
        let epoch = |counter| RestoreEpoch { counter, random: u64::MAX };
        ReplicaIdentity::new(FIRST, [])
            .restored(epoch(7), former)
            .write(place.path())
            .expect("there is room");
        let restored = ReplicaIdentity::read(place.path()).expect("it is there");
        assert_eq!([6, 7].map(|counter| restored.former(epoch(counter)).len()), [0, 1]);
        third.write(place.path()).expect("there is room");
        let text = std::fs::read_to_string(place.path().join(FILE)).expect("it is there");
        for (what, with) in
            [("m1:7800", "m2:7800"), ("id = 3", "id = 1"), ("[replicas]", "[former]")]
        {
            let changed = text.replace(what, with);
            assert_ne!(changed, text);
            std::fs::write(place.path().join(FILE), changed).expect("there is room");
            let said = ReplicaIdentity::read(place.path()).expect_err("it was changed").to_string();
            assert!(said.contains("its checksum does not match"), "{said}");
            assert!(said.ends_with("(bourg master remove, bourg master add)"), "{said}");
        }
        std::fs::write(place.path().join(FILE), "id = ").expect("there is room");
        let said = ReplicaIdentity::read(place.path()).expect_err("it is cut").to_string();
        assert!(said.contains("is damaged, so that it is not known which replica"), "{said}");
        std::fs::write(place.path().join(FILE), "id = 0").expect("there is room");
        let said = ReplicaIdentity::read(place.path()).expect_err("no id").to_string();
        assert!(said.ends_with("replicas count from 1"), "{said}");
    }
}
