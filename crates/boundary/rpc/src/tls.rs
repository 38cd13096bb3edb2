//! TLS configurations from credentials: version 1.3 and HTTP/2 only.
//!
//! Sessions are never resumed: a resumed session would keep the certificate of an earlier
//! handshake, which may have expired or been replaced since.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, OtherError, RootCertStore, ServerConfig,
    SignatureScheme, SupportedProtocolVersion,
};

use crate::{Credentials, Error, Identity, Result, certificate};

const VERSIONS: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];
const ALPN_HTTP_2: &[u8] = b"h2";

/// The TLS configurations of an identity.
pub(crate) struct Tls {
    /// As a server: rejects clients without a certificate of the cell's authority in the handshake.
    pub(crate) server: Arc<ServerConfig>,
    /// As a client: accepts only the expected server, with a certificate of the authority.
    pub(crate) client: Arc<ClientConfig>,
    shown: Arc<CurrentCertificate>,
}

impl Tls {
    pub(crate) fn new(credentials: &Credentials) -> Result<Self> {
        let provider = Arc::new(ring::default_provider());
        let shown = certified_key(credentials, &provider)?;
        let shown = Arc::new(CurrentCertificate::new(shown));
        let mut roots = RootCertStore::empty();
        roots.add(certificate::der(credentials.ca_pem(), "the authority")?).map_err(Error::Tls)?;
        let roots = Arc::new(roots);

        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build()
                .map_err(|error| Error::Tls(rustls::Error::General(error.to_string())))?;
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(VERSIONS)
            .map_err(Error::Tls)?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(Arc::clone(&shown) as _);
        server.alpn_protocols = vec![ALPN_HTTP_2.to_vec()];
        server.send_tls13_tickets = 0;
        server.session_storage = Arc::new(NoServerSessionStorage {});

        let servers = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .build()
            .map_err(|error| Error::Tls(rustls::Error::General(error.to_string())))?;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(VERSIONS)
            .map_err(Error::Tls)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(ServerVerifier(servers)))
            .with_client_cert_resolver(Arc::clone(&shown) as _);
        client.alpn_protocols = vec![ALPN_HTTP_2.to_vec()];
        client.resumption = Resumption::disabled();
        Ok(Self { server: Arc::new(server), client: Arc::new(client), shown })
    }

    /// Uses another certificate from now on.
    pub(crate) fn show(&self, credentials: &Credentials) -> Result<()> {
        let key = certified_key(credentials, self.client.crypto_provider())?;
        self.shown.replace(key);
        Ok(())
    }
}

fn certified_key(credentials: &Credentials, provider: &CryptoProvider) -> Result<CertifiedKey> {
    let certificate = certificate::der(credentials.certificate_pem(), "the certificate")?;
    let key = PrivatePkcs8KeyDer::from(credentials.key_der()?);
    CertifiedKey::from_der(vec![certificate], key.into(), provider).map_err(Error::Tls)
}

/// Resolves the current certificate, for any peer.
#[derive(Debug)]
pub(crate) struct CurrentCertificate(RwLock<Arc<CertifiedKey>>);

impl CurrentCertificate {
    pub(crate) fn new(key: CertifiedKey) -> Self {
        Self(RwLock::new(Arc::new(key)))
    }

    /// Uses another certificate from now on.
    pub(crate) fn replace(&self, key: CertifiedKey) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(key);
    }

    pub(crate) fn newest(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.newest())
    }
}

impl ResolvesClientCert for CurrentCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.newest())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Verifies servers like rustls, and reports the identity of an unexpected one.
#[derive(Debug)]
struct ServerVerifier(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self.0.verify_server_cert(certificate, intermediates, name, ocsp, now);
        verified.map_err(|error| match &error {
            rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            ) => match certificate::certified(certificate, "the server's certificate") {
                Ok(found) => CertificateError::from(WrongServer(found.identity)).into(),
                Err(_) => error,
            },
            _ => error,
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// A server of the authority that is not the expected one.
#[derive(Debug)]
pub(crate) struct WrongServer(pub(crate) Identity);

impl From<WrongServer> for CertificateError {
    fn from(wrong: WrongServer) -> Self {
        Self::Other(OtherError(Arc::new(wrong)))
    }
}

impl std::error::Error for WrongServer {}

impl fmt::Display for WrongServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it belongs to {}", self.0)
    }
}
