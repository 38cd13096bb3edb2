//! What a count that is stored belongs to.

use model::{Band, CollectionId, UserName};

/// What a count belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The cell.
    Cell,
    /// A band.
    Band(Band),
    /// A user.
    User(UserName),
    /// A job.
    Job(CollectionId),
}

impl std::fmt::Display for Counted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cell => f.write_str("the cell"),
            Self::Band(band) => write!(f, "the {band} band"),
            Self::User(user) => write!(f, "user {user}"),
            Self::Job(id) => write!(f, "job {id}"),
        }
    }
}
