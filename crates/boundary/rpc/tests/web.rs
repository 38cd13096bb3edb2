//! A server for browsers under clients that take places and do nothing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use rpc::Validity;
use rpc::transport::{Cause, Limits, Refusals, WebOptions, serve_web};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use support::{CELL, HOUR, Who, authority, within};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tonic::service::Routes;

/// The address of a server, what it has rejected, and how to connect to it as a browser does.
struct Web {
    address: SocketAddr,
    refusals: Refusals,
    tls: TlsConnector,
    _directory: tempfile::TempDir,
}

impl Web {
    fn start(limits: Limits) -> Self {
        let (authority, directory) = authority();
        let names = ["127.0.0.1".to_owned()];
        let credentials = authority.issue_for_web(&names, Validity::lasting(HOUR)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, refusals) = (listener.local_addr().unwrap(), Refusals::default());
        let counted = refusals.clone();
        tokio::spawn(async move {
            let for_ever = std::future::pending();
            let (credentials, refusals) = (&credentials, &counted);
            let options = WebOptions { credentials, cell: CELL, limits, refusals };
            serve_web(listener, options, Routes::new(Who), for_ever).await.unwrap();
        });
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.ca_pem().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self { address, refusals, tls: TlsConnector::from(Arc::new(tls)), _directory: directory }
    }

    /// A connection from an address of this host, without a handshake.
    async fn connect(&self, from: &str) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
        socket.connect(self.address).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handshakes_of_one_host_leave_room_for_those_of_others() {
    let handshake = Duration::from_secs(3_600);
    let web = Web::start(Limits { handshakes: 16, handshake, ..Limits::default() });
    let mut held = Vec::new();
    for _connection in 0..3 {
        held.push(web.connect("127.0.0.1").await);
    }
    let [first, second, third] = held.as_mut_slice() else { unreachable!("three") };
    let (mut a, mut b, mut c) = ([0], [0], [0]);
    // Any of them: which of their handshakes begins first is for the runtime to say.
    let closed = async {
        tokio::select! {
            read = first.read(&mut a) => read,
            read = second.read(&mut b) => read,
            read = third.read(&mut c) => read,
        }
    };
    assert_eq!(within(20, closed).await.unwrap_or(0), 0, "one is closed");
    assert_eq!(web.refusals.total(Cause::TooMany), 1);
    let other = web.connect("127.0.0.2").await;
    let name = ServerName::try_from("127.0.0.1").unwrap();
    within(20, web.tls.connect(name, other)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_or_half_sent_request_loses_its_connection() {
    let idle = Duration::from_millis(300);
    let web = Web::start(Limits { idle, ..Limits::default() });
    let half = "POST / HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 9\r\n\r\nhalf";
    for sent in ["", "GET /", half] {
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let stream = web.connect("127.0.0.1").await;
        let mut stream = within(20, web.tls.connect(name, stream)).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut all = Vec::new();
        // With or without an answer before, and with or without a notice of the end.
        let _ended = within(20, stream.read_to_end(&mut all)).await;
    }
}
