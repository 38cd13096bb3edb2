//! Connects to servers and verifies their identity.

use std::sync::Arc;
use std::time::Duration;

use link::Link;
use rustls::pki_types::ServerName;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};

use super::dial::{Dial, DialTarget, Patience};
use super::{CLIENT_KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIMEOUT};
use crate::{Error, Expect, Result, Rotating};

/// Returns a channel to `endpoint` (`HOST:PORT`), with the identity of `credentials`, to the server
/// specified by `expect`.
///
/// Connects at the first call, and reconnects after a connection is lost. A call fails with
/// `UNAVAILABLE` if the server is unreachable, has another identity, or rejects the certificate;
/// [`super::explain`] gives the reason, and [`super::is_distrust`] tells whether it is permanent.
/// Calls have no timeout unless the request has one.
///
/// # Errors
/// [`Error::BadEndpoint`].
///
/// # Panics
/// Outside of a tokio runtime.
pub fn connect(endpoint: &str, credentials: &Rotating, expect: &Expect) -> Result<Channel> {
    channel(endpoint, dial(endpoint, credentials, expect, Patience::Usual)?)
}

/// Returns a channel like [`connect`] that detects unresponsive servers quickly: a connection is
/// dropped if TCP or TLS takes longer than `patience`, or if sent data is not acknowledged for that
/// long, including by a server whose buffers are full.
///
/// During a network outage TCP retransmits with exponential backoff, so an old connection may stay
/// silent long after the network has recovered. A new connection does not.
///
/// # Errors
/// [`Error::BadEndpoint`].
///
/// # Panics
/// Outside of a tokio runtime.
pub fn connect_within(
    patience: Duration,
    endpoint: &str,
    credentials: &Rotating,
    expect: &Expect,
) -> Result<Channel> {
    channel(endpoint, dial(endpoint, credentials, expect, Patience::Short(patience))?)
}

fn channel(endpoint: &str, dial: Dial) -> Result<Channel> {
    let channel = Endpoint::from(uri(endpoint)?)
        .http2_keep_alive_interval(CLIENT_KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .connect_with_connector_lazy(dial);
    Ok(channel)
}

/// Returns a [`Link`] to the server that `expect` describes at `endpoint` (`HOST:PORT`), as the
/// identity of `credentials`. It connects like [`connect`], and calls fail in the same ways.
///
/// # Errors
/// [`Error::BadEndpoint`].
pub fn link(endpoint: &str, credentials: &Rotating, expect: &Expect) -> Result<Link> {
    dial(endpoint, credentials, expect, Patience::Usual).map(Link::new)
}

/// A dialer for `endpoint`.
pub(super) fn dial(
    endpoint: &str,
    credentials: &Rotating,
    expect: &Expect,
    patience: Patience,
) -> Result<Dial> {
    let uri = uri(endpoint)?;
    let me = credentials.credentials();
    let name = expect.host_name(me.cell());
    let name = ServerName::try_from(name).map_err(|error| Error::BadEndpoint {
        endpoint: endpoint.to_owned(),
        why: format!("it is not a valid host name: {error}"),
    })?;
    Ok(Dial::new(DialTarget {
        address: uri.authority().map_or(endpoint, |authority| authority.as_str()).to_owned(),
        me: me.identity().clone(),
        expect: expect.clone(),
        name,
        tls: Arc::clone(&credentials.tls().client),
        patience,
    }))
}

/// Rejects anything but an address that [`connect`] takes: exactly `HOST:PORT`.
///
/// # Errors
/// [`Error::BadEndpoint`].
pub fn check_address(address: &str) -> Result<()> {
    host_and_port(address).map(drop).map_err(|why| bad(address, why))
}

/// Converts an endpoint to an `https` URI.
fn uri(endpoint: &str) -> Result<Uri> {
    let address = endpoint.strip_prefix("https://").unwrap_or(endpoint);
    host_and_port(address).map_err(|why| bad(endpoint, why))
}

fn bad(endpoint: &str, why: String) -> Error {
    Error::BadEndpoint { endpoint: endpoint.to_owned(), why }
}

/// The URI of an address; the error says why it is invalid.
fn host_and_port(address: &str) -> std::result::Result<Uri, String> {
    let uri = format!("https://{address}").parse::<Uri>().map_err(|error| error.to_string())?;
    let whole = uri.authority().is_some_and(|authority| authority.as_str() == address);
    if !whole || address.contains('@') {
        return Err("it has more than a host and a port".to_owned());
    }
    let port = uri.port_u16().filter(|port| *port > 0);
    if uri.host().is_none_or(str::is_empty) || port.is_none() {
        return Err("it has no host or no valid port".to_owned());
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
            "localhost:0",
            "m 2:7800",
            "m2:7800 ",
            "m2/x:7800",
            "m2:7800/",
            "m2?x:7800",
            "m2:7800#x",
            "a@m2:7800",
            "::1:7800",
            "[::1:7800",
            "m\u{fc}:7800",
            "m2\u{7f}:7800",
            "m2\n:7800",
        ] {
            assert!(matches!(uri(bad), Err(Error::BadEndpoint { .. })), "{bad:?}");
            assert!(matches!(check_address(bad), Err(Error::BadEndpoint { .. })), "{bad:?}");
        }
        assert!(check_address("https://m1.example:443").is_err(), "more than a host and a port");
    }

    #[test]
    fn addresses_contain_only_characters_allowed_in_a_join_token() {
        let accepted = (0..=0x17f_u32)
            .filter_map(char::from_u32)
            .filter(|character| check_address(&format!("m{character}:1")).is_ok());
        assert_eq!(accepted.filter(|character| !character.is_ascii_graphic()).count(), 0);
    }
}
