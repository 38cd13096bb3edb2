//! `bourg package`: versions of sets of files that tasks use.

mod build;
mod check;
mod import;
pub(crate) mod registries;
pub(crate) mod upload;

use api::v1;
use clap::{Args, Subcommand};
use client::{Connection, Target};
use command::output::{self, Format, Listing};
use command::{Code, Done, Failure, with_cell};
use model::{Bytes, PackageName, PackageReference, UserName};

pub(crate) use self::import::from_registry as import_from_registry;
use super::moment::Moment;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Build a package from a directory, and upload what the store lacks.
    ///
    /// The same files give the same digest on every machine: owners and times do not count, permissions do. The content
    /// of a version never changes; a new content needs a new version.
    Build(build::BuildArgs),
    /// Make a package of a container image, which can then be the root of tasks.
    ///
    /// The source is the name of an image in a registry, an OCI layout, or an archive as docker save, podman save and
    /// skopeo write it; its layers may be compressed with gzip or zstd. Every digest is checked.
    Import(import::ImportArgs),
    /// List the packages that you may use.
    List(ListArgs),
    /// Show a version of a package.
    Show(ShowArgs),
    /// Set who may use a version beside its owner.
    Share(ShareArgs),
    /// Delete versions of packages. Jobs that run keep theirs from being deleted.
    Rm {
        /// The versions: NAME@VERSION, or USER/NAME@VERSION.
        #[arg(required = true)]
        packages: Vec<PackageReference>,
    },
    /// Delete your packages that no live job uses or may go back to.
    Gc(GcArgs),
    /// Read a package from the store, and check every byte of it.
    Verify {
        /// The version: NAME@VERSION, or USER/NAME@VERSION.
        package: PackageReference,
    },
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Only packages of this name.
    name: Option<PackageName>,
    /// Only packages of this user.
    #[arg(long, value_name = "USER")]
    user: Option<UserName>,
    /// Only packages that no live job uses or may go back to.
    #[arg(long)]
    unused: bool,
    /// Output format: table, wide, json, yaml, name, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
    /// Show the state at this moment: an index (88412), a time (2026-11-19 03:10, UTC) or an age (10m).
    #[arg(long, value_name = "MOMENT")]
    at: Option<Moment>,
}

#[derive(Debug, Args)]
pub(super) struct GcArgs {
    /// Only versions of the package of this name.
    name: Option<PackageName>,
    /// The packages of this user. Default: yours.
    #[arg(long, value_name = "USER")]
    user: Option<UserName>,
    /// Only show what would be deleted.
    #[arg(long)]
    plan: bool,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// The version: NAME@VERSION, or USER/NAME@VERSION.
    package: PackageReference,
    /// Output format: table, json, yaml, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
    /// Show the state at this moment: an index (88412), a time (2026-11-19 03:10, UTC) or an age (10m).
    #[arg(long, value_name = "MOMENT")]
    at: Option<Moment>,
}

#[derive(Debug, Args)]
pub(super) struct ShareArgs {
    /// The version: NAME@VERSION, or USER/NAME@VERSION.
    package: PackageReference,
    #[command(flatten)]
    readers: Readers,
}

/// Who may use a package beside its owner.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Readers {
    /// Another user who may use it; may be repeated. Default: nobody else.
    #[arg(long = "reader", value_name = "USER")]
    readers: Vec<UserName>,
    /// Every user of the cell may use it.
    #[arg(long, conflicts_with = "readers")]
    everyone: bool,
}

impl Readers {
    /// Whether any is named.
    fn is_given(&self) -> bool {
        self.everyone || !self.readers.is_empty()
    }

    /// In a request to set a version.
    fn request(
        &self,
        id: v1::RequestId,
        package: String,
        receipt: Option<v1::Statement>,
    ) -> v1::SetPackageRequest {
        let readers = self.readers.iter().map(ToString::to_string).collect();
        let everyone = self.everyone;
        v1::SetPackageRequest { id: Some(id), package, receipt, readers, everyone }
    }
}

/// Executes a command.
pub(super) fn package(cell: Target<'_>, command: &Command) -> Done {
    match command {
        Command::Build(args) => build::build(cell, args),
        Command::Import(args) => import::import(cell, args),
        Command::List(args) => list(cell, args),
        Command::Show(args) => show(cell, args),
        Command::Share(args) => share(cell, args),
        Command::Rm { packages } => rm(cell, packages),
        Command::Gc(args) => gc(cell, args),
        Command::Verify { package } => check::verify(cell, package),
    }
}

fn list(cell: Target<'_>, args: &ListArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let text = |name: Option<String>| name.unwrap_or_default();
        let request = v1::PackagesRequest {
            user: text(args.user.as_ref().map(ToString::to_string)),
            name: text(args.name.as_ref().map(ToString::to_string)),
            at: args.at.map(Moment::message),
            unused: args.unused,
        };
        let answer = connection
            .ask(request, async |mut client, request| client.packages.list(request).await)
            .await?;
        output::list(
            &args.output,
            &Listing {
                items: &answer.packages,
                name: |package| package.id.clone(),
                headings: &["PACKAGE", "KIND", "SIZE", "UNPACKED", "READERS", "DIGEST"],
                wide: 1,
                row: |package| {
                    vec![
                        package.id.clone(),
                        output::one_line(&kind(package)),
                        size(package.stored_bytes),
                        size(package.unpacked_bytes),
                        readers(package),
                        package.digest.clone(),
                    ]
                },
            },
        )
    })
}

