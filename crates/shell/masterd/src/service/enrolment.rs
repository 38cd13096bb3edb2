//! How machines join the cell and stay in it: with tokens issued by administrators, later with
//! their certificates (design, section 7).
//!
//! The log records the serial number of a certificate before the certificate is made. It is a hash
//! of the key and of what authorises it, so that a repeated request gets a certificate for the same
//! record.

use std::time::{Duration, UNIX_EPOCH};

use cell::{
    Certificate, IssueReplicaToken, IssueToken, Mutation, Op, Outcome, Rejection, Reply,
    RevokeMachine,
};
use model::{KeyDigest, LogIndex, MachineName, ReplicaId, Serial, Span, Time};
use process::renewal::addresses;
use prost::Message as _;
use proto::v1;
use proto::v1::issue_token_request::Joins;
use rpc::service::enrolment_server::Enrolment;
use rpc::transport::{Cause, Peer};
use rpc::{Identity, Joining, SigningRequest, Validity};
use tonic::{Request, Response, Status};

use crate::caller::Caller;
use crate::reads::rejections::rejected;
use crate::reads::views;
use crate::request;
use crate::service::{Answer, Service, unexpected};

/// A requested certificate, and its serial number.
pub(crate) struct Wanted {
    request: SigningRequest,
    number: [u8; 16],
    pub(crate) serial: Serial,
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
    pub(crate) fn by_request(
        signing_request: &str,
        id: v1::RequestId,
        identity: &Identity,
    ) -> Result<Self, Status> {
        let (session, sequence) = (id.session.to_le_bytes(), id.sequence.to_le_bytes());
        let context = [&session[..], &sequence, identity.to_string().as_bytes()].concat();
        Self::new(signing_request, &context)
    }

    /// A certificate requested with another certificate.
    fn with(signing_request: &str, shown: &Serial) -> Result<Self, Status> {
        Self::new(signing_request, &shown.0)
    }
}

