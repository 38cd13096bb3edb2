//! Makes the certificates that the cell has recorded.
//!
//! The log records the serial number of a certificate before the certificate is made. It is a hash
//! of the key and of what authorises it, so that a repeated request gets a certificate for the same
//! record.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use api::v1;
use cell::Certificate;
use model::Serial;
use rpc::{Authority, Identity, SigningRequest, Validity};
use tonic::Status;

/// A requested certificate, and its serial number.
pub(super) struct Wanted {
    pub(super) request: SigningRequest,
    number: [u8; 16],
    pub(super) serial: Serial,
}

impl Wanted {
    fn new(signing_request: &str, context: &[u8]) -> Result<Self, Status> {
        let request = SigningRequest::from_pem(signing_request);
        let request = request.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let number = request.serial(context);
        let serial = Serial::from_bytes(&number);
        let serial = serial.ok_or_else(|| Status::internal("a serial number is too long"))?;
        Ok(Self { request, number, serial })
    }

    /// A certificate requested in a session, for an identity: the same request id for another
    /// identity has another serial number, which is not the recorded one.
    pub(super) fn by_request(
        signing_request: &str,
        id: v1::RequestId,
        identity: &Identity,
    ) -> Result<Self, Status> {
        let (session, sequence) = (id.session.to_le_bytes(), id.sequence.to_le_bytes());
        let context = [&session[..], &sequence, identity.to_string().as_bytes()].concat();
        Self::new(signing_request, &context)
    }

    /// A certificate requested with another certificate.
    pub(super) fn with(signing_request: &str, shown: &Serial) -> Result<Self, Status> {
        Self::new(signing_request, &shown.0)
    }
}

/// The issuer of a replica.
#[derive(Clone)]
pub(super) struct Issuer {
    pub(super) authority: Arc<Authority>,
    /// The validity of certificates for machines and schedulers.
    pub(super) validity: Duration,
}

impl Issuer {
    /// Makes the recorded certificate.
    pub(super) fn certify(
        &self,
        wanted: &Wanted,
        identity: &Identity,
        recorded: &Certificate,
    ) -> Result<String, Status> {
        if recorded.serial != wanted.serial {
            return Err(Status::failed_precondition(
                "that request was made before with another key or for another: make a new one",
            ));
        }
        let until = UNIX_EPOCH + Duration::from_micros(recorded.expires.0);
        let validity = Validity { until, ..Validity::lasting(Duration::ZERO) };
        let issued = self.authority.certify(&wanted.request, identity, validity, &wanted.number);
        issued.map_err(|error| Status::internal(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use rpc::NewKey;

    use super::*;

    /// A certificate is made only for the recorded serial number.
    #[test]
    fn a_serial_number_differs_by_identity_and_context() {
        let key = NewKey::generate().expect("a key").request_pem().expect("a request");
        let number = |session, sequence, identity: &str| {
            let identity = identity.parse().expect("an identity");
            let wanted = Wanted::by_request(&key, v1::RequestId { session, sequence }, &identity);
            wanted.expect("a request").serial
        };
        let first = number(1, 1, "user/bob");
        assert_eq!(first, number(1, 1, "user/bob"), "it may be repeated");
        for (session, sequence, identity) in
            [(1, 1, "user/eve"), (1, 1, "join/borglet/bob"), (1, 2, "user/bob"), (2, 1, "user/bob")]
        {
            assert_ne!(first, number(session, sequence, identity), "{identity}");
        }
    }
}
