//! A library for `LD_PRELOAD`: shifts the wall clock of its program by the number of seconds in the
//! first eight bytes of a file, which may change at any time. Other clocks are not shifted.
//!
//! The file is named by `BOURG_TEST_WALL_CLOCK`; if it cannot be opened, the clock is not shifted.

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

#[repr(C)]
pub struct Timespec {
    seconds: i64,
    nanoseconds: c_long,
}

#[repr(C)]
pub struct Timeval {
    seconds: i64,
    microseconds: c_long,
}

type ClockGettime = unsafe extern "C" fn(c_int, *mut Timespec) -> c_int;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn mmap(
        at: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
}

const NEXT: *mut c_void = -1_isize as *mut c_void;
const READ: c_int = 1;
const SHARED: c_int = 1;
/// `CLOCK_REALTIME`, `CLOCK_REALTIME_COARSE` and `CLOCK_TAI`.
const WALL_CLOCKS: [c_int; 3] = [0, 5, 11];

static REAL: OnceLock<ClockGettime> = OnceLock::new();
static OFFSET: OnceLock<Option<&'static AtomicI64>> = OnceLock::new();

fn real() -> ClockGettime {
    *REAL.get_or_init(|| {
        let name: &CStr = c"clock_gettime";
        unsafe { std::mem::transmute::<*mut c_void, ClockGettime>(dlsym(NEXT, name.as_ptr())) }
    })
}

/// The file, mapped: changes are visible at once.
fn offset() -> i64 {
    let mapped = OFFSET.get_or_init(|| {
        let file = std::fs::File::open(std::env::var_os("BOURG_TEST_WALL_CLOCK")?).ok()?;
        let at = unsafe { mmap(null_mut(), 8, READ, SHARED, file.as_raw_fd(), 0) };
        (at as isize != -1).then(|| unsafe { &*at.cast::<AtomicI64>() })
    });
    mapped.map_or(0, |seconds| seconds.load(Ordering::Relaxed))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int {
    let result = unsafe { real()(clock, time) };
    if result == 0 && WALL_CLOCKS.contains(&clock) {
        unsafe { (*time).seconds += offset() };
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(time: *mut Timeval, _zone: *mut c_void) -> c_int {
    let mut now = Timespec { seconds: 0, nanoseconds: 0 };
    let result = unsafe { clock_gettime(0, &mut now) };
    if result == 0 && !time.is_null() {
        unsafe { *time = Timeval { seconds: now.seconds, microseconds: now.nanoseconds / 1_000 } };
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn time(time: *mut i64) -> i64 {
    let mut now = Timespec { seconds: 0, nanoseconds: 0 };
    unsafe { clock_gettime(0, &mut now) };
    if !time.is_null() {
        unsafe { *time = now.seconds };
    }
    now.seconds
}
