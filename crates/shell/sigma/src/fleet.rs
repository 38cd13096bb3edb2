//! The machines of the cell with what they use, in the order of their names and in groups by rack:
//! worked out once for each new list, for the pages of all viewers.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use api::v1;
use model::Bytes;

use crate::show;

/// The attributes by which machines are grouped: the first that any of them has.
const GROUPED_BY: [&str; 2] = ["rack", "switch"];
/// An attribute with more values is no place.
const GROUPS_MAX: usize = 1_000;

/// A resource of machines that pages show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Of {
    Cpu,
    Ram,
    Disk,
}

/// What of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum By {
    Limit,
    Reservation,
    Usage,
}

impl Of {
    pub(crate) const ALL: [Self; 3] = [Self::Cpu, Self::Ram, Self::Disk];

    /// As in an address.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Ram => "ram",
            Self::Disk => "disk",
        }
    }

    /// For people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Ram => "RAM",
            Self::Disk => "Disk",
        }
    }

    /// How much of it an amount is: in thousandths of a core, or in bytes.
    pub(crate) fn amount(self, all: &v1::Resources) -> i64 {
        match self {
            Self::Cpu => all.cpu_milli,
            Self::Ram => all.ram_bytes,
            Self::Disk => all.disk_bytes,
        }
    }

    /// How much of it was measured.
    pub(crate) fn measured(self, all: &v1::Measured) -> Option<i64> {
        match self {
            Self::Cpu => all.cpu_milli,
            Self::Ram => all.memory_bytes,
            Self::Disk => all.disk_bytes,
        }
    }

    /// With its unit and three digits: `12.5 cores`, `64 GiB`; `-` if it was not measured.
    pub(crate) fn show(self, amount: Option<i64>) -> String {
        let Some(amount) = amount.and_then(|amount| u64::try_from(amount).ok()) else {
            return show::cpu(None);
        };
        let round = |to: u64| amount.saturating_add(to / 2) / to * to;
        match (self, amount) {
            (Self::Cpu, 1_000) => "1 core".to_owned(),
            (Self::Cpu, _) => {
                let milli = match amount {
                    0..10_000 => round(10),
                    10_000..100_000 => round(100),
                    _ => round(1_000),
                };
                // What is not nothing is not shown as nothing.
                let milli = if milli == 0 { amount } else { milli };
                format!("{} cores", show::cpu(i64::try_from(milli).ok()))
            }
            (Self::Ram | Self::Disk, _) => Bytes(amount).to_string(),
        }
    }
}

impl By {
    pub(crate) const ALL: [Self; 3] = [Self::Limit, Self::Reservation, Self::Usage];

    /// As in an address.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Reservation => "reservation",
            Self::Usage => "usage",
        }
    }

    /// After the name of a resource.
    pub(crate) fn is(self) -> &'static str {
        match self {
            Self::Limit => "within limits",
            Self::Reservation => "reserved",
            Self::Usage => "used",
        }
    }
}

/// A machine, and what it uses unless that is unknown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FleetMachine<'a> {
    pub(crate) status: &'a v1::MachineStatus,
    pub(crate) used: Option<&'a v1::MachineUsage>,
}

impl FleetMachine<'_> {
    /// The state: what is used is newer than the list of machines.
    pub(crate) fn state(&self) -> v1::MachineState {
        self.used.map_or_else(|| self.status.state(), v1::MachineUsage::state)
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.used.map_or(self.status.draining_since > 0, |used| used.draining)
    }

    /// The number of its tasks.
    pub(crate) fn tasks(&self) -> u32 {
        let now = self.used.and_then(|used| used.tasks.as_ref());
        now.map_or(self.status.tasks, |tasks| tasks.running)
    }

    /// What it has for tasks.
    pub(crate) fn capacity(&self, of: Of) -> Option<i64> {
        let newest = self.used.and_then(|used| used.capacity.as_ref());
        newest.or(self.status.capacity.as_ref()).map(|all| of.amount(all))
    }

    /// The sum over its tasks, or all that is used on it.
    pub(crate) fn amount(&self, of: Of, by: By) -> Option<i64> {
        let tasks = self.used.and_then(|used| used.tasks.as_ref());
        match by {
            By::Limit => {
                let limit = tasks.and_then(|tasks| tasks.limit.as_ref());
                limit.or(self.status.taken.as_ref()).map(|all| of.amount(all))
            }
            By::Reservation => tasks?.reservation.as_ref().map(|all| of.amount(all)),
            By::Usage => {
                let all = self.used.and_then(|used| used.used.as_ref());
                let all = all.and_then(|all| of.measured(all));
                all.or_else(|| of.measured(tasks?.used.as_ref()?))
            }
        }
    }
}

