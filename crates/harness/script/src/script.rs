//! A script in progress: the cell that its lines are applied to, the clock, and the users' sessions.

use std::collections::BTreeMap;

use cell::{Applied, Cell, Op, Outcome, Reply, RequestId};
use model::{MachineId, Time, UserName};

use crate::ScriptError;
use crate::line::{Line, Names};
use crate::request::Request;

/// The cell that lines are applied to, the clock, and a session for each user who has asked for something.
#[derive(Clone, Debug, Default)]
pub struct Script {
    cell: Cell,
    now: Time,
    sessions: BTreeMap<UserName, RequestId>,
    unknown_machine: Option<MachineId>,
}

/// An operation that was applied, and what it gave. Whatever follows the cell, such as a scheduler's copy
/// of it, applies the same operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// When it happened.
    pub at: Time,
    /// The operation.
    pub op: Op,
    /// What the cell made of it.
    pub applied: Applied,
}

impl Script {
    /// Goes on with a cell, from its time on.
    #[must_use]
    pub fn on(cell: Cell) -> Self {
        Self { now: cell.time(), cell, ..Self::default() }
    }

    /// Names of machines that the cell does not have stand for this machine from now on, and are not
    /// errors. Tests use it to see what the cell does with a machine that does not exist.
    #[must_use]
    pub fn with_unknown_machine(self, machine: MachineId) -> Self {
        Self { unknown_machine: Some(machine), ..self }
    }

    /// The cell.
    #[must_use]
    pub fn cell(&self) -> &Cell {
        &self.cell
    }

    /// Replaces the cell, for example by one that was loaded from an image of it. The clock and the sessions stay.
    pub fn replace(&mut self, cell: Cell) {
        self.cell = cell;
    }

    /// What the clock says.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Applies a line, and returns the operations that it stands for, in order. The last one is what the line
    /// says; those before it are what that needs, such as a session.
    ///
    /// # Errors
    /// With what is wrong with the line, which has then changed nothing.
    pub fn command(&mut self, line: &str) -> Result<Vec<Step>, ScriptError> {
        let names = Names { cell: &self.cell, unknown_machine: self.unknown_machine };
        match names.line(line)? {
            Line::At(now) => {
                self.now = now;
                Ok(Vec::new())
            }
            Line::Ops(ops) => Ok(ops.into_iter().map(|op| self.apply(op)).collect()),
            Line::Request(request) => Ok(self.request(request)),
            Line::Machine { name, address, report } => {
                let mut steps = Vec::new();
                if self.cell.machine_named(&name).is_none() {
                    steps = self.request(Line::addition(&name, &address)?);
                }
                if let Some(machine) = self.cell.machine_named(&name).map(|machine| machine.id) {
                    steps.push(self.apply(Op::DescribeMachine { machine, report }));
                }
                Ok(steps)
            }
        }
    }

    /// Applies an operation now.
    pub fn apply(&mut self, op: Op) -> Step {
        let applied = self.cell.apply(self.now, &op);
        Step { at: self.now, op, applied }
    }

    /// A request in the user's session, which is opened if there is none yet. If the cell opens none, that
    /// is the only step.
    fn request(&mut self, Request { by, mutation }: Request) -> Vec<Step> {
        let mut steps = Vec::new();
        if !self.sessions.contains_key(&by) {
            let opened = self.apply(Op::OpenSession { user: by.clone() });
            if let Outcome::Request(Ok(Reply::Session(session))) = opened.applied.outcome {
                self.sessions.insert(by.clone(), RequestId { session, sequence: 0 });
            }
            steps.push(opened);
        }
        if let Some(id) = self.sessions.get_mut(&by) {
            id.sequence = id.sequence.saturating_add(1);
            let id = *id;
            steps.push(self.apply(Op::Request { id, by, mutation }));
        }
        steps
    }
}
