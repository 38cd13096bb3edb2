//! A checkpoint for a backup: the cell as it is, or as it was, in pieces. They are made
//! from a view beside everything else, and no faster than they are read. A checkpoint of the cell as it is
//! that was sent whole is a backup: the cell records that.

use std::time::Duration;

use api::v1;
use cell::RecordBackup;
use model::{Asker, Capability, LogIndex};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Response, Status};

use crate::caller::Caller;
use crate::chunks::{pieces, send};
use crate::service::door::Door;
use crate::service::history::History;
use crate::service::{Answer, Streamed};
use crate::streams::StreamHolder;

/// The maximum number of pieces that wait for a slow reader.
const QUEUE: usize = 4;
/// The timeout for the last pieces to be read.
const READ_PATIENCE: Duration = Duration::from_secs(60);
/// The timeout for the record of a backup: a cell without a leader can be saved, too.
const RECORD_PATIENCE: Duration = Duration::from_secs(5);

impl History {
    pub(super) async fn save(
        &self,
        by: &Caller,
        asked: v1::SaveCheckpointRequest,
    ) -> Answer<Streamed<v1::SaveCheckpointResponse>> {
        let (view, user) = (self.door.core.view(), &by.user);
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
                let (door, by) = (self.door.clone(), by.clone());
                tokio::spawn(async move {
                    let _slot = slot;
                    let (runtime, sender) = (tokio::runtime::Handle::current(), to_client.clone());
                    let index = view.cell.index();
                    let sending = tokio::task::spawn_blocking(move || {
                        pieces(&view.cell, view.origin, |piece| {
                            let piece = v1::SaveCheckpointResponse { piece: Some(piece) };
                            let taken = runtime.block_on(send(&sender, piece));
                            if taken { Ok(()) } else { Err(()) }
                        })
                    });
                    if let Ok(Ok(())) = sending.await {
                        // The stream ends after this: a client that has the whole checkpoint sees the record.
                        record(&door, &by, index, &to_client).await;
                    }
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

/// Waits until all pieces are read, and records the backup.
async fn record(
    door: &Door,
    by: &Caller,
    index: LogIndex,
    to_client: &mpsc::Sender<Result<v1::SaveCheckpointResponse, Status>>,
) {
    let read = tokio::time::timeout(READ_PATIENCE, to_client.reserve_many(QUEUE)).await;
    let is_read = read.is_ok_and(|room| room.is_ok());
    if !is_read {
        // What was not read to its end is no backup.
        return;
    }
    let recorded = door.record(by, RecordBackup { index }.into());
    let why = match tokio::time::timeout(RECORD_PATIENCE, recorded).await {
        Ok(Ok(())) => return,
        Ok(Err(status)) => status.message().to_owned(),
        Err(_) => format!("no answer within {} s", RECORD_PATIENCE.as_secs()),
    };
    tracing::warn!("the backup that {} saved as of index {index} is not recorded: {why}", by.user);
}
