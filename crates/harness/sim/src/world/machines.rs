//! Events on the machines of a world.

use std::sync::Arc;

use borglet::{Effect, Input};
use master::{Answer, Poll};
use model::{End, InstanceId, MachineReport, RestoreEpoch, Span, Time};
use replica::Codec;

use crate::injected_bug::InjectedBug;
use crate::machine::{Call, Consequence, HeldPoll, MachineEvent, Power, TaskStep, memory};
use crate::network::{Fate, Node};
use crate::world::{Event, World};

/// Delay from the kill of a Borglet until its restart.
const RESTARTS_AFTER: Span = Span::from_secs(1);

impl<C: Codec> World<C> {
    /// Handles an event on a machine, unless that is frozen or off.
    pub(crate) fn machine_event(&mut self, number: usize, event: MachineEvent) {
        if let MachineEvent::MemoryRead { turn } = event {
            return self.read_memory(number, turn);
        }
        match self.machines[number].power {
            Power::On => self.on_machine(number, event),
            Power::Frozen => self.on_frozen_machine(number, event),
            Power::Off => match event {
                MachineEvent::Boots => self.boot(number),
                // Nothing answers there, and nothing refuses the connection either.
                MachineEvent::Polled { call, .. } => self.gives_call_up(call),
                _ => {}
            },
        }
    }

    fn on_machine(&mut self, number: usize, event: MachineEvent) {
        let frozen = self.machines[number].untold.is_some();
        match event {
            MachineEvent::Polled { .. }
            | MachineEvent::HoldOver { .. }
            | MachineEvent::Inputs { .. }
            | MachineEvent::Tick { .. }
                if frozen =>
            {
                self.on_frozen_machine(number, event);
            }
            MachineEvent::Polled { call, poll } => self.polled(number, call, *poll),
            MachineEvent::HoldOver { call } => {
                let held = &mut self.machines[number].held;
                let over = held.iter().position(|held| held.call.number == call);
                if let Some(position) = over {
                    let call = held.remove(position).call;
                    self.answer(number, call);
                }
            }
            MachineEvent::Tick { at } if self.machines[number].tick == Some(at) => {
                self.machines[number].tick = None;
                self.tell_borglet(number, Input::Tick);
            }
            MachineEvent::Task { boot, instance, step } if boot == self.machines[number].boot => {
                self.task_step(number, instance, step);
            }
            MachineEvent::Inputs { boot, instance, attempt, step }
                if boot == self.machines[number].boot =>
            {
                self.inputs_step(number, instance, attempt, step);
            }
            MachineEvent::BorgletStarts { boot } => {
                let machine = &mut self.machines[number];
                if boot == machine.boot && machine.borglet.is_none() {
                    machine.start_borglet(self.now);
                    self.interrupted_reads(number);
                    self.plan_tick(number);
                }
            }
            _ => {}
        }
    }

    /// What is sent to a frozen machine is queued in its kernel.
    fn on_frozen_machine(&mut self, number: usize, event: MachineEvent) {
        if let MachineEvent::Polled { call, poll } = event {
            self.gives_call_up(call);
            let call = Call { ghost: true, ..call };
            self.machines[number].backlog.push(MachineEvent::Polled { call, poll });
        } else {
            self.machines[number].backlog.push(event);
        }
    }

    fn polled(&mut self, number: usize, call: Call, poll: Poll) {
        if self.machines[number].borglet.is_none() {
            // The connection is refused at once.
            return self.send_answer(number, call, Answer::Failed);
        }
        // A new poll ends the hold of the previous one.
        let held = std::mem::take(&mut self.machines[number].held);
        held.into_iter().for_each(|held| self.answer(number, held.call));
        if let Some(order) = poll.order {
            self.obey(number, order);
        }
        if self.machines[number].reserved != poll.reservations {
            self.machines[number].reserved.clone_from(&poll.reservations);
            self.tell_borglet(number, Input::Reservations(poll.reservations));
        }
        if self.machines[number].version == poll.seen && !call.ghost {
            self.machines[number].held.push(HeldPoll { call, seen: poll.seen });
            let over = self.now + poll.hold;
            let event = MachineEvent::HoldOver { call: call.number };
            self.agenda.at(over, Event::OnMachine { machine: number, event });
        } else {
            self.answer(number, call);
        }
    }

