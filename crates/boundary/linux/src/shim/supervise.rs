//! The shim's main phase: from starting the init to its end.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::fchown;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{ForkResult, pipe2};

use super::budget::CpuBudget;
use crate::Isolation;
use crate::cgroup::TaskCgroup;
use crate::init::{self, FORKED};
use crate::isolation::enter_user_namespace;
use crate::logs::LogWriter;
use crate::network::Network;
use crate::process::{boot_id, start_time, unix_micros_now};
use crate::record::{ExitReason, Launch, Running};
use crate::shim_log::message;
use crate::sys;

/// How much output is copied at a time, and how much the pipe of a stream holds: its pages count as
/// the task's memory. With the kernel's 64 KiB, task and shim wake each other for each block.
const CHUNK_BYTES: usize = 256 << 10;
const PIPE_BYTES: i32 = 256 << 10;
/// The maximum output that is still copied after the task has ended: more than any pipe holds, so
/// only another process that was handed the pipe can exceed it.
const REMAINDER_BYTES_MAX: usize = 4 << 20;
/// How long to wait for the victim after the kernel announced an out-of-memory kill.
const OOM_PATIENCE: Duration = Duration::from_secs(2);

/// The shim's ends of everything that it shares with the init.
struct Links {
    init_pid: i32,
    init: OwnedFd,
    /// Closed when the shim dies, which also tells the init to end.
    _alive: OwnedFd,
    trouble: Option<File>,
    status: File,
    outputs: [Option<File>; 2],
    oom: Option<File>,
    /// The same for its alloc.
    alloc_oom: Option<File>,
}

/// How a task ended, before examining its cgroup.
pub(super) struct Ended {
    pub(super) reason: ExitReason,
    /// Whether the last out-of-memory event was caused by the alloc's limit, if that is visible
    /// only at that moment.
    pub(super) alloc_was_full: bool,
    /// Whether a limit of the task's cgroup, or of one above it, was reached, if that is visible only
    /// at that moment.
    pub(super) limit_was_reached: bool,
}

/// Runs the task and returns how it ended; the error is the reason why the init could not be
/// started.
pub(super) fn supervise(
    dir: &Path,
    launch: &Launch,
    cgroup: Option<&TaskCgroup>,
    logs: &mut [LogWriter; 2],
    ready: &mut Option<File>,
) -> Result<Ended, String> {
    let mut links = start(dir, launch, cgroup)?;
    let mut reason = Vec::new();
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut oom_until = None;
    let mut budget = CpuBudget::of(launch.limits.cpu_milli);
    let (mut alloc_was_full, mut limit_was_reached) = (false, false);
    loop {
        let pause = budget.pause();
        let timeout = match (oom_until, pause) {
            (Some(until), _) if until > Instant::now() => PollTimeout::from(5u8),
            (_, Some(pause)) => PollTimeout::try_from(pause).unwrap_or(PollTimeout::MAX),
            (_, None) => PollTimeout::NONE,
        };
        let woken = links
            .wait(timeout, pause.is_none())
            .map_err(|error| format!("cannot poll: {error}"))?;
        if woken.trouble && links.read_trouble(&mut reason) && reason.is_empty() {
            // Closed without a message: the program has been executed, unless the init died before.
            if links.has_forked() {
                record_running(dir, launch, links.init_pid);
                ready.take();
            }
        }
        for (index, log) in logs.iter_mut().enumerate() {
            if woken.outputs[index] {
                links.copy(index, log, &mut buffer);
            }
        }
        if woken.oom {
            let _count = links.oom.as_mut().map(|oom| oom.read(&mut [0; 8]));
            oom_until = Some(Instant::now() + OOM_PATIENCE);
            limit_was_reached = true;
            // The kernel first notifies the cgroup whose limit was reached, then all below it.
            let alloc = links.alloc_oom.as_mut();
            alloc_was_full = alloc.is_some_and(|oom| matches!(oom.read(&mut [0; 8]), Ok(8)));
        }
        // The kernel kills only one process, and half a task is worse than none.
        if let (Some(_), Some(cgroup)) = (oom_until, cgroup)
            && cgroup.oom_kills().is_ok_and(|kills| kills > 0)
        {
            oom_until = None;
            if let Err(error) = cgroup.kill_all() {
                message(&format_args!(
                    "{}: out of memory, but cannot be killed: {error}",
                    launch.label
                ));
            }
        }
        if woken.init {
            break;
        }
    }
    for (index, log) in logs.iter_mut().enumerate() {
        let mut left = REMAINDER_BYTES_MAX;
        while left > 0 {
            match links.copy(index, log, &mut buffer) {
                0 => break,
                bytes => left = left.saturating_sub(bytes),
            }
        }
    }
    links.read_trouble(&mut reason);
    Ok(Ended { reason: links.how_it_ended(&reason), alloc_was_full, limit_was_reached })
}

