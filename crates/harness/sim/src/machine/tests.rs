//! Simulated machines, event by event.

use super::*;
use borglet::{Order, TaskStatus};
use model::{CollectionId, Generation, TaskIndex};

use crate::program::{Commands, desired};
use crate::world::{capacity, machines};

const NOW: Time = Time(1_000_000);

fn id() -> InstanceId {
    let (collection, index) = (CollectionId(1), TaskIndex(0));
    InstanceId { collection, index, generation: Generation(1) }
}

fn order(index: u64) -> Order {
    let stamp = Stamp { index: model::LogIndex(index), ..Stamp::default() };
    Order { stamp, tasks: vec![desired("run heeds=40")], ..Order::default() }
}

/// A machine that runs a task, by an order of index 3.
fn machine() -> Machine {
    let (name, report) = machines(1, 1, capacity(8, 32)).remove(0);
    let mut machine = Machine::new(name, report, Random::new(3));
    let consequences = obey(&mut machine, order(3));
    assert!(
        matches!(consequences.as_slice(), [Consequence::Started(started), _] if *started == id())
    );
    pass(&mut machine, TaskStep::Begins);
    machine
}

fn obey(machine: &mut Machine, order: Order) -> Vec<Consequence> {
    let (mut effects, mut consequences) = (Vec::new(), Vec::new());
    let borglet = machine.borglet.as_mut().expect("a Borglet");
    borglet.obey(NOW, order, &mut effects).expect("a newer order");
    for effect in effects {
        machine.execute(NOW, effect, &Commands, &mut consequences);
    }
    machine.refresh();
    consequences
}

/// Lets an event happen, and passes its input to the Borglet if that runs.
fn pass(machine: &mut Machine, step: TaskStep) {
    let Some(passed) = machine.pass(NOW, id(), step, &Commands) else { return };
    if let Some(borglet) = &mut machine.borglet {
        borglet.step(NOW, passed.input, &mut Vec::new());
    }
    machine.refresh();
}

#[test]
fn each_event_leads_to_the_expected_report() {
    let exited = || TaskStep::Ends(End::Exited { code: 3 });
    let restarts = |machine: &mut Machine| {
        machine.kill_borglet();
        machine.start_borglet(NOW);
    };
    let running = TaskStatus::Running { healthy: Some(true) };
    let lost = End::Lost { reason: "its machine was rebooted".to_owned() };
    type Happens<'a> = &'a dyn Fn(&mut Machine);
    let table: [(&str, Happens<'_>, usize, TaskStatus); 6] = [
        ("it runs", &|_| {}, 1, running.clone()),
        ("its Borglet was killed", &restarts, 1, running),
        (
            "it ended",
            &|machine| pass(machine, exited()),
            0,
            TaskStatus::Ended(End::Exited { code: 3 }, model::FinalUsage::UNMEASURED),
        ),
        (
            "it ended while there was no Borglet",
            &|machine| {
                machine.kill_borglet();
                pass(machine, exited());
                machine.start_borglet(NOW);
            },
            0,
            TaskStatus::Ended(End::Exited { code: 3 }, model::FinalUsage::UNMEASURED),
        ),
        (
            "it ended a second time",
            &|machine| {
                pass(machine, exited());
                pass(machine, TaskStep::Ends(End::Exited { code: 0 }));
            },
            0,
            TaskStatus::Ended(End::Exited { code: 3 }, model::FinalUsage::UNMEASURED),
        ),
        (
            "power was lost",
            &|machine| {
                machine.lose_power();
                machine.start_borglet(NOW);
            },
            0,
            TaskStatus::Ended(lost, model::FinalUsage::UNMEASURED),
        ),
    ];
    for (what, happens, there, status) in table {
        let mut machine = machine();
        let (version, boot) = (machine.version, machine.boot);
        happens(&mut machine);
        assert_eq!(machine.running().count(), there, "{what}");
        assert_eq!(machine.said.tasks.len(), 1, "{what}");
        assert_eq!(machine.said.tasks[0].status, status, "{what}");
        assert_eq!(machine.said.stamp.index.0, 3, "{what}: an order is remembered");
        assert_eq!(machine.version == version, what == "it runs", "{what}");
        assert_eq!(machine.boot > boot, what == "power was lost", "{what}");
    }
}

#[test]
fn an_unwanted_task_gets_its_notice_and_then_loses_its_record() {
    let mut machine = machine();
    let nothing = |index| Order { tasks: Vec::new(), ..order(index) };
    let consequences = obey(&mut machine, nothing(4));
    let [Consequence::After(after, _, step @ TaskStep::Ends(_))] = consequences.as_slice() else {
        panic!("one SIGTERM: {consequences:?}")
    };
    assert_eq!(*after, Span::from_millis(40), "it ends after this delay");
    assert!(machine.processes[&id()].ending && machine.running().count() == 1);
    pass(&mut machine, step.clone());
    let notice = Some(model::NoticeDelivery::Full);
    let usage = model::FinalUsage { notice, ..model::FinalUsage::UNMEASURED };
    assert_eq!(machine.said.tasks[0].status, TaskStatus::Ended(End::Stopped, usage));
    obey(&mut machine, nothing(5));
    assert!(machine.processes.is_empty() && machine.said.tasks.is_empty());
}

#[test]
fn a_poll_is_held_until_the_report_changes() {
    let mut machine = machine();
    let call = Call {
        number: 1,
        incarnation: 1,
        master: 0,
        machine: MachineId(1),
        had_order: false,
        deadline: NOW,
        ghost: false,
    };
    machine.held.push(HeldPoll { call, seen: machine.version });
    assert!(!machine.refresh() && machine.answerable().is_empty());
    pass(&mut machine, TaskStep::Ends(End::Exited { code: 0 }));
    assert_eq!(machine.answerable().len(), 1);
    assert!(machine.held.is_empty());
}
