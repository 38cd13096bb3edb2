//! Termination signals.

use tokio::signal::unix::{SignalKind, signal};

/// Installs handlers of SIGTERM and SIGINT at once, and returns a future that waits for one of them.
/// If no handler can be installed, it waits forever: the signal's default action ends the process
/// then.
///
/// # Panics
/// Outside a Tokio runtime.
pub fn requested() -> impl Future<Output = ()> + use<> {
    let handlers = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    async move {
        let (Ok(mut terminate), Ok(mut interrupt)) = handlers else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}
