//! A cell's checkpoint in pieces, as it is sent.

use std::time::Duration;

use api::v1;
use api::v1::save_checkpoint_response::{Head, Piece};
use cell::Cell;
use checkpoint::Origin;
use formats::image::StateHasher;
use tokio::sync::mpsc;
use tonic::Status;

/// The timeout for a reader to accept one more piece.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends a reader one more piece; `false` if the reader is gone.
pub(crate) async fn send(
    to_client: &mpsc::Sender<Result<v1::SaveCheckpointResponse, Status>>,
    piece: v1::SaveCheckpointResponse,
) -> bool {
    to_client.send_timeout(Ok(piece), PATIENCE).await.is_ok()
}

/// Sends all pieces of a cell's checkpoint, in order. The first failure ends it.
pub(crate) fn pieces<E>(
    cell: &Cell,
    origin: Origin,
    mut out: impl FnMut(Piece) -> Result<(), E>,
) -> Result<(), E> {
    out(Piece::Head(Head {
        index: cell.index().0,
        time: cell.time().0,
        term: origin.term.0,
        restore_epoch: origin.restore_epoch.counter,
        restore_random: origin.restore_epoch.random,
        name: cell.name().map(ToString::to_string).unwrap_or_default(),
    }))?;
    let mut hasher = StateHasher::default();
    checkpoint::pieces(&cell.image(), |piece| {
        hasher.update(piece);
        out(Piece::Image(piece.to_vec()))
    })?;
    out(Piece::StateHash(hasher.finish().to_string()))
}
