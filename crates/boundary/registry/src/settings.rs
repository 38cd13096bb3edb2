//! Trusted certificates, credentials, timeouts and bounds.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use crate::credentials::CredentialSource;

/// How many bytes the blobs of an image have together at most, by default.
pub const IMAGE_BYTES_MAX: u64 = 64 << 30;

/// How a registry is asked.
#[derive(Clone, Debug)]
pub struct RegistrySettings {
    /// Whether a registry may have a certificate that nobody has signed, or no TLS at all. Meant for a registry on
    /// the same machine or in a network that is trusted: everybody between can change what is asked and read the
    /// credentials. The digest of a name with one is checked all the same.
    pub insecure: bool,
    /// A file with certificates in PEM that are trusted besides those of the system.
    pub ca_file: Option<PathBuf>,
    /// Where user names and passwords come from.
    pub credentials: CredentialSource,
    /// Through which HTTP proxy requests go.
    pub proxy: ProxyChoice,
    /// How long to wait, and how often to try.
    pub patience: Patience,
    /// How many bytes the blobs of an image may have together.
    pub image_bytes_max: u64,
}

impl RegistrySettings {
    /// The settings of a user: the credentials of `docker login` (in `$DOCKER_CONFIG`, or else `~/.docker`), the proxy
    /// of `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, and the defaults of everything else.
    #[must_use]
    pub fn from_environment() -> Self {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        let home = || set("HOME").map(|home| PathBuf::from(home).join(".docker"));
        let directory = set("DOCKER_CONFIG").map(PathBuf::from).or_else(home);
        Self {
            credentials: directory.map_or(CredentialSource::Anonymous, CredentialSource::Docker),
            proxy: ProxyChoice::Environment,
            ..Self::default()
        }
    }
}

impl Default for RegistrySettings {
    /// No credentials, no proxy, and the certificates of the system.
    fn default() -> Self {
        Self {
            insecure: false,
            ca_file: None,
            credentials: CredentialSource::Anonymous,
            proxy: ProxyChoice::Direct,
            patience: Patience::default(),
            image_bytes_max: IMAGE_BYTES_MAX,
        }
    }
}

/// Through which proxy requests go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyChoice {
    /// None.
    Direct,
    /// As `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` say, in upper or lower case, as curl reads them.
    Environment,
    /// This one: `http://[USER:PASSWORD@]HOST:PORT`.
    Url(String),
}

/// How long to wait, and how often to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How long a connection, with its TLS, may take.
    pub connect: Duration,
    /// How long a registry may send nothing, or less than a KiB for each second of it.
    pub stall: Duration,
    /// How often a request is sent that fails for a reason that may pass: a broken connection, 429, 5xx. At least 1.
    pub attempts: u32,
    /// How long to wait before the second attempt, if the registry does not say; twice as long before each further.
    pub backoff: Duration,
    /// How long a registry may ask to wait (`Retry-After`) so that it is waited for; longer is an error at once.
    pub retry_after_max: Duration,
    /// How long a program that keeps credentials may take.
    pub helper: Duration,
}

impl Default for Patience {
    /// 10 s for a connection, 30 s without progress, 4 attempts after half a second and more, 60 s if the registry
    /// asks for it, 30 s for a program with credentials.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            stall: Duration::from_secs(30),
            attempts: 4,
            backoff: Duration::from_millis(500),
            retry_after_max: Duration::from_mins(1),
            helper: Duration::from_secs(30),
        }
    }
}
