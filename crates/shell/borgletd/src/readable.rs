//! Waiting for descriptors.

use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Waits until a descriptor is readable, as a pipe or pidfd is when its other end is gone.
#[expect(unsafe_code, reason = "registering a descriptor with the runtime")]
pub(crate) async fn readable(descriptor: OwnedFd) {
    // SAFETY: the registered value owns the descriptor, which always names the same open file.
    let registered = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
    match registered {
        Ok(descriptor) => {
            if let Err(error) = descriptor.readable().await {
                tracing::error!("cannot wait for a task: {error}");
            }
        }
        Err(error) => tracing::error!("cannot wait for a task: {error}"),
    }
}
