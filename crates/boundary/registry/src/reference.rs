//! Names of images, with the grammar and the defaults of Docker:
//! `[REGISTRY[:PORT]/]REPOSITORY[:TAG][@sha256:DIGEST]`.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use crate::digest::BlobDigest;
use crate::words::shown;

/// The registry of a name without one.
const DOCKER_HUB: &str = "docker.io";
/// Other names of it.
const DOCKER_HUB_ALIASES: [&str; 2] = ["index.docker.io", "registry-1.docker.io"];
/// The host that serves it.
const DOCKER_HUB_HOST: &str = "registry-1.docker.io";
/// Where Docker Hub has the images of a name without a slash.
const LIBRARY: &str = "library/";
/// The tag of a name with neither tag nor digest.
const DEFAULT_TAG: &str = "latest";

/// How long the whole name of an image is at most, in bytes.
pub const REFERENCE_BYTES_MAX: usize = 1024;
/// How long the host of a registry is at most, in bytes, as in DNS.
pub const REGISTRY_HOST_BYTES_MAX: usize = 253;
/// How long the name of a repository is at most, in bytes.
pub const REPOSITORY_BYTES_MAX: usize = 255;
/// How long a tag is at most, in bytes.
pub const TAG_BYTES_MAX: usize = 128;

/// The name of an image in a registry. It is written in full: `nginx` is `docker.io/library/nginx:latest`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageReference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<BlobDigest>,
}

impl ImageReference {
    /// The registry, with its port if the name has one: `docker.io`, `localhost:5000`.
    #[must_use]
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The repository in the registry: `library/nginx`.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag; `latest` if the name has neither a tag nor a digest.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest of the manifest. If there is one, it decides which image is meant, and the tag is for people.
    #[must_use]
    pub fn digest(&self) -> Option<BlobDigest> {
        self.digest
    }

    /// The host and port that serve the registry.
    pub(crate) fn host(&self) -> &str {
        if self.is_docker_hub() { DOCKER_HUB_HOST } else { &self.registry }
    }

    pub(crate) fn is_docker_hub(&self) -> bool {
        self.registry == DOCKER_HUB
    }

    /// What the registry is asked for: the digest, or else the tag.
    pub(crate) fn version(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, tag) => tag.as_deref().unwrap_or(DEFAULT_TAG).to_owned(),
        }
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        self.digest.map_or(Ok(()), |digest| write!(f, "@{digest}"))
    }
}

impl FromStr for ImageReference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        parse(text).map_err(|fault| ReferenceError { text: shown(text), fault })
    }
}

/// A text is no name of an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is no name of an image: {fault}")]
pub struct ReferenceError {
    /// The text, cut and with control characters escaped.
    text: String,
    fault: ReferenceFault,
}

/// What is wrong with the name of an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum ReferenceFault {
    #[error("it is empty; give [REGISTRY/]REPOSITORY[:TAG], such as nginx:1.27")]
    Empty,
    #[error("it has {0} bytes, of at most {REFERENCE_BYTES_MAX}")]
    Long(usize),
    #[error("it is a URL; leave out '{0}'")]
    Scheme(&'static str),
    #[error(
        "'{}' is no registry; one is a host of letters, digits, '-' and '.', with at most \
         {REGISTRY_HOST_BYTES_MAX} bytes, or an IP address, and maybe a port of 1 to 65535", shown(.0)
    )]
    Registry(String),
    #[error(
        "'{}' is no repository; the parts between its slashes are lower-case letters and digits, with one '.', \
         one or two '_', or any number of '-' between them", shown(.0)
    )]
    Repository(String),
    #[error("its repository has {0} bytes, of at most {REPOSITORY_BYTES_MAX}")]
    LongRepository(usize),
    #[error("64 hexadecimal digits are a digest; write REPOSITORY@sha256:DIGITS")]
    Digits,
    #[error(
        "'{}' is no tag; one is 1 to {TAG_BYTES_MAX} letters, digits, '_', '.' and '-', of which the first is \
         no '.' and no '-'", shown(.0)
    )]
    Tag(String),
    #[error("'{}' is no digest of an image: `sha256:` and 64 lower-case hexadecimal digits", shown(.0))]
    Digest(String),
}

