//! The operations of the log as they pass: between a replica and the form of its records. What was
//! applied is seen here right after it was, with the cell as it is then, and checked.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cell::{Applied, Cell, Op, Watch};
use model::{LogIndex, MachineId, Span, Time};
use replica::Codec;

use crate::planted::{self, Planted};

/// How thoroughly the cell is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checking {
    /// Not at all: for measurements of the rest.
    Off,
    /// What each operation did, after each; everything, after so many.
    Every {
        /// The full check comes after so many operations.
        full: u64,
    },
}

/// What was seen since it was last looked at.
#[derive(Debug)]
pub(crate) struct Seen {
    checking: Checking,
    watch: Option<Watch>,
    since_full: u64,
    pub(crate) applied: Vec<(LogIndex, Applied)>,
    /// What contradicts itself.
    pub(crate) violations: Vec<String>,
    pub(crate) planted: Option<Planted>,
    /// The cell as the planted mistake knows it.
    planted_cell: Option<Cell>,
    /// When each machine was last heard of.
    heard: BTreeMap<MachineId, Time>,
    /// For how long nothing must have been heard of one that is taken for lost.
    silence_min: Span,
}

/// Between a replica and its codec.
#[derive(Debug)]
pub(crate) struct Tap<C> {
    inner: Rc<C>,
    seen: Rc<RefCell<Seen>>,
}

impl<C> Tap<C> {
    pub(crate) fn new(inner: Rc<C>, seen: Rc<RefCell<Seen>>) -> Self {
        Self { inner, seen }
    }
}

impl Seen {
    pub(crate) fn new(checking: Checking, planted: Option<Planted>, silence_min: Span) -> Self {
        Self {
            checking,
            watch: None,
            since_full: 0,
            applied: Vec::new(),
            violations: Vec::new(),
            planted,
            planted_cell: None,
            heard: BTreeMap::new(),
            silence_min,
        }
    }

    /// The cell begins anew from here.
    pub(crate) fn begin(&mut self, cell: &Cell) {
        self.watch = match self.checking {
            Checking::Off => None,
            Checking::Every { .. } => Some(Watch::from(cell)),
        };
        self.planted_cell = self.planted.map(|_| cell.clone());
        self.applied.clear();
    }

    /// A machine has answered.
    pub(crate) fn heard(&mut self, machine: MachineId, at: Time) {
        self.heard.insert(machine, at);
    }

    /// The master takes a machine for lost only where it has not answered for long: when that is
    /// proposed, as it may well be back when it is durable.
    fn proposed(&mut self, at: Time, op: &Op) {
        let (Op::MachineUnreachable { machine } | Op::MachineSilent { machine }) = op else {
            return;
        };
        let silent = self.heard.get(machine).map(|heard| at.since(*heard));
        if let Some(silent) = silent.filter(|silent| *silent < self.silence_min) {
            self.violations.push(format!("{op:?} is proposed, and {silent} ago it answered"));
        }
    }

    fn after(&mut self, cell: &Cell, applied: &Applied) {
        if self.planted.is_some() {
            self.planted_cell = Some(cell.clone());
        }
        let Checking::Every { full } = self.checking else { return };
        if let Some(watch) = &mut self.watch {
            let found = watch.after(cell, applied);
            self.violations.extend(found.iter().map(ToString::to_string));
        }
        self.since_full += 1;
        if self.since_full >= full {
            self.since_full = 0;
            self.violations.extend(cell.check().iter().map(ToString::to_string));
        }
        self.applied.push((cell.index(), applied.clone()));
    }
}

impl<C: Codec> Codec for Tap<C> {
    fn encode(&self, at: Time, op: &Op) -> Vec<u8> {
        self.seen.borrow_mut().proposed(at, op);
        let seen = self.seen.borrow();
        match (seen.planted, &seen.planted_cell) {
            (Some(planted), Some(cell)) => {
                self.inner.encode(at, &planted::proposed(planted, cell, op))
            }
            _ => self.inner.encode(at, op),
        }
    }

    fn decode(&self, payload: &[u8]) -> Result<(Time, Op), String> {
        let (at, op) = self.inner.decode(payload)?;
        let seen = self.seen.borrow();
        Ok(match (seen.planted, &seen.planted_cell) {
            (Some(planted), Some(cell)) => (at, planted::applied(planted, cell, op)),
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
