//! The service for who may use the cell: users, their certificates and capabilities, and what joins
//! (design, section 7).

use ::sigma::{NoSignIn, Sessions};
use api::v1;
use api::v1::issue_token_request::Joins;
use api::v1::past_question::Question;
use cell::{
    AddUser, Cell, IssueReplicaToken, IssueToken, Mutation, Reply, RevokeMachine, RevokeUser,
};
use model::{MachineName, ReplicaId, UserName};
use process::renewal::addresses;
use prost::Message as _;
use rpc::service::access_server;
use rpc::transport::Cause;
use rpc::{Identity, Joining};
use tonic::{Request, Response, Status};

use crate::reads::{Reads, views};
use crate::service::door::Door;
use crate::service::issuer::{Issuer, Wanted};
use crate::service::{Answer, malformed, unexpected};

/// The service.
#[derive(Clone)]
pub(super) struct Access {
    door: Door,
    issuer: Issuer,
    /// Who is signed in to Sigma, if it is served here.
    sigma: Option<Sessions>,
}

impl Access {
    pub(super) fn new(door: Door, issuer: Issuer, sigma: Option<Sessions>) -> Self {
        Self { door, issuer, sigma }
    }
}

#[tonic::async_trait]
impl access_server::Access for Access {
    async fn add_user(&self, request: Request<v1::AddUserRequest>) -> Answer<v1::AddUserResponse> {
        let by = self.door.caller(&request)?;
        let asked = request.into_inner();
        let invalid = |error: &dyn std::fmt::Display| Status::invalid_argument(error.to_string());
        let bytes = asked.encoded_len();
        let user = UserName::new(&asked.name).map_err(|error| invalid(&error))?;
        let validity = asked.validity.ok_or_else(|| invalid(&"no validity is given"))?;
        let validity = api::span(&validity).map_err(|error| invalid(&error))?;
        let id = asked.id.ok_or_else(|| invalid(&"a request needs its id"))?;
        let identity = Identity::User(user.to_string());
        let wanted = Wanted::by_request(&asked.signing_request, id, &identity)?;
        let mutation =
            Mutation::AddUser(AddUser { user: user.clone(), serial: wanted.serial, validity });
        let (index, certificate) = match self.door.mutate(Some(id), by, mutation, bytes).await? {
            (index, Reply::UserAdded(certificate)) => (index, certificate),
            (_, other) => return Err(unexpected(&other)),
        };
        Ok(Response::new(v1::AddUserResponse {
            index: index.0,
            certificate: self.issuer.certify(&wanted, &identity, &certificate)?,
            expires: certificate.expires.0,
        }))
    }

    async fn revoke_user(
        &self,
        request: Request<v1::RevokeUserRequest>,
    ) -> Answer<v1::RevokeUserResponse> {
        let by = self.door.caller(&request)?;
        let asked = request.into_inner();
        let bytes = asked.encoded_len();
        let user = UserName::new(&asked.name);
        let user = user.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let nearest = nearest(&self.door.core.view().cell, &user);
        let mutation = Mutation::RevokeUser(RevokeUser { user: user.clone() });
        let (index, known) = match self.door.mutate(asked.id, by, mutation, bytes).await? {
            (index, Reply::UserRevoked { known }) => (index, known),
            (_, other) => return Err(unexpected(&other)),
        };
        let view = self.door.core.view();
        let jobs = view.cell.jobs().filter(|job| job.owner == user && job.is_alive()).count();
        Ok(Response::new(v1::RevokeUserResponse {
            index: index.0,
            known,
            nearest: nearest.filter(|_| !known).unwrap_or_default(),
            jobs: u32::try_from(jobs).unwrap_or(u32::MAX),
        }))
    }

    async fn users(&self, request: Request<v1::UsersRequest>) -> Answer<v1::UsersResponse> {
        let (by, asked) = (self.door.anyone(&request).await?, request.into_inner());
        if let Some(at) = asked.at {
            return self.door.past(&by, at, Question::Users(asked)).await;
        }
        self.door.read(&by, |reads| Ok(reads.users()))
    }

