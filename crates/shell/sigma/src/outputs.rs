//! The outputs of an ended task, as an archive that a browser downloads.

use api::v1;
use axum::Extension;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use tonic::Streaming;

use crate::address::{Address, Place};
use crate::app::App;
use crate::problem::Problem;
use crate::session::Session;

/// The outputs of a task.
pub(crate) async fn download(
    State(app): State<App>,
    Extension(session): Extension<Session>,
    Path((user, job, index)): Path<(String, String, u32)>,
) -> Response {
    let Ok(permit) = app.watchers().acquire(session.user.clone()) else {
        let what = "You watch and download too much at once.";
        return app.problem(&session, &Problem::new(StatusCode::TOO_MANY_REQUESTS, what));
    };
    let name = format!("{user}-{job}-{index}.tar");
    let request = v1::OutputsRequest {
        job: Some(v1::JobAddress { user, job }),
        task: index,
        ..v1::OutputsRequest::default()
    };
    let pieces = match open(&app, &session, request).await {
        Ok(pieces) => pieces,
        Err(problem) => return app.problem(&session, &problem),
    };
    let data = tokio_stream::StreamExt::map(pieces, move |piece| {
        let _held = &permit;
        piece.map(|piece| piece.data)
    });
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let name = match name.bytes().all(is_plain) {
        true => name,
        false => "outputs.tar".to_owned(),
    };
    let headers = [
        (header::CONTENT_TYPE, "application/x-tar".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
    ];
    (headers, axum::body::Body::from_stream(data)).into_response()
}

async fn open(
    app: &App,
    session: &Session,
    request: v1::OutputsRequest,
) -> Result<Streaming<v1::OutputChunk>, Problem> {
    let address = Address { place: Place::Help, at: None };
    let mut asker = app.asker(session, address).await?;
    let mut pieces = asker.stream(request, async |mut c, r| c.tasks.outputs(r).await).await?;
    let first = pieces.message().await;
    let first = first.map_err(|status| Problem::from(client::Error::Answer(status)))?;
    let begin = first.and_then(|first| first.begin).unwrap_or_default();
    match (begin.any, begin.package.is_empty()) {
        (true, _) => Ok(pieces),
        (false, false) => {
            let package = begin.package;
            Err(Problem::not_found(format!("The outputs are package {package}, which jobs mount.")))
        }
        (false, true) => Err(Problem::not_found("The task has left nothing.")),
    }
}
