//! Connections: accepted, sent to a task, and copied in both directions.

use std::hash::{BuildHasher as _, RandomState};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use api::v1;
use model::{Random, Time};
use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};

use super::backends::{Backend, Backends};

/// How many other tasks are tried if a task does not accept a connection.
const OTHERS_MAX: usize = 3;
/// The delay before the next connection is accepted after that has failed.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// A peer that is silent for so long is asked whether it is still there, so often.
const KEEPALIVE_SECONDS: u32 = 30;
const KEEPALIVE_PROBES: u32 = 4;

/// The balancer of a service. Clones share their state.
#[derive(Clone)]
pub(super) struct Proxy(Arc<Inner>);

struct Inner {
    backends: Mutex<(Backends, Random)>,
    /// A permit for each connection.
    permits: Arc<Semaphore>,
    connections: u32,
    connect_timeout: Duration,
    begun: Instant,
    /// Something is known of the service.
    heard: AtomicBool,
    hears: Notify,
    /// Connections over the maximum.
    refused: AtomicU64,
    /// Connections for which no task accepted one.
    unserved: AtomicU64,
}

/// What `/metrics` shows beside the connections by task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Totals {
    pub(super) open: u64,
    pub(super) refused: u64,
    pub(super) unserved: u64,
}

/// A connection that counts as open at its task.
struct OpenConnection {
    proxy: Proxy,
    task: Backend,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.proxy.backends().0.closed(&self.task);
    }
}

impl Proxy {
    pub(super) fn new(connections: u32, connect_timeout: Duration) -> Self {
        let random = Random::new(RandomState::new().hash_one(0));
        Self(Arc::new(Inner {
            backends: Mutex::new((Backends::default(), random)),
            permits: Arc::new(Semaphore::new(connections as usize)),
            connections,
            connect_timeout,
            begun: Instant::now(),
            heard: AtomicBool::new(false),
            hears: Notify::new(),
            refused: AtomicU64::new(0),
            unserved: AtomicU64::new(0),
        }))
    }

    fn now(&self) -> Time {
        Time(u64::try_from(self.0.begun.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    fn backends(&self) -> MutexGuard<'_, (Backends, Random)> {
        self.0.backends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The record of the service has changed; `None` if it is gone.
    pub(super) fn update(&self, record: Option<&v1::NameRecord>) {
        self.backends().0.update(record);
        self.0.heard.store(true, Ordering::Release);
        self.0.hears.notify_one();
    }

    pub(super) fn has_heard(&self) -> bool {
        self.0.heard.load(Ordering::Acquire)
    }

    /// Waits until something is known of the service.
    pub(super) async fn heard(&self) {
        while !self.has_heard() {
            self.0.hears.notified().await;
        }
    }

    /// Reads what metrics show.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Backends, Totals) -> T) -> T {
        let available = self.0.permits.available_permits() as u64;
        let totals = Totals {
            open: u64::from(self.0.connections).saturating_sub(available),
            refused: self.0.refused.load(Ordering::Relaxed),
            unserved: self.0.unserved.load(Ordering::Relaxed),
        };
        read(&self.backends().0, totals)
    }

    /// Accepts connections, forever.
    pub(super) async fn accept(&self, listener: TcpListener) {
        loop {
            let Ok((client, _)) = listener.accept().await else {
                // No file descriptors, for example: connections wait in the system's queue.
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            };
            let Ok(permit) = Arc::clone(&self.0.permits).try_acquire_owned() else {
                self.0.refused.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            let proxy = self.clone();
            tokio::spawn(async move {
                proxy.forward(client).await;
                drop(permit);
            });
        }
    }

    /// Waits until all connections have ended, at most so long; the number of those that have not.
    pub(super) async fn drain(&self, most: Duration) -> u64 {
        let all = self.0.permits.acquire_many(self.0.connections);
        match tokio::time::timeout(most, all).await {
            Ok(_) => 0,
            Err(_) => self.read(|_, totals| totals.open),
        }
    }

    async fn forward(&self, mut client: TcpStream) {
        let Some((mut server, _open)) = self.connect().await else {
            self.0.unserved.fetch_add(1, Ordering::Relaxed);
            return;
        };
        for socket in [&client, &server] {
            // Without them a connection is only slower, or lives until its peer's machine answers.
            let _small = socket.set_nodelay(true);
            let _lasting = keep_alive(socket);
        }
        // The end of one direction is passed on. An error of either ends both, as what it was: a reset, and
        // not an end behind which everything was sent.
        if tokio::io::copy_bidirectional(&mut client, &mut server).await.is_err() {
            for socket in [&client, &server] {
                let _gone = socket.set_zero_linger();
            }
        }
    }

    /// A connection to a task, and its place among the open ones.
    async fn connect(&self) -> Option<(TcpStream, OpenConnection)> {
        let mut tried = Vec::new();
        while tried.len() <= OTHERS_MAX {
            let task = {
                let (backends, random) = &mut *self.backends();
                backends.choose(self.now(), &tried, random)?
            };
            let connecting = TcpStream::connect((task.host.as_str(), task.port));
            match tokio::time::timeout(self.0.connect_timeout, connecting).await {
                Ok(Ok(server)) => {
                    self.backends().0.connected(&task);
                    return Some((server, OpenConnection { proxy: self.clone(), task }));
                }
                Ok(Err(_)) | Err(_) => {
                    self.backends().0.failed(self.now(), &task);
                    tried.push(task);
                }
            }
        }
        None
    }
}

/// Ends a connection whose peer's machine is gone after about two and a half minutes.
fn keep_alive(socket: &TcpStream) -> nix::Result<()> {
    let socket = socket.as_fd();
    setsockopt(&socket, sockopt::KeepAlive, &true)?;
    setsockopt(&socket, sockopt::TcpKeepIdle, &KEEPALIVE_SECONDS)?;
    setsockopt(&socket, sockopt::TcpKeepInterval, &KEEPALIVE_SECONDS)?;
    setsockopt(&socket, sockopt::TcpKeepCount, &KEEPALIVE_PROBES)
}
