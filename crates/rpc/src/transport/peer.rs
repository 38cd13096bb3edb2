//! Who sent a request.

use tonic::{Request, Status};

use crate::certificate::{self, Certified};
use crate::identity::Identity;

/// The identity of the peer, from the certificate that TLS has verified.
///
/// # Errors
/// `UNAUTHENTICATED` for a request without a certificate, for a certificate that carries no
/// identity, and for one of a cell other than `cell`.
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
}

/// The peer, from the certificate that TLS has verified.
///
/// # Errors
/// As [`peer_identity`].
pub fn peer<T>(request: &Request<T>, cell: &str) -> Result<Peer, Status> {
    match request.extensions().get::<Admitted>() {
        Some(Admitted(certified)) => of_cell(certified.clone(), cell),
        None => certified(request).and_then(|certified| of_cell(certified, cell)),
    }
}

/// What [`admit`] found, kept with the request, so that the certificate is parsed once.
#[derive(Clone)]
struct Admitted(Certified);

/// Refuses a request that does not come from an identity of `cell`, whatever service it is for.
pub(super) fn admit(mut request: Request<()>, cell: &str) -> Result<Request<()>, Status> {
    let certified = certified(&request)?;
    of_cell(certified.clone(), cell)?;
    request.extensions_mut().insert(Admitted(certified));
    Ok(request)
}

fn certified<T>(request: &Request<T>) -> Result<Certified, Status> {
    let certificates = request.peer_certs();
    // The first is the peer's own, those behind it lead to the authority.
    let Some(own) = certificates.as_ref().and_then(|chain| chain.first()) else {
        return Err(Status::unauthenticated(
            "no certificate: connect with credentials of the cell",
        ));
    };
    certificate::certified(own, "the peer's certificate")
        .map_err(|e| Status::unauthenticated(e.to_string()))
}

fn of_cell(certified: Certified, cell: &str) -> Result<Peer, Status> {
    if certified.cell == cell {
        return Ok(Peer { identity: certified.identity, serial: certified.serial });
    }
    Err(Status::unauthenticated(format!(
        "{} is of cell {}, this is cell {cell}: use credentials of this cell",
        certified.identity, certified.cell
    )))
}
