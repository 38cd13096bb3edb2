//! Steps of services and packages.

use std::sync::Arc;

use cell::{DeletePackage, DeleteService, Package, PackageId, Service, SetPackage, SetService};
use model::{Bytes, Digest, PackageKind, PackageReaders};

use super::updates::Change;

/// A version of one of few packages is added, shared or deleted.
pub(super) fn of_packages(which: u64) -> Change {
    let id: PackageId =
        ["ana/app@1", "ana/app@2"][usize::from(which & 1 == 0)].parse().expect("a package");
    if which % 5 == 4 {
        return Change::Request(DeletePackage(id).into());
    }
    let users = (which & 2 == 0).then(|| "ben".parse().expect("a name")).into_iter().collect();
    let package = Package {
        id,
        digest: Digest::from_bytes([u8::from(which & 4 == 0); Digest::BYTES]),
        kind: PackageKind::Files,
        stored: Bytes(1 << 20),
        unpacked: Bytes(2 << 20),
        entries: 7,
        architectures: Default::default(),
        readers: PackageReaders::Users(users),
    };
    Change::Request(SetPackage(Arc::new(package)).into())
}

/// A service of few names is set or deleted.
pub(super) fn of_services(which: u64) -> Change {
    let owner = "ana".parse().expect("a name");
    let name = ["all", "front"][usize::from(which & 1 == 0)].parse().expect("a name");
    if which % 5 == 4 {
        return Change::Request(DeleteService { owner, name }.into());
    }
    let port = ["http", "rpc"][usize::from(which & 2 == 0)].parse().expect("a name");
    let labels = ["app", "app=web,!canary"][usize::from(which & 4 == 0)].parse().expect("labels");
    let users = (which & 8 == 0).then(|| "ben".parse().expect("a name")).into_iter().collect();
    let service = Service { owner, name, port, labels, users };
    Change::Request(SetService(Arc::new(service)).into())
}
