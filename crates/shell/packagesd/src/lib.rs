//! The process of a store of packages: `bourg packages`. Any number may run; those on one directory or bucket
//! have the same packages.
//!
//! A client presents what a master allows it, signed ([`api::v1::Right`]), and sends or reads a package. Nobody gets bytes
//! by knowing their digest: a chunk counts as present for a user who has uploaded it, or who may read a package
//! with it, and a read is limited to what one package refers to. At the end of an upload the store signs what it has
//! received ([`api::v1::Receipt`]), which a master records.
//!
//! Deliberately absent: names, versions and permissions (the cell's state), the format of packs (`package-store`),
//! and which packages are needed (masters say that).
//!
//! - [`service`]: the service, with its slots and shares
//! - [`manifests`]: which packages there are

mod announce;
mod arguments;
mod closures;
mod collecting;
mod driven;
mod failure;
mod fetching;
pub mod manifests;
mod pages;
mod parts;
mod rights;
pub mod service;
mod spent;
mod uploading;
mod walk;

use std::net::TcpListener;
use std::path::PathBuf;

use anyhow::Context;
use package_store::{PackageStore, Settings, StoreLocation};
use process::renewal::{Masters, Renewed};
use process::{joining, notify, shutdown};
use rpc::transport::{Limits, Refusals};
use rpc::{Credentials, Role, Rotating};

pub use arguments::{PackagesArgs, start};
pub use service::Service;

/// How to run a store of packages.
#[derive(Clone, Debug)]
struct Options {
    /// The directory of its certificate.
    credentials: PathBuf,
    /// The stem of the certificate's file names.
    stem: String,
    /// The addresses of the master's replicas, at least one.
    masters: Vec<String>,
    /// Where the packages are.
    location: StoreLocation,
    /// Where others reach this process, as host:port.
    address: String,
}

/// Runs a store of packages until it is told to stop.
fn run(options: &Options, listener: TcpListener) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("packages")
        .enable_all()
        .build()
        .context("cannot start the threads")?;
    process::block_on(&runtime, async {
        let Options { credentials: directory, stem, masters, location, address } = options;
        let credentials = Rotating::new(Credentials::read(directory, stem)?)?;
        let role = credentials.credentials().identity().role();
        anyhow::ensure!(
            role == Role::Packages,
            "{} is the certificate of a {}: get one with bourg master certify packages/NAME",
            directory.display(),
            role.as_str()
        );
        let kept = joining::masters(directory)?;
        let masters = Masters::new([&masters[..], &kept].concat());
        let renewed = Renewed::new(&credentials, directory, stem, masters.clone());
        let store = PackageStore::open(location, Settings::default()).await?;
        let totals = store.totals();
        let (packs, chunks) = (totals.packs, totals.chunks);
        tracing::info!("{location} has {chunks} chunks in {packs} packs of {} bytes", totals.bytes);
        let refusals = Refusals::default();
        let service = Service::new(store, &credentials)?;
        let routes = service.clone().routes(&refusals).prepare();
        let announced = announce::run(address.clone(), masters.clone(), credentials.clone());
        let collected = manifests::run(service, masters, credentials.clone());
        let stopped = async {
            shutdown::requested().await;
            notify::stopping();
        };
        notify::ready();
        let limits = Limits::default();
        let serving =
            rpc::transport::serve(listener, &credentials, routes, limits, &refusals, stopped);
        tokio::select! {
            served = serving => Ok(served?),
            never = renewed.run() => match never {},
            never = announced => match never {},
            never = collected => match never {},
        }
    })
}
