//! The words of Bourg: ids, names, quantities, times, priorities and addresses.
//!
//! Every other crate speaks with these types, so that no bare number travels as an id, as bytes or
//! as microseconds. Nothing here decides anything, reads a clock or does IO; text that people read
//! and write (`64 MiB`, `production(200)`, `ana/web/0-4`) is parsed and printed here and nowhere
//! else, so that it is the same in flags, files, answers and docs.

mod address;
mod capability;
mod id;
mod key;
mod label;
mod machine;
mod name;
mod priority;
mod random;
mod resources;
mod serial;
mod time;

pub use address::{Address, AddressError, TaskSelection};
pub use capability::{Capability, KernelFeature, NotListed};
pub use id::{
    CollectionId, DirectoryId, Generation, GrantId, InstanceId, Level, LogIndex, MachineId,
    ReplicaId, SessionId, Stamp, TaskId, TaskIndex, Term,
};
pub use key::{KeyDigest, KeyDigestError};
pub use label::{LabelQuery, LabelQueryError, LabelTerm, Labels};
pub use machine::{End, FinalUsage, HeldPorts, MachineReport, PortRange};
pub use name::{CellName, JobName, MachineName, NameError, PortName, UserName};
pub use priority::{
    Appclass, Band, Priority, PriorityError, SchedulingClass, SchedulingClassError,
};
pub use random::Random;
pub use resources::{Bytes, Dimension, GcuFactor, MilliCores, QuantityError, Resources};
pub use serial::{Serial, SerialError};
pub use time::{Span, Time};
