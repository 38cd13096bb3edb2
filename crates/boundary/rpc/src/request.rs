//! Certificate signing requests: the owner generates and keeps the key, and sends a PKCS #10
//! request to the authority. Only the key in the request counts: the authority determines the
//! identity.

use std::fmt;
use std::path::Path;

use rcgen::{
    CertificateParams, CertificateSigningRequestParams, KeyPair, PKCS_ECDSA_P256_SHA256, PublicKey,
    PublicKeyData as _,
};

use crate::{Credentials, Error, Result, files};

/// The maximum length of a request, in characters.
pub const MAX_REQUEST_CHARS: usize = 4 << 10;

/// The length of an uncompressed P-256 point, in bytes.
const POINT_BYTES: usize = 65;

/// A key without a certificate yet. It stays with its owner.
pub struct NewKey(KeyPair);

impl NewKey {
    /// Generates a key.
    ///
    /// # Errors
    /// [`Error::Issue`] if the system provides no randomness.
    pub fn generate() -> Result<Self> {
        Ok(Self(KeyPair::generate()?))
    }

    /// Reads the key in a file, or generates one and stores it there durably (0600) before
    /// returning. So retries use the same key.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::ExposedKey`], [`Error::BadCertificate`] if the file does not contain
    /// a key, and [`Error::Issue`].
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
            why: format!("not a secret key: {error}"),
        })
    }

    /// The signing request as PEM: the public key, signed by the key. Not secret.
    ///
    /// # Errors
    /// [`Error::Issue`].
    pub fn request_pem(&self) -> Result<String> {
        Ok(CertificateParams::default().serialize_request(&self.0)?.pem()?)
    }

    /// Combines the key with its certificate.
    ///
    /// # Errors
    /// [`Error::BadCertificate`] and [`Error::KeyMismatch`].
    pub fn credentials(self, certificate_pem: String, ca_pem: String) -> Result<Credentials> {
        Credentials::from_pem(certificate_pem, self.0.serialize_pem(), ca_pem)
    }
}

impl fmt::Debug for NewKey {
    /// Omits the key, since debug output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKey").finish_non_exhaustive()
    }
}

/// A parsed request with a valid signature, which proves that the sender has the key.
#[derive(Debug, Clone)]
pub struct SigningRequest {
    pub(crate) key: PublicKey,
}

impl SigningRequest {
    /// Parses a request.
    ///
    /// # Errors
    /// [`Error::BadRequest`] if the text is not a request, if its signature is invalid, or if the
    /// key is not ECDSA P-256.
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

    /// A digest that identifies the key.
    #[must_use]
    pub fn key_digest(&self) -> [u8; 32] {
        let mut hash = blake3::Hasher::new_derive_key("bourg: digests of public keys");
        hash.update(self.key.der_bytes());
        *hash.finalize().as_bytes()
    }

    /// A serial number for its certificate, derived from the key and the context: equal for equal
    /// inputs, different otherwise.
    #[must_use]
    pub fn serial(&self, context: &[u8]) -> [u8; 16] {
        let mut hash = blake3::Hasher::new_derive_key("bourg: serial numbers of certificates");
        hash.update(self.key.der_bytes());
        hash.update(context);
        let mut serial = [0; 16];
        hash.finalize_xof().fill(&mut serial);
        // Positive, with a fixed length.
        if let Some(first) = serial.first_mut() {
            *first = (*first & 0x3f) | 0x40;
        }
        serial
    }
}
