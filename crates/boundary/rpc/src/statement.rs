//! Statements: messages signed with the key of a certificate of the cell, which others can check later
//! and without asking the signer.
//!
//! A statement has the certificate of its signer. It is valid if the cell's authority issued that
//! certificate, to an identity of the role that may make such statements, and neither the certificate nor
//! the statement has ended. The signature covers a prefix that differs for each kind of statement, and
//! from everything that is signed in a TLS handshake.
//!
//! | statement | signed by | says |
//! |---|---|---|
//! | [`v1::Right`] | a master | what a holder may read from a store of packages, or upload to it |
//! | [`v1::Receipt`] | a store of packages | what it has of a package |

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use api::v1;
use model::Time;
use prost::Message;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, SignatureScheme};

use crate::identity::{Identity, Role};
use crate::{Credentials, Error, Result, certificate};

/// The maximum length of the payload of a statement, in bytes.
pub const MAX_PAYLOAD_BYTES: usize = 16 << 10;

/// The maximum length of a certificate in a statement, in bytes.
const MAX_CERTIFICATE_BYTES: usize = 4 << 10;

/// The maximum length of a signature, in bytes: two numbers of 32 bytes as DER have at most 72.
const MAX_SIGNATURE_BYTES: usize = 80;

/// Before what is signed. A handshake of TLS 1.3 signs texts that begin with 64 spaces.
const PREFIX: &[u8] = b"bourg statement\0";

const SCHEME: SignatureScheme = SignatureScheme::ECDSA_NISTP256_SHA256;

/// A message that can be signed.
pub trait Stated: Message + Default {
    /// The name of the kind, which separates its signatures from others.
    const KIND: &'static str;

    /// The role that may sign it.
    const SIGNER: Role;

    /// When it ends, in microseconds since 1970.
    fn until(&self) -> Time;
}

impl Stated for v1::Right {
    const KIND: &'static str = "right";
    const SIGNER: Role = Role::Master;

    fn until(&self) -> Time {
        Time(self.until)
    }
}

impl Stated for v1::Receipt {
    const KIND: &'static str = "receipt";
    const SIGNER: Role = Role::Packages;

    fn until(&self) -> Time {
        Time(self.until)
    }
}

/// Why a statement is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// A part of it is too long, or cannot be decoded.
    #[error("the {kind} cannot be read: {why}; ask for a new one")]
    Malformed {
        /// The kind of statement.
        kind: &'static str,
        /// The reason.
        why: String,
    },

    /// Its certificate is not one of this cell, or is not valid now.
    #[error(
        "the certificate of the {kind} is not accepted: {why}; ask a master of this cell for a new one"
    )]
    Certificate {
        /// The kind of statement.
        kind: &'static str,
        /// The reason.
        why: String,
    },

    /// Its signer may not make such statements.
    #[error("the {kind} is signed by {signer}: a {} has to sign it", .role.as_str())]
    Signer {
        /// The kind of statement.
        kind: &'static str,
        /// Who signed it.
        signer: Identity,
        /// The role that may.
        role: Role,
    },

    /// The signature does not match: the statement was changed, or is one of another kind.
    #[error("the signature of the {kind} does not match: it was changed; ask for a new one")]
    Signature {
        /// The kind of statement.
        kind: &'static str,
    },

    /// It has ended.
    #[error("the {kind} ended {} s ago; ask for a new one, and compare the clocks of both machines if it is new", .ago.as_secs())]
    Ended {
        /// The kind of statement.
        kind: &'static str,
        /// How long ago.
        ago: Duration,
    },
}

/// A statement that was checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Verified<M> {
    /// What it says.
    pub message: M,
    /// Who signed it.
    pub signer: Identity,
}

/// Signs a message with the key of a certificate.
///
/// # Errors
/// [`Error::Tls`] if the key is not ECDSA P-256 or cannot sign, [`Error::BadCertificate`].
///
/// # Panics
/// In debug builds, if the credentials do not have the role that signs such messages, or the message is
/// longer than [`MAX_PAYLOAD_BYTES`].
pub fn sign<M: Stated>(credentials: &Credentials, message: &M) -> Result<v1::Statement> {
    let payload = message.encode_to_vec();
    debug_assert_eq!(credentials.identity().role(), M::SIGNER, "nobody would accept it");
    debug_assert!(payload.len() <= MAX_PAYLOAD_BYTES, "nobody would accept it");
    let key = PrivatePkcs8KeyDer::from(credentials.key_der()?);
    let key = ring::sign::any_ecdsa_type(&key.into()).map_err(Error::Tls)?;
    let signer = key.choose_scheme(&[SCHEME]).ok_or_else(|| {
        Error::Tls(rustls::Error::General("the key is not ECDSA P-256".to_owned()))
    })?;
    let signature = signer.sign(&signed::<M>(&payload)).map_err(Error::Tls)?;
    let certificate = certificate::der(credentials.certificate_pem(), "the certificate")?.to_vec();
    Ok(v1::Statement { payload, certificate, signature })
}

