//! The effect of a single fault on eight tasks on four machines: which are started again, and
//! whether another replica becomes the leader.

#[path = "../campaign/table.rs"]
mod table;

use std::collections::VecDeque;

use cell::Cell;
use model::{Random, Span, Time, UserName};
use sim::{
    Action, Checking, Commands, Crash, Disturbance, Fault, FaultKind, Load, Node, Nodes, Setting,
    Trouble, Who, World, capacity, machines,
};
use table::Table;

/// Submits jobs five seconds apart: one job fills the first two machines, whatever a scheduler
/// would prefer, because the others are unavailable until it runs.
struct Filling(VecDeque<Vec<Action>>);

impl Filling {
    fn new() -> Self {
        let service = "submit ana/service 8 priority=200 cpu=1000 failures=10 cmd=run";
        let each = |lines: &[&str]| lines.iter().map(|line| action(line)).collect();
        let steps = [&["drain m2", "drain m3"][..], &[service], &["undrain m2", "undrain m3"]];
        Self(steps.map(each).into())
    }
}

/// What root or Ana asks for with a line of the script language.
fn action(line: &str) -> Action {
    let script::Request { by, mutation } = script::request(line).expect(line);
    Action::Request(usize::from(by.as_str() != "root"), mutation)
}

impl Load for Filling {
    fn next(&mut self, now: Time) -> Option<Time> {
        (!self.0.is_empty()).then(|| now + Span::from_secs(5))
    }

    fn action(&mut self, _: Time, _: Option<&Cell>, _: &mut Random) -> Vec<Action> {
        self.0.pop_front().unwrap_or_default()
    }

    fn stop(&mut self) {
        self.0.clear();
    }
}

/// Number of processes started beyond the first of each task, at the end, and number of replicas
/// that were elected.
fn after(replicas: usize, kind: FaultKind, lasts: u64) -> (u64, u64) {
    let users = ["root", "ana"].map(|name| UserName::new(name).expect("a name"));
    let setting = Setting {
        seed: 5,
        machines: machines(4, 2, capacity(4, 16)),
        replicas,
        replica: replica::Settings::default(),
        checking: Checking::Every { full: 10 },
        checkpoint_every: 5,
        injected_bug: None,
        users: users.to_vec(),
    };
    let fault = Fault { after: Span::from_secs(30), lasts: Span::from_secs(lasts), kind };
    let (load, programs) = (Box::new(Filling::new()), Box::new(Commands));
    let mut world = World::new(setting, Table::default(), load, programs, vec![fault]);
    world.run_to(Span::from_secs(25));
    assert_eq!((world.unsettled(), world.counts().processes), (None, 8));
    let elected = world.counts().elections;
    world.run_to(Span::from_secs(30 + lasts + 60));
    assert_eq!((world.unsettled(), world.violation()), (None, None));
    (world.counts().processes - 8, world.counts().elections - elected)
}

fn between(from: Node, to: Nodes, trouble: Trouble) -> FaultKind {
    let from = Nodes::One(from);
    FaultKind::Network(Disturbance { from, to, both_ways: true, trouble })
}

#[test]
fn machine_faults_move_the_expected_number_of_tasks() {
    let master = || Nodes::MASTERS;
    // Four tasks run on each of the first two machines, none on the others.
    for (kind, lasts, expected) in [
        (FaultKind::Off(0..1), 5, 4),
        (FaultKind::Off(0..1), 90, 4),
        (FaultKind::Off(0..2), 90, 8),
        (FaultKind::Off(3..4), 90, 0),
        (FaultKind::Frozen(0..1), 10, 0),
        (FaultKind::Frozen(0..1), 90, 4),
        (FaultKind::Borglet(0), 1, 0),
        (FaultKind::BorgletFrozen(0), 10, 0),
        (FaultKind::BorgletFrozen(0), 90, 4),
        (FaultKind::Task(0, 2), 1, 1),
        (FaultKind::Task(0, 7), 1, 0),
        (FaultKind::Smaller(0), 30, 0),
        (FaultKind::Master(Who::Elected, Crash::Killed), 90, 0),
        (FaultKind::Master(Who::Elected, Crash::PowerLost), 90, 0),
        (FaultKind::MasterFrozen(Who::Elected), 90, 0),
        (FaultKind::Scheduler, 60, 0),
        (FaultKind::SchedulerFrozen, 60, 0),
        (FaultKind::SlowDisk(Who::Elected, Span::from_secs(2)), 60, 0),
        (FaultKind::FullDisk(Who::Elected), 60, 0),
        (FaultKind::RottenCheckpoint(Who::Elected), 1, 0),
        (between(Node::Machine(0), master(), Trouble::Cut), 10, 0),
        (between(Node::Machine(0), master(), Trouble::Cut), 90, 4),
        // Three of four machines are too many to be marked down.
        (between(Node::Master(0), Nodes::Machines(0..3), Trouble::Cut), 300, 0),
        (between(Node::Master(0), Nodes::All, Trouble::Cut), 300, 0),
        (between(Node::Master(0), Nodes::All, Trouble::Delay(Span::from_secs(2))), 60, 0),
        (between(Node::Master(0), Nodes::All, Trouble::Twice(500)), 60, 0),
    ] {
        let what = format!("{kind}, for {lasts} s");
        assert_eq!(after(1, kind, lasts).0, expected, "{what}");
    }
}

/// No fault of one replica, or of two of three, moves a task; and the remaining two elect another
/// leader if and only if the fault affects the leader.
#[test]
fn replica_faults_move_no_task_and_replace_only_a_faulty_leader() {
    let (first, second) = (Who::Nth(0), Who::Nth(1));
    let others = || Nodes::Masters(1..3);
    let cut = |both_ways, from, to| {
        FaultKind::Network(Disturbance { from, to, both_ways, trouble: Trouble::Cut })
    };
    let leader = || Nodes::One(Node::Master(0));
    for (kind, lasts, elections) in [
        (FaultKind::Master(Who::Elected, Crash::Killed), 90, 1),
        (FaultKind::Master(first, Crash::PowerLost), 20, 1),
        (FaultKind::Master(second, Crash::PowerLost), 90, 0),
        (FaultKind::Master(Who::All, Crash::PowerLost), 60, 1),
        (FaultKind::MasterFrozen(first), 90, 1),
        (FaultKind::MasterFrozen(second), 90, 0),
        (FaultKind::FullDisk(second), 90, 0),
        (FaultKind::SlowDisk(second, Span::from_secs(2)), 60, 0),
        (FaultKind::LyingDisk(second), 20, 0),
        (FaultKind::RottenCheckpoint(second), 1, 0),
        (FaultKind::EmptyDisk(second), 5, 0),
        (FaultKind::Replaced(first), 1, 1),
        (FaultKind::Replaced(second), 1, 0),
        (FaultKind::FewerReplicas(second), 60, 0),
        // Of the four the leader happens to be removed.
        (FaultKind::MoreReplicas, 60, 1),
        (cut(true, leader(), others()), 60, 1),
        // It is not heard, and not told so; or it receives nothing, and is heard.
        (cut(false, leader(), others()), 60, 1),
        (cut(false, others(), leader()), 60, 1),
        (cut(true, Nodes::One(Node::Master(1)), Nodes::MASTERS), 60, 0),
        (cut(true, Nodes::One(Node::Master(2)), Nodes::All), 60, 0),
    ] {
        let what = format!("{kind}, for {lasts} s");
        assert_eq!(after(3, kind, lasts), (0, elections), "{what}");
    }
}
