//! Reads information about processes and the current boot from `/proc`.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{SysconfVar, sysconf};

use crate::sys;

/// The current time in microseconds since 1970; 0 if the clock is before that.
pub(crate) fn unix_micros_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// The id of the current boot: a different one means that no earlier process is alive.
pub(crate) fn boot_id() -> io::Result<String> {
    static READ: OnceLock<String> = OnceLock::new();
    if let Some(known) = READ.get() {
        return Ok(known.clone());
    }
    let read = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
    Ok(READ.get_or_init(|| read).clone())
}

/// When process `pid` started, in clock ticks since boot. Together with the pid it identifies one
/// process of that boot.
pub(crate) fn start_time(pid: i32) -> io::Result<u64> {
    stat_field(pid, 22)
}

/// The time since a tick count since boot, by the clock that cannot be set.
pub(crate) fn since_ticks(ticks: u64) -> io::Result<Duration> {
    let per_second = sysconf(SysconfVar::CLK_TCK)?.and_then(|number| u32::try_from(number).ok());
    let per_second = per_second.filter(|number| *number > 0).unwrap_or(100);
    let since_boot = Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME)?);
    let (seconds, rest) = (ticks / u64::from(per_second), ticks % u64::from(per_second));
    let rest = Duration::from_secs(rest) / per_second;
    Ok(since_boot.saturating_sub(Duration::from_secs(seconds) + rest))
}

/// The parent of process `pid`; 0 if it has none.
pub(crate) fn parent(pid: i32) -> io::Result<i32> {
    i32::try_from(stat_field(pid, 4)?).map_err(io::Error::other)
}

/// A number in `/proc/<pid>/stat`, counted from 1 as in proc(5); the first two are not numbers.
fn stat_field(pid: i32, number: usize) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name may itself contain spaces and parentheses, so count from the last parenthesis.
    let field = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(number - 3));
    field.and_then(|field| field.parse().ok()).ok_or_else(|| {
        let why = format!("/proc/{pid}/stat has no number in field {number}");
        io::Error::new(io::ErrorKind::InvalidData, why)
    })
}

/// A descriptor for each child of process `parent`; those that end meanwhile are omitted.
pub(crate) fn open_children(parent: i32) -> io::Result<Vec<OwnedFd>> {
    let is_child = |pid: i32| self::parent(pid).is_ok_and(|of| of == parent);
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        if is_child(pid)
            && let Ok(pidfd) = sys::pidfd_open(pid)
            // It is still a child, so the descriptor refers to it and not to a later process with
            // its number.
            && is_child(pid)
        {
            children.push(pidfd);
        }
    }
    Ok(children)
}

/// A descriptor for process `pid` if it is still the one that started at `start_ticks` of a boot.
///
/// `None` if that process no longer exists, even if another one has its number.
pub(crate) fn open_exact(pid: i32, start_ticks: u64, boot: &str) -> io::Result<Option<OwnedFd>> {
    // Pids and ticks restart at each boot, and a machine boots much the same way each time.
    if boot_id()? != boot {
        return Ok(None);
    }
    let pidfd = match sys::pidfd_open(pid) {
        Ok(pidfd) => pidfd,
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
        // The number of a thread, so not the process that was meant.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOENT)) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    // Checked after opening: from here on, a reuse of the number would be noticed.
    Ok((start_time(pid).ok() == Some(start_ticks)).then_some(pidfd))
}

/// Waits until `fd` is readable or closed at its other end: false after `timeout_ms`.
pub(crate) fn wait_readable(fd: &impl AsFd, timeout_ms: u64) -> io::Result<bool> {
    let begin = std::time::Instant::now();
    loop {
        let spent = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        let left = i32::try_from(timeout_ms.saturating_sub(spent)).unwrap_or(i32::MAX);
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout) {
            Ok(0) if spent >= timeout_ms => return Ok(false),
            Ok(0) | Err(nix::Error::EINTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
}
