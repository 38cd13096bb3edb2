//! The network of a job's tasks, and the numbers of their ports in one of their own.

use std::collections::BTreeMap;

use model::PortName;

use super::{ProblemKind, Problems};
use crate::path::Location;
use crate::ports::UsualPorts;
use crate::{JobSpec, Network};

impl Problems {
    /// Each port has a number of its own.
    fn numbers(&mut self, ports: &BTreeMap<PortName, u16>) {
        let at = Location::TOP.field("ports");
        let mut seen: BTreeMap<u16, &PortName> = BTreeMap::new();
        for (name, number) in ports {
            let at = at.key(name.as_str());
            self.range(&at, *number, 1, u16::MAX);
            if let Some(other) = seen.insert(*number, name) {
                let (number, other) = (*number, other.clone());
                self.add(&at, ProblemKind::SameNumber { number, other });
            }
        }
    }

    pub(super) fn network(&mut self, job: &JobSpec, usual: &UsualPorts<'_>) {
        if job.kind.is_alloc_set() {
            return;
        }
        let (top, at) = (Location::TOP, Location::TOP.field("ports"));
        let Network::Own { ports } = &job.task.network else {
            self.numbers(&job.task.static_ports);
            return;
        };
        if !job.task.static_ports.is_empty() {
            self.add(&at, ProblemKind::StaticPortsOfOwnNetwork);
            return;
        }
        if !job.task.ports.is_empty() {
            self.add(&at, ProblemKind::PortsWithoutNumbers);
            return;
        }
        self.numbers(ports);
        for port in usual.names().filter(|name| !ports.contains_key(*name)) {
            self.add(&at, ProblemKind::NoNumber { port: port.clone(), task: None });
        }
        let overrides = top.field("overrides");
        for (index, change) in job.overrides.iter().filter(|(index, _)| index.0 < job.tasks) {
            let key = index.to_string();
            let place = overrides.key(&key);
            let at_ports = place.field("ports");
            if change.ports.is_some() {
                self.add(&at_ports, ProblemKind::PortsOfOneTask);
            } else if change.touches_ports() {
                let own = usual.names_of(change).into_iter();
                let lacking = own.filter(|name| !ports.contains_key(name));
                // What the job lacks is reported for the job.
                for port in lacking.filter(|name| !usual.has(name)) {
                    self.add(&at, ProblemKind::NoNumber { port, task: Some(index.0) });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use model::TaskIndex;

    use super::*;
    use crate::testing::job;
    use crate::{Kind, TaskOverride};

    fn problems(change: impl FnOnce(&mut JobSpec)) -> Vec<String> {
        let mut job = job();
        job.task.network = own(&[("http", 80)]);
        change(&mut job);
        job.problems().iter().map(ToString::to_string).collect()
    }

    fn own(ports: &[(&str, u16)]) -> Network {
        let name = |text: &str| PortName::new(text).expect("a name");
        Network::Own { ports: ports.iter().map(|(text, port)| (name(text), *port)).collect() }
    }

    #[test]
    fn every_port_of_an_own_network_has_a_number_of_its_own() {
        let none: [&str; 0] = [];
        assert_eq!(problems(|_| {}), none);
        assert_eq!(problems(|job| job.task.network = own(&[("http", 80), ("admin", 8080)])), none);
        assert_eq!(
            problems(|job| job.task.network = own(&[("admin", 80), ("http", 80)])),
            [
                "ports[\"http\"]: is 80, which is the number of admin, too: give each port a number of its own"
            ]
        );
        assert_eq!(
            problems(|job| job.task.network = own(&[("http", 0)])),
            ["ports[\"http\"]: must be 1 to 65535, is 0"]
        );
        assert_eq!(
            problems(|job| job.task.network = own(&[])),
            [
                "ports: has no number for 'http', to which the tasks refer: with network: 'own' give it \
              one, such as ports: { http: 8080 }"
            ]
        );
        assert_eq!(
            problems(|job| job.task.ports = [PortName::new("grpc").expect("a name")].into()),
            [
                "ports: lists names, but with network: 'own' every port needs a number: write ports: { \
              http: 80 }"
            ]
        );
    }

    #[test]
    fn static_ports_have_numbers_of_their_own_in_the_network_of_the_host() {
        let of_host = |ports: &[(&str, u16)]| {
            problems(|job| {
                job.task.network = Network::Host;
                job.task.static_ports = own(ports).numbers().clone();
            })
        };
        assert_eq!(of_host(&[("https", 443), ("http", 80)]), [""; 0]);
        assert_eq!(
            of_host(&[("a", 443), ("b", 443)]),
            [
                "ports[\"b\"]: is 443, which is the number of a, too: give each port a number of its own"
            ]
        );
        assert_eq!(of_host(&[("a", 0)]), ["ports[\"a\"]: must be 1 to 65535, is 0"]);
        assert_eq!(
            problems(|job| job.task.static_ports = own(&[("https", 443)]).numbers().clone()),
            [
                "ports: gives static numbers, but with network: 'own' each task has an address of its own, \
              where every number is its own, too: write ports: { http: 443 }"
            ]
        );
    }

    #[test]
    fn single_tasks_have_the_ports_of_the_job() {
        let with =
            |change: TaskOverride| problems(|job| drop(job.overrides.insert(TaskIndex(1), change)));
        assert_eq!(
            with(TaskOverride { ports: Some([].into()), ..TaskOverride::default() }),
            [
                "overrides[\"1\"].ports: cannot differ from task to task with network: 'own': leave it out, \
              and give all ports in the job's ports"
            ]
        );
        let env = [("PEER".to_owned(), "${port.grpc}".to_owned())].into();
        assert_eq!(
            with(TaskOverride { env, ..TaskOverride::default() }),
            [
                "ports: has no number for 'grpc', to which task 1 refers: with network: 'own' give it \
              one, such as ports: { grpc: 8080 }"
            ]
        );
    }

    #[test]
    fn an_alloc_set_has_a_network_and_no_ports() {
        let of_set = |network: Network| {
            problems(|job| {
                job.kind = Kind::AllocSet { users: [].into() };
                job.task.cmd.clear();
                job.task.network = network;
            })
        };
        assert_eq!(of_set(own(&[])), [""; 0]);
        let says = "ports: applies to tasks only, and an alloc runs no program: leave it out";
        assert_eq!(of_set(own(&[("http", 80)])), [says]);
    }
}
