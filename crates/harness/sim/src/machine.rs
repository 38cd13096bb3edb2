//! A simulated machine: a real Borglet over simulated processes.
//!
//! State survives as on a real machine. A killed Borglet leaves its tasks running and its records
//! on the disk, and the next one adopts them. A machine that reboots has lost its tasks, and its
//! records say so. A frozen one does nothing, and later resumes with whatever was sent to it
//! meanwhile.

mod allocs;
pub(crate) mod inputs;
pub(crate) mod memory;
mod savers;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use borglet::{
    Borglet, CheckKind, Desired, DesiredAlloc, Effect, Input, Launch, Recovered, RecoveredStatus,
    Report, Rule, Settings, Usage,
};
use master::Poll;
use model::{
    Bytes, End, InstanceId, MachineId, MachineName, MachineReport, Random, Resources, RestoreEpoch,
    SaverOutcome, Span, Stamp, TaskId, Time, VolumeMount,
};
use spec::TaskSpec;

use crate::program::{Incarnation, Programs};
use crate::usage::{Metered, Meters};
pub(crate) use allocs::Alloc;
use inputs::{AskedFor, InputsStep, MachineInputs};
use savers::Data;

/// The maximum of what a machine keeps for savers.
const KEPT_DATA: Bytes = Bytes(1 << 30);

/// The power state of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Power {
    On,
    /// It does nothing and keeps all state.
    Frozen,
    Off,
}

/// An instance, according to its shim and its records.
#[derive(Clone, Debug)]
pub(crate) struct InstanceProcess {
    pub(crate) launch: Launch,
    pub(crate) incarnation: Incarnation,
    pub(crate) phase: ProcessPhase,
    /// It was told to end.
    pub(crate) ending: bool,
    /// Whether its files are still where it left them.
    pub(crate) has_files: bool,
    /// How often the cell had been restored from a backup when it started.
    pub(crate) epoch: RestoreEpoch,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProcessPhase {
    Starting,
    Running(Time),
    Ended(End),
}

impl InstanceProcess {
    pub(crate) fn is_there(&self) -> bool {
        !matches!(self.phase, ProcessPhase::Ended(_))
    }

    /// Whether it has a saver that runs after this end.
    pub(crate) fn leaves_data(&self, end: &End) -> bool {
        let ran = !matches!(end, End::NotStarted { .. });
        ran && self.launch.desired.spec.saver.is_some()
    }
}

/// A long poll that is held back.
#[derive(Clone, Debug)]
pub(crate) struct HeldPoll {
    pub(crate) call: Call,
    pub(crate) seen: u64,
}

/// A poll of a master.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) number: u64,
    /// The replica that sent it, and its incarnation.
    pub(crate) master: usize,
    pub(crate) incarnation: u64,
    pub(crate) machine: MachineId,
    pub(crate) had_order: bool,
    /// When the master gives up on it.
    pub(crate) deadline: Time,
    /// A duplicate made by the network, whose answer nobody expects.
    pub(crate) ghost: bool,
}

/// A later event of a task or alloc.
#[derive(Clone, Debug)]
pub(crate) enum TaskStep {
    /// Its program starts to run.
    Begins,
    /// It ends, if it has not ended before.
    Ends(End),
    /// The result of a health check.
    Answers(CheckKind, Result<String, String>),
    /// It could not start: its user id is in use.
    UidTaken,
    /// An alloc was made, or could not be made.
    Made(Box<DesiredAlloc>, Result<(), String>),
    /// An alloc was removed.
    Removed,
    /// Something of an alloc could not be removed.
    Stays,
    /// An attempt to save its data ends, if it has not ended before.
    SaverEnds(u32, Result<(), String>),
    /// Its data was measured.
    Measured(Bytes),
}

