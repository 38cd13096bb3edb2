//! Which machines changed, so that the scores that a window keeps are computed again for these alone.

use crate::machines::{Machines, Slot};
use crate::score::WHOLE;

/// The log of machines that changed, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeLog {
    /// Number of changes before those that are kept.
    before: u64,
    slots: Vec<Slot>,
    /// By slot, the free CPU and memory when it was last logged; see [`ChangeLog::is_small`].
    listed: Vec<[i32; 2]>,
}

impl ChangeLog {
    pub(crate) fn end(&self) -> u64 {
        self.before + self.slots.len() as u64
    }

    pub(crate) fn add(&mut self, slot: Slot) {
        if self.slots.last() != Some(&slot) {
            self.slots.push(slot);
        }
    }

    /// The changes after a position; `None` if they are no longer kept.
    pub(crate) fn since(&self, seen: u64) -> Option<&[Slot]> {
        let from = usize::try_from(seen.checked_sub(self.before)?).ok()?;
        self.slots.get(from..)
    }

    pub(crate) fn forget(&mut self, most: usize) {
        if self.slots.len() > 2 * most {
            let gone = self.slots.len() - most;
            self.slots.drain(..gone);
            self.before += gone as u64;
        }
    }

    /// Whether a machine is about as full as when it was last logged: within one percent of its CPU
    /// and memory (paper, section 3.4: "ignoring small changes").
    pub(crate) fn is_small(&mut self, machines: &Machines, slot: Slot) -> bool {
        const HUNDREDTH: u32 = WHOLE / 100;
        let at = slot as usize;
        if self.listed.len() < machines.len() {
            self.listed.resize(machines.len(), [i32::MIN; 2]);
        }
        let (now, listed) = ([machines.free[0][at], machines.free[1][at]], self.listed[at]);
        let near = |dimension: usize| {
            let by = now[dimension].abs_diff(listed[dimension]);
            (u64::from(by) * u64::from(machines.inverse[dimension][at])) >> 20
                < u64::from(HUNDREDTH)
        };
        if near(0) && near(1) {
            return true;
        }
        self.listed[at] = now;
        false
    }
}
