//! The cell's settings for the output of tasks in the API.

use cell::{Reply, SetLogs};
use prost::Message as _;
use proto::v1;
use tonic::Status;

use crate::caller::Caller;
use crate::service::{Answer, Service};

impl Service {
    pub(crate) async fn set_log_settings(
        &self,
        by: Caller,
        asked: v1::SetLogsRequest,
    ) -> Answer<v1::SetLogsResponse> {
        let bytes = asked.encoded_len();
        let settings = asked.settings.ok_or_else(|| Status::invalid_argument("no settings"))?;
        let settings = settings.try_into().map_err(|error: proto::Malformed| {
            Status::invalid_argument(format!("the settings cannot be used: {error}"))
        })?;
        self.change((asked.id, by, bytes), SetLogs(settings), |index, reply| match reply {
            Reply::Done => Some(v1::SetLogsResponse { index }),
            _ => None,
        })
        .await
    }
}
