//! Termination signals.

use tokio::signal::unix::{SignalKind, signal};

/// Waits for SIGTERM or SIGINT. If no handler can be installed, waits forever: the signal's default
/// action ends the process then.
pub async fn requested() {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
