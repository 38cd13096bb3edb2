//! TLS at both ends, set up from credentials: version 1.3 alone, HTTP/2 alone.
//!
//! No session is ever resumed: a resumed one would bring back the certificate of an earlier
//! handshake, and with it somebody whose certificate has expired or was replaced meanwhile.

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

/// TLS as an identity, at either end.
pub(crate) struct Tls {
    /// As the server: without a certificate of the cell's authority nobody gets past the handshake.
    pub(crate) server: Arc<ServerConfig>,
    /// As the client: of servers whose certificate is the authority's, the expected one.
    pub(crate) client: Arc<ClientConfig>,
    shown: Arc<Shown>,
}

impl Tls {
    pub(crate) fn new(credentials: &Credentials) -> Result<Self> {
        let provider = Arc::new(ring::default_provider());
        let shown = certified_key(credentials, &provider)?;
        let shown = Arc::new(Shown(RwLock::new(Arc::new(shown))));
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
            .with_custom_certificate_verifier(Arc::new(Servers(servers)))
            .with_client_cert_resolver(Arc::clone(&shown) as _);
        client.alpn_protocols = vec![ALPN_HTTP_2.to_vec()];
        client.resumption = Resumption::disabled();
        Ok(Self { server: Arc::new(server), client: Arc::new(client), shown })
    }

    /// Shows another certificate from now on.
    pub(crate) fn show(&self, credentials: &Credentials) -> Result<()> {
        let key = certified_key(credentials, self.client.crypto_provider())?;
        *self.shown.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(key);
        Ok(())
    }
}

fn certified_key(credentials: &Credentials, provider: &CryptoProvider) -> Result<CertifiedKey> {
    let certificate = certificate::der(credentials.certificate_pem(), "the certificate")?;
    let key = PrivatePkcs8KeyDer::from(credentials.key_der()?);
    CertifiedKey::from_der(vec![certificate], key.into(), provider).map_err(Error::Tls)
}

/// The certificate that is shown, to whoever it is.
#[derive(Debug)]
struct Shown(RwLock<Arc<CertifiedKey>>);

impl Shown {
    fn newest(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.newest())
    }
}

impl ResolvesClientCert for Shown {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.newest())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Verifies servers as rustls does, and says of a wrong one who it is.
#[derive(Debug)]
struct Servers(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for Servers {
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

/// A server that the authority knows, and that is not the expected one.
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
        write!(f, "it is that of {}", self.0)
    }
}
