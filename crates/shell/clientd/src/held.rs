//! A lock session that this process keeps: opened, renewed, and lost when its lease has passed.

use std::time::Duration;

use api::v1;
use api::v1::change_locks_request::Change;
use client::Connection;
use tokio::time::Instant;
use tonic::Code as Grpc;

/// How long to wait before asking again after a stream has ended.
const AGAIN: Duration = Duration::from_millis(200);

/// An open lock session.
#[derive(Debug)]
pub struct Held {
    connection: Connection,
    session: u64,
    lease: Duration,
    /// When the last renewal that succeeded was sent: the cell counts from later on.
    renewed: Instant,
}

/// The session is lost, with the reason.
#[derive(Debug)]
pub struct Lost(
    /// The reason, in words.
    pub String,
);

impl Held {
    /// Opens a session, which ends when its lease passes without a renewal: 5 s to 60 s.
    ///
    /// # Errors
    /// As for [`Connection::ask`].
    pub async fn open(mut connection: Connection, lease: Duration) -> Result<Self, client::Error> {
        let sent = Instant::now();
        let seconds = i64::try_from(lease.as_secs()).unwrap_or(i64::MAX);
        let nanos = i32::try_from(lease.subsec_nanos()).unwrap_or_default();
        let open = v1::OpenLockSession { lease: Some(api::Duration { seconds, nanos }) };
        let session = connection.change_locks(Change::OpenSession(open)).await?.session;
        Ok(Self { connection, session, lease, renewed: sent })
    }

    /// When the lease is renewed next: after a third of it.
    #[must_use]
    pub fn due(&self) -> Instant {
        self.renewed + self.lease / 3
    }

    /// When this process must take the session for lost.
    #[must_use]
    pub fn end(&self) -> Instant {
        self.renewed + self.lease
    }

    /// Renews the lease. Does not return before it is renewed or lost.
    ///
    /// # Errors
    /// If the session is lost.
    pub async fn renew(&mut self) -> Result<(), Lost> {
        let end = self.end();
        let passed = || {
            let lease = self.lease.as_secs();
            Lost(format!("it could not be renewed within its lease of {lease} s"))
        };
        loop {
            let sent = Instant::now();
            if sent >= end {
                return Err(passed());
            }
            let renewal = self.connection.change_locks(Change::RenewSession(self.session));
            match tokio::time::timeout_at(end, renewal).await {
                Err(_) => return Err(passed()),
                Ok(Ok(_)) => {
                    self.renewed = sent;
                    return Ok(());
                }
                Ok(Err(client::Error::Answer(status)))
                    if status.code() == Grpc::FailedPrecondition
                        && status.message().starts_with("lock session") =>
                {
                    return Err(Lost(status.message().to_owned()));
                }
                // The session of the requests may be gone, or no master may answer: the rest of the
                // lease is for that.
                Ok(Err(error)) => {
                    if let client::Error::Answer(status) = &error
                        && status.code() == Grpc::FailedPrecondition
                    {
                        self.connection.new_session();
                    }
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    /// Acquires a lock; its sequencer, or nothing if somebody else holds it.
    ///
    /// # Errors
    /// As for [`Connection::ask`].
    pub async fn acquire(
        &mut self,
        path: &str,
        shared: bool,
    ) -> Result<Option<String>, client::Error> {
        let acquire = v1::AcquireLock { path: path.to_owned(), session: self.session, shared };
        match self.connection.change_locks(Change::Acquire(acquire)).await {
            Ok(acquired) => Ok(Some(acquired.sequencer)),
            Err(client::Error::Answer(status)) if status.code() == Grpc::AlreadyExists => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits until a lock seems to be free, and renews the lease meanwhile. The inner error is the loss of the
    /// session.
    ///
    /// # Errors
    /// As for [`Connection::stream`].
    pub async fn wait_until_free(
        &mut self,
        path: &str,
        shared: bool,
    ) -> Result<Result<(), Lost>, client::Error> {
        loop {
            let request = v1::WatchFilesRequest { path: path.to_owned(), index: 0 };
            let stream = self
                .connection
                .stream(request, async |mut client, request| client.locks.watch(request).await);
            let mut stream = stream.await?;
            loop {
                let due = self.due();
                tokio::select! {
                    state = stream.message() => match state {
                        Ok(Some(state)) if is_free(&state, shared) => return Ok(Ok(())),
                        Ok(Some(_)) => {}
                        Ok(None) | Err(_) => break,
                    },
                    () = tokio::time::sleep_until(due) => {
                        if let Err(lost) = self.renew().await {
                            return Ok(Err(lost));
                        }
                    }
                }
            }
            self.connection.elsewhere();
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Closes the session, which releases its locks. If no master answers, its lease passes.
    pub async fn close(mut self) {
        let closed = self.connection.change_locks(Change::CloseSession(self.session));
        drop(tokio::time::timeout(self.lease, closed).await);
    }
}

/// Whether a lock could be acquired in this state.
fn is_free(state: &v1::FilesResponse, shared: bool) -> bool {
    let lock = state.files.first().and_then(|file| file.lock.as_ref());
    lock.is_none_or(|lock| lock.shared && shared)
}