/// A machine.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) name: MachineName,
    /// Its current report, and the report without faults.
    pub(crate) report: Arc<MachineReport>,
    pub(crate) whole: Arc<MachineReport>,
    pub(crate) power: Power,
    /// While its Borglet is frozen: its pending inputs.
    pub(crate) untold: Option<Vec<Input>>,
    /// Number of boots: events of earlier boots are dropped.
    pub(crate) boot: u64,
    pub(crate) borglet: Option<Borglet>,
    pub(crate) processes: BTreeMap<InstanceId, InstanceProcess>,
    pub(crate) allocs: BTreeMap<InstanceId, Alloc>,
    /// The data of ended instances.
    data: BTreeMap<InstanceId, Data>,
    /// For an injected bug: the first incarnation of each task here, with its description.
    pub(crate) first: BTreeMap<TaskId, (InstanceId, Arc<TaskSpec>)>,
    stamp: Stamp,
    /// The newest order that it ever obeyed, independent of its memory.
    pub(crate) obeyed: Stamp,
    /// The newest report, with its version.
    pub(crate) said: Arc<Report>,
    pub(crate) version: u64,
    pub(crate) held: Vec<HeldPoll>,
    /// The next time at which its Borglet gets a tick.
    pub(crate) tick: Option<Time>,
    /// Events that arrived while it was frozen.
    pub(crate) backlog: Vec<MachineEvent>,
    pub(crate) random: Random,
    pub(crate) meters: Meters,
    /// The reservations that its Borglet was told last.
    pub(crate) reserved: Vec<(InstanceId, Bytes)>,
    pub(crate) memory: memory::Memory,
    /// What its tasks have read, and what its Borglet asks for.
    pub(crate) inputs: MachineInputs,
}

/// An event on a machine.
#[derive(Debug)]
pub(crate) enum MachineEvent {
    /// A poll arrives.
    Polled { call: Call, poll: Box<Poll> },
    /// A long poll reached its maximum hold time.
    HoldOver { call: u64 },
    /// A clock tick for the Borglet.
    Tick { at: Time },
    /// A later event of a task or alloc.
    Task { boot: u64, instance: InstanceId, step: TaskStep },
    /// The killed Borglet is restarted.
    BorgletStarts { boot: u64 },
    /// The machine boots.
    Boots,
    /// The memory of a machine of which a part is taken is read.
    MemoryRead { turn: u64 },
    /// A step of a request of its Borglet for what a task needs.
    Inputs { boot: u64, instance: InstanceId, attempt: u64, step: InputsStep },
}

/// An effect of what a Borglet did.
#[derive(Debug)]
pub(crate) enum Consequence {
    /// A process begins.
    Started(InstanceId),
    /// A later event, after a delay.
    After(Span, InstanceId, TaskStep),
    /// An alloc leaves data for its saver.
    Left(InstanceId),
    /// Data was deleted, and what became of it.
    Settled(InstanceId, SaverOutcome),
    /// What became of data was forgotten.
    Forgot(InstanceId),
    /// The Borglet ended a task by a rule.
    EndedByRule(InstanceId, Rule),
    /// The Borglet asks a master for secrets, and for what names stand for.
    Asks(InstanceId, AskedFor),
    /// What must not be.
    Wrong(String),
}

impl Machine {
    pub(crate) fn new(name: MachineName, report: Arc<MachineReport>, random: Random) -> Self {
        let mut machine = Self {
            name,
            whole: Arc::clone(&report),
            report,
            power: Power::On,
            untold: None,
            boot: 0,
            borglet: None,
            processes: BTreeMap::new(),
            allocs: BTreeMap::new(),
            data: BTreeMap::new(),
            first: BTreeMap::new(),
            stamp: Stamp::default(),
            obeyed: Stamp::default(),
            said: Arc::default(),
            version: 0,
            held: Vec::new(),
            tick: None,
            backlog: Vec::new(),
            meters: Meters::new(random.clone().number()),
            reserved: Vec::new(),
            memory: memory::Memory::default(),
            inputs: MachineInputs::default(),
            random,
        };
        // It keeps nothing yet that has a time.
        machine.start_borglet(Time::ZERO);
        machine
    }

