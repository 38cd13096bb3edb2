//! Connecting to a server that must be who it is expected to be.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};

use super::dial::{Dial, Target};
use super::{CLIENT_KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIMEOUT};
use crate::{Error, Expect, Result, Rotating};

/// A channel to `endpoint` (`HOST:PORT`), as the identity of `credentials`, to whoever `expect`
/// says.
///
/// Connects with the first call, and again after a connection is lost. A call that finds no server,
/// another than the expected one, or one that does not take the certificate, fails as
/// `UNAVAILABLE`; [`super::explain`] says what it was, and [`super::is_distrust`] whether it will be
/// the same the next time. Calls have no timeout unless the request has one.
///
/// # Errors
/// [`Error::BadEndpoint`].
///
/// # Panics
/// Outside of a tokio runtime.
pub fn connect(endpoint: &str, credentials: &Rotating, expect: &Expect) -> Result<Channel> {
    let channel = Endpoint::from(uri(endpoint)?)
        .http2_keep_alive_interval(CLIENT_KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .connect_with_connector_lazy(dial(endpoint, credentials, expect)?);
    Ok(channel)
}

/// What dials `endpoint`.
pub(super) fn dial(endpoint: &str, credentials: &Rotating, expect: &Expect) -> Result<Dial> {
    let uri = uri(endpoint)?;
    let me = credentials.credentials();
    let name = expect.host_name(me.cell());
    let name = ServerName::try_from(name).map_err(|error| Error::BadEndpoint {
        endpoint: endpoint.to_owned(),
        why: format!("nobody can be expected there: {error}"),
    })?;
    Ok(Dial::new(Target {
        address: uri.authority().map_or(endpoint, |authority| authority.as_str()).to_owned(),
        me: me.identity().clone(),
        expect: expect.clone(),
        name,
        tls: Arc::clone(&credentials.tls().client),
    }))
}

/// An `https` URI, whatever was given.
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
