//! System calls for which neither `std` nor `nix` has a safe function.
//!
//! All unsafe code of the crate is here; this module makes no decisions.
#![expect(unsafe_code, reason = "system calls without a safe wrapper")]

mod mounts;

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

use nix::dir::OwningIter;
use nix::errno::Errno;
use nix::fcntl::{OpenHow, openat2};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use nix::unistd::ForkResult;

/// How often the kernel is asked again for a path that it could not resolve because somebody has just
/// mounted or renamed something.
const ATTEMPTS_MAX: u32 = 1_000;

/// Opens a path below a directory as `how` says.
pub(crate) fn open_resolved(
    root: BorrowedFd<'_>,
    path: &Path,
    how: OpenHow,
) -> nix::Result<OwnedFd> {
    let mut left = ATTEMPTS_MAX;
    loop {
        match openat2(root, path, how) {
            Err(Errno::EAGAIN | Errno::EINTR) if left > 0 => left -= 1,
            opened => return opened,
        }
    }
}

pub(crate) use mounts::{attach_mount, clone_mount, map_owners, set_mount};

/// The result of a system call that returns -1 on error.
fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Sends `signal`, which may be a real-time signal, to the process group `group`.
pub(crate) fn signal_group(group: i32, signal: i32) -> io::Result<()> {
    // SAFETY: takes two integers and touches no memory of ours.
    check(libc::c_long::from(unsafe { libc::killpg(group, signal) }))?;
    Ok(())
}

/// Sends `signal`, which may be a real-time signal, to process `pid`.
pub(crate) fn signal_process(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: takes two integers and touches no memory of ours.
    check(libc::c_long::from(unsafe { libc::kill(pid, signal) }))?;
    Ok(())
}

/// A descriptor that becomes readable when process `pid` ends, and that never refers to another
/// process.
pub(crate) fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes two integers and touches no memory of ours.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    let fd = RawFd::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just created this descriptor; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A duplicate of the descriptor `fd` of the process of `pidfd`.
pub(crate) fn pidfd_getfd(pidfd: BorrowedFd<'_>, fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes three integers and touches no memory of ours.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), fd, 0) })?;
    let fd = RawFd::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just created this descriptor; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sends `signal` to exactly the process that `pidfd` refers to.
pub(crate) fn pidfd_send_signal(pidfd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    let no_info = std::ptr::null::<libc::siginfo_t>();
    let fd = pidfd.as_raw_fd();
    // SAFETY: a null siginfo is allowed and means "as kill(2) would send it".
    check(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, no_info, 0) })?;
    Ok(())
}

/// An event that `perf_event_open(2)` counts: its type and its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PerfEvent(u32, u64);

impl PerfEvent {
    /// CPU cycles, instructions, and misses of the last cache.
    pub(crate) const HARDWARE: [Self; 3] = [Self(0, 0), Self(0, 1), Self(0, 3)];
    /// CPU time in nanoseconds, page faults, and context switches.
    #[cfg(test)]
    pub(crate) const SOFTWARE: [Self; 3] = [Self(1, 1), Self(1, 2), Self(1, 3)];
}

