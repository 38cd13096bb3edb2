//! A user's shell: a home directory, and commands typed into it.

use std::cell::Cell;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::eventually::{PATIENCE, within};

/// A home directory. Commands run in it, find `bourg`, and know the cells that were started in it.
/// `$EXAMPLES` is the directory of the examples.
pub(crate) struct Terminal {
    home: TempDir,
    commands: Cell<u32>,
    variables: Vec<(&'static str, PathBuf)>,
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its exit code; 128 plus the signal if one killed it, as in a shell.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A command in the background. It does not outlive the test.
pub(crate) struct Background {
    pub(crate) child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Terminal {
    pub(crate) fn new() -> Self {
        match linux::machine::preflight() {
            Ok(linux::Isolation::Jail) => {}
            Ok(linux::Isolation::Rootless) => {
                panic!("these tests run real cells with root's powers")
            }
            Err(missing) => panic!("these tests run real cells: {missing}"),
        }
        let home = tempfile::Builder::new().prefix("bourg-test-").tempdir();
        let home = home.expect("a temporary directory");
        Self { home, commands: Cell::new(0), variables: Vec::new() }
    }

    /// Sets an environment variable for all later commands.
    pub(crate) fn set(&mut self, name: &'static str, value: PathBuf) {
        self.variables.push((name, value));
    }

    /// A path in the home directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Writes a file in the home directory.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).expect("a file in the home directory");
    }

    /// A program with the environment of this home.
    pub(crate) fn program(&self, program: &str) -> Command {
        let bourg = Path::new(env!("CARGO_BIN_EXE_bourg"));
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let all = bourg.parent().map(PathBuf::from).into_iter().chain(std::env::split_paths(&path));
        let mut command = Command::new(program);
        command
            .current_dir(self.home.path())
            .env("PATH", std::env::join_paths(all).expect("a search path"))
            .env("EXAMPLES", examples)
            .env("HOME", self.home.path())
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("RUST_BACKTRACE", "0")
            .env_remove("BOURG_CELL")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    /// Starts a program in its own process group.
    pub(crate) fn start(&self, program: &str, arguments: &[&str]) -> Background {
        let number = self.commands.get();
        self.commands.set(number + 1);
        let file = |stream: &str| {
            let path = self.path(&format!(".{number}.{stream}"));
            (File::create(&path).expect("a file for what a command says"), path)
        };
        let ((out, stdout), (err, stderr)) = (file("stdout"), file("stderr"));
        let mut command = self.program(program);
        command.args(arguments).stdout(out).stderr(err).process_group(0);
        let child = command.spawn().expect("the command can be started");
        Background { child, stdout, stderr }
    }

    /// Types a line and waits until it is done.
    #[track_caller]
    pub(crate) fn types(&self, line: &str) -> Ended {
        self.start("sh", &["-c", line]).ends()
    }

    /// Types a line that succeeds; returns its stdout.
    #[track_caller]
    pub(crate) fn ok(&self, line: &str) -> String {
        let ended = self.types(line);
        assert_eq!(ended.code, 0, "$ {line}\n{}{}", ended.stdout, ended.stderr);
        ended.stdout
    }

    /// Types a line that fails with an exit code; returns its stderr.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, line: &str) -> String {
        let ended = self.types(line);
        assert_eq!(ended.code, code, "$ {line}\n{}{}", ended.stdout, ended.stderr);
        assert!(!ended.stderr.is_empty(), "$ {line}\nfails without a word");
        ended.stderr
    }
}

impl Background {
    /// Its stdout so far.
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.stdout).unwrap_or_default()).into_owned()
    }

    /// Its stderr so far.
    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.stderr).unwrap_or_default()).into_owned()
    }

    /// Its exit code, if it has ended.
    pub(crate) fn code(&mut self) -> Option<i32> {
        let code =
            |status: ExitStatus| status.code().or(status.signal().map(|signal| 128 + signal));
        self.child.try_wait().expect("a child can be waited for").and_then(code)
    }

    /// Waits until it has ended.
    #[track_caller]
    pub(crate) fn ends(self) -> Ended {
        self.ends_within(PATIENCE)
    }

    /// The same, with a patience of its own.
    #[track_caller]
    pub(crate) fn ends_within(mut self, patience: Duration) -> Ended {
        let begun = Instant::now();
        let mut said = false;
        let code = within(patience, "the command ends", || {
            if !said && begun.elapsed() > patience / 2 {
                said = true;
                eprintln!("still waiting; so far it said:\n{}{}", self.stdout(), self.stderr());
            }
            self.code()
        });
        Ended { code, stdout: self.stdout(), stderr: self.stderr() }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a pid")
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _gone = self.child.kill();
            let _status = self.child.wait();
        }
    }
}
