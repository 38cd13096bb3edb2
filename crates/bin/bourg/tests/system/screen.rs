//! A command on a real terminal from the kernel: what appears on its screen.

use std::fs::File;
use std::io::Read;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use nix::pty::openpty;
use nix::sys::signal::Signal;

use crate::eventually::eventually;
use crate::processes;
use crate::terminal::Terminal;

/// A command whose standard streams are a terminal. It does not outlive the test.
pub(crate) struct Screen {
    child: Child,
    shown: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Screen {
    /// Starts a line of the shell.
    pub(crate) fn start(terminal: &Terminal, line: &str) -> Self {
        let pty = openpty(None, None).expect("a terminal");
        let mut command = terminal.program("sh");
        let copy = || Stdio::from(pty.slave.try_clone().expect("a descriptor"));
        command.args(["-c", &format!("exec {line}")]);
        command.stdin(copy()).stdout(copy()).stderr(copy());
        let child = command.spawn().expect("a shell");
        // Only the command has it open now: when it exits, the output ends.
        drop((command, pty.slave));
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (mut master, to) = (File::from(pty.master), Arc::clone(&shown));
        let reader = std::thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(bytes @ 1..) = master.read(&mut buffer) {
                let mut shown = to.lock().unwrap_or_else(PoisonError::into_inner);
                shown.extend_from_slice(&buffer[..bytes]);
            }
        });
        Self { child, shown, reader: Some(reader) }
    }

    /// The output so far.
    pub(crate) fn shown(&self) -> Vec<u8> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends the command a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        processes::signal(i32::try_from(self.child.id()).expect("a pid"), signal);
    }

    /// Waits until it has exited; returns the whole output.
    #[track_caller]
    pub(crate) fn ends(mut self) -> Vec<u8> {
        eventually("the command ends", || self.child.try_wait().expect("it can be waited for"));
        self.reader.take().map(JoinHandle::join);
        self.shown()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}