/// A counter of an event in a cgroup on one processor, alone or in the group of a leader. Reading the
/// leader gives the number of counters in the group and their values.
pub(crate) fn perf_event_open(
    event: PerfEvent,
    cgroup: BorrowedFd<'_>,
    processor: i32,
    leader: Option<BorrowedFd<'_>>,
) -> io::Result<OwnedFd> {
    /// The first version of the kernel's structure, which every kernel supports.
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        kind: u32,
        size: u32,
        config: u64,
        period: u64,
        sample_type: u64,
        read_format: u64,
        flags: u64,
        wakeup: u32,
        breakpoint: u32,
        address: u64,
    }
    const GROUP: u64 = 8;
    const PID_CGROUP: libc::c_ulong = 4;
    const CLOEXEC: libc::c_ulong = 8;
    let size = u32::try_from(size_of::<Attributes>()).map_err(io::Error::other)?;
    let PerfEvent(kind, config) = event;
    let attributes = Attributes { kind, size, config, read_format: GROUP, ..Attributes::default() };
    let leader = leader.map_or(-1, |leader| leader.as_raw_fd());
    // SAFETY: `attributes` lives for the call, and its size is what it says.
    let fd = check(unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            cgroup.as_raw_fd(),
            processor,
            leader,
            PID_CGROUP | CLOEXEC,
        )
    })?;
    let fd = RawFd::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just created this descriptor; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// An instruction of BPF, as the kernel reads it (`struct bpf_insn`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    code: u8,
    /// The destination in the low half, the source in the high half.
    registers: u8,
    /// Of memory, or how many instructions a jump skips.
    offset: i16,
    constant: i32,
}

impl Instruction {
    /// An operation on a register and a constant.
    pub(crate) fn new(code: u8, register: u8, constant: i32) -> Self {
        Self { code, registers: register, offset: 0, constant }
    }

    /// The same with a source register.
    pub(crate) fn from(self, register: u8) -> Self {
        Self { registers: self.registers | register << 4, ..self }
    }

    /// The same with another offset.
    pub(crate) fn skipping(self, offset: i16) -> Self {
        Self { offset, ..self }
    }

    /// Its offset.
    pub(crate) fn skipped(self) -> i16 {
        self.offset
    }
}

/// Code, registers, offset and constant.
impl std::fmt::Display for Instruction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { code, registers, offset, constant } = self;
        write!(f, "{code:02x} r{} r{} {offset:+} {constant}", registers & 15, registers >> 4)
    }
}

/// Where the kernel runs a program that checks a bind: one place for each family of addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BindHook(u32);

impl BindHook {
    /// `BPF_CGROUP_INET4_BIND` and `BPF_CGROUP_INET6_BIND`.
    pub(crate) const ALL: [Self; 2] = [Self(8), Self(9)];
}

/// `bpf(2)` with one command.
fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_long> {
    // SAFETY: `attributes` lives for the call, its size is what it says, and the caller's structure has
    // only pointers to memory that lives as long.
    check(unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<T>()) })
}

/// Loads a program for a hook.
///
/// # Errors
/// The kernel's error, and what its verifier says about the program, if it got that far.
pub(crate) fn load_bind_program(
    hook: BindHook,
    program: &[Instruction],
) -> Result<OwnedFd, (io::Error, String)> {
    const COMMAND: libc::c_int = 5;
    const CGROUP_SOCK_ADDR: u32 = 18;
    const LICENSE: &CStr = c"Apache-2.0";
    const LOG_BYTES: u32 = 64 << 10;
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        kind: u32,
        count: u32,
        instructions: u64,
        license: u64,
        log_level: u32,
        log_bytes: u32,
        log: u64,
        kernel_version: u32,
        flags: u32,
        name: [u8; 16],
        interface: u32,
        hook: u32,
    }
    let pointer = |to: *const u8| to.expose_provenance() as u64;
    let mut attributes = Attributes {
        kind: CGROUP_SOCK_ADDR,
        count: u32::try_from(program.len()).unwrap_or(u32::MAX),
        instructions: pointer(program.as_ptr().cast()),
        license: pointer(LICENSE.as_ptr().cast()),
        name: *b"bourg_bind\0\0\0\0\0\0",
        hook: hook.0,
        ..Attributes::default()
    };
    let loaded = match bpf(COMMAND, &attributes) {
        Ok(fd) => Ok(fd),
        // Not allowed at all, or out of resources: there is nothing to say about the program.
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => Err((error, String::new())),
        Err(_) => {
            let mut log = vec![0_u8; LOG_BYTES as usize];
            attributes.log_level = 1;
            attributes.log_bytes = LOG_BYTES;
            attributes.log = pointer(log.as_mut_ptr());
            bpf(COMMAND, &attributes).map_err(|error| {
                let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
                (error, String::from_utf8_lossy(&log[..end]).trim_end().to_owned())
            })
        }
    };
    let fd = RawFd::try_from(loaded?).map_err(|error| (io::Error::other(error), String::new()))?;
    // SAFETY: the kernel has just created this descriptor; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Attaches a program to a cgroup, which then holds it. Cgroups below may have no other one.
