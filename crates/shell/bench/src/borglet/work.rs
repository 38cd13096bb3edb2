//! What the tasks of `bourg bench borglet` do.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Instant;

use anyhow::Context;
use clap::Subcommand;

use super::driven::machine_time;

/// The work of a task.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Work {
    /// Answers each request on a port, and prints when it came.
    Serve {
        /// The port.
        #[arg(long)]
        port: u16,
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
