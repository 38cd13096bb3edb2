//! The flags of a store of packages.

use std::path::PathBuf;

use clap::Args;
use package_store::StoreLocation;
use process::arguments::{ListenArgs, dialled};
use process::reached_at;

use crate::Options;

/// The flags of a store of packages.
#[derive(Debug, Args)]
pub struct PackagesArgs {
    /// The directory with its certificate, packages.pem and packages.key.
    #[arg(long)]
    credentials: PathBuf,
    /// The address of a replica of the master, as host:port; repeatable.
    #[arg(long, required = true, value_name = "HOST:PORT", value_parser = dialled)]
    master: Vec<String>,
    /// The directory of the packages; created if it is missing. Several stores may share it.
    #[arg(long, required_unless_present = "bucket")]
    dir: Option<PathBuf>,
    /// The bucket of the packages on an S3-compatible store, instead of a directory. Region, endpoint and keys are taken
    /// from the environment.
    #[arg(long, conflicts_with = "dir", value_name = "s3://BUCKET/PREFIX")]
    bucket: Option<String>,
    /// The address at which clients reach this store. Default: the listening address, with this host's
    /// name if it listens on all interfaces.
    #[arg(long, value_name = "HOST:PORT", value_parser = dialled)]
    address: Option<String>,
    #[command(flatten)]
    listen: ListenArgs,
}

/// Runs a store of packages with these flags until it is told to stop.
///
/// # Errors
/// If it cannot be started.
pub fn start(args: PackagesArgs) -> anyhow::Result<()> {
    process::begin()?;
    let location = match (args.dir, args.bucket) {
        (_, Some(bucket)) => StoreLocation::Bucket(bucket),
        (dir, None) => StoreLocation::Directory(dir.unwrap_or_default()),
    };
    let listener = args.listen.listener()?;
    let address = match args.address {
        Some(address) => address,
        None => reached_at(&listener)?,
    };
    let options = Options {
        credentials: args.credentials,
        stem: "packages".to_owned(),
        masters: args.master,
        location,
        address,
    };
    crate::run(&options, listener)
}