/// Machines that are at one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Group {
    /// The value of the attribute; none for the machines without it.
    pub(crate) value: Option<String>,
    /// Which ones of the list, in the order of their names.
    pub(crate) members: Vec<usize>,
}

/// The order of a list of machines.
#[derive(Debug, Default)]
struct Order {
    by_name: Vec<usize>,
    attribute: Option<&'static str>,
    groups: Vec<Group>,
}

/// All machines.
#[derive(Debug)]
pub(crate) struct Fleet {
    machines: Arc<v1::MachinesResponse>,
    used: Option<Arc<v1::UsageResponse>>,
    order: Arc<Order>,
    /// Where in the usage each machine of the list is.
    used_of: Vec<Option<usize>>,
}

impl Fleet {
    /// From the newest lists. What is the same as before is not worked out again.
    pub(crate) fn new(
        machines: Arc<v1::MachinesResponse>,
        used: Option<Arc<v1::UsageResponse>>,
        before: Option<&Self>,
    ) -> Self {
        let order = match before {
            Some(before) if Arc::ptr_eq(&before.machines, &machines) => Arc::clone(&before.order),
            _ => Arc::new(Order::of(&machines.machines)),
        };
        let measured = used.iter().flat_map(|used| &used.machines).enumerate();
        let by_id: HashMap<u64, usize> =
            measured.map(|(place, machine)| (machine.id, place)).collect();
        let ids = machines.machines.iter().map(|machine| machine.id);
        let used_of = ids.map(|id| by_id.get(&id).copied()).collect();
        Self { machines, used, order, used_of }
    }

    /// Whether it is of these lists.
    pub(crate) fn is_of(
        &self,
        machines: &Arc<v1::MachinesResponse>,
        used: Option<&Arc<v1::UsageResponse>>,
    ) -> bool {
        let same_use = match (&self.used, used) {
            (Some(own), Some(used)) => Arc::ptr_eq(own, used),
            (None, None) => true,
            _ => false,
        };
        Arc::ptr_eq(&self.machines, machines) && same_use
    }

    /// What all machines use; none in the past, or if nobody could say.
    pub(crate) fn used(&self) -> Option<&v1::UsageResponse> {
        self.used.as_deref()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.machines.machines.len()
    }

    fn machine(&self, place: usize) -> Option<FleetMachine<'_>> {
        let status = self.machines.machines.get(place)?;
        let used = self.used_of.get(place).copied().flatten();
        let used = used.zip(self.used.as_ref()).and_then(|(place, used)| used.machines.get(place));
        Some(FleetMachine { status, used })
    }

    /// All of them, in the order of their names: m2 before m10.
    pub(crate) fn machines(&self) -> impl Iterator<Item = FleetMachine<'_>> {
        self.order.by_name.iter().filter_map(|place| self.machine(*place))
    }

    /// The attribute by which they are grouped; none if all are in one group.
    pub(crate) fn grouped_by(&self) -> Option<&'static str> {
        self.order.attribute
    }

    /// The groups, in the order of their names.
    pub(crate) fn groups(&self) -> &[Group] {
        &self.order.groups
    }

    /// The machines of a group, in the order of their names.
    pub(crate) fn members<'a>(
        &'a self,
        group: &'a Group,
    ) -> impl Iterator<Item = FleetMachine<'a>> {
        group.members.iter().filter_map(|place| self.machine(*place))
    }
}

