//! The names of attributes of machines that Borglets report and the cell reads.

/// How many of its physical cores tasks can have as a whole.
pub const EXCLUSIVE_CORES: &str = "exclusive-cores";
/// On a machine that rejects the orders of its cell: the stamp of the last order that it obeyed.
pub const REJECTS_ORDERS: &str = "rejects-orders";
/// Set by an administrator: the stamp of an order that a machine has obeyed and is to give up for the
/// orders of its cell.
pub const OBEY: &str = "obey";
/// The number of threads that each of its physical cores runs at once.
pub const THREADS_PER_CORE: &str = "threads-per-core";
