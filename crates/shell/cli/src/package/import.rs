//! `bourg package import`: a container image becomes a version.

use std::path::PathBuf;

use clap::Args;
use client::Target;
use command::{Done, Failure, output, with_cell};
use model::{PackageName, PackageVersion, UserName};
use package::archive::ImportOptions;

use super::Readers;
use super::upload::{self, Content, NewVersion};

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// An OCI layout (a directory or an archive), or an archive as docker save writes it.
    source: PathBuf,
    /// The name of the package. Default: that of the file, without its ending.
    #[arg(long)]
    name: Option<PackageName>,
    /// The version. Default: the first digits of the digest, so that the same image has the same version.
    #[arg(long)]
    version: Option<PackageVersion>,
    /// The image in an archive of several: its name, as docker save writes it, or its digest.
    #[arg(long, value_name = "NAME")]
    image: Option<String>,
    /// Only the variant for this architecture, such as amd64 or arm/v7; may be repeated. Default: all.
    #[arg(long = "arch", value_name = "ARCHITECTURE")]
    architectures: Vec<String>,
    /// The owner of the package. Default: you.
    #[arg(long, value_name = "USER")]
    owner: Option<UserName>,
    #[command(flatten)]
    readers: Readers,
}

impl ImportArgs {
    fn name(&self) -> Result<PackageName, Failure> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        let stem = self.source.file_stem().unwrap_or_default().to_string_lossy();
        let stem = stem.strip_suffix(".tar").unwrap_or(&stem);
        stem.parse().map_err(|error| {
            Failure::usage(format!("error: the name of the file is no name of a package: {error}"))
                .next("give the package a name (--name)")
        })
    }
}

pub(super) fn import(cell: Target<'_>, args: &ImportArgs) -> Done {
    let new = NewVersion {
        owner: args.owner.clone(),
        name: args.name()?,
        version: args.version.clone(),
        readers: args.readers.clone(),
    };
    let options = ImportOptions {
        image: args.image.clone(),
        architectures: args.architectures.clone(),
        ..ImportOptions::default()
    };
    let content = Content::Image { path: args.source.clone(), options: Box::new(options) };
    with_cell(cell, async |mut connection| {
        let added = upload::add(&mut connection, &new, &content).await?;
        output::print(&format!("{added}\n"))
    })
}
