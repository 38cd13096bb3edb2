//! More machines for a cell: Borglets in addition to the one of `bourg dev`, each with a directory,
//! a certificate and cgroups of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use rpc::{Authority, Identity, Validity};

use crate::cell::Cell;
use crate::eventually::{eventually, until};
use crate::processes;
use crate::terminal::Background;

const HOUR: Duration = Duration::from_secs(3_600);

/// A machine of a cell. Its tasks end with it.
pub(crate) struct Machine<'a> {
    cell: &'a Cell,
    name: &'static str,
    directory: PathBuf,
    /// The address of its Borglet, after its first start.
    address: String,
    borglet: Option<Background>,
    cgroup: String,
}

impl<'a> Machine<'a> {
    /// A running Borglet whose machine is up.
    #[track_caller]
    pub(crate) fn start(cell: &'a Cell, name: &'static str) -> Self {
        let mut machine = Self::in_its_directory(cell, name);
        let directory = &machine.directory;
        let authority = Authority::open(cell.directory().join("master/tls"));
        let identity = Identity::Borglet(name.to_owned());
        let issued =
            authority.expect("the cell's authority").issue(&identity, Validity::lasting(HOUR));
        issued.expect("a certificate").write(directory, "borglet").expect("it can be written");
        machine.start_again();
        cell.ok(&format!("bourg machine add {name} {}", machine.address));
        machine.is("up");
        machine
    }

    /// A Borglet that joins with a token, in a form that `--join` accepts, and whose machine is up.
    #[track_caller]
    pub(crate) fn join(cell: &'a Cell, name: &'static str, token: &str) -> Self {
        let mut machine = Self::in_its_directory(cell, name);
        machine.start_with(&["--join", token]);
        machine.is("up");
        machine
    }

    /// Only a directory.
    #[track_caller]
    pub(crate) fn in_its_directory(cell: &'a Cell, name: &'static str) -> Self {
        let directory = cell.directory().join(name);
        std::fs::create_dir(&directory).expect("a directory for the machine");
        let cgroup = linux::cgroup::parent_name(&directory);
        let address = "127.0.0.1:0".to_owned();
        Self { cell, name, directory, address, borglet: None, cgroup }
    }

    /// Its data directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The address of its Borglet.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Its Borglet.
    pub(crate) fn borglet(&mut self) -> &mut Background {
        self.borglet.as_mut().expect("its Borglet runs")
    }

    /// Restarts its Borglet at the same address.
    #[track_caller]
    pub(crate) fn start_again(&mut self) {
        self.start_with(&[]);
    }

    /// The same with additional flags.
    #[track_caller]
    pub(crate) fn start_with(&mut self, more: &[&str]) {
        let directory = self.directory.to_string_lossy();
        let flags = ["borglet", "--dir", &*directory, "--listen", &self.address, "--stop-tasks"];
        let borglet = self.cell.start("bourg", &[&flags[..], more].concat());
        self.address = eventually("the Borglet listens", || {
            let said = borglet.stderr();
            let (_, after) = said.split_once("listening on ")?;
            Some(after.lines().next()?.trim().to_owned())
        });
        self.borglet = Some(borglet);
    }

    /// Waits until the cell shows the machine in a state.
    #[track_caller]
    pub(crate) fn is(&self, state: &str) {
        let line = format!("bourg machine show {} -o state", self.name);
        until(&format!("{} is {state}", self.name), || {
            self.cell.types(&line).stdout.trim() == state
        });
    }

    /// Sends a signal to its Borglet only.
    pub(crate) fn signal(&self, signal: Signal) {
        processes::signal(self.borglet.as_ref().expect("its Borglet runs").pid(), signal);
    }

    /// Drops the handle of the Borglet, which was killed.
    #[track_caller]
    pub(crate) fn is_gone(&mut self) {
        self.borglet.take().expect("its Borglet ran").ends();
    }

    /// The programs of a job's tasks on it: pid by index.
    pub(crate) fn tasks(&self, job: &str) -> BTreeMap<u32, i32> {
        processes::tasks(&self.cgroup, job)
    }
}

impl Drop for Machine<'_> {
    fn drop(&mut self) {
        if let Some(borglet) = self.borglet.take() {
            processes::signal(borglet.pid(), Signal::SIGCONT);
            processes::signal(borglet.pid(), Signal::SIGTERM);
            let _ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| borglet.ends()));
        }
        for pid in processes::left(&self.cgroup, &self.directory).into_keys() {
            processes::signal(pid, Signal::SIGKILL);
        }
    }
}
