//! Forgetting jobs that have ended, as it arrives in the API.

use cell::{ForgetJob, Reply};
use prost::Message as _;
use proto::v1;
use tonic::Request;

use crate::caller::tasks::may_touch;
use crate::reads::job_address;
use crate::service::tasks::split;
use crate::service::{Answer, Service};

impl Service {
    pub(crate) async fn forget_a_job(
        &self,
        request: Request<v1::ForgetRequest>,
    ) -> Answer<v1::ForgetResponse> {
        let by = self.anyone(&request).await?;
        let bytes = request.get_ref().encoded_len();
        let (v1::ForgetRequest { id, job }, asked) = split(request);
        let (owner, job) = job_address(&by.user, &job.unwrap_or_default())?;
        self.own(&by, &asked, || may_touch(&by.user, &owner, &job))?;
        let user = owner.to_string();
        let forget = ForgetJob { owner, job };
        self.change((id, by, bytes), forget, |index, reply| match reply {
            Reply::Done => Some(v1::ForgetResponse { index, user }),
            _ => None,
        })
        .await
    }
}
