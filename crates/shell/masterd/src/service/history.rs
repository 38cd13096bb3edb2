//! The service for the history of the cell: its events, and the cell as it is or was as a checkpoint.

use api::v1;
use rpc::service::history_server;
use tonic::Request;

use crate::service::door::Door;
use crate::service::event_watch::EventSource;
use crate::service::{Answer, Streamed};

/// The service.
#[derive(Clone)]
pub(super) struct History {
    pub(super) door: Door,
    pub(super) events: EventSource,
}

impl History {
    pub(super) fn new(door: Door, events: EventSource) -> Self {
        Self { door, events }
    }
}

#[tonic::async_trait]
impl history_server::History for History {
    type EventsStream = Streamed<v1::EventsResponse>;
    type SaveCheckpointStream = Streamed<v1::SaveCheckpointResponse>;

    async fn events(&self, request: Request<v1::EventsRequest>) -> Answer<Self::EventsStream> {
        let (caller, asked) = (self.door.anyone(&request).await?, request.into_inner());
        let stream = self.follow(&caller, &asked)?;
        Ok(self.door.while_accepted(caller, stream))
    }

    async fn save_checkpoint(
        &self,
        request: Request<v1::SaveCheckpointRequest>,
    ) -> Answer<Self::SaveCheckpointStream> {
        let (caller, asked) = (self.door.caller(&request)?, request.into_inner());
        let stream = self.save(&caller, asked).await?;
        Ok(self.door.while_accepted(caller, stream))
    }
}