fn kind(package: &v1::Package) -> String {
    match package.kind() {
        v1::PackageKind::Files => "files".to_owned(),
        v1::PackageKind::Image => "image".to_owned(),
    }
}

fn size(bytes: i64) -> String {
    Bytes(u64::try_from(bytes).unwrap_or_default()).to_string()
}

fn readers(package: &v1::Package) -> String {
    match (package.everyone, package.readers.as_slice()) {
        (true, _) => "everyone".to_owned(),
        (false, users) => users.join(" "),
    }
}

fn show(cell: Target<'_>, args: &ShowArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let owner = args.package.owner.clone();
        let request = v1::PackagesRequest {
            user: owner.map_or_else(
                || connection.user().unwrap_or_default().to_owned(),
                |it| it.to_string(),
            ),
            name: args.package.name.to_string(),
            at: args.at.map(Moment::message),
            unused: false,
        };
        let wanted = format!("{}/{}@{}", request.user, request.name, args.package.version);
        let answer = connection
            .ask(request, async |mut client, request| client.packages.list(request).await)
            .await?;
        let Some(package) = answer.packages.iter().find(|package| package.id == wanted) else {
            let others: Vec<&str> = answer.packages.iter().map(|it| it.id.as_str()).collect();
            let failure = Failure::new(
                Code::Usage,
                format!("error: there is no package {wanted} that you may use"),
            );
            return Err(match others.as_slice() {
                [] => failure.next("bourg package list shows all that you may use"),
                some => failure.next(format!("there are {}", some.join(", "))),
            });
        };
        output::object(&args.output, package, &package.id, || shown_package(package))
    })
}

fn shown_package(package: &v1::Package) -> String {
    let readers = match readers(package) {
        nobody if nobody.is_empty() => "nobody else".to_owned(),
        users => users,
    };
    let architectures = match package.architectures.as_slice() {
        [] => "any".to_owned(),
        some => some.join(" "),
    };
    format!(
        "{}: {}, {} in a store, {} unpacked, {} entries\ndigest   {}\narch     {architectures}\nreaders  {readers}\n",
        package.id,
        kind(package),
        size(package.stored_bytes),
        size(package.unpacked_bytes),
        package.entries,
        package.digest,
    )
}

fn share(cell: Target<'_>, args: &ShareArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let id = connection.request_id().await?;
        let request = args.readers.request(id, args.package.to_string(), None);
        let answer = connection
            .ask(request, async |mut client, request| client.packages.set(request).await)
            .await?;
        let package = answer.package.unwrap_or_default();
        let who = match readers(&package) {
            nobody if nobody.is_empty() => "nobody but its owner".to_owned(),
            users => users,
        };
        output::print(&format!("{} may be used by {who}\n", package.id))
    })
}

fn rm(cell: Target<'_>, packages: &[PackageReference]) -> Done {
    with_cell(cell, async |mut connection| {
        for package in packages {
            delete(&mut connection, package.to_string()).await?;
        }
        Ok(())
    })
}

async fn delete(connection: &mut Connection, package: String) -> Done {
    let request = v1::DeletePackageRequest { id: Some(connection.request_id().await?), package };
    let answer = connection
        .ask(request, async |mut client, request| client.packages.delete(request).await)
        .await?;
    output::print(&format!("package {} deleted\n", answer.id))
}

fn gc(cell: Target<'_>, args: &GcArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let user = args.user.as_ref().map(ToString::to_string);
        let user = user.or_else(|| connection.user().map(str::to_owned)).ok_or_else(|| {
            // Without a user these would be the packages of all users.
            Failure::usage("error: the certificate names no user: say whose packages with --user")
        })?;
        let name = args.name.as_ref().map(ToString::to_string).unwrap_or_default();
        let request = v1::PackagesRequest { user, name, unused: true, at: None };
        let answer = connection
            .ask(request, async |mut client, request| client.packages.list(request).await)
            .await?;
        let bytes = |package: &v1::Package| u64::try_from(package.stored_bytes).unwrap_or_default();
        let all = Bytes(answer.packages.iter().map(bytes).fold(0, u64::saturating_add));
        if answer.packages.is_empty() {
            return output::print("no package is unused\n");
        }
        if args.plan {
            for package in &answer.packages {
                output::print(&format!("- {}  {}\n", package.id, Bytes(bytes(package))))?;
            }
            let number = answer.packages.len();
            return output::print(&format!("would be deleted: {number}, {all} together\n"));
        }
        let (mut deleted, mut freed, mut failed) = (0, 0_u64, None);
        for package in &answer.packages {
            match delete(&mut connection, package.id.clone()).await {
                Ok(()) => {
                    deleted += 1;
                    freed = freed.saturating_add(bytes(package));
                }
                // Such as one that a job has begun to use: the others are deleted.
                Err(failure) => failed = Some(failure),
            }
        }
        output::print(&format!("deleted: {deleted}, {} together\n", Bytes(freed)))?;
        failed.map_or(Ok(()), Err)
    })
}
