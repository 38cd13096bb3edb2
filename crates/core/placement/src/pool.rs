//! The scores of machines for one class of tasks: a window over the slots, which are in a random
//! order. It is widened until it contains enough machines on which such a task fits (paper, section
//! 3.4: score caching, relaxed randomisation).
//!
//! A cached score is never more than the machine's real one: a scan includes the terms that apply
//! to every machine (packing, mixing, constraints); terms that apply to few (crashes, tasks of the
//! same job) are added when a machine is about to be chosen. So the first machine whose real score
//! equals the cached one is the best of the window.

use crate::machines::{BLOCK, Machines, Slot, Units, share};
use model::PackingPolicy;

use crate::score::{INFEASIBLE, Left, WHOLE, Weights, mixing, packing};

/// What a scan compares on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    pub(crate) policy: PackingPolicy,
    pub(crate) packing: u32,
    pub(crate) mixing: u32,
    /// The weight of each soft constraint that does not match.
    pub(crate) soft: u32,
    pub(crate) prod: bool,
    pub(crate) reservation: Units,
    pub(crate) limit: Units,
    pub(crate) ports: i32,
    /// 1 for a task with a network of its own.
    pub(crate) addresses: i32,
}

/// A machine's mark for a set of constraints: the number of soft ones it does not match, or this
/// value if it does not match a hard one.
pub(crate) const UNMATCHED: u8 = u8::MAX;

impl Scan {
    pub(crate) fn weighted(self, weights: &Weights) -> Self {
        let Weights { packing, mixing, soft, .. } = *weights;
        Self { packing, mixing, soft, ..self }
    }

    /// The input of the packing term.
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

    /// A lower bound for the score of a machine.
    #[inline]
    pub(crate) fn of(&self, machines: &Machines, marks: Option<&[u8]>, slot: Slot) -> u32 {
        let at = slot as usize;
        let above = |free: &[Vec<i32>; 4], asked: &Units| {
            free.iter().zip(asked).any(|(array, asked)| array[at] < *asked)
        };
        let fits = machines.ports[at] >= self.ports
            && machines.addresses[at] >= self.addresses
            && !above(&machines.free, &self.reservation)
            && !(self.prod && above(&machines.free_for_prod, &self.limit));
        if !fits {
            return INFEASIBLE;
        }
        let packing = packing(self.policy, self.left(machines, slot)) * self.packing;
        let score = packing + mixing(self.prod, machines.share_of_prod[at]) * self.mixing;
        match marks.and_then(|marks| marks.get(at)) {
            None => score,
            Some(&UNMATCHED) => INFEASIBLE,
            Some(mark) => score + self.soft * u32::from(*mark),
        }
    }

    /// Lower bounds for the scores of a block of machines, and on how many of them a task can fit.
    fn block(
        &self,
        machines: &Machines,
        marks: Option<&[u8]>,
        block: usize,
        scores: &mut [u32; BLOCK],
    ) -> usize {
        let mut fits = [u32::MAX; BLOCK];
        self.fitting(machines, block, &mut fits);
        match self.policy {
            PackingPolicy::Hybrid => self.scored::<0>(machines, block, scores),
            PackingPolicy::BestFit => self.scored::<1>(machines, block, scores),
            PackingPolicy::WorstFit => self.scored::<2>(machines, block, scores),
        }
        if let Some(marks) = marks.map(|marks| part(marks, block)) {
            for ((score, fits), mark) in scores.iter_mut().zip(&mut fits).zip(marks) {
                *score += self.soft * u32::from(*mark);
                *fits &= if *mark == UNMATCHED { 0 } else { u32::MAX };
            }
        }
        let mut count = 0;
        for (score, fits) in scores.iter_mut().zip(&fits) {
            *score |= !fits;
            count += fits & 1;
        }
        count as usize
    }

    /// Clears the bits of machines on which a task cannot fit.
    fn fitting(&self, machines: &Machines, block: usize, fits: &mut [u32; BLOCK]) {
        let mut at_least = |left: &[i32], asked: i32| {
            for (fits, left) in fits.iter_mut().zip(part(left, block)) {
                *fits &= u32::from(*left >= asked).wrapping_neg();
            }
        };
        // A machine that accepts no tasks has negative free CPU: the other dimensions have to be
        // compared only if the task requests any of them.
        at_least(&machines.free[0], self.reservation[0]);
        if self.ports > 0 {
            at_least(&machines.ports, self.ports);
        }
        if self.addresses > 0 {
            at_least(&machines.addresses, self.addresses);
        }
        for (array, asked) in machines.free.iter().zip(self.reservation).skip(1) {
            if asked > 0 {
                at_least(array, asked);
            }
        }
        for (array, asked) in machines.free_for_prod.iter().zip(self.limit) {
            if self.prod && asked > 0 {
                at_least(array, asked);
            }
        }
    }

