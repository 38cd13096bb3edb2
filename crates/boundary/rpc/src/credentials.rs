//! A certificate with its key and the authority to trust: what a process needs to be someone.
//!
//! In files, for a stem `x`: `x.pem` (0644), `x.key` (0600) and `x.ca.pem` (0644). New ones are written
//! beside them, as `x.next.pem` and so on, and then take their place; whoever reads what a crash left
//! between two of these steps ends them first. So there are always the old ones, or the new.

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

/// Credentials of one identity, checked: the key is the certificate's, and the certificate carries
/// an identity. That it has not expired is for the other end to judge.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    certificate_pem: String,
    key_pem: String,
    ca_pem: String,
    certified: Certified,
}

impl Credentials {
    /// Credentials from PEM texts, as they come over a link.
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
            why: format!("its key cannot be read: {e}"),
        })?;
        certificate::check_key(&der, &key, origin)?;
        let (cell, _) = certificate::authority(&certificate::der(&ca_pem, origin)?, origin)?;
        if cell != certified.cell {
            return Err(Error::BadCertificate {
                origin: origin.to_owned(),
                why: format!("it is of cell {}, its authority of cell {cell}", certified.cell),
            });
        }
        Ok(Self { certificate_pem, key_pem, ca_pem, certified })
    }

    /// Writes the three files into an existing directory, in place of older ones.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&self, directory: impl AsRef<Path>, stem: &str) -> Result<()> {
        let directory = directory.as_ref();
        let [certificate, key, ca] = paths(directory, &next(stem));
        // It says that all three are there: those of an earlier time are not.
        match fs::remove_file(&certificate) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("remove the unfinished", &certificate)(error));
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
        // Also where nothing was left: somebody may have just ended a renewal.
        take_over(directory, stem)?;
        Self::read_as_they_are(directory, stem)
    }

    fn read_as_they_are(directory: &Path, stem: &str) -> Result<Self> {
        let [certificate, key, ca] = paths(directory, stem);
        let origin = certificate.display().to_string();
        let key_pem = files::read_secret(&key)?;
        Self::checked(files::read(&certificate)?, key_pem, files::read(&ca)?, &origin)
    }

    /// Whose they are.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.certified.identity
    }

    /// The cell that they are good in.
    #[must_use]
    pub fn cell(&self) -> &str {
        &self.certified.cell
    }

    /// The serial number of their certificate, the most significant byte first.
    #[must_use]
    pub fn serial(&self) -> &[u8] {
        &self.certified.serial
    }

    /// When they stop being accepted.
    #[must_use]
    pub fn expires(&self) -> SystemTime {
        self.certified.expires
    }

    /// When they are to be renewed: when a third is left of the time for which they were issued.
    #[must_use]
    pub fn renewal(&self) -> SystemTime {
        let issued = self.certified.begins + CLOCK_SKEW;
        let lasts = self.expires().duration_since(issued).unwrap_or(Duration::ZERO);
        self.expires().checked_sub(lasts / 3).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// The certificate. No secret.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// The secret key.
    #[must_use]
    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }

    /// The secret key, as PKCS #8.
    pub(crate) fn key_der(&self) -> Result<Vec<u8>> {
        let key = PrivatePkcs8KeyDer::from_pem_slice(self.key_pem.as_bytes());
        let key = key.map_err(|error| Error::BadCertificate {
            origin: "the certificate".to_owned(),
            why: format!("its key cannot be read: {error}"),
        })?;
        Ok(key.secret_pkcs8_der().to_vec())
    }

    /// The certificate of the authority to trust. No secret.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }
}

impl fmt::Debug for Credentials {
    /// Without the key: what is printed ends in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("certified", &self.certified).finish_non_exhaustive()
    }
}

/// The stem of those that are to take the place of others.
fn next(stem: &str) -> String {
    format!("{stem}.next")
}

/// Puts new credentials, where there are any, in the place of the old ones, or goes on with that.
fn take_over(directory: &Path, stem: &str) -> Result<()> {
    let (new, old) = (paths(directory, &next(stem)), paths(directory, stem));
    if !new.first().is_some_and(|certificate| certificate.exists()) {
        return Ok(());
    }
    // The certificate last: as long as it is there, this is not done.
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
