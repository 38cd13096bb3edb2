//! Applying operations. Each family has its file; each function changes the cell and adds events,
//! or refuses and changes nothing.

mod assign;
mod job;
mod machine;
mod observe;
mod request;
mod task;

use model::{LogIndex, MachineId, Time};

use crate::{Applied, Cell, Event, EventKind, Op, Outcome, Rejection, Subject};

/// What one operation does beside its answer, as it comes.
#[derive(Debug, Default)]
pub(crate) struct Events {
    events: Vec<Event>,
    reordered: Vec<MachineId>,
}

impl Events {
    fn add(&mut self, subject: Subject, kind: EventKind) {
        self.events.push(Event { subject, kind });
    }

    fn reorder(&mut self, machine: MachineId) {
        self.reordered.push(machine);
    }
}

/// Ids are given once. A cell that was loaded from an edited image can be at their end.
fn ids_used_up(what: &'static str, last: u64) -> Rejection {
    Rejection::Full { what, has: last, most: u64::MAX }
}

impl Cell {
    /// Applies one operation that happened at a moment. The cell's time never runs backwards: a
    /// moment before the last one counts as the last one.
    ///
    /// Total: it never panics on the content of an operation, and what cannot be done is refused
    /// and changes nothing but the index and the time.
    pub fn apply(&mut self, at: Time, op: &Op) -> Applied {
        self.index = LogIndex(self.index.0.saturating_add(1));
        self.time = self.time.max(at);
        let mut events = Events::default();
        let outcome = match op {
            Op::Nothing => Outcome::Done,
            Op::Found { name, administrator } => {
                if self.name.is_none() {
                    self.name = Some(name.clone());
                    self.administrators.insert(administrator.clone());
                }
                Outcome::Done
            }
            Op::OpenSession { user } => Outcome::Request(self.open_session(user)),
            Op::Request { id, by, mutation } => {
                Outcome::Request(self.request(*id, by, mutation, &mut events))
            }
            Op::Assign(assignments) => {
                let accepted =
                    assignments.iter().map(|assignment| self.assign(assignment, &mut events));
                Outcome::Assigned(accepted.collect())
            }
            Op::Observe { machine, observations } => {
                for observation in observations {
                    self.observe(*machine, observation, &mut events);
                }
                Outcome::Done
            }
            Op::DescribeMachine { machine, report } => {
                self.describe_machine(*machine, report, &mut events);
                Outcome::Done
            }
            Op::MachineSilent { machine } => {
                self.machine_silent(*machine, &mut events);
                Outcome::Done
            }
            Op::MachineBack { machine } => {
                self.machine_back(*machine, &mut events);
                Outcome::Done
            }
            Op::Forget { collections } => {
                collections.iter().for_each(|id| self.forget(*id));
                Outcome::Done
            }
        };
        Applied { outcome, events: events.events, reordered: events.reordered }
    }
}