pub(crate) fn attach_bind_program(
    hook: BindHook,
    cgroup: BorrowedFd<'_>,
    program: BorrowedFd<'_>,
) -> io::Result<()> {
    const COMMAND: libc::c_int = 8;
    #[repr(C)]
    struct Attributes {
        cgroup: u32,
        program: u32,
        hook: u32,
        flags: u32,
    }
    let descriptor = |fd: BorrowedFd<'_>| u32::try_from(fd.as_raw_fd()).map_err(io::Error::other);
    let (cgroup, program) = (descriptor(cgroup)?, descriptor(program)?);
    bpf(COMMAND, &Attributes { cgroup, program, hook: hook.0, flags: 0 })?;
    Ok(())
}

/// Whether any process has `uid` as its real user id.
pub(crate) fn has_process_of(uid: u32) -> io::Result<bool> {
    // SAFETY: takes two integers and touches no memory of ours.
    match check(unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_USER, uid) }) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The descriptor of a directory whose entries are being read.
pub(crate) fn directory_of(entries: &OwningIter) -> BorrowedFd<'_> {
    // SAFETY: the iterator owns the open directory, and is borrowed for as long as its descriptor is.
    unsafe { BorrowedFd::borrow_raw(entries.as_raw_fd()) }
}

/// Proof that this process has one thread, and so may fork and change its mount namespace.
#[derive(Clone, Copy)]
pub(crate) struct SingleThread(());

impl SingleThread {
    /// Checks `/proc`, which must be the one of this process's own pid namespace.
    ///
    /// # Errors
    /// When there are more threads: a forked child would inherit locks held by threads that do not
    /// exist in it.
    pub(crate) fn check() -> io::Result<Self> {
        let threads = std::fs::read_dir("/proc/self/task")?.count();
        if threads == 1 {
            Ok(Self(()))
        } else {
            Err(io::Error::other(format!("this process has {threads} threads instead of one")))
        }
    }
}

/// `fork(2)` for a process with one thread.
pub(crate) fn fork(_proof: SingleThread) -> io::Result<ForkResult> {
    // SAFETY: with a single thread the child's memory, the allocator's locks included, is consistent.
    Ok(unsafe { nix::unistd::fork() }?)
}

/// Runs `work` in a child process and returns its result; 255 if the child died.
///
/// `work` may only make system calls: this process may have other threads, and the child lacks the
/// owners of their locks.
pub(crate) fn in_child(work: impl FnOnce() -> u8) -> io::Result<u8> {
    // SAFETY: the child makes system calls, waits for no lock, and leaves without running destructors.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Child => exit_now(work().into()),
        ForkResult::Parent { child } => {
            let status = wait(child.as_raw())?;
            let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
            Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
        }
    }
}

/// Ends this process at once: no destructors, no exit handlers.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: never returns and touches no memory.
    unsafe { libc::_exit(code) }
}

/// Closes every descriptor from `first` upwards.
///
/// For a process that has just started: nothing above standard error is in use yet, and inherited
/// descriptors must not stay open for the lifetime of a task.
pub(crate) fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: the callers own no descriptors in the range, see above.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) })?;
    Ok(())
}

/// Closes every descriptor that is not in `keep`.
///
/// For a child after fork, which never runs the destructors of what it inherited.
pub(crate) fn close_all_but(keep: &mut [RawFd]) -> io::Result<()> {
    keep.sort_unstable();
    let mut first: u32 = 0;
    for &fd in keep.iter() {
        let Ok(fd) = u32::try_from(fd) else { continue };
        if fd > first {
            // SAFETY: the caller never uses the inherited descriptors outside of `keep`.
            check(unsafe { libc::syscall(libc::SYS_close_range, first, fd - 1, 0) })?;
        }
        first = fd + 1;
    }
    close_from(first)
}

