//! `bourg secret`: what tasks need and nobody else may see.

use std::io::Read as _;

use api::v1;
use clap::{Args, Subcommand};
use client::Target;
use command::output::{self, Format, Listing};
use command::{Done, Failure, with_cell};
use model::{SecretName, Time};
use process::moment::rfc3339;

use super::moment::Moment;

/// The maximum size of a secret, in bytes.
const CONTENT_BYTES_MAX: u64 = 64 << 10;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Add a version of a secret, which may be new, from the standard input.
    ///
    /// Jobs name it in secrets or secretEnv. Tasks that start from now on get this version. onChange of a
    /// job says what happens to its tasks that run.
    Set {
        /// The name of the secret.
        name: SecretName,
    },
    /// List your secrets. Nobody can read their contents but your tasks.
    List(ListArgs),
    /// List the versions of a secret.
    Versions(VersionsArgs),
    /// Delete a secret that no live job names.
    Rm {
        /// The name of the secret.
        name: SecretName,
    },
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Output format: table, wide, json, yaml, name, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
    /// Show the state at this moment: an index (88412), a time (2026-11-19 03:10, UTC) or an age (10m).
    #[arg(long, value_name = "MOMENT")]
    at: Option<Moment>,
}

#[derive(Debug, Args)]
pub(super) struct VersionsArgs {
    /// The name of the secret.
    name: SecretName,
    /// Output format: table, wide, json, yaml, name, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
    /// Show the state at this moment: an index (88412), a time (2026-11-19 03:10, UTC) or an age (10m).
    #[arg(long, value_name = "MOMENT")]
    at: Option<Moment>,
}

/// Executes a command.
pub(super) fn secret(cell: Target<'_>, command: &Command) -> Done {
    match command {
        Command::Set { name } => set(cell, name),
        Command::List(args) => list(cell, args),
        Command::Versions(args) => versions(cell, args),
        Command::Rm { name } => rm(cell, name),
    }
}

fn set(cell: Target<'_>, name: &SecretName) -> Done {
    let mut content = Vec::new();
    let read = std::io::stdin().lock().take(CONTENT_BYTES_MAX + 1).read_to_end(&mut content);
    read.map_err(|error| {
        Failure::failed(format!("error: cannot read the secret from the standard input: {error}"))
    })?;
    if content.len() as u64 > CONTENT_BYTES_MAX {
        return Err(Failure::failed(format!(
            "error: a secret has at most {CONTENT_BYTES_MAX} bytes, and the standard input has more"
        )));
    }
    if content.is_empty() {
        return Err(Failure::failed(format!(
            "error: the standard input is empty, and {name} stays as it is"
        ))
        .next(format!("bourg secret set {name} < FILE")));
    }
    with_cell(cell, async |mut connection| {
        let id = Some(connection.request_id().await?);
        let request = v1::SetSecretRequest { id, name: name.to_string(), content };
        let answer = connection
            .ask(request, async |mut client, request| client.secrets.set(request).await)
            .await?;
        output::print(&format!("secret {name} has version {}\n", answer.version))
    })
}

fn rm(cell: Target<'_>, name: &SecretName) -> Done {
    with_cell(cell, async |mut connection| {
        let id = Some(connection.request_id().await?);
        let request = v1::DeleteSecretRequest { id, name: name.to_string() };
        let deleted = connection
            .ask(request, async |mut client, request| client.secrets.delete(request).await)
            .await;
        if let Err(error) = deleted {
            if !matches!(error, client::Error::Answer(_)) {
                return Err(error.into());
            }
            // To others who name a secret that is missing, the cell says to set it first.
            let own = own(&mut connection, None).await?;
            return Err(match own.iter().any(|secret| secret.name == name.as_str()) {
                true => error.into(),
                false => missing(name),
            });
        }
        output::print(&format!("secret {name} deleted\n"))
    })
}

/// The secrets of the user.
async fn own(
    connection: &mut client::Connection,
    at: Option<v1::Moment>,
) -> Result<Vec<v1::SecretInfo>, Failure> {
    let answer = connection
        .ask(v1::SecretsRequest { at }, async |mut client, request| {
            client.secrets.list(request).await
        })
        .await?;
    Ok(answer.secrets)
}

/// The failure for a secret that the user does not have.
fn missing(name: &SecretName) -> Failure {
    Failure::usage(format!("error: you have no secret {name}"))
        .next("bourg secret list shows those that you have")
}

fn state(versions: &[v1::SecretVersionInfo]) -> String {
    match versions.last() {
        Some(newest) if newest.unreadable => "set it again".to_owned(),
        _ => "readable".to_owned(),
    }
}

fn list(cell: Target<'_>, args: &ListArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let at = args.at.map(Moment::message);
        let secrets = own(&mut connection, at).await?;
        output::list(
            &args.output,
            &Listing {
                items: &secrets,
                name: |secret| secret.name.clone(),
                headings: &["SECRET", "VERSION", "SET", "STATE", "JOBS"],
                wide: 0,
                row: |secret| {
                    let newest = secret.versions.last().cloned().unwrap_or_default();
                    vec![
                        secret.name.clone(),
                        newest.number.to_string(),
                        rfc3339(Time(newest.set)),
                        state(&secret.versions),
                        secret.jobs.join(" "),
                    ]
                },
            },
        )
    })
}

fn versions(cell: Target<'_>, args: &VersionsArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let at = args.at.map(Moment::message);
        let is_it = |secret: &v1::SecretInfo| secret.name == args.name.as_str();
        let found = own(&mut connection, at).await?.into_iter().find(is_it);
        let secret = found.ok_or_else(|| missing(&args.name))?;
        output::list(
            &args.output,
            &Listing {
                items: &secret.versions,
                name: |version| version.number.to_string(),
                headings: &["VERSION", "SET", "BYTES"],
                wide: 0,
                row: |version| {
                    vec![
                        version.number.to_string(),
                        rfc3339(Time(version.set)),
                        version.size.to_string(),
                    ]
                },
            },
        )
    })
}

/// `bourg cell rotate-key`.
pub(super) fn rotate_key(cell: Target<'_>) -> Done {
    with_cell(cell, async |mut connection| {
        let answer = connection
            .ask(v1::RotateSecretKeyRequest {}, async |mut client, request| {
                client.secrets.rotate_key(request).await
            })
            .await?;
        let text = match answer.secrets {
            1 => "1 secret is".to_owned(),
            number => format!("{number} secrets are"),
        };
        let mut text = format!("{text} sealed with the new key {}\n", answer.key);
        if !answer.unreadable.is_empty() {
            let which = answer.unreadable.join(", ");
            text.push_str(&format!(
                "no master can open {which}: set the secret again, or give a master the file with the key\n"
            ));
        }
        output::print(&text)
    })
}
