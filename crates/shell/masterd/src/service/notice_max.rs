//! The longest notice of tasks in the API.

use cell::{Reply, SetNoticeMax};
use prost::Message as _;
use proto::v1;
use tonic::Status;

use crate::caller::Caller;
use crate::service::{Answer, Service};

impl Service {
    pub(crate) async fn set_the_notice_max(
        &self,
        by: Caller,
        asked: v1::SetNoticeMaxRequest,
    ) -> Answer<v1::SetNoticeMaxResponse> {
        let bytes = asked.encoded_len();
        let most =
            asked.notice_max.ok_or_else(|| Status::invalid_argument("no notice is given"))?;
        let most = proto::span(&most).map_err(|error| {
            Status::invalid_argument(format!("the notice cannot be used: {error}"))
        })?;
        self.change((asked.id, by, bytes), SetNoticeMax(most), |index, reply| match reply {
            Reply::Done => Some(v1::SetNoticeMaxResponse { index }),
            _ => None,
        })
        .await
    }
}
