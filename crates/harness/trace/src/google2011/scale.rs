//! Converts the trace's shares, priorities and hashes to the project's types.

use std::collections::BTreeMap;

use model::{Bytes, MilliCores, Priority, Resources, UserName};

use super::row::{MachineRow, ResourceRequest};

/// The size of the cell's largest machine. The trace gives only shares of it, so this is a choice;
/// it does not affect packing, because everything is scaled alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The capacity of the largest machine.
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
    /// The capacity of a machine. The trace contains no disks: each machine has the largest one's.
    #[must_use]
    pub fn capacity(&self, machine: &MachineRow) -> Resources {
        Resources {
            cpu: MilliCores(machine.cpu.of(self.largest.cpu.0)),
            ram: Bytes(machine.memory.of(self.largest.ram.0)),
            disk: self.largest.disk,
            disk_rate: self.largest.disk_rate,
        }
    }

    /// The request of a task. Rounded down like capacities, so that tasks that fit a machine in
    /// shares fit it here.
    #[must_use]
    pub fn request(&self, request: &ResourceRequest) -> Resources {
        Resources {
            cpu: MilliCores(request.cpu.of(self.largest.cpu.0)),
            ram: Bytes(request.memory.of(self.largest.ram.0)),
            disk: Bytes(request.disk.of(self.largest.disk.0)),
            disk_rate: Bytes(0),
        }
    }
}

/// The priority for a number of the trace. It preserves the trace's order and bands: 0 and 1 are
/// free, 2 to 8 best-effort batch, 9 and 10 production, 11 monitoring. Numbers above 11 are treated
/// as 11.
#[must_use]
pub fn priority(of_trace: u8) -> Priority {
    const NUMBERS: [i64; 12] = [0, 25, 100, 102, 104, 106, 108, 110, 112, 200, 220, 360];
    let number = NUMBERS.get(usize::from(of_trace)).unwrap_or(&360);
    Priority::new(*number).unwrap_or_else(|_| model::Band::Monitoring.usual())
}

/// Names for the trace's users, who are hashes: `u1`, `u2`, … in the order of their appearance.
#[derive(Clone, Debug, Default)]
pub struct Users {
    names: BTreeMap<Box<str>, UserName>,
}

impl Users {
    /// The name of a user; `unknown` if the trace does not name one.
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

    /// The number of users.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are no users.
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