    /// The scores regardless of what fits: branch-free loops, so that they can be vectorised.
    fn scored<const POLICY: u8>(
        &self,
        machines: &Machines,
        block: usize,
        scores: &mut [u32; BLOCK],
    ) {
        let policy = match POLICY {
            0 => PackingPolicy::Hybrid,
            1 => PackingPolicy::BestFit,
            _ => PackingPolicy::WorstFit,
        };
        let (cpu, ram) = (part(&machines.free[0], block), part(&machines.free[1], block));
        let of_cpu = part(&machines.inverse[0], block);
        let of_ram = part(&machines.inverse[1], block);
        let of_prod = part(&machines.share_of_prod, block);
        let (asked_cpu, asked_ram) = (self.reservation[0], self.reservation[1]);
        for at in 0..BLOCK {
            // A task that does not fit gives a share above a whole, which must not overflow.
            let share = |left: i32, inverse: u32| share(left, inverse) & (2 * WHOLE - 1);
            let left = Left {
                cpu_before: share(cpu[at], of_cpu[at]),
                ram_before: share(ram[at], of_ram[at]),
                cpu: share(cpu[at].wrapping_sub(asked_cpu), of_cpu[at]),
                ram: share(ram[at].wrapping_sub(asked_ram), of_ram[at]),
            };
            let mixing = mixing(self.prod, of_prod[at]);
            scores[at] = packing(policy, left) * self.packing + mixing * self.mixing;
        }
    }
}

/// The part of an array that belongs to a block.
#[inline]
fn part<T>(array: &[T], block: usize) -> &[T; BLOCK] {
    let (blocks, _) = array.as_chunks::<BLOCK>();
    &blocks[block]
}

/// A window over the slots, with their scores.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    /// Its first block.
    start: usize,
    scores: Vec<u32>,
    /// The lowest score of each block.
    lowest: Vec<u32>,
    /// Number of machines in the window on which a task can fit.
    fits: usize,
    /// The position in the log of machine changes up to which it is current.
    pub(crate) seen: u64,
    /// How often it was used since it was begun.
    pub(crate) looks: usize,
}

impl Pool {
    /// Makes it an empty window that begins at a block, keeping its memory.
    pub(crate) fn begin(&mut self, start: usize, seen: u64) {
        self.clear();
        (self.start, self.seen, self.looks) = (start, seen, 0);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lowest.is_empty()
    }

    /// Number of slots in it.
    pub(crate) fn len(&self) -> usize {
        self.scores.len()
    }

    /// Makes the window empty.
    pub(crate) fn clear(&mut self) {
        self.scores.clear();
        self.lowest.clear();
        self.fits = 0;
    }

    /// Whether it contains all machines.
    pub(crate) fn is_whole(&self, machines: &Machines) -> bool {
        self.scores.len() >= machines.len()
    }

    pub(crate) fn fits(&self) -> usize {
        self.fits
    }

    pub(crate) fn bytes(&self) -> usize {
        (self.scores.capacity() + self.lowest.capacity()) * size_of::<u32>()
    }

    /// Widens the window until it contains `enough` machines on which a task can fit, or all
    /// machines. `more` is a lower bound for what a machine's score exceeds its scanned value by.
    pub(crate) fn widen(
        &mut self,
        machines: &Machines,
        scan: &Scan,
        marks: Option<&[u8]>,
        more: Option<&impl Fn(Slot) -> u32>,
        enough: usize,
    ) {
        let blocks = machines.len() / BLOCK;
        while self.fits < enough && self.lowest.len() < blocks {
            let block = (self.start + self.lowest.len()) % blocks;
            let mut scores = [INFEASIBLE; BLOCK];
            self.fits += scan.block(machines, marks, block, &mut scores);
            if let Some(more) = more {
                let first = Slot::try_from(block * BLOCK).unwrap_or(Slot::MAX);
                for (slot, score) in (first..).zip(&mut scores) {
                    if *score != INFEASIBLE {
                        *score += more(slot);
                    }
                }
            }
            self.lowest.push(lowest(&scores));
            self.scores.extend_from_slice(&scores);
        }
    }

    /// The position of a slot in the window.
    fn position(&self, machines: &Machines, slot: Slot) -> Option<usize> {
        let blocks = machines.len() / BLOCK;
        let (block, within) = (slot as usize / BLOCK, slot as usize % BLOCK);
        let block = (block + blocks - self.start) % blocks;
        (block < self.lowest.len()).then_some(block * BLOCK + within)
    }

    /// Recomputes the score of a changed machine.
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

    /// The best machine by real score on which tasks of the class really fit; `None` if they fit
    /// nowhere in the window.
    pub(crate) fn best(
        &mut self,
        machines: &Machines,
        real: impl Fn(Slot) -> u32,
        fits: impl Fn(Slot) -> bool,
    ) -> Option<Slot> {
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
            let mut score = real(slot);
            if score <= kept {
                if fits(slot) {
                    return Some(slot);
                }
                score = INFEASIBLE;
            }
            self.set(block * BLOCK + within, score);
        }
    }
}

fn lowest(scores: &[u32]) -> u32 {
    scores.iter().fold(INFEASIBLE, |lowest, score| lowest.min(*score))
}