    fn obey(&mut self, number: usize, mut order: borglet::Order) {
        let machine = &mut self.machines[number];
        let Some(borglet) = &mut machine.borglet else { return };
        let stamp = order.stamp;
        if self.injected_bug == Some(InjectedBug::OldOrder) && order.stamp < machine.said.stamp {
            order.stamp = machine.said.stamp;
        }
        let priorities = memory::priorities(&order);
        if self.injected_bug == Some(InjectedBug::KillsProductionFirst) {
            memory::turn_priorities_over(&mut order);
        }
        if self.injected_bug == Some(InjectedBug::StaleMount) {
            let volumes = order.tasks.iter_mut().flat_map(|desired| &mut desired.volumes);
            volumes.for_each(|volume| volume.exclusive = false);
        }
        if self.injected_bug == Some(InjectedBug::StaleDescription) {
            for desired in &mut order.tasks {
                let first = machine.first.entry(desired.instance.task());
                let first = first.or_insert_with(|| (desired.instance, desired.spec.clone()));
                if first.0 != desired.instance {
                    desired.spec = first.1.clone();
                }
            }
        }
        let mut effects = Vec::new();
        // A rejected order came late: its sender learns from the report.
        if borglet.obey(self.now, order, &mut effects).is_ok() {
            self.invariants.obeyed(number, &mut machine.obeyed, stamp);
            machine.memory.given(priorities);
        }
        self.effects(number, effects);
    }

    /// Passes an input to a Borglet, if it runs.
    fn tell_borglet(&mut self, number: usize, input: Input) {
        let (now, mut effects) = (self.now, Vec::new());
        let learns =
            self.machines[number].borglet.is_some() && self.machines[number].untold.is_none();
        if let Input::Ended(instance, ..) = &input
            && learns
        {
            self.inputs_end(number, *instance);
        }
        let machine = &mut self.machines[number];
        if let Some(untold) = &mut machine.untold {
            untold.push(input);
        } else if machine.borglet.is_some() {
            let kept = machine.newly_kept(now, &input);
            if let Some(borglet) = &mut machine.borglet {
                kept.into_iter()
                    .chain([input])
                    .for_each(|input| borglet.step(now, input, &mut effects));
            }
            self.effects(number, effects);
        }
    }

    /// A program beside the tasks takes a part of a machine's memory, in thousandths, or none.
    pub(crate) fn take_memory(&mut self, number: usize, permille: Option<u64>) {
        if let Some(turn) = self.machines[number].memory.take(permille) {
            self.read_memory_at(self.now, number, turn);
        }
    }

    fn read_memory_at(&mut self, at: Time, number: usize, turn: u64) {
        let event = MachineEvent::MemoryRead { turn };
        self.agenda.at(at, Event::OnMachine { machine: number, event });
    }

    /// The Borglet reads its machine's memory, and again as long as something takes a part of it.
    fn read_memory(&mut self, number: usize, turn: u64) {
        let (now, machine) = (self.now, &mut self.machines[number]);
        if !machine.memory.is_taken(turn) {
            return;
        }
        self.read_memory_at(now + memory::READ_EVERY, number, turn);
        let machine = &mut self.machines[number];
        let able = machine.power == Power::On && machine.untold.is_none();
        let Some(read) = machine.read_memory(now).filter(|read| able && read.report.is_short())
        else {
            return;
        };
        self.counts.shortages += 1;
        self.tell_borglet(number, Input::Memory(read.report.clone()));
        let ended = self.machines[number].memory.take_ended();
        self.counts.short_evictions += ended.len() as u64;
        if let Some(wrong) = read.wrong(&ended) {
            self.invariants.violated(format!("m{number} is short of memory: {wrong}"));
        }
    }

