//! Intercepts the operations of the log between a replica and its codec. Each operation is recorded
//! and checked right after it was applied, with the cell in that state.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cell::{Applied, Cell, DecisionChecker, Op};
use model::{LogIndex, MachineId, Span, Time};
use replica::Codec;

use crate::injected_bug::{self, InjectedBug};
use crate::invariants::digest;

/// How thoroughly the cell is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checking {
    /// Not at all: for performance measurements.
    Off,
    /// The effects of each operation; and the whole cell at intervals.
    Every {
        /// The full check runs once per this many operations.
        full: u64,
    },
}

/// The checks of every operation, on the first replica that applies it.
#[derive(Debug)]
pub(crate) struct Checks {
    checking: Checking,
    /// Whether several replicas apply the same operations.
    several: bool,
    watch: Option<DecisionChecker>,
    since_full: u64,
    /// The last checked index.
    reached: LogIndex,
}

impl Checks {
    pub(crate) fn new(checking: Checking, several: bool) -> Rc<RefCell<Self>> {
        let (watch, since_full, reached) = (None, 0, LogIndex(0));
        Rc::new(RefCell::new(Self { checking, several, watch, since_full, reached }))
    }

    /// The cell continues from this state: later operations are checked even if they were applied
    /// before.
    pub(crate) fn begin(&mut self, cell: &Cell) {
        self.reached = cell.index();
        self.watch = match self.checking {
            Checking::Off => None,
            Checking::Every { .. } => Some(DecisionChecker::from(cell)),
        };
    }

    /// Whether the operation is applied for the first time.
    fn is_first(&mut self, cell: &Cell) -> bool {
        let first = cell.index() > self.reached || !self.several;
        self.reached = self.reached.max(cell.index());
        first
    }

    /// The violations after an operation that was applied for the first time.
    fn after(&mut self, full: u64, cell: &Cell, applied: &Applied) -> Vec<String> {
        let mut found =
            self.watch.as_mut().map_or_else(Vec::new, |watch| watch.after(cell, applied));
        self.since_full += 1;
        if self.since_full >= full {
            self.since_full = 0;
            found.extend(cell.check());
        }
        found.iter().map(ToString::to_string).collect()
    }
}

/// What was observed of one replica since the last look.
#[derive(Debug)]
pub(crate) struct ReplicaObservations {
    checks: Rc<RefCell<Checks>>,
    /// The cell was restored from elsewhere: this replica's state is obsolete.
    pub(crate) of_before: bool,
    /// The operations applied for the first time.
    pub(crate) applied: Vec<(LogIndex, Applied)>,
    /// Digests of the whole state at some indexes, if there are other replicas to compare with.
    pub(crate) states: Vec<(LogIndex, u64)>,
    /// The violations.
    pub(crate) violations: Vec<String>,
    pub(crate) injected_bug: Option<InjectedBug>,
    /// The cell with the injected bug.
    buggy_cell: Option<Cell>,
    /// When each machine last answered.
    heard: BTreeMap<MachineId, Time>,
    /// Minimum silence of a machine before it may be marked down.
    silence_min: Span,
}

/// A codec wrapper between a replica and its codec.
#[derive(Debug)]
pub(crate) struct Tap<C> {
    inner: Rc<C>,
    seen: Rc<RefCell<ReplicaObservations>>,
}

impl<C> Tap<C> {
    pub(crate) fn new(inner: Rc<C>, seen: Rc<RefCell<ReplicaObservations>>) -> Self {
        Self { inner, seen }
    }
}

impl ReplicaObservations {
    pub(crate) fn new(
        checks: Rc<RefCell<Checks>>,
        injected_bug: Option<InjectedBug>,
        silence_min: Span,
    ) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self {
            checks,
            of_before: false,
            applied: Vec::new(),
            states: Vec::new(),
            violations: Vec::new(),
            injected_bug,
            buggy_cell: None,
            heard: BTreeMap::new(),
            silence_min,
        }))
    }

    /// The replica starts from this cell.
    pub(crate) fn begin(&mut self, cell: &Cell) {
        let mut checks = self.checks.borrow_mut();
        if !checks.several || checks.watch.is_none() {
            checks.begin(cell);
        }
        self.buggy_cell = self.injected_bug.map(|_| cell.clone());
        self.applied.clear();
    }

    /// A machine has answered.
    pub(crate) fn heard(&mut self, machine: MachineId, at: Time) {
        self.heard.insert(machine, at);
    }

    /// Checks that the master marks a machine down only after a long silence: at the time of the
    /// proposal, since it may be back when the record is durable.
    fn proposed(&mut self, at: Time, op: &Op) {
        let (Op::MachineUnreachable { machine } | Op::MachineSilent { machine }) = op else {
            return;
        };
        let silent = self.heard.get(machine).map(|heard| at.since(*heard));
        if let Some(silent) = silent.filter(|silent| *silent < self.silence_min) {
            self.violations.push(format!("{op:?} is proposed, but it answered {silent} ago"));
        }
    }

    fn after(&mut self, cell: &Cell, applied: &Applied) {
        if self.injected_bug.is_some() {
            self.buggy_cell = Some(cell.clone());
        }
        let mut checks = self.checks.borrow_mut();
        let Checking::Every { full } = checks.checking else { return };
        if self.of_before {
            return;
        }
        let index = cell.index();
        if checks.several && index.0.is_multiple_of(full) {
            self.states.push((index, state(cell)));
        }
        if checks.is_first(cell) {
            self.violations.extend(checks.after(full, cell, applied));
            self.applied.push((index, applied.clone()));
        }
    }
}

/// A digest of the cell's whole state.
pub(crate) fn state(cell: &Cell) -> u64 {
    digest(&[format!("{:?}", cell.image()).as_bytes()])
}

impl<C: Codec> Codec for Tap<C> {
    fn encode(&self, at: Time, op: &Op) -> Vec<u8> {
        self.seen.borrow_mut().proposed(at, op);
        let seen = self.seen.borrow();
        match (seen.injected_bug, &seen.buggy_cell) {
            (Some(injected_bug), Some(cell)) => {
                self.inner.encode(at, &injected_bug::proposed(injected_bug, cell, op))
            }
            _ => self.inner.encode(at, op),
        }
    }

    fn decode(&self, payload: &[u8]) -> Result<(Time, Op), String> {
        let (at, op) = self.inner.decode(payload)?;
        let seen = self.seen.borrow();
        Ok(match (seen.injected_bug, &seen.buggy_cell) {
            (Some(injected_bug), Some(cell)) => (at, injected_bug::applied(injected_bug, cell, op)),
            _ => (at, op),
        })
    }

    fn is_membership(&self, payload: &[u8]) -> bool {
        self.inner.is_membership(payload)
    }

    fn events(&self, cell: &Cell, applied: &Applied) -> Vec<u8> {
        self.seen.borrow_mut().after(cell, applied);
        self.inner.events(cell, applied)
    }
}
