//! Packages: `package.proto`.

use model::{Bytes, Digest, Package, PackageId, PackageKind, PackageReaders};

use crate::error::{At, Fault, Malformed};
use crate::{read, v1};

/// The number of a kind.
#[must_use]
pub fn kind_number(kind: PackageKind) -> i32 {
    let number = match kind {
        PackageKind::Files => v1::PackageKind::Files,
        PackageKind::Image => v1::PackageKind::Image,
    };
    number.into()
}

/// The kind of a number.
pub fn kind(number: i32) -> Result<PackageKind, Malformed> {
    let kind = |kind| {
        Some(match kind {
            v1::PackageKind::Files => PackageKind::Files,
            v1::PackageKind::Image => PackageKind::Image,
        })
    };
    read::value(number, kind, "kind")
}

/// A version of a package.
pub fn id(text: &str, field: &str) -> Result<PackageId, Malformed> {
    read::name(text, field)
}

/// The digest of content.
pub fn digest(text: &str, field: &str) -> Result<Digest, Malformed> {
    read::name(text, field)
}

impl From<&Package> for v1::Package {
    fn from(package: &Package) -> Self {
        let (readers, everyone) = match &package.readers {
            PackageReaders::Users(users) => {
                (users.iter().map(ToString::to_string).collect(), false)
            }
            PackageReaders::Everyone => (Vec::new(), true),
        };
        Self {
            id: package.id.to_string(),
            digest: package.digest.to_string(),
            kind: kind_number(package.kind),
            stored_bytes: read::signed(package.stored.0),
            unpacked_bytes: read::signed(package.unpacked.0),
            entries: package.entries,
            readers,
            everyone,
            architectures: package.architectures.iter().map(ToString::to_string).collect(),
        }
    }
}

impl TryFrom<v1::Package> for Package {
    type Error = Malformed;

    fn try_from(package: v1::Package) -> Result<Self, Malformed> {
        let readers = match (package.everyone, package.readers.as_slice()) {
            (true, []) => PackageReaders::Everyone,
            (true, _) => {
                return Err(Fault::Contradiction("are listed, although everyone may read it"))
                    .field("readers");
            }
            (false, users) => PackageReaders::Users(read::set(users, "readers")?),
        };
        Ok(Self {
            id: id(&package.id, "id")?,
            digest: digest(&package.digest, "digest")?,
            kind: kind(package.kind)?,
            stored: Bytes(read::quantity(package.stored_bytes, "storedBytes")?),
            unpacked: Bytes(read::quantity(package.unpacked_bytes, "unpackedBytes")?),
            entries: package.entries,
            architectures: read::set(&package.architectures, "architectures")?,
            readers,
        })
    }
}