    fn effects(&mut self, number: usize, effects: Vec<Effect>) {
        let mut consequences = Vec::new();
        let (now, programs) = (self.now, self.programs.as_ref());
        for effect in effects {
            self.machines[number].execute(now, effect, programs, &mut consequences);
        }
        let boot = self.machines[number].boot;
        for consequence in consequences {
            match consequence {
                Consequence::Started(instance) => {
                    self.counts.processes += 1;
                    self.invariants.started(number, &self.machines[number], instance);
                }
                Consequence::After(after, instance, step) => {
                    let event = MachineEvent::Task { boot, instance, step };
                    let event = Event::OnMachine { machine: number, event };
                    self.agenda.at(now + after, event);
                }
                Consequence::Left(alloc) => {
                    let there = self.machines[number].allocs.get(&alloc);
                    let epoch = there.map_or(RestoreEpoch::NEVER, |alloc| alloc.epoch);
                    self.invariants.leaves_data(now, number, alloc, epoch);
                }
                Consequence::Settled(instance, outcome) => {
                    self.invariants.savers.settled(instance, outcome);
                }
                Consequence::Forgot(instance) => self.invariants.forgets_data(instance),
                Consequence::EndedByRule(instance, rule) => {
                    self.machines[number].memory.ended_by(instance, rule);
                }
                Consequence::Asks(instance, what) => self.asks_for_inputs(number, instance, what),
                Consequence::Wrong(wrong) => {
                    self.invariants.violated(format!("on m{number} {wrong}"));
                }
            }
        }
        if self.machines[number].refresh() {
            let held = self.machines[number].answerable();
            held.into_iter().for_each(|held| self.answer(number, held.call));
        }
        self.plan_tick(number);
    }

    fn plan_tick(&mut self, number: usize) {
        let machine = &mut self.machines[number];
        let next = machine.borglet.as_ref().and_then(borglet::Borglet::next_tick);
        if let Some(next) = next.map(|next| next.max(self.now))
            && machine.tick.is_none_or(|tick| next < tick)
        {
            machine.tick = Some(next);
            let event = MachineEvent::Tick { at: next };
            self.agenda.at(next, Event::OnMachine { machine: number, event });
        }
    }

    pub(crate) fn task_step(&mut self, number: usize, instance: InstanceId, step: TaskStep) {
        if let Some(took) = self.machines[number].fetched(instance, &step) {
            self.tell_borglet(number, Input::Fetched(instance, took));
        }
        let programs = self.programs.as_ref();
        let Some(passed) = self.machines[number].pass(self.now, instance, step, programs) else {
            return;
        };
        if let Some((runs, end)) = passed.then {
            let boot = self.machines[number].boot;
            let step = TaskStep::Ends(end);
            let event = MachineEvent::Task { boot, instance, step };
            self.agenda.at(self.now + runs, Event::OnMachine { machine: number, event });
        }
        if let Some(end) = &passed.ended {
            self.invariants.ended(instance, end);
            self.task_ended(number, instance, end);
        }
        if let Input::AllocRemoved(_) = passed.input {
            self.invariants.check_alloc_exists(number, &self.machines[number]);
        }
        self.tell_borglet(number, passed.input);
    }

    fn answer(&mut self, number: usize, call: Call) {
        let machine = &mut self.machines[number];
        let (report, version) = (Arc::clone(&machine.said), machine.version);
        let (usage, wrong) = machine.measure(self.now);
        if let Some(wrong) = wrong {
            self.invariants.violated(format!("on m{number} {wrong}"));
        }
        let usage = Arc::new(usage);
        self.send_answer(number, call, Answer::Report { report, version, usage });
    }

    fn send_answer(&mut self, number: usize, call: Call, answer: Answer) {
        if call.ghost {
            return;
        }
        match self.network.send(Node::Machine(number), Node::Master(call.master)) {
            Fate::Lost => self.gives_call_up(call),
            Fate::Arrives(delay, _) if self.now + delay > call.deadline => {
                self.gives_call_up(call);
            }
            Fate::Arrives(delay, _) => {
                self.agenda.at(self.now + delay, Event::Answered { call, answer });
            }
        }
    }

    /// A machine loses power, with everything on it.
    pub(crate) fn power_off(&mut self, number: usize) {
        if self.machines[number].power == Power::Off {
            return;
        }
        self.counts.removals += 1;
        self.thaw(number);
        for held in std::mem::take(&mut self.machines[number].held) {
            self.gives_call_up(held.call);
        }
        let running: Vec<_> = self.machines[number].running().collect();
        self.machines[number].lose_power();
        for instance in running {
            let reason = "its machine was rebooted".to_owned();
            let end = End::Lost { reason };
            self.invariants.ended(instance, &end);
            self.task_ended(number, instance, &end);
        }
    }

