//! The setting of resource reclamation in the API.

use cell::{Reply, SetReclamation};
use model::{NotListed, Reclamation};
use prost::Message as _;
use proto::v1;
use tonic::Status;

use crate::caller::Caller;
use crate::service::{Answer, Service};

impl Service {
    pub(crate) async fn set_the_reclamation(
        &self,
        by: Caller,
        asked: v1::SetReclamationRequest,
    ) -> Answer<v1::SetReclamationResponse> {
        let bytes = asked.encoded_len();
        let bad = |error: NotListed| Status::invalid_argument(error.to_string());
        let setting: Reclamation = asked.setting.parse().map_err(bad)?;
        self.change((asked.id, by, bytes), SetReclamation(setting), |index, reply| match reply {
            Reply::Done => Some(v1::SetReclamationResponse { index }),
            _ => None,
        })
        .await
    }
}