impl Order {
    fn of(machines: &[v1::MachineStatus]) -> Self {
        let mut by_name: Vec<usize> = (0..machines.len()).collect();
        by_name.sort_by(|one, other| natural(&machines[*one].name, &machines[*other].name));
        let grouped = GROUPED_BY.into_iter().find_map(|attribute| {
            let mut groups: BTreeMap<Option<&str>, Vec<usize>> = BTreeMap::new();
            for place in &by_name {
                let value = machines[*place].attributes.get(attribute).map(String::as_str);
                groups.entry(value).or_default().push(*place);
            }
            let is_there = groups.keys().any(Option::is_some) && groups.len() <= GROUPS_MAX;
            is_there.then_some((attribute, groups))
        });
        let Some((attribute, groups)) = grouped else {
            let all = Group { value: None, members: by_name.clone() };
            let groups = if machines.is_empty() { Vec::new() } else { vec![all] };
            return Self { by_name, attribute: None, groups };
        };
        let group = |(value, members): (Option<&str>, _)| Group {
            value: value.map(str::to_owned),
            members,
        };
        let mut groups: Vec<Group> = groups.into_iter().map(group).collect();
        groups.sort_by(|one, other| match (&one.value, &other.value) {
            (Some(one), Some(other)) => natural(one, other),
            (one, other) => one.is_none().cmp(&other.is_none()),
        });
        Self { by_name, attribute: Some(attribute), groups }
    }
}