/// Checks statements of one cell. Clones share its state.
#[derive(Debug, Clone)]
pub struct Verifier {
    cell: Arc<str>,
    certificates: Arc<dyn ClientCertVerifier>,
}

impl Verifier {
    /// Trusts the authority of a cell, given its certificate as PEM.
    ///
    /// # Errors
    /// [`Error::BadCertificate`] and [`Error::Tls`].
    pub fn new(ca_pem: &str) -> Result<Self> {
        let authority = certificate::der(ca_pem, "the authority")?;
        let (cell, _) = certificate::authority(&authority, "the authority")?;
        let mut roots = RootCertStore::empty();
        roots.add(authority).map_err(Error::Tls)?;
        let provider = Arc::new(ring::default_provider());
        let certificates = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
            .build()
            .map_err(|error| Error::Tls(rustls::Error::General(error.to_string())))?;
        Ok(Self { cell: cell.into(), certificates })
    }

    /// The name of the cell.
    #[must_use]
    pub fn cell(&self) -> &str {
        &self.cell
    }

    /// Checks a statement, and decodes what it says.
    ///
    /// # Errors
    /// [`Invalid`].
    pub fn verify<M: Stated>(
        &self,
        statement: &v1::Statement,
        now: SystemTime,
    ) -> Result<Verified<M>, Invalid> {
        let kind = M::KIND;
        let malformed = |why: String| Invalid::Malformed { kind, why };
        for (part, length, most) in [
            ("payload", statement.payload.len(), MAX_PAYLOAD_BYTES),
            ("certificate", statement.certificate.len(), MAX_CERTIFICATE_BYTES),
            ("signature", statement.signature.len(), MAX_SIGNATURE_BYTES),
        ] {
            if length == 0 || length > most {
                return Err(malformed(format!("its {part} has {length} bytes, not 1 to {most}")));
            }
        }
        let signer = self.signer(kind, &statement.certificate, now)?;
        if signer.role() != M::SIGNER {
            return Err(Invalid::Signer { kind, signer, role: M::SIGNER });
        }
        let key = certificate::public_key(&statement.certificate, "the signer");
        let key = key.map_err(|error| malformed(error.to_string()))?;
        let algorithms = ring::default_provider().signature_verification_algorithms;
        let algorithms = algorithms.mapping.iter().find(|(scheme, _)| *scheme == SCHEME);
        let algorithms = algorithms.map_or(&[][..], |(_, algorithms)| algorithms);
        let message = signed::<M>(&statement.payload);
        let matches = algorithms.iter().any(|algorithm| {
            algorithm.verify_signature(&key, &message, &statement.signature).is_ok()
        });
        if !matches {
            return Err(Invalid::Signature { kind });
        }
        let message =
            M::decode(&*statement.payload).map_err(|error| malformed(error.to_string()))?;
        let until = SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(message.until().0));
        // A moment that cannot be expressed is far away.
        if let Some(ago) = until.and_then(|until| now.duration_since(until).ok()) {
            return Err(Invalid::Ended { kind, ago });
        }
        Ok(Verified { message, signer })
    }

    /// The identity in a certificate of the cell that is valid now.
    fn signer(&self, kind: &'static str, der: &[u8], now: SystemTime) -> Result<Identity, Invalid> {
        let bad = |why: String| Invalid::Certificate { kind, why };
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(since);
        let certificate = CertificateDer::from(der);
        let verified = self.certificates.verify_client_cert(&certificate, &[], now);
        verified.map_err(|error| bad(error.to_string()))?;
        let certified = certificate::certified(der, "the signer");
        let certified = certified.map_err(|error| bad(error.to_string()))?;
        if *certified.cell != *self.cell {
            return Err(bad(format!("it belongs to cell {}", certified.cell)));
        }
        Ok(certified.identity)
    }
}

/// What is signed for a payload.
fn signed<M: Stated>(payload: &[u8]) -> Vec<u8> {
    [PREFIX, M::KIND.as_bytes(), b"\0", payload].concat()
}