/// Forks the init into a new pid namespace.
fn start(dir: &Path, launch: &Launch, cgroup: Option<&TaskCgroup>) -> Result<Links, String> {
    let say = |error: io::Error| format!("cannot start the init: {error}");
    let cgroup_say = |error: crate::cgroup::CgroupError| error.to_string();
    let pipe = || pipe2(OFlag::O_CLOEXEC).map_err(|error| say(error.into()));
    let (alive_read, alive_write) = pipe()?;
    let (trouble_read, trouble_write) = pipe()?;
    let (status_read, status_write) = pipe()?;
    let (stdout_read, stdout_write) = pipe()?;
    let (stderr_read, stderr_write) = pipe()?;
    for fd in [&trouble_read, &status_read, &stdout_read, &stderr_read] {
        fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(|error| say(error.into()))?;
    }
    for output in [&stdout_read, &stderr_read] {
        // Refused where a user's pipes are limited: they are then only slower.
        let _smaller = fcntl(output, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
        if launch.isolation == Isolation::Jail {
            // So that the task's user may also open them by name, as /dev/stdout.
            fchown(output, Some(launch.uid), Some(launch.gid)).map_err(say)?;
        }
    }
    let oom = cgroup.map(TaskCgroup::oom_watch).transpose().map_err(cgroup_say)?.flatten();
    let alloc = cgroup.filter(|_| launch.in_alloc).and_then(TaskCgroup::parent);
    let alloc_oom = alloc.as_ref().map(TaskCgroup::oom_watch).transpose().map_err(cgroup_say)?;
    let cgroups = cgroup.map(TaskCgroup::join_files).transpose().map_err(cgroup_say)?;
    let network = launch.network.as_ref().map(Network::open).transpose();
    let pipes = init::Pipes {
        network: network.map_err(|error| error.to_string())?,
        shim_alive: alive_read,
        trouble: trouble_write,
        status: status_write,
        stdout: stdout_write,
        stderr: stderr_write,
        cgroups: cgroups.unwrap_or_default(),
    };
    match launch.isolation {
        Isolation::Jail => unshare(CloneFlags::CLONE_NEWPID)
            .map_err(|error| format!("cannot make a pid namespace: {error}"))?,
        Isolation::Rootless => enter_user_namespace(CloneFlags::CLONE_NEWPID, 0, 0)
            .map_err(|error| format!("cannot make a user namespace: {error}"))?,
    }
    let child = match sys::SingleThread::check().and_then(sys::fork).map_err(say)? {
        ForkResult::Parent { child } => child.as_raw(),
        ForkResult::Child => {
            let run = std::panic::AssertUnwindSafe(|| init::run(launch, dir, pipes));
            // A panic must not unwind into the shim's own frames, of which this is a copy.
            let _panicked = std::panic::catch_unwind(run);
            sys::exit_now(101)
        }
    };
    Ok(Links {
        init_pid: child,
        init: sys::pidfd_open(child).map_err(say)?,
        _alive: alive_write,
        trouble: Some(trouble_read.into()),
        status: status_read.into(),
        outputs: [Some(stdout_read.into()), Some(stderr_read.into())],
        oom: oom.map(File::from),
        alloc_oom: alloc_oom.flatten().map(File::from),
    })
}

/// Writes `running.json`. A failure is not fatal: the task runs, but its Borglet cannot signal it.
fn record_running(dir: &Path, launch: &Launch, init_pid: i32) {
    let write = || -> Result<(), String> {
        let running = Running {
            init_pid,
            init_start_ticks: start_time(init_pid).map_err(|error| error.to_string())?,
            boot_id: boot_id().map_err(|error| error.to_string())?,
            started_at_unix_us: unix_micros_now(),
        };
        running.write(dir).map_err(|error| error.to_string())
    };
    if let Err(error) = write() {
        message(&format_args!("{}: cannot record that the task runs: {error}", launch.label));
    }
}

/// What happened while the shim waited.
struct Woken {
    init: bool,
    trouble: bool,
    outputs: [bool; 2],
    oom: bool,
}

impl Links {
    /// Waits for something to do, output only if it is to be read.
    fn wait(&self, timeout: PollTimeout, reads: bool) -> io::Result<Woken> {
        let outputs = if reads { self.outputs.each_ref() } else { [&None, &None] };
        let [stdout, stderr] = outputs;
        let all = [&self.trouble, stdout, stderr, &self.oom];
        // Closed files are represented by the init, so that each keeps its position.
        let [trouble, stdout, stderr, oom] =
            all.map(|file| file.as_ref().map_or(self.init.as_fd(), AsFd::as_fd));
        let mut fds = [self.init.as_fd(), trouble, stdout, stderr, oom]
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let woken = |index: usize| fds[index].any() == Some(true);
        let there = |index: usize| all[index - 1].is_some() && woken(index);
        Ok(Woken {
            init: woken(0),
            trouble: there(1),
            outputs: [there(2), there(3)],
            oom: there(4),
        })
    }

    /// Reads what is available; true when the other side has closed the pipe.
    fn read_trouble(&mut self, reason: &mut Vec<u8>) -> bool {
        let Some(trouble) = &mut self.trouble else { return true };
        match trouble.read_to_end(reason) {
            Ok(_) => {
                self.trouble = None;
                true
            }
            Err(_nothing_more_yet) => false,
        }
    }

    /// Whether the init got as far as forking the task.
    fn has_forked(&mut self) -> bool {
        let mut byte = [0];
        matches!(self.status.read(&mut byte), Ok(1)) && byte[0] == FORKED
    }

    /// Copies one chunk of output to its log; returns the number of bytes, 0 if there are none now.
    fn copy(&mut self, index: usize, log: &mut LogWriter, buffer: &mut [u8]) -> usize {
        let Some(output) = &mut self.outputs[index] else { return 0 };
        match output.read(buffer) {
            Ok(0) => {
                self.outputs[index] = None;
                0
            }
            Ok(bytes) => {
                log.append(&buffer[..bytes], unix_micros_now());
                bytes
            }
            Err(_nothing_now) => 0,
        }
    }

    /// Combines the init's message with the init's own exit status.
    fn how_it_ended(&mut self, reason: &[u8]) -> ExitReason {
        let init_status = sys::wait(self.init_pid);
        if let [whose, reason @ ..] = reason {
            let reason = String::from_utf8_lossy(reason).into_owned();
            return match *whose {
                init::PROGRAM => ExitReason::NotStarted { reason },
                _ => ExitReason::NotSetUp { reason },
            };
        }
        let mut said = Vec::new();
        let _all_there_is = self.status.read_to_end(&mut said);
        if said.first() == Some(&FORKED) {
            said.remove(0);
        }
        match (<[u8; 4]>::try_from(said), init_status) {
            (Ok(bytes), _) => ExitReason::from_wait_status(i32::from_le_bytes(bytes)),
            (Err(_), Ok(status)) if libc::WIFSIGNALED(status) => {
                ExitReason::from_wait_status(status)
            }
            (Err(_), status) => ExitReason::NotSetUp {
                reason: format!("the task's init ended without a message, with status {status:?}"),
            },
        }
    }
}
