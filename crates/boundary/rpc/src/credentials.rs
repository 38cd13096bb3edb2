//! Credentials: a certificate with its key, and the authority to trust.
//!
//! The files for a stem `x` are `x.pem` (0644), `x.key` (0600) and `x.ca.pem` (0644). A renewal
//! first writes `x.next.pem` and so on, then renames them over the old files; a reader that finds
//! an interrupted renewal completes it first. So there is always a complete set, old or new.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::KeyPair;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;

use crate::certificate::{self, CLOCK_SKEW, Certified};
use crate::identity::Identity;
use crate::{Error, Result, files};

/// Validated credentials of one identity: the key matches the certificate, and the certificate
/// contains an identity. Expiry is checked by the other end.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    certificate_pem: String,
    key_pem: String,
    ca_pem: String,
    certified: Certified,
}

impl Credentials {
    /// Parses credentials from PEM texts.
    ///
    /// # Errors
    /// [`Error::BadCertificate`] and [`Error::KeyMismatch`].
    pub fn from_pem(certificate_pem: String, key_pem: String, ca_pem: String) -> Result<Self> {
        Self::checked(certificate_pem, key_pem, ca_pem, "the given text")
    }

    fn checked(
        certificate_pem: String,
        key_pem: String,
        ca_pem: String,
        origin: &str,
    ) -> Result<Self> {
        let der = certificate::der(&certificate_pem, origin)?;
        let certified = certificate::certified(&der, origin)?;
        let key = KeyPair::from_pem(&key_pem).map_err(|e| Error::BadCertificate {
            origin: origin.to_owned(),
            why: format!("cannot read its key: {e}"),
        })?;
        certificate::check_key(&der, &key, origin)?;
        let (cell, _) = certificate::authority(&certificate::der(&ca_pem, origin)?, origin)?;
        if cell != certified.cell {
            return Err(Error::BadCertificate {
                origin: origin.to_owned(),
                why: format!("it belongs to cell {}, its authority to cell {cell}", certified.cell),
            });
        }
        Ok(Self { certificate_pem, key_pem, ca_pem, certified })
    }

    /// Writes the three files into an existing directory, replacing older ones.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&self, directory: impl AsRef<Path>, stem: &str) -> Result<()> {
        let directory = directory.as_ref();
        let [certificate, key, ca] = paths(directory, &next(stem));
        // The certificate marks the new set as complete: remove one left from an earlier attempt.
        match fs::remove_file(&certificate) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("remove the incomplete", &certificate)(error));
            }
            _ => {}
        }
        files::write(&ca, &self.ca_pem, files::PUBLIC)?;
        files::write(&key, &self.key_pem, files::SECRET)?;
        files::write(&certificate, &self.certificate_pem, files::PUBLIC)?;
        take_over(directory, stem)
    }

    /// Reads what [`Self::write`] wrote.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::ExposedKey`], [`Error::BadCertificate`] and [`Error::KeyMismatch`].
    pub fn read(directory: impl AsRef<Path>, stem: &str) -> Result<Self> {
        let directory = directory.as_ref();
        let read = Self::read_as_they_are(directory, stem);
        if read.is_ok() {
            return read;
        }
        // Retry even if no renewal was pending: another process may have just completed one.
        take_over(directory, stem)?;
        Self::read_as_they_are(directory, stem)
    }

    fn read_as_they_are(directory: &Path, stem: &str) -> Result<Self> {
        let [certificate, key, ca] = paths(directory, stem);
        let origin = certificate.display().to_string();
        let key_pem = files::read_secret(&key)?;
        Self::checked(files::read(&certificate)?, key_pem, files::read(&ca)?, &origin)
    }

    /// The identity.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.certified.identity
    }

    /// The cell in which they are valid.
    #[must_use]
    pub fn cell(&self) -> &str {
        &self.certified.cell
    }

    /// The serial number of the certificate, in big-endian order.
    #[must_use]
    pub fn serial(&self) -> &[u8] {
        &self.certified.serial
    }

    /// When the certificate expires.
    #[must_use]
    pub fn expires(&self) -> SystemTime {
        self.certified.expires
    }

    /// When to renew the certificate: when a third of its validity is left.
    #[must_use]
    pub fn renewal(&self) -> SystemTime {
        let issued = self.certified.begins + CLOCK_SKEW;
        let lasts = self.expires().duration_since(issued).unwrap_or(Duration::ZERO);
        self.expires().checked_sub(lasts / 3).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// The certificate, as PEM. Not secret.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// The secret key, as PEM.
    #[must_use]
    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }

    /// The secret key, as PKCS #8.
    pub(crate) fn key_der(&self) -> Result<Vec<u8>> {
        let key = PrivatePkcs8KeyDer::from_pem_slice(self.key_pem.as_bytes());
        let key = key.map_err(|error| Error::BadCertificate {
            origin: "the certificate".to_owned(),
            why: format!("cannot read its key: {error}"),
        })?;
        Ok(key.secret_pkcs8_der().to_vec())
    }

    /// The certificate of the authority to trust, as PEM. Not secret.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }
}

impl fmt::Debug for Credentials {
    /// Omits the key, since debug output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("certified", &self.certified).finish_non_exhaustive()
    }
}

/// The stem of the files of a pending renewal.
fn next(stem: &str) -> String {
    format!("{stem}.next")
}

/// Completes a pending renewal, if there is one.
fn take_over(directory: &Path, stem: &str) -> Result<()> {
    let (new, old) = (paths(directory, &next(stem)), paths(directory, stem));
    if !new.first().is_some_and(|certificate| certificate.exists()) {
        return Ok(());
    }
    // The certificate last: its presence marks the renewal as pending.
    for (new, old) in new.iter().zip(&old).rev() {
        match fs::rename(new, old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("replace", old)(error));
            }
            _ => {}
        }
    }
    files::sync(directory)
}

fn paths(directory: &Path, stem: &str) -> [PathBuf; 3] {
    ["pem", "key", "ca.pem"].map(|ending| directory.join(format!("{stem}.{ending}")))
}
