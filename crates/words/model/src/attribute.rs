//! The names of attributes of machines that Borglets report and the cell uses.

/// How many of its physical cores tasks can have as a whole.
pub const EXCLUSIVE_CORES: &str = "exclusive-cores";
/// On a machine that rejects the orders of its cell: the stamp of the last order that it obeyed.
pub const REJECTS_ORDERS: &str = "rejects-orders";
/// Set by an administrator: the stamp of an order that a machine has obeyed and is to give up for the
/// orders of its cell.
pub const OBEY: &str = "obey";
/// The number of threads that each of its physical cores runs at once.
pub const THREADS_PER_CORE: &str = "threads-per-core";
/// The prefix of the attributes that only administrators set: a machine that reports one is not
/// believed. What jobs trust belongs here, such as `admin/gpu`.
pub const ADMIN_PREFIX: &str = "admin/";
/// On a machine whose report the cell does not believe in every part: what it does not, and why.
pub const REJECTED_REPORT: &str = "rejected-report";
/// On a machine whose description changes so often that changes wait: how often they may.
pub const CHANGES_HELD_BACK: &str = "changes-held-back";
/// The type of the machine's processor: all cores of one platform have the same performance.
pub const PLATFORM: &str = "platform";
/// The rack that it is in.
pub const RACK: &str = "rack";
/// The network switch that it is connected to.
pub const SWITCH: &str = "switch";
/// Its power supply.
pub const POWER_DOMAIN: &str = "power-domain";
