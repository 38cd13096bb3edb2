//! The identity of the sender of a request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use tonic::codegen::http;
use tonic::metadata::MetadataValue;
use tonic::{Request, Status};

use super::refusals::{Cause, Refusals};
use crate::certificate::CLOCK_SKEW;
use crate::certificate::{self, Certified};
use crate::identity::Identity;
use crate::metadata::CAUSE;

/// The identity of the peer, from the certificate verified by TLS.
///
/// # Errors
/// `UNAUTHENTICATED` for a request that did not arrive through [`super::serve`], for a certificate
/// without an identity, and for an identity of a cell other than `cell`.
pub fn peer_identity<T>(request: &Request<T>, cell: &str) -> Result<Identity, Status> {
    peer(request, cell).map(|peer| peer.identity)
}

/// The sender of a request, and its certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The identity.
    pub identity: Identity,
    /// The serial number of the certificate, in big-endian order.
    pub serial: Vec<u8>,
    /// When the certificate was issued, to the second.
    pub issued: SystemTime,
    /// When the certificate expires.
    pub expires: SystemTime,
    /// The remote address.
    pub address: SocketAddr,
}

impl Peer {
    /// When the connection must end, at the expiry of its certificate; `None` for masters, which
    /// renew their certificates without reconnecting.
    pub(super) fn ends(&self) -> Option<SystemTime> {
        (self.identity != Identity::Master).then_some(self.expires)
    }
}

/// The peer, from the certificate verified by TLS.
///
/// # Errors
/// As for [`peer_identity`].
pub fn peer<T>(request: &Request<T>, cell: &str) -> Result<Peer, Status> {
    let far_end = request.extensions().get::<Arc<FarEnd>>();
    let far_end = far_end.ok_or_else(|| {
        Status::unauthenticated("no certificate: connect with credentials of the cell")
    })?;
    far_end.of_cell(cell).map_err(|(_, why)| Status::unauthenticated(why))
}

/// The peer of a plain HTTP request that arrived through [`super::serve_web`], by its extensions;
/// `None` if it is anonymous, or its certificate names no identity of the cell or has expired.
#[must_use]
pub fn web_peer(extensions: &http::Extensions, cell: &str) -> Option<Peer> {
    let peer = extensions.get::<Arc<FarEnd>>()?.of_cell(cell).ok()?;
    (SystemTime::now() < peer.expires).then_some(peer)
}

/// Rejects a request with `PERMISSION_DENIED` and the [`CAUSE`], and counts it in the server's [`Refusals`].
#[must_use]
pub fn refuse<T>(request: &Request<T>, cause: Cause, why: impl Into<String>) -> Status {
    let why = why.into();
    if let Some(far_end) = request.extensions().get::<Arc<FarEnd>>() {
        far_end.count(cause, &why);
    }
    let mut status = Status::permission_denied(why);
    status.metadata_mut().insert(CAUSE, MetadataValue::from_static(cause.as_str()));
    status
}

/// The peer of an accepted connection: parsed once, and attached to each of its requests.
#[derive(Debug)]
pub(super) struct FarEnd {
    address: SocketAddr,
    /// The content of its certificate, or why it is invalid.
    certified: Result<Certified, String>,
    refusals: Refusals,
}

impl FarEnd {
    /// Parses the certificate verified by TLS; counts one without an identity of `cell`.
    pub(super) fn new(
        address: SocketAddr,
        certificate: Option<&[u8]>,
        cell: &str,
        refusals: Refusals,
    ) -> Self {
        let certified = match certificate {
            Some(certificate) => certificate::certified(certificate, "the peer's certificate")
                .map_err(|error| error.to_string()),
            None => Err("no certificate: connect with credentials of the cell".to_owned()),
        };
        let far_end = Self { address, certified, refusals };
        if let Err((cause, why)) = far_end.of_cell(cell) {
            far_end.count(cause, &why);
        }
        far_end
    }

    /// A browser without a certificate.
    pub(super) fn anonymous(address: SocketAddr, refusals: Refusals) -> Self {
        Self { address, certified: Err("no certificate".to_owned()), refusals }
    }

    /// A peer that was authenticated before, for a call within this process.
    pub(super) fn known(peer: Peer, cell: &str, refusals: Refusals) -> Self {
        let Peer { identity, serial, issued, expires, address } = peer;
        let begins = issued - CLOCK_SKEW;
        let certified = Certified { cell: cell.to_owned(), identity, begins, expires, serial };
        Self { address, certified: Ok(certified), refusals }
    }

    /// The peer, if it belongs to this cell.
    pub(super) fn of_cell(&self, cell: &str) -> Result<Peer, (Cause, String)> {
        let certified =
            self.certified.as_ref().map_err(|why| (Cause::BadCertificate, why.clone()))?;
        let Certified { identity, serial, begins, expires, .. } = certified.clone();
        if certified.cell == cell {
            let issued = begins + CLOCK_SKEW;
            return Ok(Peer { identity, serial, issued, expires, address: self.address });
        }
        let why = format!(
            "{identity} belongs to cell {}, this is cell {cell}: use credentials of this cell",
            certified.cell
        );
        Err((Cause::WrongCell, why))
    }

    /// Counts a rejection of the peer.
    pub(super) fn count(&self, cause: Cause, why: &str) {
        self.refusals.count(cause, || format!("from {}: {why}", self.address));
    }
}