/// Reaps one ended child without waiting: its pid and raw wait status, or `None` if none has ended.
///
/// `nix` cannot be used here, because it refuses the status of a child that a real-time signal killed.
pub(crate) fn reap() -> io::Result<Option<(i32, i32)>> {
    let mut status = 0;
    // SAFETY: `status` lives for the call, which writes at most one int to it.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    match check(libc::c_long::from(pid)) {
        Ok(0) => Ok(None),
        Ok(_) => Ok(Some((pid, status))),
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Waits for child `pid` and returns its raw wait status.
pub(crate) fn wait(pid: i32) -> io::Result<i32> {
    let mut status = 0;
    loop {
        // SAFETY: `status` lives for the call, which writes at most one int to it.
        match check(libc::c_long::from(unsafe { libc::waitpid(pid, &raw mut status, 0) })) {
            Ok(_) => return Ok(status),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Closes the three standard files.
pub(crate) fn close_standard_files() {
    for fd in 0..=2 {
        // SAFETY: the standard library reads and writes them by number, and tolerates that they are
        // closed.
        unsafe { libc::close(fd) };
    }
}

/// Gives every signal its default action, and unblocks all of them.
pub(crate) fn reset_signals() {
    // Bypasses libc, which reserves two signals for itself and would leave them ignored if they
    // were ignored by the parent. All zero is SIG_DFL without flags in the kernel's struct.
    let default = [0u64; 4];
    let nothing = std::ptr::null_mut::<u64>();
    for signal in 1..=64 {
        // SAFETY: `default` is as large as the kernel's struct and installs no code; the kernel refuses
        // KILL and STOP, which is harmless.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), nothing, 8) };
    }
    // SAFETY: the set is initialised by sigemptyset before it is read.
    unsafe {
        let mut none = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Receives one packet, and the files that were sent with it; no bytes mean that the other end is
/// closed.
pub(crate) fn receive_files(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = nix::cmsg_space!([RawFd; 4]);
    let mut into = [io::IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let received = loop {
        match recvmsg::<()>(socket.as_raw_fd(), &mut into, Some(&mut space), flags) {
            Err(nix::Error::EINTR) => {}
            received => break received?,
        }
    };
    let mut files = Vec::new();
    // Files that did not fit are missing here, and the kernel has closed them.
    for message in received.cmsgs().into_iter().flatten() {
        if let ControlMessageOwned::ScmRights(rights) = message {
            // SAFETY: the kernel has just created these descriptors; nothing else owns them.
            files.extend(rights.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
        }
    }
    Ok((received.bytes, files))
}

/// Allows or forbids huge pages for this process, and for what it forks and executes.
pub(crate) fn allow_huge_pages(allowed: bool) -> io::Result<()> {
    let disabled = libc::c_ulong::from(!allowed);
    // SAFETY: takes integers only.
    check(unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, disabled, 0, 0, 0) }.into())?;
    Ok(())
}

/// Lowers the priority of this process for the processor.
pub(crate) fn be_nice(value: i32) {
    // SAFETY: takes integers only. A failure leaves the usual priority.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, value) };
}

/// Gives `signal` its default action in this process and its forks.
pub(crate) fn default_signal(signal: i32) {
    // SAFETY: SIG_DFL installs no code.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Ignores `signal` in this process and its forks.
pub(crate) fn ignore_signal(signal: i32) {
    // SAFETY: SIG_IGN installs no code.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Removes every capability except `but` from the bounding set, so that no program can regain it.
pub(crate) fn empty_bounding_set(but: &[u8]) -> io::Result<()> {
    for capability in (0..64_u8).filter(|capability| !but.contains(capability)) {
        let capability = libc::c_ulong::from(capability);
        // SAFETY: takes integers only.
        let result = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        match check(libc::c_long::from(result)) {
            Ok(_) => {}
            // The first number that the kernel does not know ends the list.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Drops every effective, permitted, inheritable and ambient capability except `but`, which
/// programs executed from here keep, too.
pub(crate) fn drop_capabilities(but: &[u8]) -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    // SAFETY: takes integers only.
    let cleared = unsafe { libc::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
    check(libc::c_long::from(cleared))?;
    let header = Header { version: VERSION_3, pid: 0 };
    let word = |from: u8| {
        let of_it = but.iter().filter(|capability| (from..from + 32).contains(*capability));
        of_it.fold(0_u32, |word, capability| word | (1 << (capability - from)))
    };
    let (low, high) = (word(0), word(32));
    // Version 3 reads two structs of three words: effective, permitted, inheritable.
    let kept = [low, low, low, high, high, high];
    // SAFETY: both live for the call and have the layout that version 3 asks for.
    check(unsafe { libc::syscall(libc::SYS_capset, &raw const header, kept.as_ptr()) })?;
    for capability in but {
        let capability = libc::c_ulong::from(*capability);
        // SAFETY: takes integers only.
        let raised = unsafe { libc::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0) };
        check(libc::c_long::from(raised))?;
    }
    Ok(())
}

const PR_CAP_AMBIENT: i32 = 47;
const PR_CAP_AMBIENT_RAISE: libc::c_ulong = 2;
const PR_CAP_AMBIENT_CLEAR_ALL: libc::c_ulong = 4;

/// Applies `filter` to every system call that this process and its children make from now on.
///
/// Needs `no_new_privs`.
pub(crate) fn install_seccomp(filter: &mut [libc::sock_filter]) -> io::Result<()> {
    let length = u16::try_from(filter.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len: length, filter: filter.as_mut_ptr() };
    let mode = libc::c_ulong::from(libc::SECCOMP_MODE_FILTER);
    // SAFETY: `program` and the filter it points to live for the call; the kernel copies and checks them.
    let result = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) };
    check(libc::c_long::from(result))?;
    Ok(())
}

/// Makes the terminal behind `fd` the controlling terminal of this session.
pub(crate) fn take_terminal(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: TIOCSCTTY takes an integer.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCSCTTY, 0) };
    check(libc::c_long::from(result))?;
    Ok(())
}

/// Sets the window size of the terminal behind `fd`, in characters.
pub(crate) fn set_window_size(fd: BorrowedFd<'_>, rows: u16, columns: u16) -> io::Result<()> {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: `size` lives for the call and is what TIOCSWINSZ reads.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    check(libc::c_long::from(result))?;
    Ok(())
}

/// Overwrites this process's arguments with `name`, as shown by `ps` and `/proc/<pid>/cmdline`;
/// several words are separated by zeros.
///
/// A task can read the command line of its init, which would reveal the host's directories.
pub(crate) fn rename_arguments(name: &[u8]) {
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return };
    // After the parenthesised name, fields 48 and 49 of proc(5) are the ends of the arguments.
    let Some((_, rest)) = stat.rsplit_once(") ") else { return };
    let mut fields = rest.split_ascii_whitespace().skip(48 - 3);
    let mut next = || fields.next().and_then(|field| field.parse::<usize>().ok());
    let (Some(start), Some(end)) = (next(), next()) else { return };
    if start == 0 || end <= start || end - start > 1 << 20 {
        return;
    }
    let length = end - start;
    let name = &name[..name.len().min(length - 1)];
    // SAFETY: the kernel says that the arguments of this very process are at start..end, on its
    // stack, writable; the last byte stays zero, so every argument still ends inside the range.
    unsafe {
        let start = start as *mut u8;
        std::ptr::write_bytes(start, 0, length);
        std::ptr::copy_nonoverlapping(name.as_ptr(), start, name.len());
    }
}