impl Service {
    /// Makes the recorded certificate.
    pub(crate) fn certify(
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

    pub(crate) async fn issue_a_token(
        &self,
        by: Caller,
        asked: v1::IssueTokenRequest,
    ) -> Answer<v1::IssueTokenResponse> {
        let invalid = |error: &dyn std::fmt::Display| Status::invalid_argument(error.to_string());
        let bytes = asked.encoded_len();
        let joins =
            asked.joins.ok_or_else(|| invalid(&"no joining machine or replica is given"))?;
        let validity = asked.validity.ok_or_else(|| invalid(&"no validity is given"))?;
        let validity = proto::span(&validity).map_err(|error| invalid(&error))?;
        let id = asked.id.ok_or_else(|| invalid(&"a request needs its id"))?;
        let identity = Identity::Joining(match &joins {
            Joins::Machine(name) => Joining::Machine(name.clone()),
            Joins::Replica(id) => Joining::Replica(*id),
        });
        let wanted = Wanted::by_request(&asked.signing_request, id, &identity)?;
        let serial = wanted.serial;
        let mutation = match joins {
            Joins::Machine(name) => {
                let machine = MachineName::new(&name).map_err(|error| invalid(&error))?;
                Mutation::IssueToken(IssueToken { machine, serial, validity })
            }
            Joins::Replica(id) => Mutation::IssueReplicaToken(IssueReplicaToken {
                replica: ReplicaId(id),
                serial,
                validity,
            }),
        };
        let (index, token) = match self.mutate(Some(id), by, mutation, bytes).await? {
            (index, Reply::TokenIssued(token)) => (index, token),
            (_, other) => return Err(unexpected(&other)),
        };
        Ok(Response::new(v1::IssueTokenResponse {
            index: index.0,
            certificate: self.certify(&wanted, &identity, &token)?,
            expires: token.expires.0,
            masters: addresses(&self.core.view().cell),
        }))
    }

    pub(crate) async fn revoke_a_machine(
        &self,
        by: Caller,
        asked: v1::RevokeMachineRequest,
    ) -> Answer<v1::RevokeMachineResponse> {
        let bytes = asked.encoded_len();
        let machine = MachineName::new(&asked.machine);
        let machine = machine.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let mutation = Mutation::RevokeMachine(RevokeMachine { machine: machine.clone() });
        let (index, known) = match self.mutate(asked.id, by, mutation, bytes).await? {
            (index, Reply::MachineRevoked { known }) => (index, known),
            (_, other) => return Err(unexpected(&other)),
        };
        let view = self.core.view();
        let names = view.cell.machines().map(|machine| machine.name.as_str());
        let nearest = views::nearest(machine.as_str(), names).filter(|_| !known);
        let nearest = nearest.unwrap_or_default().to_owned();
        Ok(Response::new(v1::RevokeMachineResponse { index: index.0, known, nearest }))
    }

    /// The machine of the calling Borglet, if its certificate is accepted.
    pub(crate) fn machine<T>(&self, request: &Request<T>) -> Result<MachineName, Status> {
        let peer = rpc::transport::peer(request, &self.cell)?;
        let Identity::Borglet(name) = &peer.identity else {
            let why = format!("{} may not do that: only Borglets may", peer.identity);
            return Err(rpc::transport::refuse(request, Cause::WrongRole, why));
        };
        let name =
            MachineName::new(name).map_err(|error| Status::unauthenticated(error.to_string()))?;
        if self.core.view().cell.accepts_machine(&name, &serial(&peer)?) {
            return Ok(name);
        }
        let why = diagnostics::sentence(&Rejection::MachineRevoked(name));
        Err(rpc::transport::refuse(request, Cause::Revoked, why))
    }

    /// Executes a machine's request in the cell, and counts its rejection.
    async fn enrolment<T: prost::Message>(
        &self,
        request: &Request<T>,
        op: Op,
    ) -> Result<(LogIndex, Reply), Status> {
        let bytes = request.get_ref().encoded_len();
        let rejection = match self.ask(request::Request::Enrolment(op), bytes).await? {
            (index, Outcome::Request(Ok(reply))) => return Ok((index, reply)),
            (_, Outcome::Request(Err(rejection))) => rejection,
            (_, other) => return Err(unexpected(&other)),
        };
        let cause = match &rejection {
            Rejection::TokenUsed(_) | Rejection::ReplicaTokenUsed(_) => Cause::UsedToken,
            Rejection::TokenExpired(_) => Cause::Expired,
            Rejection::NoSuchToken(_) | Rejection::MachineRevoked(_) => Cause::Revoked,
            _ => return Err(rejected(&self.core.view().cell, &rejection)),
        };
        Err(rpc::transport::refuse(request, cause, diagnostics::sentence(&rejection)))
    }

    /// The validity of a machine's certificate.
    fn span(&self) -> Span {
        Span(u64::try_from(self.validity.as_micros()).unwrap_or(u64::MAX))
    }
}

#[tonic::async_trait]
impl Enrolment for Service {
    async fn enrol(&self, request: Request<v1::EnrolRequest>) -> Answer<v1::EnrolResponse> {
        let peer = rpc::transport::peer(&request, &self.cell)?;
        let Identity::Joining(Joining::Machine(name)) = &peer.identity else {
            let why = format!("{} does not join as a machine", peer.identity);
            return Err(rpc::transport::refuse(&request, Cause::WrongRole, why));
        };
        let v1::EnrolRequest { signing_request, address } = request.get_ref();
        let token = serial(&peer)?;
        let wanted = Wanted::with(signing_request, &token)?;
        let op = Op::Enrol {
            token,
            key: KeyDigest(wanted.request.key_digest()),
            address: address.clone(),
            certificate: wanted.serial,
            validity: self.span(),
        };
        let (index, certificate) = match self.enrolment(&request, op).await? {
            (index, Reply::Enrolled { certificate, .. }) => (index, certificate),
            (_, other) => return Err(unexpected(&other)),
        };
        let identity = Identity::Borglet(name.clone());
        Ok(Response::new(v1::EnrolResponse {
            index: index.0,
            certificate: self.certify(&wanted, &identity, &certificate)?,
            expires: certificate.expires.0,
            authority: self.authority.ca_pem().to_owned(),
            masters: addresses(&self.core.view().cell),
        }))
    }

