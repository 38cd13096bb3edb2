//! Packages: immutable, versioned sets of files that tasks use (paper, sections 2.3 and 3.2).
//!
//! The cell knows what a package is called, who may read it and which content it has; the content is in a
//! package store, under its digest.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

use crate::{Bytes, Digest, NameError, PackageName, UserName};

/// The maximum length of a version, in characters.
pub const PACKAGE_VERSION_CHARACTERS_MAX: usize = 128;

/// The version of a package, as its owner names it: `3`, `1.27-alpine`. Versions have no order.
///
/// As the tags of images: 1 to 128 letters, digits, `_`, `.`, `+` and `-`, of which the first is a letter, a digit or
/// `_` (OCI distribution specification, 1.1, "Pulling manifests").
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackageVersion(Arc<str>);

/// The text is not a version of a package.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PackageVersionError {
    /// The text is empty.
    #[error("a version cannot be empty")]
    Empty,
    /// The text is too long.
    #[error(
        "a version has at most {PACKAGE_VERSION_CHARACTERS_MAX} characters, this one has {length}"
    )]
    TooLong {
        /// The length in characters.
        length: usize,
    },
    /// The text has a character that versions do not have, or one that is not allowed at its start.
    #[error(
        "'{}' is not a version: use letters, digits, '_', '.', '+' and '-', and begin with a letter, a digit or '_'",
        .text.escape_debug()
    )]
    BadCharacter {
        /// The text, cut to the maximum length.
        text: String,
    },
}

impl PackageVersion {
    /// Checks a text and converts it to a version.
    ///
    /// # Errors
    /// When the text is not a version.
    pub fn new(text: &str) -> Result<Self, PackageVersionError> {
        let length = text.chars().count();
        if length == 0 {
            return Err(PackageVersionError::Empty);
        }
        if length > PACKAGE_VERSION_CHARACTERS_MAX {
            return Err(PackageVersionError::TooLong { length });
        }
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !text.starts_with(word) || !text.chars().all(|c| word(c) || matches!(c, '.' | '+' | '-'))
        {
            return Err(PackageVersionError::BadCharacter { text: text.to_owned() });
        }
        Ok(Self(text.into()))
    }

    /// The version that comes before all others.
    #[must_use]
    pub fn first() -> Self {
        Self("+".into())
    }

    /// The version as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PackageVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for PackageVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PackageVersion({})", self.0)
    }
}

impl FromStr for PackageVersion {
    type Err = PackageVersionError;

    fn from_str(text: &str) -> Result<Self, PackageVersionError> {
        Self::new(text)
    }
}

/// One version of a package: `ana/app@3`. Its content never changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackageId {
    /// The owner of the package.
    pub owner: UserName,
    /// The name of the package, unique among its owner's.
    pub name: PackageName,
    /// The version.
    pub version: PackageVersion,
}

impl fmt::Display for PackageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{}", self.owner, self.name, self.version)
    }
}

impl FromStr for PackageId {
    type Err = PackageReferenceError;

    fn from_str(text: &str) -> Result<Self, PackageReferenceError> {
        let PackageReference { owner, name, version } = text.parse()?;
        let Some(owner) = owner else {
            let text = text.chars().take(PACKAGE_VERSION_CHARACTERS_MAX).collect();
            return Err(PackageReferenceError::NoOwner { text });
        };
        Ok(Self { owner, name, version })
    }
}

/// A version of a package as a user or a description names it: `app@3`, `ana/app@3`. Where the owner is left out, it
/// is the one who submits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackageReference {
    /// Whose.
    pub owner: Option<UserName>,
    /// Which.
    pub name: PackageName,
    /// Which version of it.
    pub version: PackageVersion,
}

/// The text is not a reference to a package.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PackageReferenceError {
    /// It names no version.
    #[error("'{}' names no version: write NAME@VERSION, such as app@3", .text.escape_debug())]
    NoVersion {
        /// The text, cut.
        text: String,
    },
    /// It names no owner, where one is needed.
    #[error("'{}' names no owner: write USER/NAME@VERSION, such as ana/app@3", .text.escape_debug())]
    NoOwner {
        /// The text, cut.
        text: String,
    },
    /// A name in it is invalid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The version in it is invalid.
    #[error(transparent)]
    Version(#[from] PackageVersionError),
}