    /// Starts the Borglet from what it finds.
    pub(crate) fn start_borglet(&mut self, now: Time) {
        let data = self.recovered_data(now);
        self.inputs.adopt(&self.processes);
        let recovered = self.processes.values().map(|process| Recovered {
            launch: process.launch.clone(),
            status: match &process.phase {
                ProcessPhase::Starting => RecoveredStatus::Starting,
                ProcessPhase::Running(since) => RecoveredStatus::Running(*since),
                ProcessPhase::Ended(end) => {
                    RecoveredStatus::Ended(end.clone(), model::FinalUsage::UNMEASURED)
                }
            },
        });
        let recovered = recovered.collect();
        let allocs = self.recovered_allocs();
        let machine = Arc::clone(&self.report);
        let settings = Settings { kept_data: KEPT_DATA, ..Settings::default() };
        let borglet = Borglet::new(settings, machine, self.stamp, allocs, recovered);
        self.borglet = Some(borglet.with_data(now, data));
        self.meters.start_again();
        self.reserved.clear();
        // Versions of this process must never match those of an earlier one.
        self.version += 1 << 32;
        self.tick = None;
        self.refresh();
    }

    /// Kills the Borglet.
    pub(crate) fn kill_borglet(&mut self) {
        self.borglet = None;
        self.untold = None;
    }

    /// All tasks and the Borglet are lost. The files of allocs and what is kept for savers remain.
    pub(crate) fn lose_power(&mut self) {
        self.power = Power::Off;
        self.boot += 1;
        self.kill_borglet();
        self.backlog.clear();
        for process in self.processes.values_mut().filter(|process| process.is_there()) {
            let reason = "its machine was rebooted".to_owned();
            process.phase = ProcessPhase::Ended(End::Lost { reason });
        }
        self.allocs.values_mut().for_each(|alloc| alloc.made = false);
        self.inputs.lose_power();
        self.savers_lose_power();
    }

    /// Updates the report; returns whether it changed.
    pub(crate) fn refresh(&mut self) -> bool {
        let Some(borglet) = &self.borglet else { return false };
        let report = borglet.report();
        if *self.said == report {
            return false;
        }
        self.version += 1;
        self.said = Arc::new(report);
        true
    }

    /// Takes the held polls that can be answered now.
    pub(crate) fn answerable(&mut self) -> Vec<HeldPoll> {
        let version = self.version;
        self.held.extract_if(.., |held| held.seen != version).collect()
    }

    /// Measures its running tasks. Returns what goes with an answer, and what is wrong with it.
    pub(crate) fn measure(&mut self, now: Time) -> (Usage, Option<String>) {
        let runs = |(instance, process): (&InstanceId, &InstanceProcess)| {
            let Desired { alloc, spec, .. } = &process.launch.desired;
            let ProcessPhase::Running(started) = process.phase else { return None };
            Some(Metered { instance: *instance, alloc: *alloc, started, limit: spec.limit })
        };
        self.meters.measure(now, || self.processes.iter().filter_map(runs).collect())
    }

    /// Whether its Borglet answers.
    pub(crate) fn answers(&self) -> bool {
        self.power == Power::On && self.borglet.is_some() && self.untold.is_none()
    }

    /// The instances here that have not ended.
    pub(crate) fn running(&self) -> impl Iterator<Item = InstanceId> {
        self.processes.iter().filter(|(_, process)| process.is_there()).map(|(id, _)| *id)
    }

    /// An injected bug: forgets what was started and what was obeyed.
    pub(crate) fn forget(&mut self) {
        self.processes.clear();
        self.allocs.clear();
        self.stamp = Stamp::default();
    }

    /// The ports of the other instances here that have not ended, each with the address of its network
    /// if that is not the host's.
    pub(crate) fn ports_in_use(&self, but: InstanceId) -> impl Iterator<Item = Port> {
        let others =
            self.processes.iter().filter(move |(id, other)| **id != but && other.is_there());
        others.flat_map(|(_, other)| ports(&other.launch.desired))
    }

    /// The volumes of the other instances here that have not ended.
    pub(crate) fn volumes_in_use(&self, but: InstanceId) -> impl Iterator<Item = &VolumeMount> {
        let others =
            self.processes.iter().filter(move |(id, other)| **id != but && other.is_there());
        others.flat_map(|(_, other)| &other.launch.desired.volumes)
    }

    /// The addresses of the other instances here that have not ended and run in no alloc.
    pub(crate) fn addresses_in_use(&self, but: InstanceId) -> impl Iterator<Item = Ipv4Addr> {
        let others =
            self.processes.iter().filter(move |(id, other)| **id != but && other.is_there());
        let alone = others.map(|(_, other)| &other.launch.desired).filter(|it| it.alloc.is_none());
        alone.filter_map(|desired| desired.address)
    }

