//! The names of attributes of machines that Borglets report and the cell reads.

/// How many of its physical cores tasks can have as a whole.
pub const EXCLUSIVE_CORES: &str = "exclusive-cores";
/// The number of threads that each of its physical cores runs at once.
pub const THREADS_PER_CORE: &str = "threads-per-core";
