//! Commands that remove their temporary files when a signal ends them.

use client::{Connection, Target};
use command::Failure;
use tokio::signal::unix::{SignalKind, signal};

/// Talks to a cell as [`command::with_cell`] does. SIGINT and SIGTERM end the work as if it had failed, so that what it
/// holds is dropped, and with it its temporary files; the exit status is then that of a shell for the signal.
pub(crate) fn with_cell_until_signal<T>(
    cell: Target<'_>,
    work: impl AsyncFnOnce(Connection) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let runtime = command::runtime()?;
    let done = process::block_on(&runtime, async {
        let ended = ended_by_signal()?;
        let connection = Connection::open(cell)?;
        tokio::select! {
            done = work(connection) => done,
            status = ended => Err(Failure::failed("error: interrupted").exit_status(status)),
        }
    });
    // A thread may still read what was removed, and nobody waits for it.
    runtime.shutdown_background();
    done
}

/// Waits for a signal that ends commands. Returns the exit status that is usual for it.
fn ended_by_signal() -> Result<impl Future<Output = u8>, Failure> {
    let listen = |kind| {
        signal(kind)
            .map_err(|error| Failure::failed(format!("error: cannot hear signals: {error}")))
    };
    let (mut interrupt, mut terminate) =
        (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    Ok(async move {
        let kind = tokio::select! {
            _ = interrupt.recv() => SignalKind::interrupt(),
            _ = terminate.recv() => SignalKind::terminate(),
        };
        u8::try_from(128 + kind.as_raw_value()).unwrap_or(u8::MAX)
    })
}
