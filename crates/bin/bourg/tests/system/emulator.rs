//! A command at a terminal emulator: a terminal from the kernel, whose output is interpreted as a
//! real terminal would.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use nix::pty::{Winsize, openpty};
use nix::sys::signal::Signal;
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::ttyname;

use crate::eventually::{PATIENCE, eventually, until};
use crate::processes;
use crate::terminal::Terminal;

/// What the terminal has received.
struct Received {
    parser: vt100::Parser,
    raw: Vec<u8>,
}

/// A command that has the terminal as its controlling one. It does not outlive the test.
pub(crate) struct Emulator {
    child: Child,
    master: File,
    tty: PathBuf,
    /// Kept open, so that the terminal's settings can be read after the end of the command.
    slave: File,
    settings: Termios,
    received: Arc<Mutex<Received>>,
    _reader: JoinHandle<()>,
}

impl Emulator {
    /// Starts `bourg` with arguments at a terminal of a size.
    pub(crate) fn start(terminal: &Terminal, line: &str, (columns, rows): (u16, u16)) -> Self {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).expect("a terminal");
        let tty = ttyname(&pty.slave).expect("a name");
        let slave = File::from(pty.slave);
        let settings = tcgetattr(&slave).expect("settings");
        let mut command = terminal.program("setsid");
        let copy = || Stdio::from(slave.try_clone().expect("a descriptor"));
        command.args(["--ctty", "sh", "-c", &format!("exec {line}")]).env("TERM", "xterm");
        command.stdin(copy()).stdout(copy()).stderr(copy());
        let child = command.spawn().expect("a shell");
        let parser = vt100::Parser::new(rows, columns, 0);
        let received = Arc::new(Mutex::new(Received { parser, raw: Vec::new() }));
        let master = File::from(pty.master);
        let (mut from, to) = (master.try_clone().expect("a descriptor"), Arc::clone(&received));
        let reader = std::thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(bytes @ 1..) = from.read(&mut buffer) {
                let mut received = to.lock().unwrap_or_else(PoisonError::into_inner);
                received.parser.process(&buffer[..bytes]);
                received.raw.extend_from_slice(&buffer[..bytes]);
            }
        });
        Self { child, master, tty, slave, settings, received, _reader: reader }
    }

    fn received(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lines on the screen, without spaces at their ends.
    pub(crate) fn screen(&self) -> String {
        let screen = self.received().parser.screen().contents();
        screen.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }

    /// All bytes that the terminal has received.
    pub(crate) fn raw(&self) -> Vec<u8> {
        self.received().raw.clone()
    }

    /// Types characters, `\r` for Enter.
    pub(crate) fn types(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// Waits until the screen meets a condition, and returns it.
    #[track_caller]
    pub(crate) fn shows(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let begun = std::time::Instant::now();
        eventually(&format!("the screen shows {what}"), || {
            let screen = self.screen();
            if begun.elapsed() > PATIENCE * 9 / 10 {
                eprintln!("it shows:\n{screen}");
            }
            is_so(&screen).then_some(screen)
        })
    }

    /// Waits until the screen contains a text.
    #[track_caller]
    pub(crate) fn has(&self, text: &str) -> String {
        self.shows(text, |screen| screen.contains(text))
    }

    /// Changes the size of the terminal. One without rows or columns is not interpreted.
    pub(crate) fn resize(&self, (columns, rows): (u16, u16)) {
        if columns > 0 && rows > 0 {
            self.received().parser.screen_mut().set_size(rows, columns);
        }
        let size = [("cols", columns), ("rows", rows)];
        let size = size.iter().flat_map(|(name, number)| [(*name).to_owned(), number.to_string()]);
        let set = Command::new("stty").arg("-F").arg(&self.tty).args(size).status();
        assert!(set.expect("stty runs").success());
    }

    /// Sends the command a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        processes::signal(i32::try_from(self.child.id()).expect("a pid"), signal);
    }

    /// Waits until the command has ended and the terminal is as it was: settings, main screen,
    /// cursor. Returns the exit code, 128 plus the signal if one killed it, and the screen.
    #[track_caller]
    pub(crate) fn ends(mut self) -> (i32, String) {
        let status =
            eventually("the command ends", || self.child.try_wait().expect("it can be waited for"));
        assert_eq!(tcgetattr(&self.slave).expect("settings"), self.settings);
        until("the terminal is restored", || {
            let received = self.received();
            let screen = received.parser.screen();
            !screen.alternate_screen() && !screen.hide_cursor()
        });
        let code = status.code().or(status.signal().map(|signal| 128 + signal));
        (code.expect("it has ended"), self.screen())
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}
