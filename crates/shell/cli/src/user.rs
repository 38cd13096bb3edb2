//! `bourg user`: manages users and their certificates.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use api::v1;
use clap::{Args, Subcommand};
use client::Connection;
use client::Target;
use command::output::{self, Format, Listing};
use command::{Done, Failure, with_cell};
use model::{Capability, Span, Time, UserName};
use rpc::NewKey;

use super::moment::Moment;
use super::{duration, moment};

/// The subcommands of `bourg user`.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Add a user, or issue another certificate: creates a client directory for the cell.
    ///
    /// The key is generated here and stays in the directory; the cell signs the certificate. A user
    /// can have several certificates, for example one for each machine.
    Add(AddArgs),
    /// List administrators, and users who were added or revoked.
    List {
        #[arg(short, long, default_value = "table")]
        /// Output format: table, wide, json, yaml, name, or the path of a field.
        output: Format,
        /// Show the state at this moment: an index (88412), a time (2026-11-19 03:10, UTC) or an age (10m).
        #[arg(long, value_name = "MOMENT")]
        at: Option<Moment>,
    },
    /// Revoke all certificates of a user. Running tasks are not affected.
    ///
    /// Open streams of the user end at once. If the user is added again, the new certificate is
    /// accepted, with the same rights as before.
    Revoke {
        /// The user.
        name: UserName,
    },
}

#[derive(Debug, Args)]
pub(super) struct AddArgs {
    /// The user: new, or one who needs another certificate.
    name: UserName,
    /// The directory to create. Default: ./NAME.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Make the user an administrator, too. bourg capability revoke NAME administer-cell ends that.
    #[arg(long)]
    administrator: bool,
    /// The validity of the certificate, such as 30d: from a minute to a year.
    #[arg(long = "for", value_name = "TIME", default_value = "90d", value_parser = duration)]
    validity: Duration,
}

pub(super) fn user(cell: Target<'_>, command: &Command) -> Done {
    match command {
        Command::Add(args) => add(cell, args),
        Command::List { output, at } => list(cell, output, *at),
        Command::Revoke { name } => revoke(cell, name),
    }
}

fn add(cell: Target<'_>, args: &AddArgs) -> Done {
    let default = || Path::new(".").join(args.name.as_str());
    let directory = args.dir.clone().unwrap_or_else(default);
    with_cell(cell, async |mut connection| {
        make(&directory, "--dir")?;
        let added = certify(&mut connection, args, &directory).await;
        if added.is_err() {
            // Removes the directory only if it is empty, which it is unless writing failed halfway.
            let _kept = std::fs::remove_dir(&directory);
        }
        let expires = added?;
        if args.administrator {
            let capability = Capability::AdministerCell;
            super::capability::change(&mut connection, &args.name, capability, true).await?;
        }
        output::say(&format!(
            "{}: can use the cell with {} until {}: give them the directory, which contains their key\n\
             next: bourg --cell {} status\n",
            args.name,
            directory.display(),
            moment::shown(Time(expires)),
            directory.display()
        ));
        Ok(())
    })
}

/// Creates the directory that a flag names. It must not exist: an existing one may contain
/// someone's key.
pub(super) fn make(directory: &Path, flag: &str) -> Done {
    let failed = |error: std::io::Error| {
        let text = format!("error: cannot create {}: {error}", directory.display());
        Failure::usage(text).next(format!("choose another one with {flag}"))
    };
    if let Some(parent) = directory.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    std::fs::DirBuilder::new().mode(0o700).create(directory).map_err(failed)
}

/// Has the cell sign a new key and writes the client directory; returns the expiry.
async fn certify(
    connection: &mut Connection,
    args: &AddArgs,
    directory: &Path,
) -> Result<u64, Failure> {
    let unusable = |error: rpc::Error| Failure::failed(format!("error: {error}"));
    let key = NewKey::generate().map_err(unusable)?;
    let validity = Span(u64::try_from(args.validity.as_micros()).unwrap_or(u64::MAX));
    let request = v1::AddUserRequest {
        id: Some(connection.request_id().await?),
        name: args.name.to_string(),
        signing_request: key.request_pem().map_err(unusable)?,
        validity: Some(api::duration(validity)),
    };
    let answer = connection
        .ask(request, async |mut client, request| client.access.add_user(request).await)
        .await?;
    let (file, ca_pem) = connection.cell_file();
    let credentials = key.credentials(answer.certificate, ca_pem).map_err(unusable)?;
    client::write(directory, &file, &credentials)?;
    Ok(answer.expires)
}

fn revoke(cell: Target<'_>, name: &UserName) -> Done {
    with_cell(cell, async |mut connection| {
        let id = Some(connection.request_id().await?);
        let request = v1::RevokeUserRequest { id, name: name.to_string() };
        let answer = connection
            .ask(request, async |mut client, request| client.access.revoke_user(request).await)
            .await?;
        let jobs = match answer.jobs {
            0 => String::new(),
            1 => "; 1 running job is not affected".to_owned(),
            several => format!("; {several} running jobs are not affected"),
        };
        output::say(&format!("{name}: all certificates are revoked{jobs}\n"));
        if !answer.known {
            let near = match answer.nearest.as_str() {
                "" => String::new(),
                near => format!(" Did you mean {near}?"),
            };
            output::say(&format!("note: user {name} did not exist before.{near}\n"));
        }
        Ok(())
    })
}

fn list(cell: Target<'_>, format: &Format, at: Option<Moment>) -> Done {
    with_cell(cell, async |mut connection| {
        let request = v1::UsersRequest { at: at.map(Moment::message) };
        let answer = connection
            .ask(request, async |mut client, request| client.access.users(request).await)
            .await?;
        let listing = Listing {
            items: &answer.users,
            name: |user| user.name.clone(),
            headings: &["USER", "ADMINISTRATOR", "ADDED", "CERTIFICATES", "REVOKED", "SERIALS"],
            wide: 1,
            row,
        };
        output::list(format, &listing)
    })
}

fn row(user: &v1::UserStatus) -> Vec<String> {
    let act = |at: u64, by: &str| match at {
        0 => "-".to_owned(),
        at => format!("{} by {by}", moment::shown(Time(at))),
    };
    let last = user.certificates.iter().map(|certificate| certificate.expires).max();
    let certificates = match (last, user.certificates.len()) {
        (None, _) if user.shut_out => "none".to_owned(),
        (None, _) => "any of the cell's".to_owned(),
        (Some(last), 1) => format!("1, until {}", moment::shown(Time(last))),
        (Some(last), several) => format!("{several}, the last until {}", moment::shown(Time(last))),
    };
    let serials = user.certificates.iter().map(|certificate| certificate.serial.as_str());
    vec![
        user.name.clone(),
        if user.administrator { "yes" } else { "-" }.to_owned(),
        act(user.added, &user.added_by),
        certificates,
        act(user.revoked, &user.revoked_by),
        serials.collect::<Vec<_>>().join(" "),
    ]
}
