//! A checkpoint for a backup: the cell as it is, or as it was, in pieces. They are made
//! from a view beside everything else, and no faster than they are read.

use api::v1;
use model::{Asker, Capability, UserName};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Response, Status};

use crate::chunks::{pieces, send};
use crate::service::history::History;
use crate::service::{Answer, Streamed};
use crate::streams::StreamHolder;

/// The maximum number of pieces that wait for a slow reader.
const QUEUE: usize = 4;

impl History {
    pub(super) async fn save(
        &self,
        user: &UserName,
        asked: v1::SaveCheckpointRequest,
    ) -> Answer<Streamed<v1::SaveCheckpointResponse>> {
        let view = self.door.core.view();
        if !view.cell.may(user, Capability::SaveCheckpoints) {
            return Err(Status::permission_denied(format!(
                "{user} may not save a checkpoint, which contains all data of all users: \
                 administrators and users with the capability save-checkpoints may"
            )));
        }
        let slot = self.door.past.turn(StreamHolder { user, asker: Asker::Administrator }).await?;
        let (to_client, stream) = mpsc::channel(QUEUE);
        match asked.at {
            None => {
                let runtime = tokio::runtime::Handle::current();
                tokio::task::spawn_blocking(move || {
                    let _slot = slot;
                    let _given_up = pieces(&view.cell, view.origin, |piece| {
                        let piece = v1::SaveCheckpointResponse { piece: Some(piece) };
                        let taken = runtime.block_on(send(&to_client, piece));
                        if taken { Ok(()) } else { Err(()) }
                    });
                });
            }
            Some(at) => {
                let (past, user, newest) =
                    (self.door.past.clone(), user.clone(), view.cell.index());
                tokio::spawn(async move {
                    let _slot = slot;
                    if let Err(status) = past.pieces(&user, newest, at, &to_client).await {
                        let _gone = to_client.send(Err(status)).await;
                    }
                });
            }
        }
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}
