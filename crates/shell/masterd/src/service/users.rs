//! Users: who the caller is, whether its certificate is still accepted, and administration of users
//! (design, section 7).

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::UNIX_EPOCH;

use cell::{AddUser, Cell, Mutation, Reply, RevokeUser};
use model::{Serial, Time, UserName};
use prost::Message as _;
use proto::v1;
use rpc::Identity;
use rpc::transport::Cause;
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use crate::caller::Caller;
use crate::caller::tasks::Denied;
use crate::reads::{Reads, views};
use crate::service::enrolment::Wanted;
use crate::service::forwarding::LEADER_PATIENCE;
use crate::service::{Answer, Service, Streamed, gate, unexpected};
use crate::view::View;

impl Service {
    /// The calling user, if their certificate is accepted. Requests that tasks may not make use
    /// this.
    pub(crate) fn caller<T>(&self, request: &Request<T>) -> Result<Caller, Status> {
        let peer = rpc::transport::peer(request, &self.cell)?;
        if let Identity::Task { user, .. } = &peer.identity {
            let why = format!(
                "{} may not do that: a task may read its cell, and submit and kill jobs of \
                 {user}; all else needs a user's own certificate",
                peer.identity
            );
            return Err(rpc::transport::refuse(request, Cause::WrongRole, why));
        }
        self.user_or_task(request)
    }

    /// The calling user, or that of the calling task, if the certificate is accepted as far as
    /// known here.
    pub(crate) fn user_or_task<T>(&self, request: &Request<T>) -> Result<Caller, Status> {
        let (caller, view) = (self.claimed(request)?, self.core.view());
        match caller.accepted(&view.cell, view.now()) {
            Ok(()) => Ok(caller),
            Err(Denied { cause, why }) => Err(rpc::transport::refuse(request, cause, why)),
        }
    }

    /// The same. This replica may not know a task that was placed a moment ago yet: it then asks
    /// the others.
    pub(crate) async fn anyone<T: Sync>(&self, request: &Request<T>) -> Result<Caller, Status> {
        let (caller, view) = (self.claimed(request)?, self.core.view());
        let mut accepted = caller.accepted(&view.cell, view.now());
        if accepted.as_ref().is_err_and(|denied| denied.cause == Cause::Ended) {
            let view = gate::newest(&self.core).await?;
            accepted = caller.accepted(&view.cell, view.now());
        }
        match accepted {
            Ok(()) => Ok(caller),
            Err(Denied { cause, why }) => Err(rpc::transport::refuse(request, cause, why)),
        }
    }

    /// The caller by its certificate, accepted or not.
    fn claimed<T>(&self, request: &Request<T>) -> Result<Caller, Status> {
        let peer = rpc::transport::peer(request, &self.cell)?;
        let (name, task) = match peer.identity {
            Identity::User(name) => (name, None),
            Identity::Task { user, .. } => {
                let issued = peer.issued.duration_since(UNIX_EPOCH).unwrap_or_default();
                (user, Some(Time(u64::try_from(issued.as_micros()).unwrap_or(u64::MAX))))
            }
            other => {
                let why = format!("{other} may not do that: only users and their tasks may");
                return Err(rpc::transport::refuse(request, Cause::WrongRole, why));
            }
        };
        let user =
            UserName::new(&name).map_err(|error| Status::unauthenticated(error.to_string()))?;
        let serial = Serial::from_bytes(&peer.serial).ok_or_else(|| {
            Status::unauthenticated("the certificate's serial number is too long: get a new one")
        })?;
        Ok(Caller { user, serial, task })
    }

    /// A stream that ends when its caller's certificate is not accepted any more, or when this
    /// replica has known no leader for a while: the reader then asks another.
    pub(crate) fn while_accepted<T: 'static>(
        &self,
        caller: Caller,
        stream: Response<Streamed<T>>,
    ) -> Response<Streamed<T>> {
        let (core, mut views) = (self.core.clone(), self.core.watch());
        let refused = Box::pin(async move {
            let revoked = async {
                let denied = |view: &View| caller.accepted(&view.cell, view.now()).err();
                let view = views.wait_for(|view| denied(view).is_some()).await;
                match view.map(|view| denied(&view)) {
                    Ok(Some(Denied { why, .. })) => Status::permission_denied(why),
                    // The master ends, and the stream ends by itself.
                    Ok(None) | Err(_) => std::future::pending().await,
                }
            };
            tokio::select! {
                revoked = revoked => revoked,
                () = core.without_leader_for(LEADER_PATIENCE) => {
                    Status::unavailable("this replica knows no leader: ask another")
                }
            }
        });
        stream.map(|stream| {
            let stream: Streamed<T> = Box::pin(WhileAccepted { stream: Some(stream), refused });
            stream
        })
    }

    pub(crate) async fn add_a_user(
        &self,
        by: Caller,
        asked: v1::AddUserRequest,
    ) -> Answer<v1::AddUserResponse> {
        let invalid = |error: &dyn std::fmt::Display| Status::invalid_argument(error.to_string());
        let bytes = asked.encoded_len();
        let user = UserName::new(&asked.name).map_err(|error| invalid(&error))?;
        let validity = asked.validity.ok_or_else(|| invalid(&"no validity is given"))?;
        let validity = proto::span(&validity).map_err(|error| invalid(&error))?;
        let id = asked.id.ok_or_else(|| invalid(&"a request needs its id"))?;
        let identity = Identity::User(user.to_string());
        let wanted = Wanted::by_request(&asked.signing_request, id, &identity)?;
        let mutation =
            Mutation::AddUser(AddUser { user: user.clone(), serial: wanted.serial, validity });
        let (index, certificate) = match self.mutate(Some(id), by, mutation, bytes).await? {
            (index, Reply::UserAdded(certificate)) => (index, certificate),
            (_, other) => return Err(unexpected(&other)),
        };
        Ok(Response::new(v1::AddUserResponse {
            index: index.0,
            certificate: self.certify(&wanted, &identity, &certificate)?,
            expires: certificate.expires.0,
        }))
    }

    pub(crate) async fn revoke_a_user(
        &self,
        by: Caller,
        asked: v1::RevokeUserRequest,
    ) -> Answer<v1::RevokeUserResponse> {
        let bytes = asked.encoded_len();
        let user = UserName::new(&asked.name);
        let user = user.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let nearest = nearest(&self.core.view().cell, &user);
        let mutation = Mutation::RevokeUser(RevokeUser { user: user.clone() });
        let (index, known) = match self.mutate(asked.id, by, mutation, bytes).await? {
            (index, Reply::UserRevoked { known }) => (index, known),
            (_, other) => return Err(unexpected(&other)),
        };
        let view = self.core.view();
        let jobs = view.cell.jobs().filter(|job| job.owner == user && job.is_alive()).count();
        Ok(Response::new(v1::RevokeUserResponse {
            index: index.0,
            known,
            nearest: nearest.filter(|_| !known).unwrap_or_default(),
            jobs: u32::try_from(jobs).unwrap_or(u32::MAX),
        }))
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

/// A stream, until its caller is rejected.
struct WhileAccepted<T> {
    stream: Option<Streamed<T>>,
    refused: Pin<Box<dyn Future<Output = Status> + Send>>,
}

impl<T> Stream for WhileAccepted<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let Some(stream) = &mut this.stream else { return Poll::Ready(None) };
        if let Poll::Ready(status) = this.refused.as_mut().poll(context) {
            this.stream = None;
            return Poll::Ready(Some(Err(status)));
        }
        let next = stream.as_mut().poll_next(context);
        if let Poll::Ready(None) = next {
            this.stream = None;
        }
        next
    }
}
