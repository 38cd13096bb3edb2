//! `bourg machine token` and `bourg machine revoke`: how machines join the cell, and are shut out.

use std::time::Duration;

use clap::Args;
use model::{MachineName, Span, Time};
use proto::v1;
use rpc::{JoinToken, NewKey};

use crate::cli::cells::{Connection, Target};
use crate::cli::exit::{Done, Failure};
use crate::cli::{duration, moment, output, with_cell};

#[derive(Debug, Args)]
pub(in crate::cli) struct TokenArgs {
    /// The machine: new, or one that needs another certificate.
    name: MachineName,
    /// How long the token is valid, such as 1h: a minute to a week.
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = duration)]
    validity: Duration,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RevokeArgs {
    /// Which one; it need not be there.
    name: MachineName,
}

pub(super) fn token(cell: Target<'_>, args: &TokenArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let (token, expires) = issue(&mut connection, args).await?;
        output::print(&format!("{token}\n"))?;
        eprintln!(
            "good for {} until {}, once\nnext, there: bourg borglet --join - --dir DIR --listen HOST:PORT",
            args.name,
            moment::shown(Time(expires))
        );
        Ok(())
    })
}

/// The token's key is made here, and goes into the token alone.
async fn issue(connection: &mut Connection, args: &TokenArgs) -> Result<(JoinToken, u64), Failure> {
    let unusable = |error: rpc::Error| Failure::failed(format!("error: {error}"));
    let key = NewKey::generate().map_err(unusable)?;
    let validity = Span(u64::try_from(args.validity.as_micros()).unwrap_or(u64::MAX));
    let request = v1::IssueTokenRequest {
        id: Some(connection.request_id().await?),
        machine: args.name.to_string(),
        signing_request: key.request_pem().map_err(unusable)?,
        validity: Some(proto::duration(validity)),
    };
    let answer = connection
        .ask(request, async |mut client, request| client.issue_token(request).await)
        .await?;
    let (file, ca_pem) = connection.cell_file();
    let credentials = key.credentials(answer.certificate, ca_pem).map_err(unusable)?;
    let masters = if answer.masters.is_empty() { file.masters } else { answer.masters };
    let token = JoinToken::new(masters, credentials);
    let token = token.map_err(|error| Failure::failed(format!("error: {error}")))?;
    Ok((token, answer.expires))
}

pub(super) fn revoke(cell: Target<'_>, args: &RevokeArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let name = &args.name;
        let id = Some(connection.request_id().await?);
        let request = v1::RevokeMachineRequest { id, machine: name.to_string() };
        let answer = connection
            .ask(request, async |mut client, request| client.revoke_machine(request).await)
            .await?;
        output::say(&format!("{name}: its certificates and tokens are refused from now on\n"));
        if !answer.known {
            let near = match answer.nearest.as_str() {
                "" => String::new(),
                near => format!(". Did you mean {near}?"),
            };
            eprintln!("nothing was known of {name} before{near}");
        }
        Ok(())
    })
}
