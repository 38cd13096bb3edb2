//! Users of sockets at the other end, as reported by the real kernel. They need root, to be several
//! users. A kernel without `udp_diag`, as in the emulated machine, cannot report them, so this is
//! separate from the tests with tasks.

use std::io::Read as _;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use linux::peers::{Peers, Protocol};

const STRANGER: u32 = 61_777;

/// A process of another user that ends with the test.
struct Other(Child);

impl Other {
    /// Runs a script of bash, which has sockets as files.
    fn new(script: &str) -> Self {
        let mut command = Command::new("bash");
        command.args(["-c", script]).uid(STRANGER).gid(STRANGER).stdout(Stdio::piped());
        Self(command.spawn().expect("the test runs as root"))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn own() -> u32 {
    nix::unistd::geteuid().as_raw()
}

#[test]
fn a_datagram_leads_to_the_user_of_its_socket() {
    let mut peers = Peers::open().expect("the kernel answers");
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let server = UdpSocket::bind(address).expect("a free port");
        let ours = server.local_addr().expect("an address");
        // Sent with an address each time, as resolvers do, and over a connection, as others do.
        let (free, connected) = (UdpSocket::bind(address), UdpSocket::bind(address));
        let (free, connected) = (free.expect("a free port"), connected.expect("a free port"));
        connected.connect(ours).expect("an address");
        let mut uid = |socket: &UdpSocket| {
            peers.uid(Protocol::Udp, socket.local_addr().expect("an address"), ours)
        };
        assert_eq!(uid(&free).expect("it answers"), Some(own()), "{address}");
        assert_eq!(uid(&connected).expect("it answers"), Some(own()), "{address}");
        let closed = free.local_addr().expect("an address");
        drop(free);
        assert_eq!(peers.uid(Protocol::Udp, closed, ours).expect("it answers"), None);
    }
    let server = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let ours = server.local_addr().expect("an address");
    let _other =
        Other::new(&format!("exec 3<>/dev/udp/127.0.0.1/{}; echo x >&3; sleep 1000", ours.port()));
    let (_, theirs) = server.recv_from(&mut [0; 8]).expect("it is sent");
    assert_eq!(peers.uid(Protocol::Udp, theirs, ours).expect("it answers"), Some(STRANGER));
    // Over TCP there is no such socket.
    assert_eq!(peers.uid(Protocol::Tcp, theirs, ours).expect("it answers"), None);
}

#[test]
fn a_connection_leads_to_the_user_of_its_other_end() {
    let mut peers = Peers::open().expect("the kernel answers");
    let server = TcpListener::bind("[::1]:0").expect("a free port");
    let ours = server.local_addr().expect("an address");
    let client = TcpStream::connect(ours).expect("it listens");
    let (_accepted, theirs) = server.accept().expect("a connection");
    assert_eq!(peers.uid(Protocol::Tcp, theirs, ours).expect("it answers"), Some(own()));
    drop(client);

    let server = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let ours = server.local_addr().expect("an address");
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}; echo up; sleep 1000", ours.port());
    let mut other = Other::new(&script);
    let (_accepted, theirs) = server.accept().expect("a connection");
    other.0.stdout.take().expect("a pipe").read_exact(&mut [0; 3]).expect("it is connected");
    assert_eq!(peers.uid(Protocol::Tcp, theirs, ours).expect("it answers"), Some(STRANGER));
    let nobody = SocketAddr::from(([127, 9, 9, 9], theirs.port()));
    assert_eq!(peers.uid(Protocol::Tcp, nobody, ours).expect("it answers"), None);
}
