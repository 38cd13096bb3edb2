//! Platforms: for which machines an image has variants, and which of them are wanted.

use std::fmt;
use std::str::FromStr;

/// How long the name of an architecture or a variant is at most, in bytes.
const WORD_BYTES_MAX: usize = 32;

/// Linux on an architecture, in the words of images: `amd64`, `arm64`, `arm` with the variant `v7`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Platform {
    architecture: String,
    variant: Option<String>,
}

impl Platform {
    /// The platform of an architecture and its variant, in the words of images or of `uname -m`.
    ///
    /// # Errors
    /// One of them is empty, has more than 32 bytes, or other characters than ASCII letters, digits, `_`, `-`, `.`.
    pub fn new(architecture: &str, variant: Option<&str>) -> Result<Self, PlatformError> {
        let bad = |text: &str| {
            let word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
            text.is_empty() || text.len() > WORD_BYTES_MAX || !text.bytes().all(word)
        };
        if bad(architecture) || variant.is_some_and(bad) {
            let text = [architecture, variant.unwrap_or_default()].join("/");
            return Err(PlatformError::of(&text));
        }
        let (architecture, variant) = match (architecture, variant) {
            ("x86_64", variant) => ("amd64", variant),
            ("aarch64", variant) => ("arm64", variant),
            other => other,
        };
        // Every arm64 is a v8, and images say so or do not.
        let variant = variant.filter(|variant| (architecture, *variant) != ("arm64", "v8"));
        Ok(Self { architecture: architecture.to_owned(), variant: variant.map(str::to_owned) })
    }

    /// The architecture, in the words of images.
    #[must_use]
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// The variant of the architecture, if there are several: `v7`.
    #[must_use]
    pub fn variant(&self) -> Option<&str> {
        self.variant.as_deref()
    }

    /// Whether an image for `other` is one for this platform: without a variant, every variant is.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.architecture == other.architecture
            && (self.variant.is_none() || self.variant == other.variant)
    }
}

impl FromStr for Platform {
    type Err = PlatformError;

    /// Parses `[linux/]ARCHITECTURE[/VARIANT]`.
    fn from_str(text: &str) -> Result<Self, PlatformError> {
        let rest = text.strip_prefix("linux/").unwrap_or(text);
        let mut words = rest.split('/');
        let (architecture, variant) = (words.next().unwrap_or_default(), words.next());
        match words.next() {
            None => Self::new(architecture, variant).map_err(|_| PlatformError::of(text)),
            Some(_) => Err(PlatformError::of(text)),
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "linux/{}", self.architecture)?;
        self.variant.as_ref().map_or(Ok(()), |variant| write!(f, "/{variant}"))
    }
}

/// A text names no platform.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is no platform: give [linux/]ARCHITECTURE[/VARIANT], such as linux/amd64 or linux/arm/v7"
)]
pub struct PlatformError {
    text: String,
}

impl PlatformError {
    fn of(text: &str) -> Self {
        Self { text: crate::words::shown(text) }
    }
}

/// Which variants of an image are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Platforms {
    /// Every one for Linux.
    All,
    /// These. An image that lacks one of them is an error.
    Named(Vec<Platform>),
}

impl Platforms {
    /// Whether a variant for this platform is wanted.
    #[must_use]
    pub fn includes(&self, platform: &Platform) -> bool {
        match self {
            Self::All => true,
            Self::Named(named) => named.iter().any(|wanted| wanted.covers(platform)),
        }
    }

    /// The first that is wanted, and that none of these is.
    pub(crate) fn lacking(&self, found: &[Platform]) -> Option<&Platform> {
        match self {
            Self::All => None,
            Self::Named(named) => {
                named.iter().find(|wanted| !found.iter().any(|found| wanted.covers(found)))
            }
        }
    }
}
