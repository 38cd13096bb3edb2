//! User names and passwords: where they come from, and which are those of a registry.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use data_encoding::{BASE64, BASE64_NOPAD};
use serde::Deserialize;

use crate::error::RegistryError;
use crate::reference::ImageReference;
use crate::words::shown;

mod helper;

/// The name of the file in the directory of Docker's settings.
const FILE: &str = "config.json";
/// How many bytes Docker's `config.json` has at most.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Under which name Docker keeps the credentials of Docker Hub.
const DOCKER_HUB_KEY: &str = "https://index.docker.io/v1/";
/// The hosts that mean Docker Hub.
const DOCKER_HUB_HOSTS: [&str; 3] = ["docker.io", "index.docker.io", "registry-1.docker.io"];

/// Where user names and passwords come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialSource {
    /// There are none.
    Anonymous,
    /// The `config.json` that `docker login` writes into this directory, and the programs that it names. A file that
    /// is missing has none.
    Docker(PathBuf),
    /// These, for every registry.
    Given(RegistryCredentials),
}

impl CredentialSource {
    /// The credentials for the registry of an image. A program that keeps them has `wait` to answer.
    pub(crate) async fn find(
        &self,
        image: &ImageReference,
        wait: Duration,
    ) -> Result<Option<RegistryCredentials>, RegistryError> {
        match self {
            Self::Anonymous => Ok(None),
            Self::Given(credentials) => Ok(Some(credentials.clone())),
            Self::Docker(directory) => {
                let path = directory.join(FILE);
                match DockerConfig::read(&path)? {
                    None => Ok(None),
                    Some(config) => config.find(image, &path, wait).await,
                }
            }
        }
    }
}

/// What proves to a registry who asks. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub enum RegistryCredentials {
    /// A user and a password, or what stands for one.
    Password {
        /// The name of the user.
        user: String,
        /// The password.
        password: String,
    },
    /// A token that the registry's token service exchanges for others.
    IdentityToken(String),
}

impl fmt::Debug for RegistryCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Password { user, .. } => {
                f.debug_struct("Password").field("user", user).finish_non_exhaustive()
            }
            Self::IdentityToken(_) => f.debug_tuple("IdentityToken").finish_non_exhaustive(),
        }
    }
}

/// What is used of Docker's `config.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DockerConfig {
    auths: HashMap<String, DockerAuth>,
    cred_helpers: HashMap<String, String>,
    creds_store: String,
}

/// The credentials of one registry in it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct DockerAuth {
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
}

impl fmt::Debug for DockerAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DockerAuth").finish_non_exhaustive()
    }
}

impl DockerConfig {
    /// Reads the file; `None` if it is missing.
    fn read(path: &Path) -> Result<Option<Self>, RegistryError> {
        let bad = |why: String| RegistryError::CredentialFile { path: path.to_owned(), why };
        let file = match std::fs::File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(bad(error.to_string())),
        };
        let mut text = Vec::new();
        file.take(FILE_BYTES_MAX + 1)
            .read_to_end(&mut text)
            .map_err(|error| bad(error.to_string()))?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(bad(format!("it has more than {FILE_BYTES_MAX} bytes")));
        }
        // Where the error is, and not what is there: it may be a password.
        let place = |error: serde_json::Error| {
            format!(
                "line {}, column {} is no JSON of Docker's settings",
                error.line(),
                error.column()
            )
        };
        serde_json::from_slice(&text).map(Some).map_err(|error| bad(place(error)))
    }

    async fn find(
        &self,
        image: &ImageReference,
        path: &Path,
        wait: Duration,
    ) -> Result<Option<RegistryCredentials>, RegistryError> {
        let means = |key: &&String| is_for(key, image);
        let of_registry = self.cred_helpers.keys().filter(means).min();
        let program = match of_registry {
            Some(key) => &self.cred_helpers[key],
            None => &self.creds_store,
        };
        if !program.is_empty() {
            let key = if image.is_docker_hub() { DOCKER_HUB_KEY } else { image.registry() };
            let failed = |why: String| RegistryError::CredentialHelper {
                name: shown(program),
                registry: image.registry().to_owned(),
                path: path.to_owned(),
                why,
            };
            let found = helper::ask(program, key, wait).await.map_err(failed)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        // Several keys can mean the same registry: what Docker itself writes comes first.
        let written = |key: &&String| key.as_str() == DOCKER_HUB_KEY || *key == image.registry();
        let mut keys: Vec<&String> = self.auths.keys().filter(means).collect();
        keys.sort_by_key(|key| (!written(key), key.as_str()));
        for key in keys {
            let bad = |why: &str| RegistryError::CredentialFile {
                path: path.to_owned(),
                why: format!("`auths` of '{}' {why}", shown(key)),
            };
            if let Some(found) = self.auths[key].credentials().map_err(bad)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

impl DockerAuth {
    /// The credentials of an entry; `None` if a program keeps them, and the entry only says so.
    fn credentials(&self) -> Result<Option<RegistryCredentials>, &'static str> {
        if !self.identitytoken.is_empty() {
            return Ok(Some(RegistryCredentials::IdentityToken(self.identitytoken.clone())));
        }
        if self.auth.is_empty() {
            let (user, password) = (self.username.clone(), self.password.clone());
            let some = !user.is_empty() && !password.is_empty();
            return Ok(some.then_some(RegistryCredentials::Password { user, password }));
        }
        let text = self.auth.trim_end_matches(['=', '\0']);
        let decoded =
            BASE64_NOPAD.decode(text.as_bytes()).map_err(|_| "has an `auth` that is no base64")?;
        let decoded = String::from_utf8(decoded).map_err(|_| "has an `auth` that is no UTF-8")?;
        let (user, password) = decoded.split_once(':').ok_or("has an `auth` without a colon")?;
        let password = password.trim_end_matches('\0');
        let (user, password) = (user.to_owned(), password.to_owned());
        Ok(Some(RegistryCredentials::Password { user, password }))
    }
}

/// Whether a key of Docker's settings means the registry of an image: a host, or a URL of one.
fn is_for(key: &str, image: &ImageReference) -> bool {
    let host = ["https://", "http://"].iter().find_map(|scheme| key.strip_prefix(scheme));
    let host = host.unwrap_or(key).split('/').next().unwrap_or_default();
    match image.is_docker_hub() {
        true => DOCKER_HUB_HOSTS.contains(&host),
        false => host == image.registry(),
    }
}

/// The value of an `Authorization` header for a user and a password.
pub(crate) fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64.encode(format!("{user}:{password}").as_bytes()))
}