impl PackageReference {
    /// The version that it means when this user names it.
    #[must_use]
    pub fn of(&self, user: &UserName) -> PackageId {
        PackageId {
            owner: self.owner.as_ref().unwrap_or(user).clone(),
            name: self.name.clone(),
            version: self.version.clone(),
        }
    }
}

impl FromStr for PackageReference {
    type Err = PackageReferenceError;

    fn from_str(text: &str) -> Result<Self, PackageReferenceError> {
        let Some((package, version)) = text.split_once('@') else {
            let text = text.chars().take(PACKAGE_VERSION_CHARACTERS_MAX).collect();
            return Err(PackageReferenceError::NoVersion { text });
        };
        let (owner, name) = match package.split_once('/') {
            Some((owner, name)) => (Some(UserName::new(owner)?), name),
            None => (None, package),
        };
        let version = PackageVersion::new(version)?;
        Ok(Self { owner, name: PackageName::new(name)?, version })
    }
}

impl fmt::Display for PackageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(owner) = &self.owner {
            write!(f, "{owner}/")?;
        }
        write!(f, "{}@{}", self.name, self.version)
    }
}

/// What a package holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PackageKind {
    /// A tree of files, mounted below `/packages`.
    Files,
    /// The root of a task, with defaults for its program: an OCI image.
    Image,
}

impl PackageKind {
    /// Its name in outputs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Image => "image",
        }
    }
}

impl fmt::Display for PackageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Who may use a package beside its owner and administrators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PackageReaders {
    /// These users.
    Users(BTreeSet<UserName>),
    /// Every user of the cell.
    Everyone,
}

impl Default for PackageReaders {
    /// Nobody else.
    fn default() -> Self {
        Self::Users(BTreeSet::new())
    }
}

/// How many architectures a version of a package is for at most.
pub const PACKAGE_ARCHITECTURES_MAX: usize = 32;
/// The maximum length of the name of an architecture, in bytes.
pub const ARCHITECTURE_BYTES_MAX: usize = 32;

/// A processor architecture, as images name it: `amd64`, `arm64`, `arm-v7`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageArchitecture(Arc<str>);

/// The text is no name of an architecture.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "'{}' is no architecture: use 1 to {ARCHITECTURE_BYTES_MAX} letters, digits, '_', '-' and '.', such as amd64",
    .text.escape_debug()
)]
pub struct ImageArchitectureError {
    /// The text, cut to the maximum length.
    text: String,
}

impl ImageArchitecture {
    /// Checks a text and converts it to an architecture.
    ///
    /// # Errors
    /// When the text is no name of one.
    pub fn new(text: &str) -> Result<Self, ImageArchitectureError> {
        let named = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        if (1..=ARCHITECTURE_BYTES_MAX).contains(&text.len()) && text.bytes().all(named) {
            return Ok(Self(text.into()));
        }
        Err(ImageArchitectureError { text: text.chars().take(ARCHITECTURE_BYTES_MAX).collect() })
    }

    /// The architecture as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What images call the architecture of a machine: `amd64` for `x86_64`.
    #[must_use]
    pub fn of_machine(arch: &str) -> &str {
        match arch {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "x86" | "i386" | "i586" | "i686" => "386",
            "powerpc64" | "ppc64le" => "ppc64le",
            "loongarch64" => "loong64",
            "armv6l" | "armv7l" | "armv8l" => "arm",
            other => other,
        }
    }
}

impl std::borrow::Borrow<str> for ImageArchitecture {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ImageArchitecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ImageArchitecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ImageArchitecture({})", self.0)
    }
}

impl FromStr for ImageArchitecture {
    type Err = ImageArchitectureError;

    fn from_str(text: &str) -> Result<Self, ImageArchitectureError> {
        Self::new(text)
    }
}

/// A version of a package, as the cell knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Which it is.
    pub id: PackageId,
    /// The digest of its manifest, and so of all that it holds.
    pub digest: Digest,
    /// What it holds.
    pub kind: PackageKind,
    /// What its chunks take in a store. Chunks that it shares with others count in full.
    pub stored: Bytes,
    /// What its files take on a machine.
    pub unpacked: Bytes,
    /// The number of files, directories and links.
    pub entries: u64,
    /// The architectures that it is for; empty for any.
    pub architectures: BTreeSet<ImageArchitecture>,
    /// Who may use it beside its owner.
    pub readers: PackageReaders,
}

