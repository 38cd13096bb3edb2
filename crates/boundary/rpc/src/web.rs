//! TLS of a web server: for browsers, with or without a certificate of the cell.
//!
//! Such a server has a certificate for host names, not for an identity. A browser that presents a
//! certificate of the cell is identified by it; any other client is anonymous, and it is up to the
//! service what it may see.

use std::fmt;
use std::sync::Arc;

use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};

use crate::tls::CurrentCertificate;
use crate::{Error, Result, certificate};

/// The protocols that browsers may choose. HTTP/2 has no limit of connections for each page.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The certificate of a web server, with its secret key. It can be replaced while it is in use; clones
/// share it.
#[derive(Clone)]
pub struct WebCredentials {
    shown: Arc<CurrentCertificate>,
    /// Issued the certificates of clients.
    ca_pem: Arc<str>,
}

impl WebCredentials {
    /// A new key with a certificate that no authority signed: browsers warn before they show a page.
    /// Clients are identified by certificates of the authority `ca_pem`.
    ///
    /// # Errors
    /// [`Error::Issue`] for a name that is neither a host name nor an IP address.
    pub fn self_signed(names: &[String], ca_pem: &str) -> Result<Self> {
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "bourg sigma");
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.der().to_vec();
        Self::new(certificate, &key, ca_pem)
    }

    /// From a certificate, as DER.
    pub(crate) fn new(certificate: Vec<u8>, key: &KeyPair, ca_pem: &str) -> Result<Self> {
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let chain = vec![CertificateDer::from(certificate)];
        let key = CertifiedKey::from_der(chain, key, &ring::default_provider());
        let shown = Arc::new(CurrentCertificate::new(key.map_err(Error::Tls)?));
        Ok(Self { shown, ca_pem: ca_pem.into() })
    }

    /// Uses the certificate of `renewed` for new connections from now on.
    pub fn replace(&self, renewed: &Self) {
        self.shown.replace(renewed.shown.newest().as_ref().clone());
    }

    /// The TLS configuration: version 1.3, a client certificate is optional, and sessions are never
    /// resumed.
    pub(crate) fn tls(&self) -> Result<Arc<ServerConfig>> {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(certificate::der(&self.ca_pem, "the authority")?).map_err(Error::Tls)?;
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .allow_unauthenticated()
                .build()
                .map_err(|error| Error::Tls(rustls::Error::General(error.to_string())))?;
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(Error::Tls)?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(Arc::clone(&self.shown) as _);
        tls.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        tls.send_tls13_tickets = 0;
        tls.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Arc::new(tls))
    }
}

/// 256 bits that nobody can guess, from the operating system.
///
/// # Errors
/// [`Error::Tls`] if the operating system gives none.
pub fn secret() -> Result<[u8; 32]> {
    let mut secret = [0; 32];
    let random = ring::default_provider().secure_random;
    random.fill(&mut secret).map_err(|error| Error::Tls(error.into()))?;
    Ok(secret)
}

impl fmt::Debug for WebCredentials {
    /// Omits the key, since debug output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebCredentials").finish_non_exhaustive()
    }
}
