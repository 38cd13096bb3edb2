//! A small cell, a server of its names, and a client.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dns::{Answer, Endpoint, Lookup, Names, Owner, Question, Zone};
use model::TaskIndex;
use nameserver::{Metrics, Server, Settings, Source};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The longest that a test waits for a reply.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A cell of `ana`'s jobs, by name: `web` with two tasks and `many` with 100 are known; `miss` is known at
/// a replica, `slow` too, once the gate is open; `lost` is not known there, `hung` never answers; there
/// are no others.
pub(crate) struct Cell {
    /// Each lookup of `slow` takes one permit.
    pub(crate) gate: Semaphore,
    /// The number of lookups.
    pub(crate) resolved: AtomicU64,
}

impl Cell {
    fn tasks(question: &Question, count: u32) -> Answer {
        let (Question::Job { user, job } | Question::Task { user, job, .. }) = question else {
            return Answer::NoSuchName;
        };
        let one = |index| Endpoint {
            owner: Owner::Task { user: user.clone(), job: job.clone(), index: TaskIndex(index) },
            address: (0x0a00_0001 + index).to_be_bytes().into(),
            ports: vec![("http".parse().expect("a name"), 8_080)],
            running: true,
            healthy: true,
        };
        let asked = |index: &u32| match question {
            Question::Task { index: TaskIndex(task), .. } => task == index,
            _ => true,
        };
        let tasks: Vec<_> = (0..count).filter(asked).map(one).collect();
        if tasks.is_empty() { Answer::NoSuchName } else { Answer::Found(tasks.into()) }
    }

    fn job(question: &Question) -> &str {
        match question {
            Question::Job { job, .. } | Question::Task { job, .. } => job.as_str(),
            _ => "",
        }
    }
}

impl Names for Cell {
    fn lookup(&self, question: &Question) -> Lookup {
        match Self::job(question) {
            "web" => Lookup::Fresh(Self::tasks(question, 2)),
            "old" => Lookup::Stale(Self::tasks(question, 1)),
            "many" => Lookup::Fresh(Self::tasks(question, 100)),
            "miss" | "slow" | "lost" | "hung" => Lookup::Missing,
            _ => Lookup::Fresh(Answer::NoSuchName),
        }
    }
}

impl Source for Cell {
    async fn resolve(&self, question: Question) -> Lookup {
        self.resolved.fetch_add(1, Ordering::Relaxed);
        match Self::job(&question) {
            "slow" => {
                self.gate.acquire().await.expect("it is never closed").forget();
                Lookup::Fresh(Self::tasks(&question, 1))
            }
            "miss" => Lookup::Fresh(Self::tasks(&question, 1)),
            "hung" => pending().await,
            _ => Lookup::Missing,
        }
    }
}

/// The settings of a server of the cell `cc` on a free port.
pub(crate) fn settings(cell: &str) -> Settings {
    let zone = Zone::new(&cell.parse().expect("a name"), None).expect("a zone");
    let answers = dns::Settings { zone, recursion: true };
    Settings::new(SocketAddr::from(([127, 0, 0, 1], 0)), answers)
}

/// A server that answers until it is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) cell: Arc<Cell>,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Running {
    pub(crate) async fn start(settings: Settings) -> Self {
        let server = Server::bind(settings).await.expect("a free port");
        let (address, metrics) = (server.address(), Arc::clone(server.metrics()));
        let cell = Arc::new(Cell { gate: Semaphore::new(0), resolved: AtomicU64::new(0) });
        let serving = tokio::spawn(server.serve(Arc::clone(&cell)));
        Self { address, metrics, cell, serving }
    }

    /// A client over UDP.
    pub(crate) async fn client(&self) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
        socket.connect(self.address).await.expect("a local address");
        socket
    }

    /// Asks over UDP.
    pub(crate) async fn ask(&self, request: &[u8]) -> Vec<u8> {
        let client = self.client().await;
        client.send(request).await.expect("it is sent");
        receive(&client).await
    }

    /// A client over TCP.
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("it listens")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// The next reply.
pub(crate) async fn receive(client: &UdpSocket) -> Vec<u8> {
    let mut reply = vec![0; 65_535];
    let received = timeout(PATIENCE, client.recv(&mut reply)).await.expect("a reply in time");
    reply.truncate(received.expect("a reply"));
    reply
}

/// Asks over a connection; `None` if the server closed it.
pub(crate) async fn ask_over(stream: &mut TcpStream, request: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(request.len()).expect("it is short");
    stream.write_all(&[&length.to_be_bytes(), request].concat()).await.ok()?;
    let length = timeout(PATIENCE, stream.read_u16()).await.expect("in time").ok()?;
    let mut reply = vec![0; usize::from(length)];
    stream.read_exact(&mut reply).await.ok()?;
    Some(reply)
}

/// A request for the addresses of a name.
pub(crate) fn request(id: u16, name: &str) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).expect("a label"));
        bytes.extend(label.bytes());
    }
    bytes.extend([0, 0, 1, 0, 1]);
    bytes
}

/// The response code of a reply and its number of answers.
pub(crate) fn result(reply: &[u8]) -> (u8, u8) {
    (reply[3] & 0x0f, reply[7])
}

/// The value of a counter.
pub(crate) fn value(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