    /// Carries out a Borglet's effects on simulated processes.
    pub(crate) fn execute(
        &mut self,
        now: Time,
        effect: Effect,
        programs: &dyn Programs,
        consequences: &mut Vec<Consequence>,
    ) {
        match effect {
            Effect::PersistStamp(stamp) => self.stamp = stamp,
            // Occasionally the user id is in use by something else. It may be a saver's: a Borglet
            // does not know those of savers of allocs that it adopted.
            Effect::Start(launch) if self.random.chance(10) || self.is_saver(launch.uid) => {
                let after = Span::from_millis(2);
                consequences.push(Consequence::After(after, launch.instance, TaskStep::UidTaken));
            }
            Effect::Start(launch) => {
                let generation = launch.instance.generation;
                let incarnation =
                    programs.incarnation(now, &launch.desired, generation, &mut self.random);
                let (id, begins) = (launch.instance, incarnation.begins);
                let asks_master = launch.asks_master();
                let step = match &incarnation.end {
                    end @ End::NotStarted { .. } => TaskStep::Ends(end.clone()),
                    _ => TaskStep::Begins,
                };
                let (phase, epoch) = (ProcessPhase::Starting, self.obeyed.restore_epoch);
                let (ending, has_files) = (false, true);
                let launch = *launch;
                let process =
                    InstanceProcess { launch, incarnation, phase, ending, has_files, epoch };
                self.processes.insert(id, process);
                consequences.push(Consequence::Started(id));
                consequences.push(match asks_master {
                    true => Consequence::Asks(id, AskedFor::Start { begins, step }),
                    false => Consequence::After(begins, id, step),
                });
            }
            Effect::Terminate(id, _) => {
                if let Some(process) = self.processes.get_mut(&id) {
                    process.ending = true;
                    let end = End::Signalled { signal: 15 };
                    consequences.push(Consequence::After(
                        process.incarnation.heeds,
                        id,
                        TaskStep::Ends(end),
                    ));
                }
            }
            Effect::Kill(id) => {
                let end = End::Signalled { signal: 9 };
                consequences.push(Consequence::After(
                    Span::from_millis(2),
                    id,
                    TaskStep::Ends(end),
                ));
            }
            Effect::Check { instance, kind, timeout, .. } => {
                let (after, answer) = self.health(now, instance, timeout);
                consequences.push(Consequence::After(
                    after,
                    instance,
                    TaskStep::Answers(kind, answer),
                ));
            }
            Effect::Resize { instance, limit } => {
                // Memory in use is not released at once.
                let refuses = self.random.chance(200);
                let process =
                    self.processes.get_mut(&instance).filter(|process| process.is_there());
                let held = process.map(|process| {
                    let own = &mut Arc::make_mut(&mut process.launch.desired.spec).limit;
                    let ram = if refuses { own.ram.max(limit.ram) } else { limit.ram };
                    *own = Resources { ram, ..limit };
                    *own
                });
                self.resized(now, instance, held, programs, consequences);
            }
            Effect::MakeAlloc(desired) => consequences.push(self.make_alloc(desired)),
            Effect::ResizeAlloc { instance, limit } => {
                let held = self.resize_alloc(instance, limit);
                self.resized(now, instance, held, programs, consequences);
            }
            Effect::RemoveAlloc { instance, save } => {
                self.remove_alloc(now, instance, save, consequences);
            }
            Effect::MeasureData(_)
            | Effect::RunSaver(_)
            | Effect::KillSaver(_)
            | Effect::EndData(_)
            | Effect::ForgetData(_) => self.save(now, effect, consequences),
            Effect::Retire { instance, .. } => drop(self.processes.remove(&instance)),
            Effect::ReadAgain(launch) => {
                let again = AskedFor::Again { round: 0 };
                consequences.push(Consequence::Asks(launch.instance, again));
            }
            // Simulated processes write no logs, and compete for no CPU.
            Effect::KeepLogs(_)
            | Effect::LookAtVolumes(_)
            | Effect::ShareCpus(_)
            | Effect::CapCpu { .. } => {}
            // Its set-ups do not fail.
            Effect::Probe => {}
            Effect::NoteRule { instance, rule, .. } => {
                consequences.push(Consequence::EndedByRule(instance, rule));
            }
        }
    }

