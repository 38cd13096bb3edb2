//! A range of IPv4 addresses that a machine gives to its tasks.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// A range of addresses in CIDR notation: `10.64.5.0/24`.
///
/// The first address is the network's, the second the gateway, which is the machine itself, and the
/// last the broadcast address. All others can be given to tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subnet {
    network: Ipv4Addr,
    /// From [`Self::PREFIX_MIN`] to [`Self::PREFIX_MAX`].
    prefix: u8,
}

impl Subnet {
    /// The shortest prefix, of the largest range: 65,533 tasks.
    pub const PREFIX_MIN: u8 = 16;
    /// The longest prefix, of the smallest range: one task.
    pub const PREFIX_MAX: u8 = 30;

    /// A range from its first address and the length of its prefix.
    ///
    /// # Errors
    /// If the prefix is too short or too long, or the address is not the first of the range.
    pub fn new(network: Ipv4Addr, prefix: u8) -> Result<Self, SubnetError> {
        if !(Self::PREFIX_MIN..=Self::PREFIX_MAX).contains(&prefix) {
            return Err(SubnetError::Prefix(prefix));
        }
        let subnet = Self { network, prefix };
        let first = Ipv4Addr::from_bits(network.to_bits() & !subnet.host_bits());
        match first == network {
            true => Ok(subnet),
            false => Err(SubnetError::HostBits { is: network, prefix, first }),
        }
    }

    /// The bits that differ within the range.
    fn host_bits(self) -> u32 {
        u32::MAX.checked_shr(self.prefix.into()).unwrap_or(0)
    }

    /// Its first address, which no host has.
    #[must_use]
    pub fn network(self) -> Ipv4Addr {
        self.network
    }

    /// The length of its prefix in bits.
    #[must_use]
    pub fn prefix(self) -> u8 {
        self.prefix
    }

    /// The address of the machine itself, the gateway of its tasks.
    #[must_use]
    pub fn gateway(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.network.to_bits() | 1)
    }

    /// Its last address, which no host has.
    #[must_use]
    pub fn broadcast(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.network.to_bits() | self.host_bits())
    }

    /// The first address that a task can have.
    #[must_use]
    pub fn first_task(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.network.to_bits() | 2)
    }

    /// The last address that a task can have.
    #[must_use]
    pub fn last_task(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.broadcast().to_bits() & !1)
    }

    /// Whether a task can have an address: it is in the range, and neither the gateway nor the
    /// first nor the last one.
    #[must_use]
    pub fn is_of_task(self, address: Ipv4Addr) -> bool {
        (self.first_task()..=self.last_task()).contains(&address)
    }

    /// The number of addresses that tasks can have.
    #[must_use]
    pub fn task_count(self) -> usize {
        let count = self.last_task().to_bits().saturating_sub(self.first_task().to_bits());
        usize::try_from(count).unwrap_or(usize::MAX).saturating_add(1)
    }

    /// Every address that tasks can have, beginning with `from` if that is one of them.
    pub fn task_addresses(self, from: Ipv4Addr) -> impl Iterator<Item = Ipv4Addr> {
        let (first, last) = (self.first_task().to_bits(), self.last_task().to_bits());
        let start = if self.is_of_task(from) { from.to_bits() } else { first };
        (start..=last).chain(first..start).map(Ipv4Addr::from_bits)
    }
}

/// Not a range of addresses for tasks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubnetError {
    /// Not in CIDR notation.
    #[error("'{}' is not a range of IPv4 addresses such as 10.64.5.0/24", .0.escape_debug())]
    NotOne(String),
    /// Too many addresses, or too few.
    #[error(
        "the prefix /{0} is out of range: use /{min} to /{max}, such as 10.64.5.0/24 for 253 tasks",
        min = Subnet::PREFIX_MIN,
        max = Subnet::PREFIX_MAX
    )]
    Prefix(u8),
    /// The address is not the first one of the range.
    #[error("{is}/{prefix} is not the beginning of a range: did you mean {first}/{prefix}?")]
    HostBits {
        /// The address.
        is: Ipv4Addr,
        /// The prefix.
        prefix: u8,
        /// The first address of the range that it is in.
        first: Ipv4Addr,
    },
}

