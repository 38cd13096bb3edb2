//! The owners of an image's files, as a task sees them: what belongs to the image's user is the task's.
//!
//! The kernel shows the files of a mount with other owners than they have on disk, by the mapping of a
//! user namespace that is made only for that.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{ForkResult, pipe2};

use crate::sys;

/// How user ids, or group ids, of an image's files are shown: the image's as the task's, the task's as
/// the image's, all others as they are. So no file is without an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdMapping {
    /// That of the image's user.
    pub(super) image: u32,
    /// That of the task.
    pub(super) task: u32,
}

impl IdMapping {
    /// The id that is shown for one on disk.
    pub(super) fn shown(self, id: u32) -> u32 {
        match id {
            id if id == self.image => self.task,
            id if id == self.task => self.image,
            other => other,
        }
    }

    /// As `/proc/PID/uid_map` has it: the first id, the one that is shown for it, how many follow.
    fn lines(self) -> String {
        let mut exchanged = [self.image, self.task];
        exchanged.sort_unstable();
        let mut lines = String::new();
        let mut next = 0;
        // u32::MAX is no id.
        let ends = exchanged.map(|id| (id, true)).into_iter().chain([(u32::MAX, false)]);
        for (end, is_exchanged) in ends {
            if end > next {
                lines.push_str(&format!("{next} {next} {}\n", end - next));
            }
            if is_exchanged && end >= next {
                lines.push_str(&format!("{end} {} 1\n", self.shown(end)));
                next = end.saturating_add(1);
            }
        }
        lines
    }
}

/// A user namespace with these mappings and without processes.
pub(super) fn namespace(users: IdMapping, groups: IdMapping) -> io::Result<OwnedFd> {
    let (number, say_number) = pipe2(OFlag::O_CLOEXEC)?;
    let (wait, release) = pipe2(OFlag::O_CLOEXEC)?;
    match sys::SingleThread::check().and_then(sys::fork)? {
        ForkResult::Child => {
            drop((number, release));
            sys::exit_now(
                hold_namespace(say_number, wait)
                    .err()
                    .map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO)),
            )
        }
        ForkResult::Parent { child } => {
            drop((say_number, wait));
            let mut process = String::new();
            let read = File::from(number).read_to_string(&mut process);
            let opened = read.and_then(|_| open_mapped(&process, users, groups));
            drop(release);
            let status = sys::wait(child.as_raw())?;
            match libc::WEXITSTATUS(status) {
                0 => opened,
                error => Err(io::Error::from_raw_os_error(error)),
            }
        }
    }
}

/// Enters a new user namespace, says under which number the processes of `/proc` have this one, and waits.
fn hold_namespace(say_number: OwnedFd, wait: OwnedFd) -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWUSER)?;
    let own = fs::read_link("/proc/self")?;
    File::from(say_number).write_all(own.as_os_str().as_encoded_bytes())?;
    File::from(wait).read_to_end(&mut Vec::new())?;
    Ok(())
}

fn open_mapped(process: &str, users: IdMapping, groups: IdMapping) -> io::Result<OwnedFd> {
    let directory: PathBuf = Path::new("/proc").join(process);
    fs::write(directory.join("uid_map"), users.lines())?;
    fs::write(directory.join("gid_map"), groups.lines())?;
    Ok(File::open(directory.join("ns/user"))?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_is_shown_as_one_other() {
        let table = [
            ((0, 60_000), "0 60000 1\n1 1 59999\n60000 0 1\n60001 60001 4294907294\n"),
            ((101, 5), "0 0 5\n5 101 1\n6 6 95\n101 5 1\n102 102 4294967193\n"),
            ((7, 8), "0 0 7\n7 8 1\n8 7 1\n9 9 4294967286\n"),
            ((7, 7), "0 0 7\n7 7 1\n8 8 4294967287\n"),
            ((0, u32::MAX - 1), "0 4294967294 1\n1 1 4294967293\n4294967294 0 1\n"),
        ];
        for ((image, task), lines) in table {
            assert_eq!(IdMapping { image, task }.lines(), lines);
        }
    }
}
