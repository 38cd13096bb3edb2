//! The names of the processes and directories of a dev cell's replicas.

use masterd::identity::FIRST;
use model::ReplicaId;

/// The process name of the first replica, and the prefix of the others' names.
pub(super) const MASTER: &str = "master";
/// The prefix of the directories of all replicas except the first.
pub(super) const OTHERS: &str = "master-";

/// The name of a replica's process in messages and in the address file.
pub(super) fn process_name(id: ReplicaId) -> String {
    match id {
        FIRST => MASTER.to_owned(),
        id => format!("{OTHERS}{id}"),
    }
}
