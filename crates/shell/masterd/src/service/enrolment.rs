//! The service by which machines and replicas join the cell and stay in it: with tokens issued by
//! administrators, later with their certificates (design, section 7).

use api::v1;
use cell::{Certificate, Op, Outcome, Rejection, Reply};
use model::{KeyDigest, LogIndex, MachineName, ReplicaId, Span, Time};
use process::renewal::addresses;
use rpc::service::enrolment_server;
use rpc::transport::Cause;
use rpc::{Identity, Joining};
use tonic::{Request, Response, Status};

use crate::reads::rejections::rejected;
use crate::request;
use crate::secret_keys::SecretKeys;
use crate::service::door::{Door, serial};
use crate::service::issuer::{Issuer, Wanted};
use crate::service::{Answer, secrets, task_certificates, unexpected};

/// The service.
#[derive(Clone)]
pub(super) struct Enroller {
    door: Door,
    issuer: Issuer,
    keys: SecretKeys,
}

impl Enroller {
    pub(super) fn new(door: Door, issuer: Issuer, keys: SecretKeys) -> Self {
        Self { door, issuer, keys }
    }

    /// Executes a machine's request in the cell, and counts its rejection.
    async fn enrolment<T: prost::Message>(
        &self,
        request: &Request<T>,
        op: Op,
    ) -> Result<(LogIndex, Reply), Status> {
        let bytes = request.get_ref().encoded_len();
        let rejection = match self.door.ask(request::Request::Enrolment(op), bytes).await? {
            (index, Outcome::Request(Ok(reply))) => return Ok((index, reply)),
            (_, Outcome::Request(Err(rejection))) => rejection,
            (_, other) => return Err(unexpected(&other)),
        };
        let cause = match &rejection {
            Rejection::TokenUsed(_) | Rejection::ReplicaTokenUsed(_) => Cause::UsedToken,
            Rejection::TokenExpired(_) => Cause::Expired,
            Rejection::NoSuchToken(_) | Rejection::MachineRevoked(_) => Cause::Revoked,
            _ => return Err(rejected(&self.door.core.view().cell, &rejection)),
        };
        Err(rpc::transport::refuse(request, cause, diagnostics::sentence(&rejection)))
    }

    /// The validity of a machine's certificate.
    fn span(&self) -> Span {
        Span(u64::try_from(self.issuer.validity.as_micros()).unwrap_or(u64::MAX))
    }
}

#[tonic::async_trait]
impl enrolment_server::Enrolment for Enroller {
    async fn enrol(&self, request: Request<v1::EnrolRequest>) -> Answer<v1::EnrolResponse> {
        let peer = rpc::transport::peer(&request, &self.door.cell)?;
        let Identity::Joining(Joining::Machine(of_token)) = &peer.identity else {
            let why = format!("{} does not join as a machine", peer.identity);
            return Err(rpc::transport::refuse(&request, Cause::WrongRole, why));
        };
        let v1::EnrolRequest { signing_request, address, machine } = request.get_ref();
        let named = Some(machine.as_str()).filter(|name| !name.is_empty());
        let named = named.map(MachineName::new).transpose();
        let named = named.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let name = named.as_ref().map_or_else(|| of_token.clone(), ToString::to_string);
        let token = serial(&peer)?;
        let wanted = Wanted::with(signing_request, &token)?;
        let op = Op::Enrol {
            token,
            key: KeyDigest(wanted.request.key_digest()),
            machine: named,
            address: address.clone(),
            certificate: wanted.serial,
            validity: self.span(),
        };
        let (index, certificate) = match self.enrolment(&request, op).await? {
            (index, Reply::Enrolled { certificate, .. }) => (index, certificate),
            (_, other) => return Err(unexpected(&other)),
        };
        let identity = Identity::Borglet(name);
        Ok(Response::new(v1::EnrolResponse {
            index: index.0,
            certificate: self.issuer.certify(&wanted, &identity, &certificate)?,
            expires: certificate.expires.0,
            authority: self.issuer.authority.ca_pem().to_owned(),
            masters: addresses(self.door.core.view().cell.member_addresses()),
        }))
    }

    async fn renew(&self, request: Request<v1::RenewRequest>) -> Answer<v1::RenewResponse> {
        let peer = rpc::transport::peer(&request, &self.door.cell)?;
        let old = serial(&peer)?;
        let wanted = Wanted::with(&request.get_ref().signing_request, &old)?;
        let (index, certificate) = match &peer.identity {
            Identity::Borglet(_) => {
                let (machine, validity) = (self.door.machine(&request)?, self.span());
                let certificate = wanted.serial;
                let op = Op::RenewMachine { machine, old, certificate, validity };
                match self.enrolment(&request, op).await? {
                    (index, Reply::MachineRenewed(certificate)) => (index, certificate),
                    (_, other) => return Err(unexpected(&other)),
                }
            }
            // Nothing is recorded about schedulers and stores of packages: only their names tell them apart.
            Identity::Scheduler(_) | Identity::Packages(_) => {
                let view = self.door.core.view();
                let (issued, serial) = (view.now(), wanted.serial);
                let expires = Time(issued.0.saturating_add(self.span().0));
                (view.cell.index(), Certificate { serial, issued, expires })
            }
            other => {
                let why = format!(
                    "{other} may not renew its certificate: Borglets, schedulers and stores of packages may"
                );
                return Err(rpc::transport::refuse(&request, Cause::WrongRole, why));
            }
        };
        Ok(Response::new(v1::RenewResponse {
            index: index.0,
            certificate: self.issuer.certify(&wanted, &peer.identity, &certificate)?,
            expires: certificate.expires.0,
            masters: addresses(self.door.core.view().cell.member_addresses()),
        }))
    }

    async fn certify_task(
        &self,
        request: Request<v1::CertifyTaskRequest>,
    ) -> Answer<v1::CertifyTaskResponse> {
        task_certificates::issue(&self.door, &self.issuer, request).await
    }

    async fn open_secrets(
        &self,
        request: Request<v1::OpenSecretsRequest>,
    ) -> Answer<v1::OpenSecretsResponse> {
        secrets::open(&self.door, &self.keys, request).await
    }

    async fn share_secret_keys(
        &self,
        request: Request<v1::ShareSecretKeysRequest>,
    ) -> Answer<v1::ShareSecretKeysResponse> {
        secrets::share(&self.door, &self.keys, request)
    }

    async fn join(&self, request: Request<v1::JoinRequest>) -> Answer<v1::JoinResponse> {
        let peer = rpc::transport::peer(&request, &self.door.cell)?;
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
        let view = self.door.core.view();
        let replicas = view.cell.replicas().map(|replica| v1::ReplicaAddress {
            id: replica.id.0,
            address: replica.address.to_string(),
        });
        Ok(Response::new(v1::JoinResponse {
            cell: self.door.cell.to_string(),
            authority: self.issuer.authority.ca_pem().to_owned(),
            authority_key: self.issuer.authority.key_pem(),
            replica: id,
            replicas: replicas.collect(),
        }))
    }
}
