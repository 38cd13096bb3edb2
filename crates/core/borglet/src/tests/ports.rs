//! Ports held by something they are not assigned to.

use model::PortRange;

use super::*;
use crate::{HeldPort, Holder};

impl World {
    /// A world whose machine offers the ports from 31000 to 31255.
    fn with_ports() -> Self {
        let ports = PortRange { first: 31_000, last: 31_255 };
        let machine = Arc::new(MachineReport { ports, ..MachineReport::clone(&machine(1 << 20)) });
        let borglet = Borglet::new(Settings::default(), machine, Stamp::default(), vec![], vec![]);
        Self { borglet, now: Time(1_000_000) }
    }

    /// After `ms` milliseconds these ports are in use: each with the index of a task or a name.
    /// Returns the effects without health checks.
    fn sees(&mut self, ms: u64, held: &[(u16, &str)]) -> String {
        self.now = self.now + Span::from_millis(ms);
        let held = held.iter().map(|(port, by)| HeldPort { port: *port, by: holder(by) });
        let effects = self.input(Input::Ports(held.collect()));
        let of_it = effects.split(", ").filter(|effect| !effect.starts_with("check"));
        of_it.collect::<Vec<_>>().join(", ")
    }

    fn reported(&self) -> String {
        let held = &self.borglet.report().machine.held_ports;
        held.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    /// How the task with an index has ended.
    fn end(&self, index: u32) -> String {
        let report = self.borglet.report();
        let task = report.tasks.iter().find(|task| task.instance == instance(index));
        match &task.expect("it is there").status {
            TaskStatus::Ended(end, _) => end.to_string(),
            other => format!("{other:?}"),
        }
    }
}

fn holder(by: &str) -> Holder {
    by.parse().map_or_else(|_| Holder::Other(by.into()), |index| Holder::Instance(instance(index)))
}

/// A Borglet with running tasks, one port each.
fn running(ports: &[(u32, u16)]) -> World {
    let mut world = World::with_ports();
    world.order(1, ports);
    for (index, _) in ports {
        world.input(Input::Started(instance(*index)));
    }
    world
}

const KILLED: End = End::Signalled { signal: 9 };

#[test]
fn a_task_holding_a_foreign_port_is_ended_and_names_its_owner() {
    for (what, held, reason) in [
        ("another's", &[31_001][..], "it held port 31001, which is assigned to ana/web/1"),
        ("nobody's", &[31_005], "it held port 31005, which is not assigned to it"),
        (
            "many, and among them another's",
            &[31_000, 31_007, 31_001, 31_008],
            "it held port 31001, which is assigned to ana/web/1, and 2 more",
        ),
    ] {
        let mut world = running(&[(0, 31_000), (1, 31_001)]);
        let held: Vec<_> = held.iter().map(|port| (*port, "0")).collect();
        assert_eq!(world.sees(1_000, &held), "kill 1-0-1", "{what}");
        assert_eq!(world.sees(1_000, &held), "", "{what}: once");
        assert_eq!(world.reported(), "", "{what}: they will be free at once");
        world.input(Input::Ended(instance(0), KILLED, FinalUsage::UNMEASURED));
        let rule = "a task may hold only ports assigned to it";
        assert_eq!(world.end(0), format!("ended by rule: {reason}: {rule}"), "{what}");
        assert_eq!(world.end(1), "Running { healthy: None }", "{what}");
    }
}

#[test]
fn a_task_with_its_own_ports_is_left_alone() {
    let mut world = running(&[(0, 31_000), (1, 31_001)]);
    let held = [(31_000, "0"), (31_001, "1"), (31_009, "/ssh.service (sshd)")];
    for _ in 0..20 {
        let effects = world.sees(1_000, &held);
        assert!(!effects.contains("kill") && !effects.contains("terminate"), "{effects}");
    }
    assert_eq!(world.reported(), "31009 by /ssh.service (sshd)");
}

#[test]
fn a_starting_task_that_holds_a_foreign_port_is_killed() {
    let mut world = World::with_ports();
    world.order(1, &[(0, 31_000)]);
    assert_eq!(world.sees(1_000, &[(31_009, "0")]), "kill 1-0-1");
    world.input(Input::Ended(instance(0), KILLED, FinalUsage::UNMEASURED));
    assert!(world.end(0).starts_with("ended by rule: it held port 31009"), "{}", world.end(0));
}

#[test]
fn a_stopping_task_that_holds_a_foreign_port_is_killed_once() {
    let mut world = World::with_ports();
    let mut patient = desired(0, 31_000);
    Arc::make_mut(&mut patient.spec).notice = Span::from_secs(3_600);
    world.obey(1, vec![patient]);
    world.input(Input::Started(instance(0)));
    assert_eq!(world.order(2, &[]), "persist 2, terminate 1-0-1");
    assert_eq!(world.sees(1_000, &[(31_009, "0")]), "kill 1-0-1");
    assert_eq!(world.sees(1_000, &[(31_009, "0")]), "", "once");
    world.input(Input::Ended(instance(0), KILLED, FinalUsage::UNMEASURED));
    assert_eq!(world.end(0), "stopped", "it ends for the reason that it stopped for");
}

#[test]
fn a_port_that_is_taken_is_avoided_and_its_holder_named() {
    for (by, words, reported) in [
        ("/ssh.service (sshd)", "/ssh.service (sshd)", "31000 by /ssh.service (sshd)"),
        ("7", "the remains of 1-7-1", "31000 by the remains of 1-7-1"),
    ] {
        let mut world = running(&[(1, 31_001)]);
        world.order(2, &[(0, 31_000), (1, 31_001)]);
        let held = HeldPort { port: 31_000, by: holder(by) };
        let effects = world.input(Input::PortTaken(instance(0), held));
        assert!(!effects.contains("kill"), "{effects}");
        let expected = format!("lost: port 31000 (http) is taken by {words}");
        assert_eq!((world.end(0), world.reported()), (expected, reported.to_owned()));
    }
}

#[test]
fn a_task_waits_until_the_holder_of_its_port_ends() {
    let mut world = running(&[(1, 31_001)]);
    world.order(2, &[(0, 31_000), (1, 31_001)]);
    let held = || HeldPort { port: 31_000, by: holder("1") };
    let effects = world.input(Input::PortTaken(instance(0), held()));
    assert!(effects.starts_with("kill 1-1-1"), "{effects}");
    assert_eq!(world.sees(100, &[(31_000, "1")]), "", "it is not started beside it");
    assert_eq!((world.end(0), world.reported()), ("Starting".to_owned(), String::new()));
    assert_eq!(
        world.input(Input::Ended(instance(1), KILLED, FinalUsage::UNMEASURED)),
        "start 1-0-1 [serve 31000 0] as 200001"
    );
    // A holder that does not end is not waited for: the port is reported as held, and another is
    // assigned.
    world.order(3, &[(0, 31_000), (1, 31_001), (2, 31_002)]);
    world.input(Input::Started(instance(2)));
    world.input(Input::PortTaken(instance(0), HeldPort { port: 31_000, by: holder("2") }));
    let mut effects = String::new();
    for _ in 0..5 {
        effects = world.sees(1_000, &[(31_000, "2")]);
    }
    assert!(effects.contains("start 1-0-1"), "{effects}");
    world.input(Input::PortTaken(instance(0), HeldPort { port: 31_000, by: holder("2") }));
    assert_eq!(world.end(0), "lost: port 31000 (http) is taken by ana/web/2");
    assert_eq!(world.reported(), "31000 by ana/web/2");
}

#[test]
fn a_failed_start_on_a_taken_port_counts_as_lost() {
    const FAILED: End = End::Exited { code: 1 };
    let taken = "lost: port 31000 (http) is taken by ana/web/1";
    for (what, held, end, ms, expected) in [
        ("its port", &[(31_000, "1")][..], FAILED, 0, taken),
        ("a moment before", &[(31_000, "1")], FAILED, 1_999, taken),
        ("long before", &[(31_000, "1")], FAILED, 2_000, "exit code 1"),
        ("another port", &[(31_005, "1")], FAILED, 0, "exit code 1"),
        ("its own port", &[(31_000, "0")], FAILED, 0, "exit code 1"),
        ("another end", &[(31_000, "1")], KILLED, 0, "signal 9"),
    ] {
        let mut world = running(&[(0, 31_000), (1, 31_001)]);
        world.sees(100, held);
        world.now = world.now + Span::from_millis(ms);
        world.input(Input::Ended(instance(0), end, FinalUsage::UNMEASURED));
        assert_eq!(world.end(0), expected, "{what}");
    }
}

#[test]
fn a_report_changes_with_who_holds_what_and_not_with_every_look() {
    let mut world = running(&[]);
    let sshd = "/ssh.service (sshd)";
    let mut reports = Vec::new();
    for second in 0..30 {
        // It opens and closes its port, and is gone after ten seconds.
        let held: &[(u16, &str)] =
            if second < 10 && second % 3 == 0 { &[(31_004, sshd)] } else { &[] };
        world.sees(1_000, held);
        let reported = world.reported();
        if reports.last() != Some(&reported) {
            reports.push(reported);
        }
    }
    assert_eq!(reports, ["31004 by /ssh.service (sshd)", ""]);
}