impl FromStr for Subnet {
    type Err = SubnetError;

    fn from_str(text: &str) -> Result<Self, SubnetError> {
        let parts = text.split_once('/').and_then(|(network, prefix)| {
            Some((network.parse().ok()?, prefix.parse::<u8>().ok()?))
        });
        let (network, prefix) = parts.ok_or_else(|| SubnetError::NotOne(text.to_owned()))?;
        Self::new(network, prefix)
    }
}

/// `10.64.5.0/24`.
impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_a_gateway_and_addresses_for_tasks() {
        for (text, gateway, first, last, count) in [
            ("10.64.5.0/24", "10.64.5.1", "10.64.5.2", "10.64.5.254", 253),
            ("10.64.5.4/30", "10.64.5.5", "10.64.5.6", "10.64.5.6", 1),
            ("172.16.0.0/16", "172.16.0.1", "172.16.0.2", "172.16.255.254", 65_533),
        ] {
            let range: Subnet = text.parse().expect(text);
            assert_eq!(range.to_string(), text);
            let said = (range.gateway(), range.first_task(), range.last_task(), range.task_count());
            let addresses = [gateway, first, last].map(|text| text.parse().expect("an address"));
            assert_eq!(said, (addresses[0], addresses[1], addresses[2], count), "{text}");
        }
    }

    #[test]
    fn an_invalid_subnet_is_refused_with_an_example() {
        for (text, says) in [
            ("10.64.5.0", "'10.64.5.0' is not a range of IPv4 addresses such as 10.64.5.0/24"),
            ("10.64/24", "'10.64/24' is not a range of IPv4 addresses such as 10.64.5.0/24"),
            ("fd00::/64", "'fd00::/64' is not a range of IPv4 addresses such as 10.64.5.0/24"),
            (
                "10.64.5.0/\u{1b}",
                "'10.64.5.0/\\u{1b}' is not a range of IPv4 addresses such as 10.64.5.0/24",
            ),
            (
                "10.0.0.0/8",
                "the prefix /8 is out of range: use /16 to /30, such as 10.64.5.0/24 for 253 tasks",
            ),
            (
                "10.64.5.0/31",
                "the prefix /31 is out of range: use /16 to /30, such as 10.64.5.0/24 for 253 tasks",
            ),
            (
                "10.64.5.7/24",
                "10.64.5.7/24 is not the beginning of a range: did you mean 10.64.5.0/24?",
            ),
        ] {
            assert_eq!(text.parse::<Subnet>().expect_err(text).to_string(), says);
        }
    }

    #[test]
    fn the_search_goes_round_once() {
        for prefix in 22..=Subnet::PREFIX_MAX {
            let range = Subnet::new(Ipv4Addr::new(10, 64, 4, 0), prefix).expect("a range");
            let inside = range.task_addresses(Ipv4Addr::UNSPECIFIED).collect::<Vec<_>>();
            let outside = [range.network(), range.gateway(), range.broadcast()];
            for from in inside.iter().chain(&outside).chain(&[Ipv4Addr::BROADCAST]) {
                let found: Vec<_> = range.task_addresses(*from).collect();
                assert_eq!(found.len(), range.task_count(), "{range} from {from}");
                assert!(found.iter().all(|address| inside.contains(address)));
                let once: std::collections::BTreeSet<_> = found.iter().collect();
                assert_eq!(once.len(), found.len(), "{range} from {from}");
                let begins = if range.is_of_task(*from) { *from } else { range.first_task() };
                assert_eq!(found[0], begins);
            }
            assert!(!outside.iter().any(|address| range.is_of_task(*address)), "{range}");
        }
    }
}
