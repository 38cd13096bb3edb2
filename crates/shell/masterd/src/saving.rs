//! A checkpoint for an administrator who asks for one: the cell as it is, or as it was, in pieces.
//! They are made from a view beside everything else, and no faster than they are taken.

use std::time::Duration;

use cell::Cell;
use checkpoint::Origin;
use model::UserName;
use proto::image::StateHasher;
use proto::v1;
use proto::v1::save_checkpoint_response::{Head, Piece};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Response, Status};

use super::service::{Answer, Service, Streamed};

/// How many pieces may wait for a slow reader.
const QUEUE: usize = 4;
/// How long a reader may take for one more; then it is given up.
const PATIENCE: Duration = Duration::from_secs(60);

impl Service {
    pub(super) fn save(
        &self,
        user: &UserName,
        asked: v1::SaveCheckpointRequest,
    ) -> Answer<Streamed<v1::SaveCheckpointResponse>> {
        let view = self.core.view();
        if !view.cell.is_administrator(user) {
            return Err(Status::permission_denied(format!(
                "{user} may not save a checkpoint, which holds everything of everybody: an \
                 administrator may"
            )));
        }
        let slot = self.past.slot()?;
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
                let (past, user, newest) = (self.past.clone(), user.clone(), view.cell.index());
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

/// Gives a reader one more piece; whether it is still there.
pub(super) async fn send(
    to_client: &mpsc::Sender<Result<v1::SaveCheckpointResponse, Status>>,
    piece: v1::SaveCheckpointResponse,
) -> bool {
    to_client.send_timeout(Ok(piece), PATIENCE).await.is_ok()
}

/// All pieces of a cell's checkpoint, in order. The first failure ends it.
pub(super) fn pieces<E>(
    cell: &Cell,
    origin: Origin,
    mut out: impl FnMut(Piece) -> Result<(), E>,
) -> Result<(), E> {
    out(Piece::Head(Head {
        index: cell.index().0,
        time: cell.time().0,
        term: origin.term.0,
        restore_epoch: origin.restore_epoch,
        name: cell.name().map(ToString::to_string).unwrap_or_default(),
    }))?;
    let mut hasher = StateHasher::default();
    checkpoint::pieces(&cell.image(), |piece| {
        hasher.update(piece);
        out(Piece::Image(piece.to_vec()))
    })?;
    out(Piece::StateHash(hasher.finish().to_string()))
}
