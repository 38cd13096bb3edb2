//! Packages.

use std::collections::BTreeSet;
use std::sync::Arc;

use cell::{DeletePackage, Mutation, Package, PackageId, SetPackage};
use model::{Bytes, Digest, PackageKind, PackageReaders, UserName};

use crate::ScriptError;
use crate::words::{number, user, value};

/// What a version of a package is called in errors.
const ID: &str = "a package such as ana/app@3";
/// What precedes an architecture, and what that is called in errors.
const ARCHITECTURE: &str = "arch=";
const NAME: &str = "an architecture such as amd64";

/// The mutation that the words stand for, if it is about packages, and the package's owner.
pub(crate) fn mutation(words: &[&str]) -> Result<Option<(UserName, Mutation)>, ScriptError> {
    Ok(Some(match words {
        [kind @ ("package" | "image"), id, content, mebibytes, readers @ ..] => {
            let files = files(id, content, mebibytes)?;
            let (architectures, readers): (Vec<&str>, Vec<&str>) =
                readers.iter().partition(|word| word.starts_with(ARCHITECTURE));
            let architectures =
                architectures.iter().map(|word| value(&word[ARCHITECTURE.len()..], NAME));
            let architectures = architectures.collect::<Result<_, _>>()?;
            let readers = match readers.as_slice() {
                ["everyone"] => PackageReaders::Everyone,
                users => {
                    let users = users.iter().map(|name| user(name));
                    PackageReaders::Users(users.collect::<Result<BTreeSet<_>, _>>()?)
                }
            };
            let kind = if *kind == "image" { PackageKind::Image } else { files.kind };
            let package = Package { kind, architectures, readers, ..files };
            let owner = package.id.owner.clone();
            (owner, SetPackage(Arc::new(package)).into())
        }
        ["delete-package", id] => {
            let id: PackageId = value(id, ID)?;
            (id.owner.clone(), DeletePackage(id).into())
        }
        _ => return Ok(None),
    }))
}

/// A version of a package of files, which only its owner may use.
pub(crate) fn files(id: &str, content: &str, mebibytes: &str) -> Result<Package, ScriptError> {
    // Contents of scripts are numbers: equal ones have one digest.
    let mut digest = [0; Digest::BYTES];
    digest[..8].copy_from_slice(&number(content)?.to_be_bytes());
    let stored = Bytes(number(mebibytes)?.saturating_mul(1 << 20));
    Ok(Package {
        id: value(id, ID)?,
        digest: Digest::from_bytes(digest),
        kind: PackageKind::Files,
        stored,
        unpacked: stored,
        entries: 1,
        architectures: BTreeSet::new(),
        readers: PackageReaders::default(),
    })
}