    async fn issue_token(
        &self,
        request: Request<v1::IssueTokenRequest>,
    ) -> Answer<v1::IssueTokenResponse> {
        let by = self.door.caller(&request)?;
        let asked = request.into_inner();
        let invalid = |error: &dyn std::fmt::Display| Status::invalid_argument(error.to_string());
        let bytes = asked.encoded_len();
        let joins =
            asked.joins.ok_or_else(|| invalid(&"no joining machine or replica is given"))?;
        let validity = asked.validity.ok_or_else(|| invalid(&"no validity is given"))?;
        let validity = api::span(&validity).map_err(|error| invalid(&error))?;
        let id = asked.id.ok_or_else(|| invalid(&"a request needs its id"))?;
        let identity = Identity::Joining(match &joins {
            Joins::Machine(name) => Joining::Machine(name.clone()),
            Joins::Many(many) => Joining::Machine(many.prefix.clone()),
            Joins::Replica(id) => Joining::Replica(*id),
        });
        let wanted = Wanted::by_request(&asked.signing_request, id, &identity)?;
        let serial = wanted.serial;
        let mutation = match joins {
            Joins::Machine(name) => {
                let machine = MachineName::new(&name).map_err(|error| invalid(&error))?;
                Mutation::IssueToken(IssueToken { machine, serial, validity, most: None })
            }
            Joins::Many(v1::ManyMachines { prefix, most }) => {
                let machine = MachineName::new(&prefix).map_err(|error| invalid(&error))?;
                let most = Some(most);
                Mutation::IssueToken(IssueToken { machine, serial, validity, most })
            }
            Joins::Replica(id) => Mutation::IssueReplicaToken(IssueReplicaToken {
                replica: ReplicaId(id),
                serial,
                validity,
            }),
        };
        let (index, token) = match self.door.mutate(Some(id), by, mutation, bytes).await? {
            (index, Reply::TokenIssued(token)) => (index, token),
            (_, other) => return Err(unexpected(&other)),
        };
        Ok(Response::new(v1::IssueTokenResponse {
            index: index.0,
            certificate: self.issuer.certify(&wanted, &identity, &token)?,
            expires: token.expires.0,
            masters: addresses(self.door.core.view().cell.member_addresses()),
        }))
    }

    async fn tokens(&self, request: Request<v1::TokensRequest>) -> Answer<v1::TokensResponse> {
        let by = self.door.anyone(&request).await?;
        if !self.door.core.view().cell.is_administrator(&by.user) {
            let user = &by.user;
            return Err(Status::permission_denied(format!(
                "{user} may not see join tokens: an administrator may"
            )));
        }
        self.door.read(&by, |reads| Ok(reads.tokens()))
    }

    async fn revoke_machine(
        &self,
        request: Request<v1::RevokeMachineRequest>,
    ) -> Answer<v1::RevokeMachineResponse> {
        let by = self.door.caller(&request)?;
        let asked = request.into_inner();
        let bytes = asked.encoded_len();
        let machine = MachineName::new(&asked.machine);
        let machine = machine.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let mutation = Mutation::RevokeMachine(RevokeMachine { machine: machine.clone() });
        let (index, known) = match self.door.mutate(asked.id, by, mutation, bytes).await? {
            (index, Reply::MachineRevoked { known }) => (index, known),
            (_, other) => return Err(unexpected(&other)),
        };
        let view = self.door.core.view();
        let names = view.cell.machines().map(|machine| machine.name.as_str());
        let nearest = views::nearest(machine.as_str(), names).filter(|_| !known);
        let nearest = nearest.unwrap_or_default().to_owned();
        Ok(Response::new(v1::RevokeMachineResponse { index: index.0, known, nearest }))
    }

    async fn change_capability(
        &self,
        request: Request<v1::ChangeCapabilityRequest>,
    ) -> Answer<v1::ChangeCapabilityResponse> {
        use formats::v1::op::request::Mutation as Message;

        let by = self.door.caller(&request)?;
        let asked = request.into_inner();
        let bytes = asked.encoded_len();
        let change = asked.change.ok_or_else(|| Status::invalid_argument("no change is given"))?;
        let mutation = Mutation::try_from(Message::SetCapability(change));
        let mutation = mutation.map_err(|error| malformed(&error))?;
        self.door
            .change(asked.id, by, mutation, bytes, |index, reply| match reply {
                Reply::Done => Some(v1::ChangeCapabilityResponse { index }),
                _ => None,
            })
            .await
    }

