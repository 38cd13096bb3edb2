//! Dials a server: TCP, TLS, and its first frame, which shows that it accepts our certificate.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use nix::sys::socket::{setsockopt, sockopt};
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, ClientConfig};
use tokio::io::AsyncBufReadExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::codegen::http::Uri;
use tonic::codegen::{BoxFuture, Service};
use tonic::{ConnectError, Status};

use super::CONNECT_TIMEOUT;
use super::refusals::Cause;
use crate::tls::WrongServer;
use crate::{Expect, Identity, certificate};

/// Dials one server.
#[derive(Clone)]
pub(super) struct Dial(Arc<DialTarget>);

/// The server to dial, and the identity to use.
pub(super) struct DialTarget {
    /// `HOST:PORT`.
    pub(super) address: String,
    pub(super) me: Identity,
    pub(super) expect: Expect,
    /// The host name that the server's certificate must contain.
    pub(super) name: ServerName<'static>,
    pub(super) tls: Arc<ClientConfig>,
    /// The timeouts of the connection.
    pub(super) patience: Patience,
}

/// How quickly an unresponsive server is detected.
#[derive(Clone, Copy, Debug)]
pub(super) enum Patience {
    /// It has [`CONNECT_TIMEOUT`] to connect. Later outages are detected by keep-alives.
    Usual,
    /// TCP, TLS and the acknowledgement of sent data may each take this long.
    Short(Duration),
}

impl Patience {
    fn to_connect(self) -> Duration {
        match self {
            Self::Usual => CONNECT_TIMEOUT,
            Self::Short(patience) => patience,
        }
    }
}

impl Dial {
    pub(super) fn new(target: DialTarget) -> Self {
        Self(Arc::new(target))
    }

    pub(super) async fn dial(&self) -> Result<TlsStream<TcpStream>, Failed> {
        let failed = |why| Failed { address: self.0.address.clone(), why };
        let patience = self.0.patience.to_connect();
        let late = |what| move |_elapsed| failed(Why::NoAnswer(what, patience));
        let stream = tokio::time::timeout(patience, self.reach()).await;
        let stream = stream.map_err(late("TCP connection"))?;
        let stream = stream.map_err(|error| failed(Why::Unreachable(Arc::new(error))))?;
        let stream = tokio::time::timeout(patience, self.shake_hands(stream)).await;
        stream.map_err(late("TLS handshake"))?.map_err(failed)
    }

    async fn reach(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(&self.0.address).await?;
        stream.set_nodelay(true)?;
        if let Patience::Short(patience) = self.0.patience {
            let milliseconds = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
            setsockopt(&stream, sockopt::TcpUserTimeout, &milliseconds)?;
        }
        Ok(stream)
    }

    async fn shake_hands(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, Why> {
        let connector = TlsConnector::from(Arc::clone(&self.0.tls));
        let connected = connector.connect(self.0.name.clone(), stream).await;
        let mut stream = connected.map_err(|error| self.why(error))?;
        // A TLS 1.3 client finishes its handshake before the server has checked its certificate. A
        // server that accepts it sends its HTTP/2 settings unprompted.
        match stream.fill_buf().await {
            Ok([]) => Err(Why::Closed),
            Ok(_) => Ok(stream),
            Err(error) => Err(self.why(error)),
        }
    }

    fn why(&self, error: io::Error) -> Why {
        match error.get_ref().and_then(|error| error.downcast_ref()) {
            Some(rustls::Error::InvalidCertificate(error)) => {
                let (cause, what) = distrusted(error, &self.0.expect);
                Why::Distrusts(cause, what)
            }
            Some(rustls::Error::AlertReceived(alert)) => {
                Why::Distrusted(format!("{}{}", self.0.me, complaint(*alert)))
            }
            _ => Why::Broken(Arc::new(error)),
        }
    }
}

/// Why a server's certificate is not trusted.
fn distrusted(error: &CertificateError, expect: &Expect) -> (Cause, String) {
    if let CertificateError::Other(other) = error
        && let Some(WrongServer(found)) = other.0.downcast_ref()
    {
        return (Cause::WrongIdentity, format!("belongs to {found} instead of {expect}"));
    }
    let cause = Cause::of_certificate(error);
    let what = match cause {
        Cause::WrongAuthority => "was issued by another authority".to_owned(),
        Cause::Expired => format!("is not valid now: {error}"),
        _ => format!("is unusable: {error}"),
    };
    (cause, what)
}

/// Why a server rejects our certificate, from its alert.
fn complaint(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            ", which was issued by another authority".to_owned()
        }
        AlertDescription::CertificateExpired => ", which is not valid now".to_owned(),
        other => format!(" ({other:?})"),
    }
}

