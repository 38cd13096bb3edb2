//! Where a Borglet serves DNS for its tasks.
//!
//! Tasks find it by their `/etc/resolv.conf`, which has no port: it is port 53 of a loopback address that
//! this Borglet alone has, and keeps, since tasks outlive it.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::Context;
use nameserver::{Server, Settings};

/// The file with the address.
const FILE: &str = "dns-address";
/// The port that programs use.
const PORT: u16 = 53;

/// The addresses to choose from.
fn candidates() -> impl Iterator<Item = Ipv4Addr> {
    (1..=254).map(|last| Ipv4Addr::new(127, 0, 53, last))
}

/// Listens for tasks with a network of their own. The address of their gateway exists while there is
/// such a task.
pub(crate) async fn listen_at_gateway(
    gateway: Ipv4Addr,
    settings: &impl Fn(SocketAddr) -> Settings,
) -> anyhow::Result<Server> {
    let settings = Settings { address_may_be_absent: true, ..settings((gateway, PORT).into()) };
    let bound = Server::bind(settings).await;
    bound.with_context(|| {
        format!(
            "cannot listen at {gateway}:{PORT} for the DNS requests of tasks: another Borglet of this \
             host may have the same --task-network"
        )
    })
}

/// Listens at the address of this Borglet, or at a new one; `None` if there is none for it, as without
/// root.
pub(crate) async fn listen(
    directory: &Path,
    settings: &impl Fn(SocketAddr) -> Settings,
) -> Option<Server> {
    let file = directory.join(FILE);
    let kept = std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok());
    let mut failed = None;
    for address in kept.into_iter().chain(candidates()) {
        match Server::bind(settings((address, PORT).into())).await {
            Ok(server) => {
                if kept != Some(address) {
                    if let Some(kept) = kept {
                        tracing::warn!(
                            "{kept}, the address of this machine's DNS, is taken: running tasks use the \
                             host's resolvers until they are restarted"
                        );
                    }
                    if let Err(error) = std::fs::write(&file, format!("{address}\n")) {
                        tracing::error!("cannot write {}: {error}", file.display());
                    }
                }
                return Some(server);
            }
            Err(error) => {
                let final_for_all = error.kind() == ErrorKind::PermissionDenied;
                failed = Some(error);
                if final_for_all {
                    break;
                }
            }
        }
    }
    match failed {
        // As is usual without root.
        Some(error) if error.kind() == ErrorKind::PermissionDenied => {
            tracing::info!("tasks have no DNS for names of the cell: port {PORT} needs root");
        }
        Some(error) => {
            tracing::warn!("tasks have no DNS for names of the cell: no address is free: {error}");
        }
        None => {}
    }
    None
}
