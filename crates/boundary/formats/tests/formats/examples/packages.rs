//! Packages.

use std::collections::BTreeSet;
use std::sync::Arc;

use cell::{
    DeletePackage, EventKind, Image, Mutation, Op, Package, PackageProblem, Rejection, Reply,
    SetPackage,
};
use model::{Bytes, Digest, PackageId, PackageKind, PackageReaders};

use super::name;

fn id(text: &str) -> PackageId {
    text.parse().expect("a package")
}

fn package(text: &str, readers: PackageReaders) -> Arc<Package> {
    let id = id(text);
    let kind = if id.name.as_str() == "web" { PackageKind::Image } else { PackageKind::Files };
    Arc::new(Package {
        id,
        digest: Digest::from_bytes([0xa7; Digest::BYTES]),
        kind,
        stored: Bytes(30 << 20),
        unpacked: Bytes(80 << 20),
        entries: 1_200,
        architectures: ["amd64", "arm64"].iter().filter_map(|name| name.parse().ok()).collect(),
        readers,
    })
}

fn users() -> PackageReaders {
    PackageReaders::Users(BTreeSet::from([name("ben"), name("eve")]))
}

/// Each mutation.
pub(super) fn mutations() -> Vec<Mutation> {
    vec![
        SetPackage(package("ana/app@3", PackageReaders::default())).into(),
        SetPackage(package("ana/app@3", users())).into(),
        SetPackage(package("ana/web@1.27-alpine", PackageReaders::Everyone)).into(),
        DeletePackage(id("ana/app@3")).into(),
    ]
}

/// The outputs of a task become a version.
pub(super) fn outputs() -> Op {
    let instance = "1-0-1".parse().expect("an instance");
    Op::AddOutputs {
        machine: name("m1"),
        instance,
        package: package("ana/words@1-0-1", PackageReaders::default()),
    }
}

/// Each event.
pub(super) fn events() -> Vec<EventKind> {
    let set = |package, replaced| EventKind::PackageSet { package, replaced };
    vec![
        set(package("ana/app@3", PackageReaders::default()), false),
        set(package("ana/app@3", users()), true),
        set(package("ana/web@1.27-alpine", PackageReaders::Everyone), true),
        EventKind::PackageDeleted { id: id("ana/app@3") },
    ]
}

/// The answers of a session about packages.
pub(super) fn answers() -> Vec<Result<Reply, Rejection>> {
    let (owner, job, digest) = (name("ana"), name("web"), Digest::from_bytes([1; Digest::BYTES]));
    let invalid = |why| Err(Rejection::InvalidPackage { id: id("ana/app@3"), why });
    vec![
        Ok(Reply::PackageSet { existed: false }),
        Ok(Reply::PackageSet { existed: true }),
        Err(Rejection::NoSuchPackage { id: id("ana/app@3") }),
        invalid(PackageProblem::OwnerAsReader),
        invalid(PackageProblem::Readers { number: 101 }),
        invalid(PackageProblem::NotAnImage),
        invalid(PackageProblem::IsAnImage),
        invalid(PackageProblem::UsedTwice),
        invalid(PackageProblem::Architectures { number: 33 }),
        Err(Rejection::PackageVersionExists { id: id("ana/app@3"), digest }),
        Err(Rejection::PackageInUse { id: id("ana/app@3"), owner, job }),
    ]
}

/// The packages that jobs of the examples use.
pub(super) fn of_jobs() -> Vec<Arc<Package>> {
    let ids = ["ana/app@3", "ana/python@3.12", "ana/web@1.27-alpine"];
    ids.map(|id| package(id, PackageReaders::Everyone)).into()
}

/// Adds packages whose order is not that of their texts.
pub(super) fn put_into(image: &mut Image) {
    let ids = ["ana/app@1", "ana/app@1.1", "ana/app-b@1", "ana-b/app@1"];
    image.packages.extend(ids.map(|id| package(id, users())));
    image.packages.sort_by(|one, other| one.id.cmp(&other.id));
}
