//! The state of a cell with many packages, as each replica of a master keeps it.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::ensure;
use cell::{Cell, Mutation, Op, Outcome, RequestId, SetPackage};
use model::{
    Bytes, CellName, Digest, Package, PackageId, PackageKind, PackageReaders, SessionId, Span,
    Time, UserName,
};
use serde::Serialize;

use crate::apply::resident;

/// What all of it may take.
const BOUND: u64 = 50 << 20;

/// The results.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    packages: u32,
    users: u32,
    /// The resident memory of this process, without them and with them.
    before_bytes: u64,
    after_bytes: u64,
    state_bytes: u64,
    /// Whether it is within its bound.
    held: bool,
}

/// Fills a cell with packages.
pub(super) fn measure(packages: u32, users: u32) -> anyhow::Result<Figures> {
    let administrator = UserName::new("bench")?;
    let mut cell = Cell::empty();
    let mut now = Time::ZERO;
    let name = CellName::new("bench")?;
    for op in [
        Op::Bootstrap { name, administrator: administrator.clone() },
        Op::OpenSession { user: administrator.clone() },
    ] {
        now = now + Span(10);
        cell.apply(now, &op);
    }
    let before = resident()?;
    for number in 0..packages {
        now = now + Span(10);
        let id = RequestId { session: SessionId(1), sequence: u64::from(number) + 1 };
        let mutation = Mutation::SetPackage(SetPackage(Arc::new(package(number, users)?)));
        let op = Op::Request { id, by: administrator.clone(), mutation };
        let outcome = cell.apply(now, &op).outcome;
        ensure!(matches!(outcome, Outcome::Request(Ok(_))), "package {number}: {outcome:?}");
    }
    let after = resident()?;
    ensure!(cell.packages().count() == packages as usize, "packages are missing");
    let state = after.saturating_sub(before);
    Ok(Figures {
        packages,
        users,
        before_bytes: before,
        after_bytes: after,
        state_bytes: state,
        held: state <= BOUND,
    })
}

/// A version of a package with one reader beside its owner; each user has several versions of one package.
fn package(number: u32, users: u32) -> anyhow::Result<Package> {
    let user = |number: u32| UserName::new(&format!("user-{}", number % users));
    let owner = user(number)?;
    let mut readers = BTreeSet::from([user(number + 1)?]);
    readers.remove(&owner);
    let mut digest = [0; Digest::BYTES];
    digest[..4].copy_from_slice(&number.to_le_bytes());
    Ok(Package {
        architectures: BTreeSet::new(),
        id: PackageId {
            owner,
            name: "application".parse()?,
            version: format!("1.{}", number / users).parse()?,
        },
        digest: Digest::from_bytes(digest),
        kind: PackageKind::Image,
        stored: Bytes(1 << 20),
        unpacked: Bytes(2 << 20),
        entries: 1_000,
        readers: PackageReaders::Users(readers),
    })
}

/// The results as text.
pub(super) fn show(figures: &Figures) -> String {
    format!(
        "memory: {} packages of {} users take {} (bound {}{})\n",
        figures.packages,
        figures.users,
        Bytes(figures.state_bytes),
        Bytes(BOUND),
        if figures.held { "" } else { ": NOT HELD" },
    )
}
