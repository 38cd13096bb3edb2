//! `bourg package build`: a directory becomes a version.

use std::path::PathBuf;

use clap::Args;
use client::Target;
use command::{Done, output, with_cell};
use model::{PackageName, PackageVersion, UserName};

use super::Readers;
use super::upload::{self, Content, NewVersion};

#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// The directory.
    directory: PathBuf,
    /// The name of the package.
    #[arg(long)]
    name: PackageName,
    /// The version. Default: the first digits of the digest, so that the same files have the same version.
    #[arg(long)]
    version: Option<PackageVersion>,
    /// The owner of the package. Default: you.
    #[arg(long, value_name = "USER")]
    owner: Option<UserName>,
    #[command(flatten)]
    readers: Readers,
}

pub(super) fn build(cell: Target<'_>, args: &BuildArgs) -> Done {
    let new = NewVersion {
        owner: args.owner.clone(),
        name: args.name.clone(),
        version: args.version.clone(),
        readers: args.readers.clone(),
    };
    let content = Content::Directory(args.directory.clone());
    with_cell(cell, async |mut connection| {
        let added = upload::add(&mut connection, &new, &content).await?;
        output::print(&format!("{added}\n"))
    })
}
