//! Issues join tokens for administrators. The token's key is generated here and stored only in the
//! token.

use std::time::Duration;

use api::v1;
use api::v1::issue_token_request::Joins;
use client::Connection;
use command::Failure;
use model::Span;
use rpc::{JoinToken, NewKey};

/// Issues a token; returns it with its expiry, in microseconds since 1970.
pub(super) async fn issue(
    connection: &mut Connection,
    joins: Joins,
    validity: Duration,
) -> Result<(JoinToken, u64), Failure> {
    let unusable = |error: &dyn std::fmt::Display| Failure::failed(format!("error: {error}"));
    let key = NewKey::generate().map_err(|error| unusable(&error))?;
    let validity = Span(u64::try_from(validity.as_micros()).unwrap_or(u64::MAX));
    let request = v1::IssueTokenRequest {
        id: Some(connection.request_id().await?),
        joins: Some(joins),
        signing_request: key.request_pem().map_err(|error| unusable(&error))?,
        validity: Some(api::duration(validity)),
    };
    let answer = connection
        .ask(request, async |mut client, request| client.access.issue_token(request).await)
        .await?;
    let (file, ca_pem) = connection.cell_file();
    let credentials = key.credentials(answer.certificate, ca_pem);
    let credentials = credentials.map_err(|error| unusable(&error))?;
    let masters = if answer.masters.is_empty() { file.masters } else { answer.masters };
    let token = JoinToken::new(masters, credentials).map_err(|error| unusable(&error))?;
    Ok((token, answer.expires))
}
