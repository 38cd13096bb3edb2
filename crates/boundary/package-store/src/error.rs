//! The errors of a store of packages: what happened, where, why, and what to do next.

use std::io;
use std::time::Duration;

use model::{Beyond, Digest};

use crate::pack::{MAX_CHUNK_BYTES, PackId};

/// The result type of this crate.
pub type StoreResult<T, E = Error> = Result<T, E>;

/// An error of a store of packages, of its contents, or of a call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The location cannot be used at all.
    #[error("cannot use {location} as a store of packages: {why}; {instead}")]
    Location {
        /// The location as given.
        location: String,
        /// The reason.
        why: String,
        /// What to give instead.
        instead: &'static str,
    },

    /// An operation on an object failed.
    #[error(
        "cannot {action} {object} in the store {location}: {why}; check that the store is reachable and that this process may use it"
    )]
    Object {
        /// The attempted action, as a verb.
        action: &'static str,
        /// The name of the object.
        object: String,
        /// The store.
        location: String,
        /// The error of the store, with its causes.
        why: String,
    },

    /// No space is left.
    #[error(
        "cannot write {object}: the store {location} is full; free space there, or remove packages with `bourg package delete` and wait for the next collection"
    )]
    Full {
        /// The name of the object.
        object: String,
        /// The store.
        location: String,
    },

    /// The store did not answer in time.
    #[error("the store {location} did not {action} {object} within {} s; check its disk or network, then try again", .after.as_secs_f32())]
    Slow {
        /// The attempted action, as a verb.
        action: &'static str,
        /// The name of the object.
        object: String,
        /// The store.
        location: String,
        /// The timeout.
        after: Duration,
    },

    /// A pack does not contain the bytes that were written.
    #[error(
        "the pack {pack} in the store {location} has wrong bytes where chunk {digest} should be: its disk or a program changed them; restore the pack from a backup, or push the package again"
    )]
    WrongBytes {
        /// The pack.
        pack: PackId,
        /// The chunk whose bytes do not match its digest.
        digest: Digest,
        /// The store.
        location: String,
    },

    /// The bytes that were given do not have the digest that was given.
    #[error(
        "the bytes sent for chunk {digest} have another digest: the connection or the file they were read from changed them; push the package again"
    )]
    WrongDigest {
        /// The digest as given.
        digest: Digest,
    },

    /// A chunk has no acceptable length.
    #[error("chunk {digest} has {length} bytes: a chunk has 1 to {MAX_CHUNK_BYTES}")]
    Length {
        /// The digest as given.
        digest: Digest,
        /// Its length.
        length: u64,
    },

    /// No pack contains the chunk.
    #[error(
        "no chunk {digest} in the store {location}: it was never uploaded, or it was collected since no package needed it; push the package again"
    )]
    NotFound {
        /// The digest.
        digest: Digest,
        /// The store.
        location: String,
    },

    /// The share of a user, or the store's index, is used up.
    #[error(
        "no room for more chunks in the index of the store {location}: {beyond}; remove packages that are not needed and wait for the next collection"
    )]
    Chunks {
        /// The bound that was reached.
        beyond: Beyond,
        /// The store.
        location: String,
    },

    /// The share of a user of the disk is used up.
    #[error(
        "no room for more packs on the disk of the store {location}, in bytes: {beyond}; remove packages that are not needed and wait for the next collection"
    )]
    Bytes {
        /// The bound that was reached: the bytes of all packs, and those that are free.
        beyond: Beyond,
        /// The store.
        location: String,
    },

    /// The store has more packs than this process can index.
    #[error("the store {location} has more than {max} packs; collect it, or raise the bound")]
    Packs {
        /// The bound.
        max: usize,
        /// The store.
        location: String,
    },

    /// Another collection is under way.
    #[error("another process has been collecting the store {location} for {} s; wait for it, or remove its object `collecting` if that process is gone", .since.as_secs())]
    Collecting {
        /// The age of the other collection.
        since: Duration,
        /// The store.
        location: String,
    },
}

/// The error of an operation on an object.
pub(crate) fn of_object(
    action: &'static str,
    object: &str,
    location: &str,
    error: &object_store::Error,
) -> Error {
    let (object, location) = (object.to_owned(), location.to_owned());
    if is_full(error) {
        return Error::Full { object, location };
    }
    Error::Object { action, object, location, why: chain(error) }
}

/// Whether the cause of an error is a disk or a quota without space.
fn is_full(error: &object_store::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        if matches!(kind, Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// The message of an error with those of its causes that it does not contain.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let of_cause = cause.to_string();
        if !text.contains(&of_cause) {
            text = format!("{text}: {of_cause}");
        }
        source = cause.source();
    }
    text
}
