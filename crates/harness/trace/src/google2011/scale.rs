//! What the trace's shares, priorities and hashes are in this house.

use std::collections::BTreeMap;

use model::{Bytes, MilliCores, Priority, Resources, UserName};

use super::row::{MachineRow, Request};

/// How large the largest machine of the cell is. The trace gives only shares of it, so that this is
/// a choice; it changes no packing, as everything is scaled alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// What the largest machine has.
    pub largest: Resources,
}

impl Default for Scale {
    /// 64 cores, 256 GiB of memory, 4 TiB of disk.
    fn default() -> Self {
        Self {
            largest: Resources {
                cpu: MilliCores(64_000),
                ram: Bytes(256 << 30),
                disk: Bytes(4 << 40),
                disk_rate: Bytes(0),
            },
        }
    }
}

impl Scale {
    /// What a machine has. The trace says nothing of disks: each machine has the largest's.
    #[must_use]
    pub fn capacity(&self, machine: &MachineRow) -> Resources {
        Resources {
            cpu: MilliCores(machine.cpu.of(self.largest.cpu.0)),
            ram: Bytes(machine.memory.of(self.largest.ram.0)),
            disk: self.largest.disk,
            disk_rate: self.largest.disk_rate,
        }
    }

    /// What a task asks for. Rounded down, as capacities are, so that tasks which fit a machine in
    /// shares fit it here.
    #[must_use]
    pub fn request(&self, request: &Request) -> Resources {
        Resources {
            cpu: MilliCores(request.cpu.of(self.largest.cpu.0)),
            ram: Bytes(request.memory.of(self.largest.ram.0)),
            disk: Bytes(request.disk.of(self.largest.disk.0)),
            disk_rate: Bytes(0),
        }
    }
}

/// The priority that a number of the trace stands for. The order is the trace's, and so are the
/// bands: 0 and 1 are free, 2 to 8 best-effort batch, 9 and 10 production, 11 monitoring. A number
/// above 11 is as 11.
#[must_use]
pub fn priority(of_trace: u8) -> Priority {
    const NUMBERS: [i64; 12] = [0, 25, 100, 102, 104, 106, 108, 110, 112, 200, 220, 360];
    let number = NUMBERS.get(usize::from(of_trace)).unwrap_or(&360);
    Priority::new(*number).unwrap_or_else(|_| model::Band::Monitoring.usual())
}

/// Names for the trace's users, who are hashes: `u1`, `u2`, … in the order in which they come.
#[derive(Clone, Debug, Default)]
pub struct Users {
    names: BTreeMap<Box<str>, UserName>,
}

impl Users {
    /// The name of a user; `unknown` for one that the trace does not name.
    #[must_use]
    pub fn name(&mut self, hash: Option<&str>) -> UserName {
        let Some(hash) = hash else { return UserName::nearest("unknown") };
        if let Some(name) = self.names.get(hash) {
            return name.clone();
        }
        let name = UserName::nearest(&format!("u{}", self.names.len() + 1));
        self.names.insert(hash.into(), name.clone());
        name
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use model::Band;

    use super::*;

    #[test]
    fn priorities_keep_their_order_and_their_bands() {
        let bands: Vec<Band> = (0..=12).map(|number| priority(number).band()).collect();
        let expected = [(Band::Free, 2), (Band::BestEffortBatch, 7), (Band::Production, 2)];
        let expected = expected.into_iter().chain([(Band::Monitoring, 2)]);
        let expected: Vec<Band> =
            expected.flat_map(|(band, times)| std::iter::repeat_n(band, times)).collect();
        assert_eq!(bands, expected);
        assert!((0..11).all(|number| priority(number) < priority(number + 1)));
    }

    #[test]
    fn users_are_numbered_as_they_come() {
        let mut users = Users::default();
        let mut name = |hash| users.name(hash).to_string();
        assert_eq!(name(Some("b+/=")), "u1");
        assert_eq!(name(Some("a")), "u2");
        assert_eq!(name(Some("b+/=")), "u1");
        assert_eq!(name(None), "unknown");
        assert_eq!(users.len(), 2);
    }
}