impl Package {
    /// Whether jobs of a user may use it.
    #[must_use]
    pub fn admits(&self, user: &UserName) -> bool {
        let shared = match &self.readers {
            PackageReaders::Everyone => true,
            PackageReaders::Users(users) => users.contains(user),
        };
        shared || self.id.owner == *user
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_and_shown() {
        for text in ["app@3", "ana/app@3", "web@1.27-alpine", "a@_x+y", "app@sha256-0a"] {
            let reference: PackageReference = text.parse().expect(text);
            assert_eq!(reference.to_string(), text);
        }
        let ana = UserName::new("ana").expect("a name");
        let of = |text: &str| text.parse::<PackageReference>().expect(text).of(&ana).to_string();
        assert_eq!(of("app@3"), "ana/app@3");
        assert_eq!(
            "ana/app@3".parse::<PackageId>().map(|id| id.to_string()),
            Ok("ana/app@3".to_owned())
        );
        let error = "app@3".parse::<PackageId>().expect_err("no owner").to_string();
        assert_eq!(error, "'app@3' names no owner: write USER/NAME@VERSION, such as ana/app@3");
        assert_eq!(of("ben/app@3"), "ben/app@3");
    }

    #[test]
    fn an_invalid_reference_is_refused_with_the_reason() {
        let says = |text: &str| {
            let error = text.parse::<PackageReference>().expect_err(text);
            error.to_string()
        };
        for (text, why) in [
            ("app", "'app' names no version: write NAME@VERSION, such as app@3"),
            ("app@", "a version cannot be empty"),
            (
                "App@1",
                "'App' is not a package name: use lower-case letters, digits and inner hyphens, for example 'app'",
            ),
            ("@1", "a package name cannot be empty"),
            ("/app@1", "a user name cannot be empty"),
            (
                "a/b/c@1",
                "'b/c' is not a package name: use lower-case letters, digits and inner hyphens, for example 'b-c'",
            ),
            (
                "app@-1",
                "'-1' is not a version: use letters, digits, '_', '.', '+' and '-', and begin with a letter, a digit or '_'",
            ),
            (
                "app@1\u{1b}[31m",
                "'1\\u{1b}[31m' is not a version: use letters, digits, '_', '.', '+' and '-', and begin with a letter, a digit or '_'",
            ),
            (
                "app@1@2",
                "'1@2' is not a version: use letters, digits, '_', '.', '+' and '-', and begin with a letter, a digit or '_'",
            ),
        ] {
            assert_eq!(says(text), why);
        }
        let long = format!("app@{}", "x".repeat(129));
        assert_eq!(says(&long), "a version has at most 128 characters, this one has 129");
    }

    #[test]
    fn architectures_have_the_names_that_images_use() {
        for (machine, image) in [
            ("x86_64", "amd64"),
            ("aarch64", "arm64"),
            ("i686", "386"),
            ("ppc64le", "ppc64le"),
            ("riscv64", "riscv64"),
        ] {
            assert_eq!(ImageArchitecture::of_machine(machine), image, "{machine}");
        }
        for (text, is_one) in [
            ("amd64", true),
            ("arm-v7", true),
            ("", false),
            ("arm/v7", false),
            (&"a".repeat(33), false),
        ] {
            assert_eq!(ImageArchitecture::new(text).is_ok(), is_one, "{text}");
        }
    }

    #[test]
    fn a_package_admits_its_owner_and_its_readers() {
        let user = |name: &str| UserName::new(name).expect("a name");
        let id: PackageReference = "ana/app@3".parse().expect("a reference");
        let package = |readers| Package {
            id: id.of(&user("ana")),
            digest: Digest::from_bytes([0; 32]),
            kind: PackageKind::Files,
            stored: Bytes(1),
            unpacked: Bytes(1),
            entries: 1,
            architectures: BTreeSet::new(),
            readers,
        };
        let users = PackageReaders::Users([user("ben")].into());
        for (readers, admitted) in [
            (PackageReaders::default(), ["ana"].as_slice()),
            (users, &["ana", "ben"]),
            (PackageReaders::Everyone, &["ana", "ben", "eve"]),
        ] {
            let package = package(readers);
            for name in ["ana", "ben", "eve"] {
                assert_eq!(package.admits(&user(name)), admitted.contains(&name), "{name}");
            }
        }
    }
}
