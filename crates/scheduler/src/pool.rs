//! The scores of machines for one class of tasks: a window over the slots, which are in a random
//! order, and which is widened until enough machines are found that such a task fits on (paper,
//! section 3.4: score caching, relaxed randomisation).
//!
//! A score that is kept here is never more than the machine's real one: a scan adds up what every
//! machine has (packing, mixing, constraints), and what few have (crashes, tasks of the same job) is
//! added when a machine comes to be chosen. So the first machine whose real score is the one that is
//! kept is the best of the window.

use crate::Policy;
use crate::machines::{BLOCK, Machines, Slot, Units, share};
use crate::score::{INFEASIBLE, Left, Weights, mixing, packing};

/// What a scan asks of every machine.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    pub(crate) policy: Policy,
    pub(crate) packing: u32,
    pub(crate) mixing: u32,
    /// For every soft constraint that does not match.
    pub(crate) soft: u32,
    pub(crate) prod: bool,
    pub(crate) reservation: Units,
    pub(crate) limit: Units,
    pub(crate) ports: i32,
}

/// A machine's mark for a set of constraints: how many soft ones it does not match, or this, where it
/// does not match a hard one.
pub(crate) const UNMATCHED: u8 = u8::MAX;

impl Scan {
    pub(crate) fn weighted(self, weights: &Weights) -> Self {
        let Weights { packing, mixing, soft, .. } = *weights;
        Self { packing, mixing, soft, ..self }
    }

    /// What packing looks at.
    pub(crate) fn left(&self, machines: &Machines, slot: Slot) -> Left {
        let at = slot as usize;
        let (cpu, ram) = (machines.free[0][at], machines.free[1][at]);
        let (of_cpu, of_ram) = (machines.inverse[0][at], machines.inverse[1][at]);
        Left {
            cpu_before: share(cpu, of_cpu),
            ram_before: share(ram, of_ram),
            cpu: share(cpu.wrapping_sub(self.reservation[0]), of_cpu),
            ram: share(ram.wrapping_sub(self.reservation[1]), of_ram),
        }
    }

    /// The least that the score of a machine can be.
    #[inline]
    pub(crate) fn of(&self, machines: &Machines, marks: Option<&[u8]>, slot: Slot) -> u32 {
        let mut score = [INFEASIBLE];
        let at = slot as usize;
        self.over(machines, marks, at, &mut score);
        score[0]
    }

    /// The least that the scores of the machines from `first` on can be; how many of them a task can
    /// fit on.
    fn over(
        &self,
        machines: &Machines,
        marks: Option<&[u8]>,
        first: usize,
        scores: &mut [u32],
    ) -> usize {
        let mut fits = match (self.policy, self.prod) {
            (Policy::Hybrid, true) => self.scan::<0, true>(machines, first, scores),
            (Policy::Hybrid, false) => self.scan::<0, false>(machines, first, scores),
            (Policy::BestFit, true) => self.scan::<1, true>(machines, first, scores),
            (Policy::BestFit, false) => self.scan::<1, false>(machines, first, scores),
            (Policy::EPvm, true) => self.scan::<2, true>(machines, first, scores),
            (Policy::EPvm, false) => self.scan::<2, false>(machines, first, scores),
        };
        if let Some(marks) = marks.and_then(|marks| marks.get(first..first + scores.len())) {
            for (score, mark) in scores.iter_mut().zip(marks) {
                if *score == INFEASIBLE || *mark == 0 {
                    continue;
                }
                if *mark == UNMATCHED {
                    (*score, fits) = (INFEASIBLE, fits - 1);
                } else {
                    *score += self.soft * u32::from(*mark);
                }
            }
        }
        fits
    }

    /// One loop without branches, so that it becomes vector instructions.
    #[inline]
    fn scan<const POLICY: u8, const PROD: bool>(
        &self,
        machines: &Machines,
        first: usize,
        scores: &mut [u32],
    ) -> usize {
        let range = first..first + scores.len();
        let free = machines.free.each_ref().map(|array| &array[range.clone()]);
        let prod = machines.free_for_prod.each_ref().map(|array| &array[range.clone()]);
        let inverse = machines.inverse.each_ref().map(|array| &array[range.clone()]);
        let (ports, share_of_prod) =
            (&machines.ports[range.clone()], &machines.share_of_prod[range]);
        let policy = match POLICY {
            0 => Policy::Hybrid,
            1 => Policy::BestFit,
            _ => Policy::EPvm,
        };
        let (asked, limit) = (self.reservation, self.limit);
        let mut fits = 0;
        for at in 0..scores.len() {
            let mut ok = ports[at] >= self.ports;
            for dimension in 0..4 {
                ok &= free[dimension][at] >= asked[dimension];
                if PROD {
                    ok &= prod[dimension][at] >= limit[dimension];
                }
            }
            let (cpu, ram) = (free[0][at], free[1][at]);
            let left = Left {
                cpu_before: share(cpu, inverse[0][at]),
                ram_before: share(ram, inverse[1][at]),
                cpu: share(cpu.wrapping_sub(asked[0]), inverse[0][at]),
                ram: share(ram.wrapping_sub(asked[1]), inverse[1][at]),
            };
            let score = packing(policy, left)
                .wrapping_mul(self.packing)
                .wrapping_add(mixing(PROD, share_of_prod[at]).wrapping_mul(self.mixing));
            scores[at] = if ok { score } else { INFEASIBLE };
            fits += u32::from(ok);
        }
        fits as usize
    }
}

