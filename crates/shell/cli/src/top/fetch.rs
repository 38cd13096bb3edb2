//! Asks the master for what is shown, again and again.

use std::time::Duration;

use api::v1;
use client::Connection;
use tokio::sync::{mpsc, watch};

use super::fallback;
use super::views::View;
use crate::usage;

/// How long to wait for an answer before the next replica is asked.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long to wait between failed requests.
const RETRY: Duration = Duration::from_millis(300);

/// An answer to the request of a view: the usage, and why it is missing in it; or an error.
pub(super) struct FetchedView {
    pub(super) view: View,
    pub(super) result: Result<UsageAnswer, String>,
}

/// A response, and why the usage is missing in it.
pub(super) type UsageAnswer = (v1::UsageResponse, Option<String>);

/// Requests what a view shows.
pub(super) async fn ask(
    connection: &mut Connection,
    view: &View,
) -> Result<UsageAnswer, client::Error> {
    match usage::ask_all(connection, view.of()).await {
        Ok(response) => Ok((response, None)),
        Err(client::Error::Answer(status)) if status.code() == tonic::Code::Unimplemented => {
            let lacks = format!("usage: {}", rpc::transport::explain(&status));
            Ok((fallback::ask(connection, view).await?, Some(lacks)))
        }
        Err(error) => Err(error),
    }
}

/// Requests what the wanted view shows, at once when another is wanted, until nobody wants it.
pub(super) async fn repeat(
    mut connection: Connection,
    mut wanted: watch::Receiver<View>,
    answers: mpsc::Sender<FetchedView>,
    interval: Duration,
) {
    connection.set_unanswered_patience(Duration::ZERO);
    connection.set_patience(Duration::ZERO);
    // The view that was shown first has its answer already.
    let mut pause = interval;
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            changed = wanted.changed() => if changed.is_err() {
                return;
            },
        }
        let view = wanted.borrow_and_update().clone();
        let answer = tokio::select! {
            answer = tokio::time::timeout(PATIENCE, ask(&mut connection, &view)) => answer,
            changed = wanted.changed() => {
                if changed.is_err() {
                    return;
                }
                wanted.mark_changed();
                continue;
            }
        };
        let result = match answer {
            Ok(Ok(usage)) => Ok(usage),
            Ok(Err(error)) => Err(usage::why(&error)),
            Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
        };
        pause = interval;
        if result.is_err() {
            connection.elsewhere();
            pause = interval.min(RETRY);
        }
        if answers.send(FetchedView { view, result }).await.is_err() {
            return;
        }
    }
}
