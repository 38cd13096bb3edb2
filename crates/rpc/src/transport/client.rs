//! Connecting to a server that must be who it is expected to be.

use tonic::codegen::http::Uri;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity as TlsIdentity};

use super::{
    CLIENT_KEEP_ALIVE_INTERVAL, CONNECT_TIMEOUT, KEEP_ALIVE_TIMEOUT, provide_cryptography,
};
use crate::{Credentials, Error, Expect, Result};

/// A channel to `endpoint` (`HOST:PORT`), as the identity of `credentials`, to whoever `expect`
/// says.
///
/// Connects with the first call, and again after a connection is lost. A call that finds no server,
/// or another than the expected one, fails as `UNAVAILABLE`; one whose certificate the server
/// refuses as `UNKNOWN`, because TLS 1.3 tells a client only after its handshake. Both say no more
/// than "transport error"; [`super::explain`] says what it was. Calls have no timeout unless the
/// request has one.
///
/// # Errors
/// [`Error::BadEndpoint`] and [`Error::Tls`].
///
/// # Panics
/// Outside of a tokio runtime.
pub fn connect(endpoint: &str, credentials: &Credentials, expect: &Expect) -> Result<Channel> {
    provide_cryptography();
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(credentials.ca_pem()))
        .identity(TlsIdentity::from_pem(credentials.certificate_pem(), credentials.key_pem()))
        .domain_name(expect.host_name(credentials.cell()))
        .timeout(CONNECT_TIMEOUT);
    let channel = Endpoint::from(uri(endpoint)?)
        .tls_config(tls)
        .map_err(Error::Tls)?
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(CLIENT_KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .connect_lazy();
    Ok(channel)
}

/// An `https` URI, whatever was given: with another scheme tonic would leave the TLS out.
fn uri(endpoint: &str) -> Result<Uri> {
    let bad = |why: String| Error::BadEndpoint { endpoint: endpoint.to_owned(), why };
    let address = endpoint.strip_prefix("https://").unwrap_or(endpoint);
    let uri = format!("https://{address}").parse::<Uri>().map_err(|e| bad(e.to_string()))?;
    if uri.path() != "/" || uri.query().is_some() || address.contains(['@', '/']) {
        return Err(bad("it has more than a host and a port".to_owned()));
    }
    if uri.host().is_none_or(str::is_empty) || uri.port_u16().is_none() {
        return Err(bad("it has no host or no valid port".to_owned()));
    }
    Ok(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_host_and_a_port_is_an_endpoint() {
        for good in ["localhost:1", "127.0.0.1:7000", "[::1]:7000", "https://m1.example:443"] {
            assert_eq!(uri(good).unwrap().scheme_str(), Some("https"), "{good}");
        }
        for bad in [
            "",
            "localhost",
            "http://localhost:1",
            "localhost:1/x",
            "a@b:1",
            "a b:1",
            ":1",
            "localhost:99999",
            "unix:/x",
            "localhost:",
        ] {
            assert!(matches!(uri(bad), Err(Error::BadEndpoint { .. })), "{bad:?}");
        }
    }
}