    /// The kernel resizes at once.
    fn resized(
        &mut self,
        now: Time,
        instance: InstanceId,
        held: Option<Resources>,
        programs: &dyn Programs,
        consequences: &mut Vec<Consequence>,
    ) {
        let mut more = Vec::new();
        if let Some(borglet) = &mut self.borglet {
            borglet.step(now, Input::Resized(instance, held), &mut more);
        }
        more.into_iter().for_each(|effect| self.execute(now, effect, programs, consequences));
    }

    fn health(&self, now: Time, id: InstanceId, timeout: Span) -> (Span, Result<String, String>) {
        let process = self.processes.get(&id);
        let Some((ProcessPhase::Running(since), incarnation)) =
            process.map(|process| (process.phase.clone(), &process.incarnation))
        else {
            return (Span::from_millis(1), Err("connection refused".to_owned()));
        };
        let age = now.since(since);
        match incarnation.healthy_until {
            _ if age < incarnation.healthy_after => (Span::from_millis(1), Err("503".to_owned())),
            Some(until) if age >= until => (timeout, Err("no answer in time".to_owned())),
            _ => (Span::from_millis(2), Ok("HTTP 200".to_owned())),
        }
    }

    /// How long what an instance needs was fetched, if its program begins to run now.
    pub(crate) fn fetched(&self, id: InstanceId, step: &TaskStep) -> Option<Span> {
        let process = self.processes.get(&id)?;
        let begins = matches!((step, &process.phase), (TaskStep::Begins, ProcessPhase::Starting));
        // Some have everything they need.
        let parts = u64::from(id.index.0 % 3);
        begins.then(|| Span(process.incarnation.begins.0.saturating_mul(parts) / 3))
    }

    /// A task's event takes effect; returns the input for its Borglet, if that runs.
    pub(crate) fn pass(
        &mut self,
        now: Time,
        id: InstanceId,
        step: TaskStep,
        programs: &dyn Programs,
    ) -> Option<Passed> {
        if let TaskStep::UidTaken = step {
            let never_started = !self.processes.contains_key(&id);
            let input = Input::UidTaken(id);
            return never_started.then_some(Passed { input, then: None, ended: None });
        }
        if let TaskStep::Made(..) | TaskStep::Removed | TaskStep::Stays = step {
            return self.pass_alloc(id, step);
        }
        if let TaskStep::SaverEnds(..) | TaskStep::Measured(_) = step {
            return self.pass_data(id, step);
        }
        let process = self.processes.get_mut(&id)?;
        match (step, &process.phase) {
            (TaskStep::Begins, ProcessPhase::Starting) => {
                process.phase = ProcessPhase::Running(now);
                let runs =
                    process.incarnation.runs.map(|runs| (runs, process.incarnation.end.clone()));
                Some(Passed { input: Input::Started(id), then: runs, ended: None })
            }
            (TaskStep::Ends(end), ProcessPhase::Starting | ProcessPhase::Running(_)) => {
                if !process.ending && end == process.incarnation.end {
                    programs.came_to_its_end(&process.launch.desired);
                }
                process.phase = ProcessPhase::Ended(end.clone());
                Some(Passed {
                    input: Input::Ended(id, end.clone(), model::FinalUsage::UNMEASURED),
                    then: None,
                    ended: Some(end),
                })
            }
            (
                TaskStep::Answers(kind, answer),
                ProcessPhase::Starting | ProcessPhase::Running(_),
            ) => Some(Passed { input: Input::Checked(id, kind, answer), then: None, ended: None }),
            _ => None,
        }
    }
}

/// The result of a task's event.
#[derive(Debug)]
pub(crate) struct Passed {
    /// The input for the Borglet.
    pub(crate) input: Input,
    /// After how long it will end by itself, and how.
    pub(crate) then: Option<(Span, End)>,
    /// How it ended.
    pub(crate) ended: Option<End>,
}

/// A port, with the address of its network if that is not the host's.
pub(crate) type Port = (Option<Ipv4Addr>, u16);

/// The ports of an instance.
pub(crate) fn ports(desired: &Desired) -> impl Iterator<Item = Port> {
    desired.ports.iter().map(|(_, port)| (desired.address, *port))
}
