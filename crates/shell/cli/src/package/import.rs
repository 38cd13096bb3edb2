//! `bourg package import`: a container image becomes a version.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use client::{Connection, Target};
use command::{Done, Failure, output};
use model::{Bytes, PackageName, PackageVersion, UserName};
use package::archive::ImportOptions;
use registry::{
    DownloadProgress, ImageReference, Platform, Platforms, ProgressReport, RegistryClient,
    RegistrySettings,
};

use super::Readers;
use super::registries::RegistryArgs;
use super::upload::{self, Added, Content, NewVersion};
use crate::interrupt::with_cell_until_signal;

/// The tag that a name without one has: it means another image every week, and is no version.
const LATEST: &str = "latest";

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// An OCI layout (a directory or an archive), an archive as docker save writes it, or the name of an image in a
    /// registry: registry.example/team/app:1.27. A file or directory of that name comes first.
    source: String,
    /// The name of the package. Default: the last part of the image's name, or the name of the file without its ending.
    #[arg(long)]
    name: Option<PackageName>,
    /// The version. Default: the tag in the registry unless it is latest, else the first digits of the digest, so that
    /// the same image has the same version.
    #[arg(long)]
    version: Option<PackageVersion>,
    /// The image in an archive of several: its name, as docker save writes it, or its digest.
    #[arg(long, value_name = "NAME")]
    image: Option<String>,
    /// Only the variant for this architecture, such as amd64 or arm/v7; may be repeated. Default: all.
    #[arg(long = "arch", value_name = "ARCHITECTURE")]
    architectures: Vec<String>,
    #[command(flatten)]
    registry: RegistryArgs,
    /// The owner of the package. Default: you.
    #[arg(long, value_name = "USER")]
    owner: Option<UserName>,
    #[command(flatten)]
    readers: Readers,
}

/// Where an image is.
enum ImageSource {
    File(PathBuf),
    Registry(Box<ImageReference>),
}

impl ImportArgs {
    fn find(&self) -> Result<ImageSource, Failure> {
        let path = Path::new(&self.source);
        let looks_like_a_path =
            [".", "/"].iter().any(|begin| self.source.starts_with(begin)) || path.exists();
        if looks_like_a_path {
            return Ok(ImageSource::File(path.to_owned()));
        }
        match self.source.parse() {
            Ok(reference) => Ok(ImageSource::Registry(Box::new(reference))),
            Err(error) => Err(Failure::usage(format!(
                "error: {} is no file, and no name of an image: {error}",
                self.source.escape_debug()
            ))),
        }
    }

    /// The version to be added, as far as it is known without the image.
    fn new_version(&self, source: &ImageSource) -> Result<NewVersion, Failure> {
        let (stem, tag) = match source {
            ImageSource::File(path) => {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                (stem.strip_suffix(".tar").unwrap_or(&stem).to_owned(), None)
            }
            ImageSource::Registry(image) => {
                let last = image.repository().rsplit('/').next().unwrap_or_default();
                (last.to_owned(), image.tag().filter(|tag| *tag != LATEST))
            }
        };
        let name = match &self.name {
            Some(name) => name.clone(),
            None => stem.parse().map_err(|error| {
                Failure::usage(format!(
                    "error: {} is no name of a package: {error}",
                    stem.escape_debug()
                ))
                .next("give the package a name (--name)")
            })?,
        };
        let version = match (&self.version, tag) {
            (Some(version), _) => Some(version.clone()),
            (None, Some(tag)) => Some(tag.parse().map_err(|error| {
                Failure::usage(format!("error: the tag is no version: {error}"))
                    .next("give the package a version (--version)")
            })?),
            (None, None) => None,
        };
        Ok(NewVersion { owner: self.owner.clone(), name, version, readers: self.readers.clone() })
    }

    /// Which image of a directory or an archive is meant, with these of its architectures; all if there are none.
    fn options(&self, architectures: &[String]) -> ImportOptions {
        ImportOptions {
            image: self.image.clone(),
            architectures: architectures.to_vec(),
            ..ImportOptions::default()
        }
    }

    fn platforms(&self) -> Result<Platforms, Failure> {
        if self.architectures.is_empty() {
            return Ok(Platforms::All);
        }
        let named = self.architectures.iter().map(|text| text.parse::<Platform>());
        let named = named.collect::<Result<_, _>>();
        named
            .map(Platforms::Named)
            .map_err(|error| Failure::usage(format!("error: --arch: {error}")))
    }
}

pub(super) fn import(cell: Target<'_>, args: &ImportArgs) -> Done {
    let source = args.find()?;
    let (new, platforms) = (args.new_version(&source)?, args.platforms()?);
    with_cell_until_signal(cell, async |mut connection| {
        let added = match source {
            ImageSource::File(path) => {
                let options = Box::new(args.options(&args.architectures));
                upload::add(&mut connection, &new, &Content::Image { path, options }).await?
            }
            ImageSource::Registry(image) => {
                let (settings, options) = (args.registry.settings(), args.options(&[]));
                let wanted = (&*image, &platforms);
                let added = from_registry(&mut connection, &new, wanted, settings, options).await;
                added.map_err(|failure| {
                    let hint = format!("{} is no file or directory here", args.source);
                    failure.next(format!("{hint}; if it should be one, check the path"))
                })?
            }
        };
        output::print(&format!("{added}\n"))
    })
}

/// Downloads an image for these platforms into a directory of its own, adds it as a version, and removes the directory,
/// also when the future is dropped.
pub(crate) async fn from_registry(
    connection: &mut Connection,
    new: &NewVersion,
    wanted: (&ImageReference, &Platforms),
    settings: RegistrySettings,
    options: ImportOptions,
) -> Result<Added, Failure> {
    let directory = tempfile::Builder::new().prefix("bourg-import-").tempdir();
    let directory = directory.map_err(|error| {
        let temporary = std::env::temp_dir();
        Failure::failed(format!(
            "error: cannot create a directory for the image in {}: {error}",
            temporary.display()
        ))
        .next("set TMPDIR to a directory with room")
    })?;
    download(settings, wanted, directory.path()).await?;
    // Only what was asked for is there.
    let path = directory.path().to_owned();
    let content = Content::Image { path, options: Box::new(options) };
    upload::add(connection, new, &content).await
}

async fn download(
    settings: RegistrySettings,
    wanted: (&ImageReference, &Platforms),
    into: &Path,
) -> Result<(), Failure> {
    let (image, platforms) = wanted;
    let failed = |error: registry::RegistryError| Failure::failed(format!("error: {error}"));
    let client = RegistryClient::new(settings).map_err(failed)?;
    let shows = std::io::stderr().is_terminal();
    let progress = if shows { shown() } else { Arc::new(|_| {}) };
    let downloaded = client.download(image, platforms, into, progress).await;
    if shows {
        eprint!("\r\x1b[K");
    }
    downloaded.map(drop).map_err(failed)
}

/// Shows on a terminal how far a download is, a line for each percent at most.
fn shown() -> ProgressReport {
    let last = AtomicU64::new(u64::MAX);
    Arc::new(move |progress: DownloadProgress| {
        let percent = progress.bytes_done.saturating_mul(100) / progress.bytes.max(1);
        if last.swap(percent, Ordering::Relaxed) != percent {
            let mut terminal = std::io::stderr().lock();
            let (done, all) = (Bytes(progress.bytes_done), Bytes(progress.bytes));
            // What is shown is of no use to the download.
            let _ = write!(terminal, "\r\x1b[K{done} of {all}, {percent} %");
            let _ = terminal.flush();
        }
    })
}
