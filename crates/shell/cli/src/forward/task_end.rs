//! The end of `bourg port-forward` in a task: connects to the task's ports.

use std::io::{self, Read, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use clap::Args;
use command::{Done, Failure, runtime};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::connections::{ConnectionEnd, FORWARDED_MAX, OpenConnections, ToOther, carry};
use super::frames::{ForwardFrame, FrameReader, GREETING};

/// How long an address of the task may take to accept a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// Frames that wait for the standard output.
const QUEUE: usize = 4;
const READ_BYTES: usize = 64 << 10;

/// The flags of the end in a task.
#[derive(Debug, Args)]
pub(crate) struct TaskEndArgs {
    /// The address of the task besides the loopback addresses.
    #[arg(long)]
    host: Option<IpAddr>,
    /// The ports to which it may connect.
    #[arg(required = true)]
    ports: Vec<u16>,
}

/// Connects as the frames of the standard input ask for, until that ends.
pub(crate) fn serve(args: &TaskEndArgs) -> Done {
    let broken = |error: io::Error| Failure::failed(format!("error: {error}"));
    let runtime = runtime()?;
    let (to_other, mut frames) = mpsc::channel::<Vec<u8>>(QUEUE);
    let ended = process::block_on(&runtime, async {
        let (to_end, mut ended) = mpsc::channel::<io::Result<()>>(2);
        let writer_ends = to_end.clone();
        let writer = std::thread::Builder::new().spawn(move || {
            let mut stdout = io::stdout().lock();
            let mut write = |bytes: &[u8]| stdout.write_all(bytes).and_then(|()| stdout.flush());
            let mut written = write(GREETING);
            while written.is_ok() {
                let Some(frame) = frames.blocking_recv() else { break };
                written = write(&frame);
            }
            let _ended = writer_ends.blocking_send(written);
        });
        writer.map_err(broken)?;
        let server = TaskEnd {
            runtime: Handle::current(),
            connections: OpenConnections::default(),
            to_other,
            host: args.host,
            ports: args.ports.clone(),
        };
        let reader = std::thread::Builder::new().spawn(move || {
            let _ended = to_end.blocking_send(server.read_all(io::stdin().lock()));
        });
        reader.map_err(broken)?;
        ended.recv().await.unwrap_or(Ok(())).map_err(broken)
    });
    runtime.shutdown_background();
    ended
}

/// What the reader of the standard input has.
pub(super) struct TaskEnd {
    pub(super) runtime: Handle,
    pub(super) connections: OpenConnections,
    pub(super) to_other: ToOther,
    pub(super) host: Option<IpAddr>,
    pub(super) ports: Vec<u16>,
}

impl TaskEnd {
    /// Takes frames until the end of the input. It never waits for a connection.
    pub(super) fn read_all(&self, mut input: impl Read) -> io::Result<()> {
        let mut reader = FrameReader::default();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let read = match input.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if read == 0 {
                return Ok(());
            }
            reader.push(buffer.get(..read).unwrap_or_default());
            for (number, frame) in reader.take_frames()? {
                match frame {
                    ForwardFrame::Open(port) => self.open(number, port),
                    frame => self.connections.deliver(number, frame)?,
                }
            }
        }
    }

    fn open(&self, number: u32, port: u16) {
        let Some(end) = self.connections.open(number, self.to_other.clone()) else {
            let why = format!("{FORWARDED_MAX} connections are open already, as many as may be");
            let frame = ForwardFrame::Reset(why).encode(number);
            let to_other = self.to_other.clone();
            self.runtime.spawn(async move { drop(to_other.send(frame).await) });
            return;
        };
        let addresses = match self.ports.contains(&port) {
            true => addresses(self.host, port),
            false => Vec::new(),
        };
        self.runtime.spawn(connect(end, addresses));
    }
}

/// Where a port of the task may be: on its loopback device or at its address.
fn addresses(host: Option<IpAddr>, port: u16) -> Vec<SocketAddr> {
    let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    let [first, last] = loopback;
    let all = [Some(first), host, Some(last)].into_iter().flatten();
    all.map(|address| SocketAddr::new(address, port)).collect()
}

/// Connects to the first address that accepts, and carries the connection.
async fn connect(end: ConnectionEnd, addresses: Vec<SocketAddr>) {
    let mut why = "the session is not for this port".to_owned();
    for (at, address) in addresses.iter().enumerate() {
        let error = match timeout(CONNECT_PATIENCE, TcpStream::connect(address)).await {
            Ok(Ok(socket)) => return drop(carry(end, socket).await),
            Ok(Err(error)) => error.to_string(),
            Err(_late) => format!("no answer within {} s", CONNECT_PATIENCE.as_secs()),
        };
        if at == 0 {
            why = error;
        }
    }
    end.reset(&why).await;
}
