//! Links to Sigma at this replica.

use ::sigma::NoSignIn;
use proto::v1;
use rpc::transport::Cause;
use tonic::{Request, Response, Status};

use crate::service::{Answer, Service};

impl Service {
    /// A link that signs the caller in to the Sigma of this replica.
    pub(crate) fn issue_a_sigma_link(
        &self,
        request: &Request<v1::IssueSigmaLinkRequest>,
    ) -> Answer<v1::IssueSigmaLinkResponse> {
        self.caller(request)?;
        let Some(sessions) = &self.sigma else {
            return Err(Status::failed_precondition(
                "this replica does not serve Sigma: start it with --sigma IP:PORT",
            ));
        };
        let peer = rpc::transport::peer(request, &self.cell)?;
        let link = sessions.link(peer).map_err(|why| match why {
            NoSignIn::NoUser => rpc::transport::refuse(request, Cause::WrongRole, why.to_string()),
            NoSignIn::Full => Status::resource_exhausted(why.to_string()),
            NoSignIn::NoRandom => Status::internal(why.to_string()),
        })?;
        let expires = link.expires.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let expires = u64::try_from(expires.as_micros()).unwrap_or(u64::MAX);
        Ok(Response::new(v1::IssueSigmaLinkResponse { link: link.address, expires }))
    }
}