    async fn renew(&self, request: Request<v1::RenewRequest>) -> Answer<v1::RenewResponse> {
        let peer = rpc::transport::peer(&request, &self.cell)?;
        let old = serial(&peer)?;
        let wanted = Wanted::with(&request.get_ref().signing_request, &old)?;
        let (index, certificate) = match &peer.identity {
            Identity::Borglet(_) => {
                let (machine, validity) = (self.machine(&request)?, self.span());
                let certificate = wanted.serial;
                let op = Op::RenewMachine { machine, old, certificate, validity };
                match self.enrolment(&request, op).await? {
                    (index, Reply::MachineRenewed(certificate)) => (index, certificate),
                    (_, other) => return Err(unexpected(&other)),
                }
            }
            // Nothing is recorded about schedulers: only their names tell them apart.
            Identity::Scheduler(_) => {
                let view = self.core.view();
                let (issued, serial) = (view.now(), wanted.serial);
                let expires = Time(issued.0.saturating_add(self.span().0));
                (view.cell.index(), Certificate { serial, issued, expires })
            }
            other => {
                let why =
                    format!("{other} may not renew its certificate: Borglets and schedulers may");
                return Err(rpc::transport::refuse(&request, Cause::WrongRole, why));
            }
        };
        Ok(Response::new(v1::RenewResponse {
            index: index.0,
            certificate: self.certify(&wanted, &peer.identity, &certificate)?,
            expires: certificate.expires.0,
            masters: addresses(&self.core.view().cell),
        }))
    }

    async fn certify_task(
        &self,
        request: Request<v1::CertifyTaskRequest>,
    ) -> Answer<v1::CertifyTaskResponse> {
        self.certify_a_task(request).await
    }

    async fn join(&self, request: Request<v1::JoinRequest>) -> Answer<v1::JoinResponse> {
        let peer = rpc::transport::peer(&request, &self.cell)?;
        let Identity::Joining(Joining::Replica(id)) = peer.identity else {
            let why = format!("{} does not join as a replica", peer.identity);
            return Err(rpc::transport::refuse(&request, Cause::WrongRole, why));
        };
        let (replica, token) = (ReplicaId(id), serial(&peer)?);
        let wanted = Wanted::with(&request.get_ref().signing_request, &token)?;
        let key = KeyDigest(wanted.request.key_digest());
        match self.enrolment(&request, Op::JoinReplica { replica, token, key }).await? {
            (_, Reply::Done) => {}
            (_, other) => return Err(unexpected(&other)),
        }
        tracing::warn!(
            "replica {replica} at {} receives the cell's certificate authority",
            peer.address
        );
        let view = self.core.view();
        let replicas = view.cell.replicas().map(|replica| v1::ReplicaAddress {
            id: replica.id.0,
            address: replica.address.to_string(),
        });
        Ok(Response::new(v1::JoinResponse {
            cell: self.cell.clone(),
            authority: self.authority.ca_pem().to_owned(),
            authority_key: self.authority.key_pem(),
            replica: id,
            replicas: replicas.collect(),
        }))
    }
}

fn serial(peer: &Peer) -> Result<Serial, Status> {
    Serial::from_bytes(&peer.serial).ok_or_else(|| {
        Status::unauthenticated("the certificate's serial number is too long: get a new one")
    })
}

#[cfg(test)]
mod tests {
    use rpc::NewKey;

    use super::*;

    /// A certificate is made only for the recorded serial number.
    #[test]
    fn the_same_request_for_somebody_else_or_in_another_place_has_another_number() {
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
