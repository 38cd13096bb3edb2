//! Counts how often each task was started: at its start, each sends a datagram to the hub. This
//! does not rely on the Borglets' records or the cell's state.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::network::{HUB, address};
use crate::tools::needs;

const PORT: u16 = 7_801;

/// The listener for these datagrams.
pub(crate) struct Starts {
    heard: Arc<Mutex<BTreeMap<String, u32>>>,
    socket: UdpSocket,
    listens: JoinHandle<()>,
}

/// The command of a task that is counted, followed by a line of shell.
pub(crate) fn counted(line: &str) -> Vec<String> {
    needs("bash", "bash");
    let tells = format!("echo \"$BORG_JOB/$BORG_TASK\" > /dev/udp/{}/{PORT}", address(HUB));
    ["bash", "-c", &format!("{tells}; {line}")].map(str::to_owned).to_vec()
}

impl Starts {
    /// Starts listening on the hub, where the calling thread has to be.
    pub(crate) fn listen() -> Self {
        let socket = UdpSocket::bind((address(HUB), PORT)).expect("the port is free");
        let (hears, heard) = (socket.try_clone().expect("one more"), Arc::default());
        let counts: Arc<Mutex<BTreeMap<String, u32>>> = Arc::clone(&heard);
        let listens = std::thread::spawn(move || {
            let mut said = [0; 256];
            loop {
                let length = hears.recv(&mut said).expect("the socket is open");
                if length == 0 {
                    return;
                }
                let task = String::from_utf8_lossy(&said[..length]).trim_end().to_owned();
                let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
                *counts.entry(task).or_default() += 1;
            }
        });
        Self { heard, socket, listens }
    }

    /// The starts of each task so far, by its job's name and its index.
    pub(crate) fn so_far(&self) -> BTreeMap<String, u32> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The same after all datagrams have arrived.
    pub(crate) fn in_the_end(self) -> BTreeMap<String, u32> {
        let place = self.socket.local_addr().expect("it is bound");
        // This arrives after all others.
        self.socket.send_to(&[], place).expect("it is open");
        self.listens.join().expect("the listener does not panic");
        std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
