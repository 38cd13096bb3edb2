//! The client of a package store: sends packages to it and reads chunks of them.
//!
//! A master says who may do what, in statements that are presented here; what a package contains is not known here.

mod reading;
mod sending;

use std::time::Duration;

use model::Digest;
use rpc::service::package_store_client::PackageStoreClient;
use rpc::{Expect, Role, Rotating};
use thiserror::Error;
use tonic::transport::Channel;
use tonic::{Code, Status};

pub use reading::{PackageReader, ReadChunks};
pub use sending::{MissingChunks, Offered, Sending};

/// The maximum length of a chunk, in bytes: a manifest is one chunk.
pub const CHUNK_BYTES_MAX: usize = 16 << 20;

/// The number of bytes of chunks in one message, roughly.
const DATA_BYTES: usize = 1 << 20;

/// How long a store may take for the next part of what it sends.
const READ_PATIENCE: Duration = Duration::from_secs(30);
/// How long a store may take to accept a part of an upload, or to answer to one: it writes packs, and looks at all parts
/// of a package at its end.
const UPLOAD_PATIENCE: Duration = Duration::from_secs(120);

/// Why a store did not do what was asked.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The cell has no store.
    #[error("the cell has no store of packages: start one with bourg packages")]
    NoStore,
    /// No store answers any more.
    #[error(
        "the store of packages at {store} does not answer: see that it runs and reaches the masters"
    )]
    Silent {
        /// The address of the one that was heard of last.
        store: String,
    },
    /// It cannot be reached, or it has rejected the request.
    #[error("the store of packages at {store}: {why}")]
    Failed {
        /// Its address.
        store: String,
        /// The reason.
        why: String,
        /// The code of its answer.
        code: Code,
    },
    /// It has sent something else than what was asked for.
    #[error("the store of packages at {store} sent {what}")]
    Wrong {
        /// Its address.
        store: String,
        /// What it sent.
        what: String,
    },
    /// What produces the chunks has failed.
    #[error(transparent)]
    Source(#[from] std::io::Error),
}

impl StoreError {
    /// No store is named to read from or to upload to: there is none, or those that there are do not answer.
    #[must_use]
    pub fn none(silent: &[String]) -> Self {
        match silent {
            [store, ..] => Self::Silent { store: store.clone() },
            [] => Self::NoStore,
        }
    }
}

/// A store, connected lazily.
#[derive(Clone, Debug)]
struct Store {
    address: String,
    client: PackageStoreClient<Channel>,
}

impl Store {
    fn connect(address: &str, credentials: &Rotating) -> Result<Self, StoreError> {
        let channel = rpc::transport::connect(address, credentials, &Expect::Role(Role::Packages));
        let channel = channel.map_err(|error| StoreError::Failed {
            store: address.to_owned(),
            why: error.to_string(),
            code: Code::Unavailable,
        })?;
        let client = PackageStoreClient::new(channel)
            .max_decoding_message_size(4 * DATA_BYTES)
            .max_encoding_message_size(4 * DATA_BYTES);
        Ok(Self { address: address.to_owned(), client })
    }

    fn failed(&self, status: &Status) -> StoreError {
        let (store, said) = (self.address.clone(), rpc::transport::explain(status));
        let why = match status.code() {
            Code::Unavailable => format!("it does not answer: {said}"),
            _ => said,
        };
        StoreError::Failed { store, why, code: status.code() }
    }

    /// Waits for a store, but not for ever.
    async fn within<T>(
        &self,
        patience: Duration,
        answer: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, StoreError> {
        match tokio::time::timeout(patience, answer).await {
            Ok(answered) => answered.map_err(|status| self.failed(&status)),
            Err(_elapsed) => Err(StoreError::Failed {
                store: self.address.clone(),
                why: format!("it has sent nothing for {} s", patience.as_secs()),
                code: Code::DeadlineExceeded,
            }),
        }
    }

    fn wrong(&self, what: impl Into<String>) -> StoreError {
        StoreError::Wrong { store: self.address.clone(), what: what.into() }
    }
}

/// Digests, one after the other.
fn joined<'a>(digests: impl IntoIterator<Item = &'a Digest>) -> Vec<u8> {
    digests.into_iter().flat_map(|digest| *digest.as_bytes()).collect()
}
