//! Whom a TLS connection to a registry trusts.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::error::RegistryError;

/// How many bytes a file with certificates has at most.
const CA_FILE_BYTES_MAX: u64 = 16 << 20;

/// The TLS of a client: the roots of the system (`SSL_CERT_FILE`, `SSL_CERT_DIR`, or where the distribution has them)
/// and those of a file, or, if `insecure`, everybody.
///
/// # Errors
/// The file cannot be used.
pub(crate) fn client_config(
    ca_file: Option<&Path>,
    insecure: bool,
) -> Result<Arc<ClientConfig>, RegistryError> {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    if !insecure {
        // A root that cannot be parsed is left out: its servers fail with an error of their own.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    if let Some(path) = ca_file {
        add_file(&mut roots, path)?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| {
        RegistryError::Settings { what: "TLS".to_owned(), why: error.to_string() }
    })?;
    let mut config = match insecure {
        false => builder.with_root_certificates(roots).with_no_client_auth(),
        true => {
            let verifier = Arc::new(TrustEverybody { provider });
            builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), RegistryError> {
    let bad = |why: String| RegistryError::Settings {
        what: format!("the certificates of {}", path.display()),
        why: format!("{why}; give a file with certificates in PEM"),
    };
    let length = std::fs::metadata(path).map_err(|error| bad(error.to_string()))?.len();
    if length > CA_FILE_BYTES_MAX {
        return Err(bad(format!("it has {length} bytes, of at most {CA_FILE_BYTES_MAX}")));
    }
    let certificates =
        CertificateDer::pem_file_iter(path).map_err(|error| bad(error.to_string()))?;
    let mut added = 0;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| bad(error.to_string()))?;
        roots.add(certificate).map_err(|error| bad(error.to_string()))?;
        added += 1;
    }
    match added {
        0 => Err(bad("it has no certificate".to_owned())),
        _ => Ok(()),
    }
}

/// Accepts every certificate, and still checks that the server has its key.
#[derive(Debug)]
struct TrustEverybody {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for TrustEverybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