fn parse(text: &str) -> Result<ImageReference, ReferenceFault> {
    if text.is_empty() {
        return Err(ReferenceFault::Empty);
    }
    if text.len() > REFERENCE_BYTES_MAX {
        return Err(ReferenceFault::Long(text.len()));
    }
    if let Some(scheme) =
        ["https://", "http://"].into_iter().find(|scheme| text.starts_with(scheme))
    {
        return Err(ReferenceFault::Scheme(scheme));
    }
    let (rest, digest) = match text.split_once('@') {
        None => (text, None),
        Some((rest, digest)) => {
            let bad = |_| ReferenceFault::Digest(digest.to_owned());
            (rest, Some(digest.parse::<BlobDigest>().map_err(bad)?))
        }
    };
    let (name, tag) = split_tag(rest);
    if let Some(tag) = tag.filter(|tag| !is_tag(tag)) {
        return Err(ReferenceFault::Tag(tag.to_owned()));
    }
    let (registry, repository) = split_registry(name)?;
    let default = || digest.is_none().then_some(DEFAULT_TAG);
    let tag = tag.or_else(default).map(str::to_owned);
    Ok(ImageReference { registry, repository, tag, digest })
}

/// Splits a name from its tag: what follows the last colon behind the last slash.
fn split_tag(text: &str) -> (&str, Option<&str>) {
    let last = text.rfind('/').map_or(0, |slash| slash + 1);
    match text[last..].find(':') {
        None => (text, None),
        Some(colon) => (&text[..last + colon], Some(&text[last + colon + 1..])),
    }
}

/// The registry and the repository of a name. What is before the first slash is a registry if it looks like a host.
fn split_registry(name: &str) -> Result<(String, String), ReferenceFault> {
    let is_host = |first: &str| {
        first == "localhost"
            || first.contains(['.', ':', '['])
            || first.bytes().any(|byte| byte.is_ascii_uppercase())
    };
    let (registry, path) = match name.split_once('/').filter(|(first, _)| is_host(first)) {
        None => (DOCKER_HUB, name),
        Some((registry, path)) => (registry, path),
    };
    if !is_registry(registry) {
        return Err(ReferenceFault::Registry(registry.to_owned()));
    }
    if path.len() > REPOSITORY_BYTES_MAX {
        return Err(ReferenceFault::LongRepository(path.len()));
    }
    if name.len() == 64 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(ReferenceFault::Digits);
    }
    if !path.split('/').all(is_component) {
        return Err(ReferenceFault::Repository(path.to_owned()));
    }
    let hub = registry == DOCKER_HUB || DOCKER_HUB_ALIASES.contains(&registry);
    let registry = if hub { DOCKER_HUB } else { registry };
    let library = if hub && !path.contains('/') { LIBRARY } else { "" };
    Ok((registry.to_owned(), format!("{library}{path}")))
}

/// Whether a text is `HOST[:PORT]`.
fn is_registry(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => {
            if address.parse::<Ipv6Addr>().is_err() {
                return false;
            }
            match rest.strip_prefix(':') {
                None => return rest.is_empty(),
                Some(port) => ("ipv6", Some(port)),
            }
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    host.len() <= REGISTRY_HOST_BYTES_MAX
        && host.split('.').all(is_label)
        && port.is_none_or(is_port)
}

/// Whether a text is a part of a host: letters and digits, with `-` between them.
fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !text.is_empty()
        && text.len() <= 63
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
        && text.parse::<u16>().is_ok_and(|port| port != 0)
}

/// Whether a text is a part of a repository's name.
fn is_component(text: &str) -> bool {
    let letter = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    if !ends.iter().all(|end| end.is_some_and(letter)) {
        return false;
    }
    let separators = bytes.split(letter).filter(|separator| !separator.is_empty());
    separators.into_iter().all(|separator| {
        matches!(separator, b"." | b"_" | b"__") || separator.iter().all(|byte| *byte == b'-')
    })
}

fn is_tag(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=TAG_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| word(byte) || b".-".contains(&byte))
        && text.bytes().next().is_some_and(word)
}
