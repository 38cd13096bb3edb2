//! `bourg master certify`: issues a certificate from the authority in a replica's directory. It
//! does not contact the cell, which therefore has no record of the certificate. Use it where nobody
//! can run `bourg user add` yet. It needs read access to the authority's key, which already allows
//! impersonating anyone.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use client::CellFile;
use command::{Done, Failure, output};
use rpc::{Authority, Identity, Validity};

use super::{duration, user};

#[derive(Debug, Args)]
pub(crate) struct CertifyArgs {
    /// The identity: user/NAME, scheduler/NAME or packages/NAME.
    identity: Identity,
    /// The replica's data directory.
    #[arg(long)]
    dir: PathBuf,
    /// The directory to create for the certificate and its key.
    #[arg(long)]
    to: PathBuf,
    /// The address of a master replica, as host:port; repeatable. Required for users.
    #[arg(long, value_name = "HOST:PORT")]
    master: Vec<String>,
    /// Validity of the certificate. A scheduler renews its own.
    #[arg(long = "for", value_name = "TIME", default_value = "90d", value_parser = duration)]
    validity: Duration,
}

pub(super) fn certify(args: &CertifyArgs) -> Done {
    let wrong = |text: &str, next: &str| Err(Failure::usage(format!("error: {text}")).next(next));
    match &args.identity {
        Identity::User(_) if args.master.is_empty() => {
            return wrong(
                "a user's certificate needs the address of a master",
                "give it with --master",
            );
        }
        Identity::User(_) | Identity::Scheduler(_) | Identity::Packages(_) => {}
        Identity::Borglet(machine) => {
            let next = format!("to enroll it: bourg machine token {machine}");
            return wrong("machines get their certificates from the cell", &next);
        }
        _ => {
            return wrong(
                "only users, schedulers and stores of packages can be certified this way",
                "user/NAME, scheduler/NAME, packages/NAME",
            );
        }
    }
    let failed = |error: rpc::Error| Failure::failed(format!("error: {error}"));
    let authority = Authority::open(args.dir.join("tls")).map_err(failed)?;
    let credentials = authority.issue(&args.identity, Validity::lasting(args.validity));
    let credentials = credentials.map_err(failed)?;
    user::make(&args.to, "--to")?;
    let (whom, to) = (&args.identity, args.to.display());
    if let Identity::User(_) = whom {
        let file = CellFile::new(authority.cell().to_owned(), args.master.clone());
        client::write(&args.to, &file, &credentials)?;
        output::say(&format!(
            "{whom}: can use the cell with {to}\nnext: bourg --cell {to} status\n"
        ));
    } else {
        // The stem of its files is the role, and so is its command.
        let command = whom.role().as_str();
        credentials.write(&args.to, command).map_err(failed)?;
        output::say(&format!(
            "{whom}: certified\nnext: bourg {command} --credentials {to} --master HOST:PORT\n"
        ));
    }
    Ok(())
}