    /// A task has really ended: does it leave data for its saver?
    pub(crate) fn task_ended(&mut self, number: usize, instance: InstanceId, end: &End) {
        let process = self.machines[number].processes.get(&instance);
        if let Some(process) = process.filter(|process| process.leaves_data(end)) {
            self.invariants.leaves_data(self.now, number, instance, process.epoch);
        }
    }

    /// A machine boots.
    pub(crate) fn boot(&mut self, number: usize) {
        if self.machines[number].power == Power::Off {
            self.machines[number].power = Power::On;
            self.start_borglet(number);
        }
    }

    fn start_borglet(&mut self, number: usize) {
        let now = self.now;
        self.machines[number].start_borglet(now);
        self.plan_tick(number);
    }

    /// Freezes a machine.
    pub(crate) fn freeze(&mut self, number: usize) {
        if self.machines[number].power == Power::On {
            self.machines[number].power = Power::Frozen;
            for held in std::mem::take(&mut self.machines[number].held) {
                self.gives_call_up(held.call);
            }
        }
    }

    /// Unfreezes a machine.
    pub(crate) fn thaw(&mut self, number: usize) {
        if self.machines[number].power == Power::Frozen {
            self.machines[number].power = Power::On;
            for event in std::mem::take(&mut self.machines[number].backlog) {
                self.agenda.at(self.now, Event::OnMachine { machine: number, event });
            }
        }
    }

    /// Freezes a Borglet; its tasks keep running, and their events are queued.
    pub(crate) fn freeze_borglet(&mut self, number: usize) {
        let machine = &mut self.machines[number];
        if machine.power == Power::On && machine.borglet.is_some() && machine.untold.is_none() {
            machine.untold = Some(Vec::new());
            for held in std::mem::take(&mut machine.held) {
                self.gives_call_up(held.call);
            }
        }
    }

    /// Unfreezes a Borglet.
    pub(crate) fn thaw_borglet(&mut self, number: usize) {
        let Some(untold) = self.machines[number].untold.take() else { return };
        untold.into_iter().for_each(|input| self.tell_borglet(number, input));
        for event in std::mem::take(&mut self.machines[number].backlog) {
            self.agenda.at(self.now, Event::OnMachine { machine: number, event });
        }
    }

    /// A machine reports half of its memory, or all of it again.
    pub(crate) fn shrink(&mut self, number: usize, by_half: bool) {
        let machine = &mut self.machines[number];
        let mut report = MachineReport::clone(&machine.whole);
        if by_half {
            report.capacity.ram.0 /= 2;
        }
        if report != *machine.report {
            machine.report = Arc::new(report);
            let report = Arc::clone(&machine.report);
            self.tell_borglet(number, Input::Machine(report));
        }
    }

    /// Kills a Borglet, which is restarted a little later; its tasks keep running.
    pub(crate) fn kill_borglet(&mut self, number: usize) {
        if self.machines[number].power != Power::On || self.machines[number].borglet.is_none() {
            return;
        }
        for held in std::mem::take(&mut self.machines[number].held) {
            self.send_answer(number, held.call, Answer::Failed);
        }
        self.starts_are_lost(number);
        let machine = &mut self.machines[number];
        machine.kill_borglet();
        // What was sent to a frozen Borglet is lost with its connections.
        machine.backlog.clear();
        if self.injected_bug == Some(InjectedBug::OrderTwice) {
            machine.forget();
        }
        if self.injected_bug == Some(InjectedBug::ForgottenData) {
            machine.forget_data();
        }
        if self.injected_bug == Some(InjectedBug::SaverTwice) {
            machine.forget_savers();
        }
        let boot = machine.boot;
        let event = MachineEvent::BorgletStarts { boot };
        let event = Event::OnMachine { machine: number, event };
        self.agenda.at(self.now + RESTARTS_AFTER, event);
    }

    /// Kills a task together with its shim: nobody sees how it ends.
    pub(crate) fn lose_task(&mut self, number: usize, which: usize) {
        if self.machines[number].power != Power::On {
            return;
        }
        let instance = self.machines[number].running().nth(which);
        if let Some(instance) = instance {
            let end = End::Lost { reason: "its shim died".to_owned() };
            self.task_step(number, instance, TaskStep::Ends(end));
        }
    }
}