impl Service<Uri> for Dial {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = Failed;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Failed>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let dial = self.clone();
        Box::pin(async move { dial.dial().await.map(TokioIo::new) })
    }
}

impl link::Dial for Dial {
    fn address(&self) -> &str {
        &self.0.address
    }

    fn dial(&self) -> BoxFuture<link::Dialled, Status> {
        let dial = self.clone();
        Box::pin(async move {
            let stream = dial.dial().await.map_err(not_connected)?;
            Ok(link::Dialled { serial: serial(&stream), stream })
        })
    }

    fn revoked(&self) -> Status {
        let why = Why::Distrusts(Cause::Revoked, "was revoked".to_owned());
        not_connected(Failed { address: self.0.address.clone(), why })
    }
}

fn not_connected(failed: Failed) -> Status {
    Status::from_error(Box::new(ConnectError(Box::new(failed))))
}

/// The serial number of the server's certificate.
fn serial(stream: &TlsStream<TcpStream>) -> Arc<[u8]> {
    let certificates = stream.get_ref().1.peer_certificates();
    let own = certificates.and_then(|chain| chain.first());
    // TLS has verified it, so it parses.
    let certified = own.and_then(|own| certificate::certified(own, "the server").ok());
    certified.map(|certified| certified.serial).unwrap_or_default().into()
}

/// A failure to connect to a server.
#[derive(Debug, Clone)]
pub(super) struct Failed {
    address: String,
    why: Why,
}

#[derive(Debug, Clone)]
enum Why {
    /// Nothing listens, or there is no route.
    Unreachable(Arc<io::Error>),
    /// A step that timed out.
    NoAnswer(&'static str, Duration),
    /// Its certificate is not trusted, with the reason.
    Distrusts(Cause, String),
    /// It rejects our certificate: the identity in it, and the reason.
    Distrusted(String),
    /// It closed the connection before its first frame.
    Closed,
    /// Another failure during the handshake.
    Broken(Arc<io::Error>),
}

impl Failed {
    /// Whether one end does not trust the other, so that retrying is useless.
    pub(super) fn is_distrust(&self) -> bool {
        matches!(self.why, Why::Distrusts(..) | Why::Distrusted(_))
    }

    /// Why the server is not trusted.
    pub(super) fn distrusts(&self) -> Option<Cause> {
        match self.why {
            Why::Distrusts(cause, _) => Some(cause),
            _ => None,
        }
    }
}

impl std::error::Error for Failed {}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, why } = self;
        match why {
            Why::Unreachable(error) => write!(f, "cannot connect to {address}: {error}"),
            Why::NoAnswer(what, patience) => write!(
                f,
                "{address} does not answer: its {what} takes longer than {} s",
                patience.as_secs_f64()
            ),
            Why::Distrusts(_, what) => {
                write!(f, "{address} is not trusted: its certificate {what}")
            }
            Why::Distrusted(what) => {
                write!(f, "{address} rejects the certificate of {what}")
            }
            Why::Closed => write!(
                f,
                "{address} closed the connection without an answer: it is shutting down, or is at its \
                 connection limit (clients over the limit are rejected)"
            ),
            Why::Broken(error) => write!(f, "the TLS handshake with {address} failed: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::getsockopt;

    use super::*;
    use crate::transport::client;
    use crate::{Authority, Role, Rotating, Validity};

    #[tokio::test]
    async fn a_short_patience_sets_the_kernels_timeout_for_unacknowledged_data() {
        let place = tempfile::tempdir().unwrap();
        let authority = Authority::create(place.path(), "test").unwrap();
        let validity = Validity::lasting(Duration::from_secs(60));
        let credentials = Rotating::new(authority.issue(&Identity::Master, validity).unwrap());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let expect = Expect::Role(Role::Master);
        for (patience, milliseconds) in
            [(Patience::Usual, 0), (Patience::Short(Duration::from_secs(2)), 2_000)]
        {
            let dial =
                client::dial(&address, credentials.as_ref().unwrap(), &expect, patience).unwrap();
            let stream = dial.reach().await.unwrap();
            assert_eq!(getsockopt(&stream, sockopt::TcpUserTimeout).unwrap(), milliseconds);
        }
    }
}