/// The order in which people expect names: numbers in them count as numbers.
pub(crate) fn natural(one: &str, other: &str) -> Ordering {
    let (mut left, mut right) = (one.as_bytes(), other.as_bytes());
    loop {
        let (Some(a), Some(b)) = (left.first(), right.first()) else {
            return left.len().cmp(&right.len()).then_with(|| one.cmp(other));
        };
        let order = if a.is_ascii_digit() && b.is_ascii_digit() {
            let (a, b) = (number(&mut left), number(&mut right));
            a.len().cmp(&b.len()).then_with(|| a.cmp(b))
        } else {
            (left, right) = (&left[1..], &right[1..]);
            a.cmp(b)
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// Takes the digits from the beginning, and returns them without zeros before them.
fn number<'a>(text: &mut &'a [u8]) -> &'a [u8] {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    *text = rest;
    let zeros = digits.iter().take_while(|byte| **byte == b'0').count();
    &digits[zeros..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str, attributes: &[(&str, &str)]) -> v1::MachineStatus {
        let attributes = attributes.iter();
        let attributes = attributes.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        v1::MachineStatus {
            id: name.bytes().map(u64::from).sum(),
            name: name.to_owned(),
            attributes: attributes.collect(),
            ..v1::MachineStatus::default()
        }
    }

    fn fleet(machines: Vec<v1::MachineStatus>) -> Fleet {
        let machines = v1::MachinesResponse { machines, ..v1::MachinesResponse::default() };
        Fleet::new(Arc::new(machines), None, None)
    }

    #[test]
    fn numbers_in_names_count_as_numbers() {
        let sorted = ["", "1", "01", "2", "10", "m", "m2", "m2a", "m10", "m010b", "m10c", "n1"];
        for (place, one) in sorted.iter().enumerate() {
            for (other_place, other) in sorted.iter().enumerate() {
                let order = natural(one, other);
                if ["1", "01"].contains(one) && ["1", "01"].contains(other) && one != other {
                    assert!(order.is_ne() && order == natural(other, one).reverse());
                } else {
                    assert_eq!(order, place.cmp(&other_place), "{one} {other}");
                }
            }
        }
    }

    #[test]
    fn machines_are_grouped_by_rack_else_by_switch_else_not() {
        type Case<'a> = (
            &'a [(&'a str, &'a [(&'a str, &'a str)])],
            Option<&'a str>,
            &'a [(&'a str, &'a [&'a str])],
        );
        let cases: [Case<'_>; 4] = [
            (&[], None, &[]),
            (&[("m10", &[]), ("m2", &[("gpu", "1")])], None, &[("-", &["m2", "m10"])]),
            (
                &[
                    ("m1", &[("switch", "s1")]),
                    ("m3", &[("switch", "s2")]),
                    ("m2", &[("switch", "s1")]),
                ],
                Some("switch"),
                &[("s1", &["m1", "m2"]), ("s2", &["m3"])],
            ),
            (
                &[
                    ("m1", &[("rack", "r10"), ("switch", "s1")]),
                    ("m2", &[("switch", "s1")]),
                    ("m3", &[("rack", "r9")]),
                ],
                Some("rack"),
                &[("r9", &["m3"]), ("r10", &["m1"]), ("-", &["m2"])],
            ),
        ];
        for (machines, attribute, expected) in cases {
            let all = machines.iter().map(|(name, attributes)| machine(name, attributes));
            let fleet = fleet(all.collect());
            let groups: Vec<(String, Vec<&str>)> = fleet
                .groups()
                .iter()
                .map(|group| {
                    let name = group.value.clone().unwrap_or_else(|| "-".to_owned());
                    (name, fleet.members(group).map(|one| one.status.name.as_str()).collect())
                })
                .collect();
            let expected: Vec<(String, Vec<&str>)> =
                expected.iter().map(|(name, of)| ((*name).to_owned(), of.to_vec())).collect();
            assert_eq!((fleet.grouped_by(), groups), (attribute, expected));
        }
    }

    #[test]
    fn an_attribute_with_too_many_values_is_no_place() {
        let machines = (0..1_200)
            .map(|number| machine(&format!("m{number}"), &[("rack", &number.to_string())]));
        let fleet = fleet(machines.collect());
        assert_eq!((fleet.grouped_by(), fleet.groups().len()), (None, 1));
    }

    #[test]
    fn usage_is_newer_than_the_list_and_unmeasured_usage_is_unknown() {
        let resources = |cpu_milli| Some(v1::Resources { cpu_milli, ..v1::Resources::default() });
        let status = v1::MachineStatus {
            id: 7,
            state: v1::MachineState::Up.into(),
            taken: resources(3_000),
            capacity: resources(8_000),
            tasks: 3,
            ..machine("m1", &[])
        };
        let used = v1::MachineUsage {
            id: 7,
            state: v1::MachineState::Down.into(),
            capacity: resources(4_000),
            used: Some(v1::Measured { cpu_milli: Some(500), ..v1::Measured::default() }),
            tasks: Some(v1::UsageTotal {
                running: 2,
                limit: resources(2_000),
                reservation: resources(1_000),
                used: Some(v1::Measured { disk_bytes: Some(9), ..v1::Measured::default() }),
                ..v1::UsageTotal::default()
            }),
            ..v1::MachineUsage::default()
        };
        let list =
            v1::MachinesResponse { machines: vec![status], ..v1::MachinesResponse::default() };
        let list = Arc::new(list);
        let used = v1::UsageResponse { machines: vec![used], ..v1::UsageResponse::default() };
        let used = Some(Arc::new(used));
        let past = Fleet::new(Arc::clone(&list), None, None);
        let now = Fleet::new(Arc::clone(&list), used.clone(), Some(&past));
        let facts = |fleet: &Fleet| {
            let machine = fleet.machines().next().expect("one");
            let amount = |of, by| machine.amount(of, by);
            (
                (machine.state(), machine.tasks(), machine.capacity(Of::Cpu)),
                By::ALL.map(|by| amount(Of::Cpu, by)),
                amount(Of::Disk, By::Usage),
            )
        };
        let before = ((v1::MachineState::Up, 3, Some(8_000)), [Some(3_000), None, None], None);
        assert_eq!(facts(&past), before);
        let newest = (v1::MachineState::Down, 2, Some(4_000));
        assert_eq!(facts(&now), (newest, [Some(2_000), Some(1_000), Some(500)], Some(9)));
        assert!(now.is_of(&list, used.as_ref()) && !now.is_of(&list, None));
    }

    #[test]
    fn amounts_have_three_digits() {
        for (of, amount, expected) in [
            (Of::Cpu, None, "-"),
            (Of::Cpu, Some(0), "0 cores"),
            (Of::Cpu, Some(1), "0.001 cores"),
            (Of::Cpu, Some(1_000), "1 core"),
            (Of::Cpu, Some(1_234), "1.23 cores"),
            (Of::Cpu, Some(12_345), "12.3 cores"),
            (Of::Cpu, Some(123_456_789), "123457 cores"),
            (Of::Ram, Some(3 << 29), "1.5 GiB"),
            (Of::Disk, Some(-1), "-"),
        ] {
            assert_eq!(of.show(amount), expected);
        }
    }
}
