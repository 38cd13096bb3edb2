//! A checkpoint of a cell in the pieces in which it is sent.

use std::time::Duration;

use cell::Cell;
use checkpoint::Origin;
use proto::image::StateHasher;
use proto::v1;
use proto::v1::save_checkpoint_response::{Head, Piece};
use tokio::sync::mpsc;
use tonic::Status;

/// How long a reader may take for one more; then it is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Gives a reader one more piece; whether it is still there.
pub(crate) async fn send(
    to_client: &mpsc::Sender<Result<v1::SaveCheckpointResponse, Status>>,
    piece: v1::SaveCheckpointResponse,
) -> bool {
    to_client.send_timeout(Ok(piece), PATIENCE).await.is_ok()
}

/// All pieces of a cell's checkpoint, in order. The first failure ends it.
pub(crate) fn pieces<E>(
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
