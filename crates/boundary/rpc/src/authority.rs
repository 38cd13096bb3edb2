//! The cell's certificate authority: created at the first start, stored by the masters.
//!
//! Its files are `ca.pem` (0644), which is public, and `ca.key` (0600), whose holder can
//! impersonate anyone in the cell. Keys are ECDSA P-256.

use std::fmt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, SerialNumber,
};
use time::OffsetDateTime;

pub use crate::certificate::CLOCK_SKEW;
use crate::identity::{Identity, check_cell, role_host_name};
use crate::web::WebCredentials;
use crate::{Credentials, Error, Result, SigningRequest, certificate, files};

/// The validity of an authority: ten years.
pub const AUTHORITY_VALIDITY: Duration = Duration::from_secs(10 * 365 * 86_400);

const CERTIFICATE: &str = "ca.pem";
const KEY: &str = "ca.key";
/// The maximum length of an X.509 common name.
const COMMON_NAME_CHARS: usize = 64;

/// The period in which a certificate is accepted, to the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The start.
    pub from: SystemTime,
    /// The end, at most that of the authority's own certificate.
    pub until: SystemTime,
}

impl Validity {
    /// From now (minus [`CLOCK_SKEW`]) for `duration`.
    #[must_use]
    pub fn lasting(duration: Duration) -> Self {
        let now = SystemTime::now();
        let longest = now + AUTHORITY_VALIDITY;
        let until = now.checked_add(duration).map_or(longest, |until| until.min(longest));
        Self { from: now - CLOCK_SKEW, until }
    }
}

