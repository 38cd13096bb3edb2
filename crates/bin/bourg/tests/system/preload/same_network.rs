//! A library for `LD_PRELOAD`: its program is not told of changes of the machine's networks, because it
//! gets no `AF_NETLINK` socket.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

type Socket = unsafe extern "C" fn(c_int, c_int, c_int) -> c_int;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn __errno_location() -> *mut c_int;
}

const NEXT: *mut c_void = -1_isize as *mut c_void;
const AF_NETLINK: c_int = 16;
const EAFNOSUPPORT: c_int = 97;

static REAL: OnceLock<Socket> = OnceLock::new();

fn real() -> Socket {
    *REAL.get_or_init(|| {
        let name: &CStr = c"socket";
        unsafe { std::mem::transmute::<*mut c_void, Socket>(dlsym(NEXT, name.as_ptr())) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if domain == AF_NETLINK {
        unsafe { *__errno_location() = EAFNOSUPPORT };
        return -1;
    }
    unsafe { real()(domain, kind, protocol) }
}
