//! Asking for a certificate: a key that its owner makes and keeps, and the request that goes to the
//! authority in its place (PKCS #10). Of a request only the key counts: whose certificate it becomes
//! is the authority's to say.

use std::fmt;
use std::path::Path;

use rcgen::{
    CertificateParams, CertificateSigningRequestParams, KeyPair, PKCS_ECDSA_P256_SHA256, PublicKey,
    PublicKeyData as _,
};

use crate::{Credentials, Error, Result, files};

/// The longest request that is read, in characters.
pub const MAX_REQUEST_CHARS: usize = 4 << 10;

/// How long an uncompressed point of the curve P-256 is, in bytes.
const POINT_BYTES: usize = 65;

/// A key that is not certified yet. It never leaves whoever made it.
pub struct NewKey(KeyPair);

impl NewKey {
    /// Makes one.
    ///
    /// # Errors
    /// [`Error::Issue`] where the system has no randomness.
    pub fn generate() -> Result<Self> {
        Ok(Self(KeyPair::generate()?))
    }

    /// The key in a file; where there is none, a new one, which is durable there (0600) when this
    /// returns. So whoever has to ask again asks with the same key.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::ExposedKey`], [`Error::BadCertificate`] for what is no key, and
    /// [`Error::Issue`].
    pub fn kept(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        if !path.exists() {
            let key = Self::generate()?;
            files::write(path, &key.0.serialize_pem(), files::SECRET)?;
            return Ok(key);
        }
        let key = KeyPair::from_pem(&files::read_secret(path)?);
        key.map(Self).map_err(|error| Error::BadCertificate {
            origin: path.display().to_string(),
            why: format!("it is no secret key: {error}"),
        })
    }

    /// The request to certify it, as PEM: the key, signed with itself. No secret.
    ///
    /// # Errors
    /// [`Error::Issue`].
    pub fn request_pem(&self) -> Result<String> {
        Ok(CertificateParams::default().serialize_request(&self.0)?.pem()?)
    }

    /// The credentials that it makes with its certificate.
    ///
    /// # Errors
    /// [`Error::BadCertificate`] and [`Error::KeyMismatch`].
    pub fn credentials(self, certificate_pem: String, ca_pem: String) -> Result<Credentials> {
        Credentials::from_pem(certificate_pem, self.0.serialize_pem(), ca_pem)
    }
}

impl fmt::Debug for NewKey {
    /// Without the key: what is printed ends in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKey").finish_non_exhaustive()
    }
}

/// A request that was read and whose signature is that of its key: whoever sent it has the key.
#[derive(Debug, Clone)]
pub struct SigningRequest {
    pub(crate) key: PublicKey,
}

impl SigningRequest {
    /// Reads a request.
    ///
    /// # Errors
    /// [`Error::BadRequest`] for what is none, for one that another key signed, and for a key that is
    /// not ECDSA P-256.
    pub fn from_pem(text: &str) -> Result<Self> {
        let bad = |why: String| Error::BadRequest { why };
        if text.len() > MAX_REQUEST_CHARS {
            return Err(bad(format!("it has more than {MAX_REQUEST_CHARS} characters")));
        }
        let request = CertificateSigningRequestParams::from_pem(text)
            .map_err(|error| bad(error.to_string()))?;
        let key = request.public_key;
        let is_point = key.der_bytes().len() == POINT_BYTES && key.der_bytes().first() == Some(&4);
        if *key.algorithm() != PKCS_ECDSA_P256_SHA256 || !is_point {
            return Err(bad("its key is not ECDSA P-256".to_owned()));
        }
        Ok(Self { key })
    }

    /// A digest of the key, by which it is known again.
    #[must_use]
    pub fn key_digest(&self) -> [u8; 32] {
        let mut hash = blake3::Hasher::new_derive_key("bourg: digests of public keys");
        hash.update(self.key.der_bytes());
        *hash.finalize().as_bytes()
    }

    /// A serial number for its certificate: the same for the same key and context, and another for
    /// any other.
    #[must_use]
    pub fn serial(&self, context: &[u8]) -> [u8; 16] {
        let mut hash = blake3::Hasher::new_derive_key("bourg: serial numbers of certificates");
        hash.update(self.key.der_bytes());
        hash.update(context);
        let mut serial = [0; 16];
        hash.finalize_xof().fill(&mut serial);
        // Positive, and of the same length for all.
        if let Some(first) = serial.first_mut() {
            *first = (*first & 0x3f) | 0x40;
        }
        serial
    }
}
