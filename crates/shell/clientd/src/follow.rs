//! Streams that are followed from one replica to the next.

use std::cell::Cell;
use std::time::{Duration, Instant};

use api::v1;
use client::{Connection, MasterClient};
use command::{Done, Failure};
use tonic::{Code, Request, Response, Status, Streaming};

/// The delay before a stream that has ended is opened again.
const RETRY_DELAY: Duration = Duration::from_millis(200);
/// How long to retry while no master answers.
const PATIENCE: Duration = Duration::from_secs(60);

/// Reads a stream, and opens it again at another replica when it ends or its connection fails. `take`
/// gets each message, and changes the request so that the next stream continues after it. Unless it
/// `goes_on`, the stream is read once to its end.
///
/// # Errors
/// If `take` fails, or no replica has answered for a minute.
pub async fn follow<M: Clone, T>(
    connection: &mut Connection,
    mut request: M,
    goes_on: bool,
    open: impl AsyncFn(MasterClient, Request<M>) -> Result<Response<Streaming<T>>, Status>,
    mut take: impl FnMut(&mut M, T) -> Done,
) -> Done {
    // When the master stopped answering.
    let mut alone: Option<Instant> = None;
    loop {
        let again = Cell::new(false);
        let call = async |client: MasterClient, request| {
            let opened = open(client, request).await;
            again.set(opened.as_ref().is_err_and(is_transient));
            opened
        };
        match connection.stream(request.clone(), call).await {
            Ok(mut stream) => {
                alone = None;
                loop {
                    match stream.message().await {
                        Ok(Some(message)) => take(&mut request, message)?,
                        // The replica was restarted or has no more.
                        Ok(None) if goes_on => break,
                        Err(status) if goes_on && is_transient(&status) => break,
                        Ok(None) => return Ok(()),
                        Err(status) => return Err(Failure::from(status)),
                    }
                }
            }
            Err(error) => {
                let waits = alone.get_or_insert_with(Instant::now).elapsed();
                if !(goes_on && again.get() && waits < PATIENCE) {
                    return Err(error.into());
                }
            }
        }
        connection.elsewhere();
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

/// Opens a watch of names that goes on after the last answer. If the cell's log ends before that, it was
/// restored since, and all names come again; not if the user has `asked` for that index.
///
/// # Errors
/// As of the call.
pub async fn watch_names(
    mut client: MasterClient,
    request: Request<v1::WatchNamesRequest>,
    asked: u64,
) -> Result<Response<Streaming<v1::NamesChange>>, Status> {
    let (metadata, extensions, from) = request.into_parts();
    let request = |from| Request::from_parts(metadata.clone(), extensions.clone(), from);
    let opened = client.names.watch(request(from.clone())).await;
    match opened {
        Err(status) if status.code() == Code::OutOfRange && from.after != asked => {
            let from = v1::WatchNamesRequest { after: 0, ..from };
            client.names.watch(request(from)).await
        }
        opened => opened,
    }
}

/// Whether the error is transient: the connection failed or the master ended.
fn is_transient(status: &Status) -> bool {
    match status.code() {
        Code::Unavailable | Code::Unknown => !rpc::transport::is_distrust(status),
        Code::Cancelled | Code::DeadlineExceeded => true,
        // A connection that was cut mid-stream.
        Code::Internal => status.message().starts_with("h2 protocol error"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_is_asked_again() {
        let lost = Status::unknown("connection reset");
        for passing in [Status::unavailable("refused"), Status::cancelled("ended"), lost] {
            assert!(is_transient(&passing), "{passing}");
        }
        for lasting in [Status::out_of_range("--from 7"), Status::internal("bug")] {
            assert!(!is_transient(&lasting), "{lasting}");
        }
    }
}
