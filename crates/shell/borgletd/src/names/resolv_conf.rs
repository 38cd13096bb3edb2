//! `/etc/resolv.conf` of tasks.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, OnceLock};

/// The maximum number of name servers that resolvers use.
const NAMESERVERS_MAX: usize = 3;
/// A name with fewer dots is looked up in the cell first: `hello`, `hello.ana`, `0.hello.ana`.
const NDOTS: u32 = 3;

/// The resolver of the tasks on this machine, once it is there. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskResolver(Arc<OnceLock<ResolvConf>>);

impl TaskResolver {
    pub(crate) fn set(&self, conf: ResolvConf) {
        let _set_before = self.0.set(conf);
    }

    /// The file of a user's tasks; `None`: they have the host's. With a network of their own they
    /// find the resolver at their gateway.
    pub(crate) fn of(&self, user: &str, gateway: Option<Ipv4Addr>) -> Option<String> {
        self.0.get().map(|conf| conf.of(user, gateway))
    }
}

/// What the files of all tasks have in common.
#[derive(Clone, Debug)]
pub(crate) struct ResolvConf {
    address: IpAddr,
    /// The zone of the cell, without the final dot.
    zone: String,
    /// Of the host: its name servers, and the domains that it searches.
    nameservers: Vec<String>,
    search: Vec<String>,
}

impl ResolvConf {
    /// With the host's file as text.
    pub(crate) fn new(address: IpAddr, zone: String, host: &str) -> Self {
        let mut conf = Self { address, zone, nameservers: Vec::new(), search: Vec::new() };
        for line in host.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => conf.nameservers.extend(words.next().map(str::to_owned)),
                // The last one counts.
                Some("search" | "domain") => conf.search = words.map(str::to_owned).collect(),
                _ => {}
            }
        }
        conf
    }

    fn of(&self, user: &str, gateway: Option<Ipv4Addr>) -> String {
        let (address, zone) = (gateway.map_or(self.address, IpAddr::from), &self.zone);
        let mut text = format!("nameserver {address}\n");
        // The host's own loopback addresses are not those of another network.
        let is_local =
            |other: &str| other.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        let reached = |other: &&String| {
            **other != address.to_string() && !(gateway.is_some() && is_local(other))
        };
        // If the Borglet is gone, foreign names are still found.
        for other in self.nameservers.iter().filter(reached).take(NAMESERVERS_MAX - 1) {
            let _infallible = writeln!(text, "nameserver {other}");
        }
        let _infallible = write!(text, "search {user}.{zone} {zone}");
        for domain in &self.search {
            let _infallible = write!(text, " {domain}");
        }
        let _infallible = writeln!(text, "\noptions ndots:{NDOTS} timeout:2 attempts:2");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cell_comes_before_what_the_host_has() {
        let address = IpAddr::from([127, 0, 53, 1]);
        for (host, expected) in [
            (
                "# a comment\nnameserver 10.0.0.2\nnameserver 127.0.53.1\nnameserver 10.0.0.3\n\
                 nameserver 10.0.0.4\nsearch example.com corp.example.com\noptions edns0\n",
                "nameserver 127.0.53.1\nnameserver 10.0.0.2\nnameserver 10.0.0.3\n\
                 search ana.cc.borg cc.borg example.com corp.example.com\n\
                 options ndots:3 timeout:2 attempts:2\n",
            ),
            (
                "",
                "nameserver 127.0.53.1\nsearch ana.cc.borg cc.borg\noptions ndots:3 timeout:2 attempts:2\n",
            ),
        ] {
            assert_eq!(
                ResolvConf::new(address, "cc.borg".to_owned(), host).of("ana", None),
                expected
            );
        }
    }

    #[test]
    fn tasks_in_own_networks_resolve_at_the_gateway_and_never_at_loopback() {
        let host = "nameserver 127.0.0.53\nnameserver ::1\nnameserver 10.0.0.2\n";
        let conf = ResolvConf::new(IpAddr::from([127, 0, 53, 1]), "cc.borg".to_owned(), host);
        assert_eq!(
            conf.of("ana", Some(Ipv4Addr::new(10, 64, 5, 1))),
            "nameserver 10.64.5.1\nnameserver 10.0.0.2\nsearch ana.cc.borg cc.borg\n\
             options ndots:3 timeout:2 attempts:2\n"
        );
    }

    #[test]
    fn tasks_without_a_resolver_have_the_hosts_file() {
        let resolver = TaskResolver::default();
        assert_eq!(resolver.of("ana", None), None);
        resolver.set(ResolvConf::new(IpAddr::from([127, 0, 53, 1]), "cc.borg".to_owned(), ""));
        assert!(resolver.clone().of("ana", None).is_some_and(|text| text.contains("ana.cc.borg")));
    }
}
