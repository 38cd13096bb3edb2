//! Messages over a connection: each with its length in front.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Receives a message of at most `bytes_max` bytes.
pub(crate) async fn receive(stream: &mut TcpStream, bytes_max: usize) -> io::Result<Vec<u8>> {
    let length = usize::from(stream.read_u16().await?);
    if length > bytes_max {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

/// Sends a message.
pub(crate) async fn send(stream: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidData)?;
    stream.write_all(&[&length.to_be_bytes(), message].concat()).await
}
