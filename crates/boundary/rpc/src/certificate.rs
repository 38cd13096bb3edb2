//! Parses our certificates: identity, expiry, and whether a key matches.

use std::time::{Duration, SystemTime};

use rcgen::{KeyPair, PublicKeyData as _};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::identity::{Identity, check_cell};
use crate::{Error, Result};

/// How far back the validity of a new certificate begins. The clocks of machines may differ by less
/// than this, and may be set back by less. This weakens nothing: before issuance the key does not
/// exist.
pub const CLOCK_SKEW: Duration = Duration::from_secs(24 * 3_600);

/// The content of an identity's certificate. TLS checks that a trusted authority signed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Certified {
    pub(crate) cell: String,
    pub(crate) identity: Identity,
    pub(crate) begins: SystemTime,
    pub(crate) expires: SystemTime,
    pub(crate) serial: Vec<u8>,
}

/// Parses the certificate of an identity.
pub(crate) fn certified(der: &[u8], origin: &str) -> Result<Certified> {
    let certificate = parse(der, origin)?;
    let uri = uri(&certificate, origin)?;
    let (cell, identity) = Identity::from_uri(uri).map_err(|e| bad(origin, e.to_string()))?;
    check_cell(&cell)?;
    // A leading zero only marks the number as positive.
    let serial = certificate.raw_serial();
    let serial = serial.strip_prefix(&[0]).unwrap_or(serial).to_vec();
    let begins = moment(certificate.validity().not_before.timestamp());
    Ok(Certified { cell, identity, begins, expires: expires(&certificate), serial })
}

/// Parses the certificate of a cell's authority: its cell and its expiry.
pub(crate) fn authority(der: &[u8], origin: &str) -> Result<(String, SystemTime)> {
    let certificate = parse(der, origin)?;
    if !certificate.is_ca() {
        return Err(bad(origin, "it is not the certificate of an authority"));
    }
    let cell = uri(&certificate, origin)?
        .strip_prefix("borg://")
        .ok_or_else(|| bad(origin, "it does not name a cell"))?;
    check_cell(cell)?;
    Ok((cell.to_owned(), expires(&certificate)))
}

/// The first certificate in a PEM text.
pub(crate) fn der(pem: &str, origin: &str) -> Result<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|e| bad(origin, e.to_string()))
}

/// Rejects a key that does not match the certificate.
pub(crate) fn check_key(der: &[u8], key: &KeyPair, origin: &str) -> Result<()> {
    let certificate = parse(der, origin)?;
    if certificate.public_key().subject_public_key.data.as_ref() == key.der_bytes() {
        return Ok(());
    }
    Err(Error::KeyMismatch { origin: origin.to_owned() })
}

/// The public key of a certificate, as in its bit string: for ECDSA, an uncompressed point.
pub(crate) fn public_key(der: &[u8], origin: &str) -> Result<Vec<u8>> {
    Ok(parse(der, origin)?.public_key().subject_public_key.data.to_vec())
}

fn parse<'a>(der: &'a [u8], origin: &str) -> Result<X509Certificate<'a>> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Ok(certificate),
        Ok(_) => Err(bad(origin, "it has trailing bytes")),
        Err(e) => Err(bad(origin, e.to_string())),
    }
}

/// The URI of a certificate. There must be exactly one: two identities are as invalid as none.
fn uri<'a>(certificate: &'a X509Certificate<'_>, origin: &str) -> Result<&'a str> {
    let names = certificate
        .subject_alternative_name()
        .map_err(|e| bad(origin, e.to_string()))?
        .map_or(&[][..], |names| &names.value.general_names);
    let mut uris = names.iter().filter_map(|name| match name {
        GeneralName::URI(uri) => Some(*uri),
        _ => None,
    });
    match (uris.next(), uris.next()) {
        (Some(uri), None) => Ok(uri),
        (None, _) => Err(bad(origin, "it contains no identity")),
        (Some(_), Some(_)) => Err(bad(origin, "it contains more than one identity")),
    }
}

fn expires(certificate: &X509Certificate<'_>) -> SystemTime {
    moment(certificate.validity().not_after.timestamp())
}

fn moment(seconds: i64) -> SystemTime {
    let seconds = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    SystemTime::UNIX_EPOCH.checked_add(seconds).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn bad(origin: &str, why: impl Into<String>) -> Error {
    Error::BadCertificate { origin: origin.to_owned(), why: why.into() }
}
