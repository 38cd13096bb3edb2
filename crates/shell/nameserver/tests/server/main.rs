//! A server with real sockets, asked by real clients.

mod cell;
mod dig;
mod forward;
mod limits;
mod sockets;
