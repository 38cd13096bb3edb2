//! Notifies systemd that this process is ready or stopping (`sd_notify`), with a datagram to the
//! socket named by `$NOTIFY_SOCKET`. Does nothing if the variable is unset.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable with the socket's name.
const SOCKET: &str = "NOTIFY_SOCKET";

/// Reports readiness.
pub fn ready() {
    notify("READY=1\n");
}

/// Reports that shutdown has begun.
pub fn stopping() {
    notify("STOPPING=1\n");
}

fn notify(state: &str) {
    let Some(socket) = std::env::var_os(SOCKET).filter(|socket| !socket.is_empty()) else { return };
    if let Err(error) = send(&socket, state) {
        let (socket, state) = (socket.display(), state.trim_end());
        tracing::warn!("cannot notify the service manager at {socket} of {state}: {error}");
    }
}

fn send(socket: &OsString, state: &str) -> io::Result<()> {
    let datagrams = UnixDatagram::unbound()?;
    // A service manager that does not read must not block the service.
    datagrams.set_nonblocking(true)?;
    datagrams.send_to_addr(state.as_bytes(), &address(socket)?).map(|_| ())
}

/// A path, or a name in the abstract namespace after an `@`.
fn address(socket: &OsStr) -> io::Result<SocketAddr> {
    match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(socket),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_is_told_by_path_and_by_abstract_name() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("notify").into_os_string();
        let name = OsString::from(format!("@bourg-notify-{}", std::process::id()));
        for socket in [path, name] {
            let address = address(&socket).expect("an address");
            let manager = UnixDatagram::bind_addr(&address).expect("a socket");
            send(&socket, "READY=1\n").expect("it is sent");
            let mut text = [0; 64];
            let bytes = manager.recv(&mut text).expect("it is received");
            assert_eq!(&text[..bytes], b"READY=1\n");
        }
        assert!(send(&OsString::from("/no/such/socket"), "READY=1\n").is_err());
    }
}
