//! HTTP requests to a task.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use crate::eventually::PATIENCE;

/// GETs a path from `host:port`; returns the whole response, headers first.
pub(crate) fn get(address: &str, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