    async fn capabilities(
        &self,
        request: Request<v1::CapabilitiesRequest>,
    ) -> Answer<v1::CapabilitiesResponse> {
        let (by, asked) = (self.door.anyone(&request).await?, request.into_inner());
        if let Some(at) = asked.at {
            return self.door.past(&by, at, Question::Capabilities(asked)).await;
        }
        self.door.read(&by, |reads| Ok(reads.capabilities(&asked)))
    }

    async fn issue_sigma_link(
        &self,
        request: Request<v1::IssueSigmaLinkRequest>,
    ) -> Answer<v1::IssueSigmaLinkResponse> {
        self.door.caller(&request)?;
        let Some(sessions) = &self.sigma else {
            return Err(Status::failed_precondition(
                "this replica does not serve Sigma: start it with --sigma IP:PORT",
            ));
        };
        let peer = rpc::transport::peer(&request, &self.door.cell)?;
        let link = sessions.link(peer).map_err(|why| match why {
            NoSignIn::NoUser => rpc::transport::refuse(&request, Cause::WrongRole, why.to_string()),
            NoSignIn::Full => Status::resource_exhausted(why.to_string()),
            NoSignIn::NoRandom => Status::internal(why.to_string()),
        })?;
        let expires = link.expires.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let expires = u64::try_from(expires.as_micros()).unwrap_or(u64::MAX);
        Ok(Response::new(v1::IssueSigmaLinkResponse { link: link.address, expires }))
    }
}

impl Reads<'_> {
    /// The users who were added or revoked, and the administrators.
    pub(crate) fn users(&self) -> v1::UsersResponse {
        let mut names: Vec<&UserName> = self.cell.users().map(|(name, _)| name).collect();
        names.extend(self.cell.administrators());
        names.sort_unstable();
        names.dedup();
        v1::UsersResponse {
            index: self.cell.index().0,
            time: self.now.0,
            users: names.into_iter().map(|name| self.user(name)).collect(),
        }
    }

    /// The join tokens of machines, without what nobody may know of them.
    pub(crate) fn tokens(&self) -> v1::TokensResponse {
        let status = |(serial, token): (model::Serial, &std::sync::Arc<cell::Token>)| {
            let used_by = match &token.many {
                Some(many) => many.admitted.keys().map(ToString::to_string).collect(),
                None => token.used.iter().map(|_| token.machine.to_string()).collect(),
            };
            v1::TokenStatus {
                number: serial.to_string(),
                machine: token.machine.to_string(),
                most: token.many.as_ref().map(|many| many.most),
                used_by,
                issued: token.issued.at.0,
                issued_by: token.issued.by.to_string(),
                expires: token.expires.0,
            }
        };
        v1::TokensResponse {
            tokens: self.cell.tokens().map(status).collect(),
            index: self.cell.index().0,
            time: self.now.0,
        }
    }

    pub(crate) fn capabilities(&self, asked: &v1::CapabilitiesRequest) -> v1::CapabilitiesResponse {
        let held = self.cell.capabilities();
        let held = held.filter(|(user, _)| asked.user.is_empty() || asked.user == user.as_str());
        v1::CapabilitiesResponse {
            index: self.cell.index().0,
            administrators: self.cell.administrators().map(ToString::to_string).collect(),
            users: held
                .map(|(user, held)| v1::UserCapabilities {
                    user: user.to_string(),
                    capabilities: held.map(|capability| capability.to_string()).collect(),
                })
                .collect(),
        }
    }

    fn user(&self, name: &UserName) -> v1::UserStatus {
        let user = self.cell.user(name).map(AsRef::as_ref).cloned().unwrap_or_default();
        let act = |act: Option<&cell::Act>| match act {
            Some(act) => (act.at.0, act.by.to_string()),
            None => (0, String::new()),
        };
        let ((added, added_by), (revoked, revoked_by)) =
            (act(user.added.as_ref()), act(user.revoked.as_ref()));
        let certificates = user.certificates.iter().map(|certificate| (*certificate).into());
        v1::UserStatus {
            name: name.to_string(),
            administrator: self.cell.is_administrator(name),
            added,
            added_by,
            revoked,
            revoked_by,
            certificates: certificates.collect(),
            shut_out: user.is_shut_out(),
        }
    }
}

/// The known user with the nearest name.
fn nearest(cell: &Cell, wanted: &UserName) -> Option<String> {
    let known = cell.users().map(|(name, _)| name.as_str());
    let owners = cell.named_jobs().map(|job| job.owner.as_str());
    views::nearest(wanted.as_str(), known.chain(owners)).map(str::to_owned)
}