/// The authority of one cell, with its secret key.
pub struct Authority {
    cell: String,
    ca_pem: String,
    expires: SystemTime,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Creates the authority of a new cell, with its files, in an existing directory.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] if the directory contains one, [`Error::BadCell`] for a name other
    /// than 1 to 40 of `a-z`, `0-9` and inner `-`, [`Error::Io`] and [`Error::Issue`].
    pub fn create(directory: impl AsRef<Path>, cell: &str) -> Result<Self> {
        check_cell(cell)?;
        let directory = directory.as_ref();
        let path = directory.join(CERTIFICATE);
        if path.exists() {
            return Err(Error::AlreadyExists { path });
        }
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        set_validity(&mut params, Validity::lasting(AUTHORITY_VALIDITY))?;
        params.distinguished_name.push(DnType::CommonName, format!("authority of cell {cell}"));
        params.subject_alt_names = vec![SanType::URI(format!("borg://{cell}").try_into()?)];
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let ca_pem = params.self_signed(&key)?.pem();

        // The certificate last: its presence marks the authority as complete.
        files::write(&directory.join(KEY), &key.serialize_pem(), files::SECRET)?;
        files::write(&path, &ca_pem, files::PUBLIC)?;
        Self::from_parts(ca_pem, key, &path)
    }

    /// Opens the authority in a directory.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::ExposedKey`], [`Error::BadCertificate`], [`Error::KeyMismatch`].
    pub fn open(directory: impl AsRef<Path>) -> Result<Self> {
        let path = directory.as_ref().join(CERTIFICATE);
        let key_path = directory.as_ref().join(KEY);
        let key = KeyPair::from_pem(&files::read_secret(&key_path)?).map_err(|e| {
            let why = format!("not a secret key: {e}");
            Error::BadCertificate { origin: key_path.display().to_string(), why }
        })?;
        Self::from_parts(files::read(&path)?, key, &path)
    }

    /// Copies an authority from one directory into another, which must exist.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] if the target contains one, and those of [`Self::open`].
    pub fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Self> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let path = to.join(CERTIFICATE);
        if path.exists() {
            return Err(Error::AlreadyExists { path });
        }
        let authority = Self::open(from)?;
        // As in `create`, the certificate last.
        files::write(&to.join(KEY), &files::read_secret(&from.join(KEY))?, files::SECRET)?;
        files::write(&path, &authority.ca_pem, files::PUBLIC)?;
        Ok(authority)
    }

    /// Writes an authority received over a link into an existing directory.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] if the directory contains one, and those of [`Self::open`].
    pub fn adopt(directory: impl AsRef<Path>, ca_pem: &str, key_pem: &str) -> Result<Self> {
        let directory = directory.as_ref();
        let path = directory.join(CERTIFICATE);
        if path.exists() {
            return Err(Error::AlreadyExists { path });
        }
        let bad = |why| Error::BadCertificate { origin: "the given text".to_owned(), why };
        let key = KeyPair::from_pem(key_pem);
        let key = key.map_err(|error| bad(format!("cannot read its key: {error}")))?;
        let authority = Self::from_parts(ca_pem.to_owned(), key, &path)?;
        files::write(&directory.join(KEY), key_pem, files::SECRET)?;
        files::write(&path, ca_pem, files::PUBLIC)?;
        Ok(authority)
    }

    /// Its secret key, as PEM. Whoever holds it can impersonate anyone in the cell.
    #[must_use]
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    fn from_parts(ca_pem: String, key: KeyPair, path: &Path) -> Result<Self> {
        let origin = path.display().to_string();
        let der = certificate::der(&ca_pem, &origin)?;
        let (cell, expires) = certificate::authority(&der, &origin)?;
        certificate::check_key(&der, &key, &origin)?;
        let issuer = Issuer::from_ca_cert_der(&der, key)?;
        Ok(Self { cell, ca_pem, expires, issuer })
    }

    /// The name of its cell.
    #[must_use]
    pub fn cell(&self) -> &str {
        &self.cell
    }

    /// Its certificate, for everyone who trusts it. Not secret.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Generates a key and issues a certificate for the identity. Writes nothing.
    ///
    /// # Errors
    /// [`Error::BadIdentity`] for invalid names, [`Error::EmptyValidity`] and [`Error::Issue`].
    pub fn issue(&self, identity: &Identity, validity: Validity) -> Result<Credentials> {
        let params = self.params(identity, validity)?;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Credentials::from_pem(certificate.pem(), key.serialize_pem(), self.ca_pem.clone())
    }

    /// Generates a key and issues a certificate for a web server that browsers reach by these names and
    /// IP addresses. It contains no identity: within the cell it gives no rights. Writes nothing.
    ///
    /// # Errors
    /// [`Error::Issue`] for a name that is neither a host name nor an IP address, and
    /// [`Error::EmptyValidity`].
    pub fn issue_for_web(&self, names: &[String], validity: Validity) -> Result<WebCredentials> {
        let mut params = CertificateParams::new(names)?;
        let until = validity.until.min(self.expires);
        set_validity(&mut params, Validity { until, ..validity })?;
        params.distinguished_name.push(DnType::CommonName, format!("web of cell {}", self.cell));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.der().to_vec();
        WebCredentials::new(certificate, &key, &self.ca_pem)
    }

    /// Issues a certificate for the key of a signing request, with the identity and serial number,
    /// as PEM. Ignores everything in the request except the key. Writes nothing.
    ///
    /// # Errors
    /// As [`Self::issue`].
    pub fn certify(
        &self,
        request: &SigningRequest,
        identity: &Identity,
        validity: Validity,
        serial: &[u8],
    ) -> Result<String> {
        let mut params = self.params(identity, validity)?;
        params.serial_number = Some(SerialNumber::from_slice(serial));
        Ok(params.signed_by(&request.key, &self.issuer)?.pem())
    }

    /// The content of an identity's certificate.
    fn params(&self, identity: &Identity, validity: Validity) -> Result<CertificateParams> {
        identity.check()?;
        let role = identity.role();
        let text = identity.to_string();
        let mut params = CertificateParams::default();
        let until = validity.until.min(self.expires);
        set_validity(&mut params, Validity { until, ..validity })?;
        let name: String = text.chars().take(COMMON_NAME_CHARS).collect();
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names = vec![
            SanType::URI(identity.uri(&self.cell).try_into()?),
            SanType::DnsName(role_host_name(role, &self.cell).try_into()?),
            SanType::DnsName(identity.host_name(&self.cell).try_into()?),
        ];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if role.serves() {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        params.use_authority_key_identifier_extension = true;
        Ok(params)
    }
}

impl fmt::Debug for Authority {
    /// Omits the key, since debug output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("cell", &self.cell).finish_non_exhaustive()
    }
}

fn set_validity(params: &mut CertificateParams, validity: Validity) -> Result<()> {
    let (from, until) = (unix_seconds(validity.from), unix_seconds(validity.until));
    let empty = || Error::EmptyValidity { from, until };
    if from > until {
        return Err(empty());
    }
    // Fails for years that a certificate cannot express.
    let time = |seconds| OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| empty());
    params.not_before = time(from)?;
    params.not_after = time(until)?;
    Ok(())
}

fn unix_seconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_secs()).unwrap_or(i64::MAX),
    }
}
