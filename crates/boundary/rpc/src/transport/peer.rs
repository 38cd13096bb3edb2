//! Who sent a request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use tonic::{Request, Status};

use super::refusals::{Cause, Refusals};
use crate::certificate::CLOCK_SKEW;
use crate::certificate::{self, Certified};
use crate::identity::Identity;

/// The identity of the peer, from the certificate that TLS has verified.
///
/// # Errors
/// `UNAUTHENTICATED` for a request that came otherwise than through [`super::serve`], for a
/// certificate that carries no identity, and for one of a cell other than `cell`.
pub fn peer_identity<T>(request: &Request<T>, cell: &str) -> Result<Identity, Status> {
    peer(request, cell).map(|peer| peer.identity)
}

/// Who sent a request, and with which certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Who.
    pub identity: Identity,
    /// The serial number of their certificate, the most significant byte first.
    pub serial: Vec<u8>,
    /// When their certificate was issued, to the second.
    pub issued: SystemTime,
    /// When their certificate stops being accepted.
    pub expires: SystemTime,
    /// From where.
    pub address: SocketAddr,
}

impl Peer {
    /// When its connection ends at the latest: with its certificate. A master goes on with a connection
    /// when its certificate is renewed, everybody else dials anew.
    pub(super) fn ends(&self) -> Option<SystemTime> {
        (self.identity != Identity::Master).then_some(self.expires)
    }
}

/// The peer, from the certificate that TLS has verified.
///
/// # Errors
/// As [`peer_identity`].
pub fn peer<T>(request: &Request<T>, cell: &str) -> Result<Peer, Status> {
    let far_end = request.extensions().get::<Arc<FarEnd>>();
    let far_end = far_end.ok_or_else(|| {
        Status::unauthenticated("no certificate: connect with credentials of the cell")
    })?;
    far_end.of_cell(cell).map_err(|(_, why)| Status::unauthenticated(why))
}

/// Refuses a request with `PERMISSION_DENIED`, and counts it with the server's [`Refusals`].
#[must_use]
pub fn refuse<T>(request: &Request<T>, cause: Cause, why: impl Into<String>) -> Status {
    let why = why.into();
    if let Some(far_end) = request.extensions().get::<Arc<FarEnd>>() {
        far_end.count(cause, &why);
    }
    Status::permission_denied(why)
}

/// The far end of an accepted connection: read once, and kept with every request that comes from
/// there.
#[derive(Debug)]
pub(super) struct FarEnd {
    address: SocketAddr,
    /// What its certificate says, or what is wrong with it.
    certified: Result<Certified, String>,
    refusals: Refusals,
}

impl FarEnd {
    /// Reads the certificate that TLS has verified; one that is nobody's of `cell` is counted.
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

    /// The peer, where it is of this cell.
    pub(super) fn of_cell(&self, cell: &str) -> Result<Peer, (Cause, String)> {
        let certified =
            self.certified.as_ref().map_err(|why| (Cause::BadCertificate, why.clone()))?;
        let Certified { identity, serial, begins, expires, .. } = certified.clone();
        if certified.cell == cell {
            let issued = begins + CLOCK_SKEW;
            return Ok(Peer { identity, serial, issued, expires, address: self.address });
        }
        let why = format!(
            "{identity} is of cell {}, this is cell {cell}: use credentials of this cell",
            certified.cell
        );
        Err((Cause::WrongCell, why))
    }

    /// Counts a refusal of the peer.
    pub(super) fn count(&self, cause: Cause, why: &str) {
        self.refusals.count(cause, || format!("from {}: {why}", self.address));
    }
}
