//! The sockets of a DNS server over the names of a cell.
//!
//! [`Server`] receives requests over UDP and TCP, answers them with [`dns::answer`], and takes what has
//! to wait to tasks beside that: names that only a replica knows ([`Source::resolve`]), and foreign
//! names, which the host's resolvers answer.
//!
//! Everything is bounded: the rate of each client, the requests that wait, connections in all and of
//! one client, requests over a connection, and the time of each step. A request beyond a limit gets
//! SERVFAIL or REFUSED at once; connections beyond it are closed.
//!
//! What is deliberately not here: which names there are, and how a replica is asked (the caller's
//! [`Source`]); the choice of the address; registering the [`Metrics`].

mod answering;
mod batch;
mod frame;
mod lookups;
mod metrics;
mod places;
mod server;
mod tcp;
mod udp;
mod upstream;

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use dns::{Lookup, Names, Question, Rate, Via};

pub use self::metrics::{Exported, Metrics};
pub use self::server::Server;
pub use self::upstream::resolvers;

/// The names that a server answers with.
pub trait Source: Names + Send + Sync + 'static {
    /// Looks a question up at a replica, after [`Names::lookup`] returned [`Lookup::Missing`]. Requests
    /// with the same question share one lookup. [`Lookup::Missing`] means that no replica answered: the
    /// client gets SERVFAIL.
    fn resolve(&self, question: Question) -> impl Future<Output = Lookup> + Send;

    /// Whose limits apply to requests from an address: by default the IP address.
    fn client(&self, peer: SocketAddr, _: Via) -> Client {
        Client::Address(peer.ip())
    }

    /// Who shares what all may hold, requests that wait and connections: by default the client itself.
    fn owner(&self, client: Client) -> Client {
        client
    }
}

/// Who has a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Client {
    /// Everything at an IP address.
    Address(IpAddr),
    /// What the [`Source`] gave a number, such as a task of several at one address.
    Number(u64),
    /// The user who has several clients, by a number that the [`Source`] gave.
    User(u64),
}

/// The address, the limits and the resolvers of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens, over UDP and TCP; with port 0 on any free port.
    pub address: SocketAddr,
    /// Whether that address, an IPv4 address, may be none of this host yet.
    pub address_may_be_absent: bool,
    /// The zone, and whether foreign names are resolved.
    pub answers: dns::Settings,
    /// The rate of each client.
    pub rate: Rate,
    /// How many clients have a limit of their own; the others share one.
    pub clients_max: usize,
    /// The resolvers for foreign names, in the order in which they are asked. The server's own address
    /// is left out.
    pub resolvers: Vec<SocketAddr>,
    /// How long each resolver may take.
    pub resolver_timeout: Duration,
    /// How long a lookup at a replica may take.
    pub resolve_timeout: Duration,
    /// How many requests may wait for a replica or a resolver; users share them.
    pub waiting_max: usize,
    /// How many TCP connections there may be; users share them.
    pub connections_max: usize,
    /// How many requests a connection may have.
    pub requests_per_connection: u32,
    /// How long a connection may be idle.
    pub idle_timeout: Duration,
}

impl Settings {
    /// The usual limits: 20,000 requests per second of each of 10,000 clients; 2 s for each resolver and
    /// for a replica; 1,000 waiting requests; 256 connections of 1,000 requests, idle for 10 s.
    #[must_use]
    pub fn new(address: SocketAddr, answers: dns::Settings) -> Self {
        Self {
            address,
            address_may_be_absent: false,
            answers,
            rate: Rate { per_second: 20_000, burst: 2_000 },
            clients_max: 10_000,
            resolvers: Vec::new(),
            resolver_timeout: Duration::from_secs(2),
            resolve_timeout: Duration::from_secs(2),
            waiting_max: 1_000,
            connections_max: 256,
            requests_per_connection: 1_000,
            idle_timeout: Duration::from_secs(10),
        }
    }
}
