//! What the tasks of `bourg bench borglet` and `bourg bench isolation` do.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Subcommand;

use super::driven::machine_time;
use super::isolation::Measured;

/// The work of a task.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Work {
    /// Answers each request on a port, and prints when it came.
    Serve {
        /// The port.
        #[arg(long)]
        port: u16,
    },
    /// Starts a redis, sends it requests at a fixed rate, and prints how long its answers took.
    Request {
        /// The port.
        #[arg(long)]
        port: u16,
        /// How many each second.
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
        rate: u64,
        /// For how long.
        #[arg(long)]
        seconds: u64,
    },
    /// Prints numbered lines as fast as it can, and how long that took.
    Lines {
        /// How much.
        #[arg(long)]
        mib: u64,
    },
}

/// The length of a line, with its end.
pub(super) const LINE_BYTES: usize = 64;
/// The length of its number.
pub(super) const DIGITS: usize = 20;
/// How many lines are written at once: 64 kB. Only their leading digits differ from those of the lines
/// before them, so numbering them takes no time beside writing them.
const LINES_AT_ONCE: usize = 1_000;
const LEADING_DIGITS: usize = DIGITS - 3;

/// Does it.
pub(crate) fn work(what: &Work) -> anyhow::Result<()> {
    match what {
        Work::Serve { port } => serve(*port),
        Work::Request { port, rate, seconds } => request(*port, *rate, *seconds),
        Work::Lines { mib } => lines(*mib),
    }
}

fn serve(port: u16) -> anyhow::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    let mut out = std::io::stdout().lock();
    loop {
        let (mut connection, _) = listener.accept()?;
        let came = machine_time();
        let mut request = Vec::new();
        let mut part = [0; 1_024];
        while !request.ends_with(b"\r\n\r\n") {
            match connection.read(&mut part) {
                Ok(0) | Err(_) => break,
                Ok(bytes) => request.extend(&part[..bytes]),
            }
        }
        let _client_is_gone = connection
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        writeln!(out, "{}", came.0)?;
        out.flush()?;
    }
}

/// No answer takes this long unless the server hangs.
const ANSWER: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_millis(10);
const PING: &[u8] = b"PING\r\n";
const PONG: &[u8] = b"+PONG\r\n";

/// The server is a child of its client, so that both are one task.
fn request(port: u16, rate: u64, seconds: u64) -> anyhow::Result<()> {
    let mut server = std::process::Command::new("redis-server");
    server.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
    let mut server = server.stdout(std::process::Stdio::null()).spawn()?;
    let measured = measured(port, rate, seconds);
    server.kill()?;
    server.wait()?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(&measured?)?)?;
    Ok(())
}

/// Requests are due at a fixed rate, whether or not the ones before are answered: a server that stands
/// still delays all that fall due meanwhile.
fn measured(port: u16, rate: u64, seconds: u64) -> anyhow::Result<Measured> {
    let mut to_server = connection(port)?;
    to_server.set_nodelay(true)?;
    to_server.set_read_timeout(Some(ANSWER))?;
    let mut from_server = to_server.try_clone()?;
    let requests = rate.saturating_mul(seconds);
    let begun = Instant::now();
    let due = move |number: u64| begun + Duration::from_nanos(1_000_000_000 / rate * number);
    let sender = std::thread::spawn(move || {
        (0..requests).try_for_each(|number| {
            std::thread::sleep(due(number).saturating_duration_since(Instant::now()));
            to_server.write_all(PING)
        })
    });
    let mut times = Vec::new();
    for number in 0..requests {
        let mut answer = [0; PONG.len()];
        from_server.read_exact(&mut answer).context("the server did not answer")?;
        anyhow::ensure!(answer == PONG, "the server answered something else");
        let time = due(number).elapsed();
        times.push(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }
    sender.join().map_err(|_| anyhow::anyhow!("the sender failed"))??;
    Ok(Measured::of(times))
}

/// A connection to a server that is being started.
fn connection(port: u16) -> anyhow::Result<TcpStream> {
    let until = Instant::now() + ANSWER;
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Err(_) if Instant::now() < until => std::thread::sleep(RETRY),
            connected => return connected.context("the server does not listen"),
        }
    }
}

/// The line with this number, into `line`.
pub(super) fn write_line(number: u64, line: &mut [u8]) {
    let mut rest = number;
    for digit in line[..DIGITS].iter_mut().rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    line[DIGITS..LINE_BYTES - 1].fill(b'.');
    line[LINE_BYTES - 1] = b'\n';
}

fn lines(mib: u64) -> anyhow::Result<()> {
    let mut block = vec![0; LINES_AT_ONCE * LINE_BYTES];
    let blocks = (mib << 20) / u64::try_from(block.len()).context("a small number")?;
    let mut out = std::fs::File::from(nix::unistd::dup(std::io::stdout())?);
    let mut number = 0;
    for (line, number) in block.chunks_exact_mut(LINE_BYTES).zip(0..) {
        write_line(number, line);
    }
    let mut leading = [0; LINE_BYTES];
    let begun = Instant::now();
    for _ in 0..blocks {
        write_line(number, &mut leading);
        for line in block.chunks_exact_mut(LINE_BYTES) {
            line[..LEADING_DIGITS].copy_from_slice(&leading[..LEADING_DIGITS]);
        }
        out.write_all(&block)?;
        number += u64::try_from(LINES_AT_ONCE).unwrap_or(u64::MAX);
    }
    eprintln!("{number} {}", begun.elapsed().as_nanos());
    Ok(())
}
