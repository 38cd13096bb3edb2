//! A whole cell in one deterministic process (design, section 2): the production code of replica,
//! master, scheduler and Borglet, over simulated time, network, disks and machines.
//!
//! A [`World`] has one seed and one history: running it twice gives the same events byte for byte.
//! Faults ([`Fault`]) are a list that follows from the seed, so that a failure can be reproduced,
//! and shrunk to the faults that it needs. An invariant checker sees everything and reports the
//! first violation: an acknowledged write that is lost, a process that is started twice, an end
//! that never happened. When the faults are over the cell has to settle: [`World::unsettled`].
//!
//! Deliberately absent: clocks, sockets, files and threads; and all decisions, which the production
//! code makes. Tasks are simulated: a program is how long it runs and how it ends.

mod acknowledged;
mod campaign;
mod disk;
mod event_account;
mod event_queue;
mod fault;
mod injected_bug;
mod invariants;
mod load;
mod lock_account;
mod lock_load;
mod log_observer;
mod machine;
mod mixed_load;
mod move_load;
mod network;
mod program;
mod rates;
mod replay;
mod saver_account;
mod scenario;
mod secret_load;
mod usage;
mod volume_load;
mod world;

pub use campaign::{Plan, RESTS_WITHIN, Verdict};
pub use disk::Crash;
pub use fault::{Family, Fault, FaultKind, Who, faults};
pub use injected_bug::InjectedBug;
pub use load::{Action, Load, Nothing};
pub use log_observer::Checking;
pub use mixed_load::Mixed;
pub use network::{Disturbance, Node, Nodes, Trouble};
pub use program::{Commands, Incarnation, Programs};
pub use replay::Replay;
pub use scenario::{Figure, Played, Scenario};
pub use world::{BEGIN, Counts, Setting, World, capacity, machines};