/// A window over the slots, with their scores.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    /// Its first block.
    start: usize,
    scores: Vec<u32>,
    /// The lowest score of each block.
    lowest: Vec<u32>,
    /// On how many machines of the window a task can fit.
    fits: usize,
    /// Up to which change of a machine it is right.
    pub(crate) seen: u64,
}

impl Pool {
    /// An empty window that begins at a block.
    pub(crate) fn at(start: usize, seen: u64) -> Self {
        Self { start, seen, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lowest.is_empty()
    }

    /// How many slots are in it.
    pub(crate) fn len(&self) -> usize {
        self.scores.len()
    }

    /// Makes the window empty.
    pub(crate) fn clear(&mut self) {
        self.scores.clear();
        self.lowest.clear();
        self.fits = 0;
    }

    /// Whether all machines are in it.
    pub(crate) fn is_whole(&self, machines: &Machines) -> bool {
        self.scores.len() >= machines.len()
    }

    pub(crate) fn fits(&self) -> usize {
        self.fits
    }

    pub(crate) fn bytes(&self) -> usize {
        (self.scores.capacity() + self.lowest.capacity()) * size_of::<u32>()
    }

    /// Widens the window until `enough` machines are in it that a task can fit on, or all are in it.
    pub(crate) fn widen(
        &mut self,
        machines: &Machines,
        scan: &Scan,
        marks: Option<&[u8]>,
        enough: usize,
    ) {
        let blocks = machines.len() / BLOCK;
        while self.fits < enough && self.lowest.len() < blocks {
            let block = (self.start + self.lowest.len()) % blocks;
            let mut scores = [INFEASIBLE; BLOCK];
            self.fits += scan.over(machines, marks, block * BLOCK, &mut scores);
            self.lowest.push(lowest(&scores));
            self.scores.extend_from_slice(&scores);
        }
    }

    /// Where in the window a slot is.
    fn position(&self, machines: &Machines, slot: Slot) -> Option<usize> {
        let blocks = machines.len() / BLOCK;
        let (block, within) = (slot as usize / BLOCK, slot as usize % BLOCK);
        let block = (block + blocks - self.start) % blocks;
        (block < self.lowest.len()).then_some(block * BLOCK + within)
    }

    /// A machine has changed.
    pub(crate) fn refresh(
        &mut self,
        machines: &Machines,
        scan: &Scan,
        marks: Option<&[u8]>,
        slot: Slot,
    ) {
        if let Some(position) = self.position(machines, slot) {
            self.set(position, scan.of(machines, marks, slot));
        }
    }

    fn set(&mut self, position: usize, score: u32) {
        let Some(before) = self.scores.get_mut(position) else { return };
        let was = std::mem::replace(before, score);
        self.fits += usize::from(was == INFEASIBLE && score != INFEASIBLE);
        self.fits -= usize::from(was != INFEASIBLE && score == INFEASIBLE);
        let block = position / BLOCK;
        let known = self.lowest[block];
        if score < known {
            self.lowest[block] = score;
        } else if was == known && score > was {
            self.lowest[block] = lowest(&self.scores[block * BLOCK..(block + 1) * BLOCK]);
        }
    }

    /// The best machine by the real scores; none where no task of the class fits in the window.
    pub(crate) fn best(&mut self, machines: &Machines, real: impl Fn(Slot) -> u32) -> Option<Slot> {
        let blocks = machines.len() / BLOCK;
        loop {
            let kept = lowest(&self.lowest);
            if kept == INFEASIBLE {
                return None;
            }
            let block = self.lowest.iter().position(|lowest| *lowest == kept)?;
            let scores = &self.scores[block * BLOCK..(block + 1) * BLOCK];
            let within = scores.iter().position(|score| *score == kept)?;
            let slot = ((self.start + block) % blocks) * BLOCK + within;
            let slot = Slot::try_from(slot).ok()?;
            let score = real(slot);
            if score <= kept {
                return Some(slot);
            }
            self.set(block * BLOCK + within, score);
        }
    }
}

fn lowest(scores: &[u32]) -> u32 {
    scores.iter().fold(INFEASIBLE, |lowest, score| lowest.min(*score))
}
