//! Streams that hold something, such as a permit, for as long as they last.

use tokio_stream::{Stream, StreamExt as _};
use tonic::Status;

use super::Streamed;

/// A stream that holds a value until it ends: what waits for a reader takes memory until then.
pub(super) fn holding<T: 'static>(
    held: impl Send + 'static,
    stream: impl Stream<Item = Result<T, Status>> + Send + 'static,
) -> Streamed<T> {
    Box::pin(stream.map(move |message| {
        let _held = &held;
        message
    }))
}
