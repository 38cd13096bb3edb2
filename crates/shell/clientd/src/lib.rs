//! What a long-running client of a cell has: leadership by a lock, following a stream from one replica to the
//! next, retries, and status pages.
//!
//! Not here: what such a client does (`autoscalerd`, `proxyd`), how a cell is found and called (`client`), and what
//! the processes of a cell have (`process`).

mod follow;
mod held;
mod leader;
mod status;

use std::time::Duration;

pub use self::follow::{follow, watch_names};
pub use self::held::{Held, Lost};
pub use self::leader::Role;
pub use self::status::{Status, serve_status};

/// The delay before a long-running client retries what has failed.
pub const RETRY: Duration = Duration::from_secs(1);
