//! The seccomp filter: a deny list of system calls that no task needs; everything else is allowed.
//!
//! A second line of defence behind the missing capabilities, against bugs in the kernel's own
//! checks. It is deliberately not an allow list, which would break programs with every new libc.

use libc::{c_long, sock_filter};

/// Denied with EPERM, whatever the arguments.
const DENIED: &[c_long] = &[
    // Mounts and roots.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_open_by_handle_at,
    libc::SYS_quotactl,
    // The kernel and the machine as a whole.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    // Large attack surfaces.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Other namespaces.
    libc::SYS_setns,
];

/// Bits of `clone` and `unshare` that create a user namespace, in which a task would be root again.
const NEW_USER: u32 = libc::CLONE_NEWUSER.cast_unsigned();

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// Offsets in `struct seccomp_data` of the call's number, the architecture, and the low halves of the first
/// arguments: the kernel reads no more of an `int`.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const FIRST_ARGUMENT_AT: u32 = 16;
const SECOND_ARGUMENT_AT: u32 = 24;
const THIRD_ARGUMENT_AT: u32 = 32;

/// The option of a socket that narrows the range of ports for port 0, to one of somebody else (Linux 6.3).
const IP_LOCAL_PORT_RANGE: u32 = 51;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;

/// The performance monitoring call, and the capability that allows it (`PERFMON`).
const WATCHING: (c_long, u8) = (libc::SYS_perf_event_open, 38);

/// The filter program for the kernel. Calls that belong to a kept capability are allowed.
pub(crate) fn filter(capabilities: &[u8]) -> Vec<sock_filter> {
    let mut program = vec![
        load(ARCHITECTURE_AT),
        // Calls of another architecture have other numbers, so all of them are denied.
        jump_if_equal(ARCHITECTURE, 1, 0),
        refuse(libc::EPERM),
        load(NUMBER_AT),
    ];
    #[cfg(target_arch = "x86_64")]
    {
        // The x32 calls have their own numbers under the same architecture.
        const X32: u32 = 0x4000_0000;
        program.extend([jump_if_any_bit(X32, 0, 1), refuse(libc::EPERM)]);
    }
    let allowed = |call: c_long| call == WATCHING.0 && capabilities.contains(&WATCHING.1);
    for &call in DENIED.iter().filter(|call| !allowed(**call)) {
        program.extend([jump_if_equal(number(call), 0, 1), refuse(libc::EPERM)]);
    }
    // Its flags are in memory, which filters cannot read: libc then falls back to `clone`.
    program.extend([jump_if_equal(number(libc::SYS_clone3), 0, 1), refuse(libc::ENOSYS)]);
    program.extend(sockets());
    program.extend([
        jump_if_equal(number(libc::SYS_clone), 1, 0),
        jump_if_equal(number(libc::SYS_unshare), 0, 3),
        load(FIRST_ARGUMENT_AT),
        jump_if_any_bit(NEW_USER, 0, 1),
        refuse(libc::EPERM),
        answer(ALLOW),
    ]);
    program
}

/// What sockets are denied. `AF_VSOCK` reaches the host of a virtual machine, past every network, and
/// with the option for the range of ports port 0 is bound to a port that was not given: the program that
/// checks binds sees only the 0. The option is unknown, as in earlier kernels.
fn sockets() -> [sock_filter; 12] {
    [
        jump_if_equal(number(libc::SYS_socket), 0, 4),
        load(FIRST_ARGUMENT_AT),
        jump_if_equal(libc::AF_VSOCK.cast_unsigned(), 0, 1),
        refuse(libc::EPERM),
        load(NUMBER_AT),
        jump_if_equal(number(libc::SYS_setsockopt), 0, 6),
        load(SECOND_ARGUMENT_AT),
        jump_if_equal(libc::IPPROTO_IP.cast_unsigned(), 0, 3),
        load(THIRD_ARGUMENT_AT),
        jump_if_equal(IP_LOCAL_PORT_RANGE, 0, 1),
        refuse(libc::ENOPROTOOPT),
        load(NUMBER_AT),
    ]
}

fn number(call: c_long) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    // Every code used here fits 8 bits.
    sock_filter { code: u16::try_from(code).unwrap_or(0), jt, jf, k }
}

fn load(offset: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset)
}

/// Skips `then` instructions if equal, else `otherwise`.
fn jump_if_equal(value: u32, then: u8, otherwise: u8) -> sock_filter {
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, then, otherwise, value)
}

fn jump_if_any_bit(bits: u32, then: u8, otherwise: u8) -> sock_filter {
    instruction(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, then, otherwise, bits)
}

fn answer(action: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0, action)
}

fn refuse(errno: i32) -> sock_filter {
    answer(libc::SECCOMP_RET_ERRNO | errno.cast_unsigned())
}
