//! Borglets ask masters for secrets and for what names stand for: when a task starts, and again when an order says
//! so. The answer is recorded by an operation first.

use std::collections::BTreeMap;

use cell::{Cell, Job, Op, Outcome, Phase, TaskState};
use model::{End, InstanceId, MachineName, TaskIndex};
use replica::{Codec, Input};
use spec::{JobSpec, NameReference, OnChange};

use crate::injected_bug::InjectedBug;
use crate::machine::inputs::{
    AskedFor, Asking, FREQUENT_ROUNDS, InputsAnswer, InputsRequest, InputsStep, OpenedInputs,
    PATIENCE, PAUSE, RARE_RETRY, RETRY, ReadInputs, TIMEOUT,
};
use crate::machine::{InstanceProcess, MachineEvent, ProcessPhase, TaskStep};
use crate::network::{Fate, Node};
use crate::world::master::Requester;
use crate::world::{Event, World, number_of};

/// What an instance on a machine would read in a state of the cell: if it runs already, without the names that stand for
/// nothing.
fn open(
    cell: &Cell,
    machine: &MachineName,
    instance: InstanceId,
    again: bool,
) -> Result<OpenedInputs, InputsAnswer> {
    let (owner, spec) = cell.placed_on(machine, instance).map_err(|_| InputsAnswer::Never)?;
    let mut secrets = BTreeMap::new();
    for name in spec.secrets() {
        let newest = cell.secret(owner, name).and_then(|secret| secret.newest());
        let newest = newest.ok_or(InputsAnswer::Never)?;
        secrets.insert(name.clone(), newest.number);
    }
    let mut names = BTreeMap::new();
    for name in spec.task(instance.index).names() {
        match cell.resolve(owner, &name) {
            Ok(value) => drop(names.insert(name, value)),
            Err(_) if again => {}
            Err(_) => return Err(InputsAnswer::Later),
        }
    }
    let epoch = model::RestoreEpoch::NEVER;
    Ok(OpenedInputs { secrets, names, epoch })
}

// The Borglets.
impl<C: Codec> World<C> {
    /// The Borglet of a machine begins to ask.
    pub(crate) fn asks_for_inputs(&mut self, number: usize, instance: InstanceId, what: AskedFor) {
        let (inputs, until) = (&mut self.machines[number].inputs, self.now + PATIENCE);
        if what.is_again() {
            inputs.noted.insert(instance);
        }
        let asking = Asking { what, attempt: 0, host: inputs.master, until };
        inputs.asking.insert(instance, asking);
        self.send_for_inputs(number, instance);
    }

    fn send_for_inputs(&mut self, number: usize, instance: InstanceId) {
        let attempt = self.next_call();
        let (now, machine) = (self.now, &mut self.machines[number]);
        let Some(asking) = machine.inputs.asking.get_mut(&instance) else { return };
        asking.attempt = attempt;
        let (boot, host, again) = (machine.boot, asking.host, asking.what.is_again());
        let step = InputsStep::TimesOut;
        let event = MachineEvent::Inputs { boot, instance, attempt, step };
        self.agenda.at(now + TIMEOUT, Event::OnMachine { machine: number, event });
        let fate = self.network.send(Node::Machine(number), Node::Master(host));
        if let Fate::Arrives(delay, _) = fate {
            let asked = InputsRequest { host, machine: number, boot, instance, again, attempt };
            self.agenda.at(now + delay, Event::InputsAsked(asked));
        }
    }

    /// A step of a request, if it is one of its last attempt.
    pub(crate) fn inputs_step(
        &mut self,
        number: usize,
        instance: InstanceId,
        attempt: u64,
        step: InputsStep,
    ) {
        let asking = self.machines[number].inputs.asking.get(&instance);
        if asking.is_none_or(|asking| asking.attempt != attempt) {
            return;
        }
        match step {
            InputsStep::Sends => self.send_for_inputs(number, instance),
            InputsStep::TimesOut => self.inputs_failed(number, instance, true),
            InputsStep::Answered(InputsAnswer::Later) => {
                self.inputs_failed(number, instance, true);
            }
            InputsStep::Answered(InputsAnswer::Never) => {
                self.inputs_failed(number, instance, false);
            }
            InputsStep::Answered(InputsAnswer::Opened(opened)) => {
                self.inputs_opened(number, instance, *opened);
            }
        }
    }

    fn inputs_opened(&mut self, number: usize, instance: InstanceId, opened: OpenedInputs) {
        let (now, machine) = (self.now, &mut self.machines[number]);
        let Some(asking) = machine.inputs.asking.remove(&instance) else { return };
        machine.inputs.master = asking.host;
        let process = machine.processes.get(&instance).filter(|process| process.is_there());
        let Some(process) = process else { return };
        let before = match &asking.what {
            AskedFor::Start { .. } => None,
            AskedFor::Again { .. } => machine.inputs.read.get(&instance),
        };
        let read = process.has_read(before, opened);
        let older = |(name, had): (&model::SecretName, &u32)| {
            read.files.get(name).is_some_and(|has| has < had).then(|| name.clone())
        };
        let before = before.filter(|before| before.epoch == read.epoch);
        let older = before.and_then(|before| before.files.iter().find_map(older));
        if let Some(name) = older {
            let wrong = format!("{instance} reads an older version of secret {name} than before");
            self.invariants.violated(wrong);
        }
        machine.inputs.read.insert(instance, read);
        machine.inputs.noted.remove(&instance);
        self.counts.input_reads += 1;
        if let AskedFor::Start { begins, step } = asking.what {
            let event = MachineEvent::Task { boot: machine.boot, instance, step };
            self.agenda.at(now + begins, Event::OnMachine { machine: number, event });
        }
    }

    /// An attempt has failed: the next master is asked, unless it is too late.
    fn inputs_failed(&mut self, number: usize, instance: InstanceId, may_help: bool) {
        let attempt = self.next_call();
        let Some(host) = self.machines[number].inputs.asking.get(&instance).map(|it| it.host)
        else {
            return;
        };
        let (now, host) = (self.now, self.another_master(host));
        let machine = &mut self.machines[number];
        let Some(asking) = machine.inputs.asking.get_mut(&instance) else { return };
        (asking.attempt, asking.host) = (attempt, host);
        let in_time = may_help && now + PAUSE < asking.until;
        let after = match &mut asking.what {
            _ if in_time => PAUSE,
            AskedFor::Again { round } => {
                *round += 1;
                let after = if *round < FREQUENT_ROUNDS { RETRY } else { RARE_RETRY };
                asking.until = now + after + PATIENCE;
                after
            }
            AskedFor::Start { .. } => {
                let reason = "it gets no secrets and addresses".to_owned();
                let end = End::Lost { reason };
                return self.task_step(number, instance, TaskStep::Ends(end));
            }
        };
        let (boot, step) = (machine.boot, InputsStep::Sends);
        let event = MachineEvent::Inputs { boot, instance, attempt, step };
        self.agenda.at(now + after, Event::OnMachine { machine: number, event });
    }

    /// What has not started when its Borglet is killed never does.
    pub(crate) fn starts_are_lost(&mut self, number: usize) {
        for instance in self.machines[number].inputs.starting() {
            let end = End::Lost { reason: "its start was interrupted".to_owned() };
            let process = self.machines[number].processes.get_mut(&instance);
            let Some(process) = process.filter(|process| process.is_there()) else { continue };
            process.phase = ProcessPhase::Ended(end.clone());
            self.invariants.ended(instance, &end);
            self.task_ended(number, instance, &end);
        }
    }

    /// A Borglet that starts reads again what was not written when another one ended.
    pub(crate) fn interrupted_reads(&mut self, number: usize) {
        let noted = self.machines[number].inputs.noted.clone();
        for instance in noted {
            self.asks_for_inputs(number, instance, AskedFor::Again { round: 0 });
        }
    }

    /// The Borglet learns that a task has ended, and removes what it had read.
    pub(crate) fn inputs_end(&mut self, number: usize, instance: InstanceId) {
        let inputs = &mut self.machines[number].inputs;
        inputs.asking.remove(&instance);
        inputs.noted.remove(&instance);
        if self.injected_bug != Some(InjectedBug::SecretAfterRemoval) {
            inputs.read.remove(&instance);
        }
    }
}

// The masters.
impl<C: Codec> World<C> {
    /// A request arrives at a replica.
    pub(crate) fn inputs_asked(&mut self, asked: InputsRequest) {
        let machine = self.machines[asked.machine].name.clone();
        let Some(cell) = self.masters[asked.host].cell() else {
            return self.answer_inputs(&asked, InputsAnswer::Later);
        };
        // What cannot be opened here is not recorded as read.
        if cell.placed_on(&machine, asked.instance).is_ok()
            && let Err(why) = open(cell, &machine, asked.instance, asked.again)
        {
            return self.answer_inputs(&asked, why);
        }
        let ticket = self.masters[asked.host].ticket(Requester::Machine(asked));
        let op = Op::ReadSecrets { machine, instance: asked.instance };
        self.tell_master(asked.host, Input::Enrolment(ticket, op));
    }

    /// The operation was applied.
    pub(crate) fn inputs_read(&mut self, asked: &InputsRequest, outcome: &Outcome) {
        let machine = &self.machines[asked.machine].name;
        let master = &self.masters[asked.host];
        let answer = match (outcome, master.cell()) {
            (Outcome::Request(Ok(_)), Some(cell)) => {
                match open(cell, machine, asked.instance, asked.again) {
                    Ok(opened) => {
                        let epoch = master.disk.restore_epoch;
                        InputsAnswer::Opened(Box::new(OpenedInputs { epoch, ..opened }))
                    }
                    Err(why) => why,
                }
            }
            (Outcome::Request(Ok(_)), None) => InputsAnswer::Later,
            _ => InputsAnswer::Never,
        };
        self.answer_inputs(asked, answer);
    }

    pub(crate) fn answer_inputs(&mut self, asked: &InputsRequest, answer: InputsAnswer) {
        let InputsRequest { host, machine, boot, instance, attempt, .. } = *asked;
        let fate = self.network.send(Node::Master(host), Node::Machine(machine));
        if let Fate::Arrives(delay, _) = fate {
            let step = InputsStep::Answered(answer);
            let event = MachineEvent::Inputs { boot, instance, attempt, step };
            self.agenda.at(self.now + delay, Event::OnMachine { machine, event });
        }
    }
}

// Whether it has settled.
impl<C: Codec> World<C> {
    /// A secret on a machine that should not be there, or a running task that should have learned of a change.
    pub(super) fn unsettled_inputs(&self, cell: &Cell) -> Option<String> {
        for (number, machine) in self.machines.iter().enumerate() {
            for (id, read) in &machine.inputs.read {
                let process = machine.processes.get(id).filter(|process| process.is_there());
                let wrong = match process {
                    Some(process) => unwanted(cell, process, read),
                    None => Some("which has ended".to_owned()),
                };
                if let Some(wrong) = wrong {
                    return Some(format!("m{number} keeps what {id} has read, {wrong}"));
                }
            }
        }
        cell.jobs().find_map(|job| self.unsettled_inputs_of(cell, job))
    }

    fn unsettled_inputs_of(&self, cell: &Cell, job: &std::sync::Arc<Job>) -> Option<String> {
        let on_change = job.spec.task.on_change;
        if on_change == OnChange::Nothing || !job.is_alive() {
            return None;
        }
        let mut restarts = None;
        for (index, task) in job.tasks() {
            let TaskState::Running(placement) = &task.state else { continue };
            let started = matches!(placement.phase, Phase::Started { .. });
            let (Some(id), Some(inputs)) = (job.instance(index), placement.inputs.as_deref())
            else {
                continue;
            };
            if !started || placement.stop.is_some() {
                continue;
            }
            // Tasks that come and go elsewhere have it told again and again.
            if inputs.told != inputs.done && !others_move(cell, job, index) {
                return Some(format!("{id} was told to read again, and has not: {inputs:?}"));
            }
            let machine = cell.machine(placement.machine)?;
            let there = number_of(&machine.address).and_then(|at| self.machines.get(at));
            // What was read before a restoration may be newer than what the cell has.
            let read = there.and_then(|there| there.inputs.read.get(&id));
            let read = read.filter(|read| read.epoch == self.invariants.epoch());
            let Some(stale) = read.and_then(|read| stale(cell, job, on_change, read)) else {
                continue;
            };
            if on_change == OnChange::Restart {
                // It may be restarted, unless its update or its owner's rights forbid that.
                let known = !cell.older_secrets(job, index).is_empty() || stale.is_name;
                let may = *restarts.get_or_insert_with(|| {
                    cell.has_input_changes(job, self.now + cell::bounds::RESTART_SPACING)
                });
                if known && !may {
                    continue;
                }
            }
            let told = format!("{on_change:?}, {inputs:?}");
            return Some(format!("{id} runs with {} ({told})", stale.what));
        }
        None
    }

    /// Whether a task that is about to start waits for a job to which it refers.
    pub(super) fn waits_for_name(&self, cell: &Cell, job: &Job, index: TaskIndex) -> bool {
        let spec: &JobSpec = job.described(index);
        let names = spec.task(index).names();
        names.iter().any(|name| cell.resolve(&job.owner, name).is_err() || moves(cell, job, name))
    }
}

/// Why a running task should not have what it has read.
fn unwanted(cell: &Cell, process: &InstanceProcess, read: &ReadInputs) -> Option<String> {
    let desired = &process.launch.desired;
    read.files.keys().chain(read.variables.keys()).find_map(|name| {
        let mut named = desired.spec.secrets.values().chain(desired.spec.secret_env.values());
        if !named.any(|named| named == name) {
            return Some(format!("which does not name secret {name}"));
        }
        let deleted = cell.secret(&desired.user, name).is_none();
        deleted.then(|| format!("although secret {name} was deleted"))
    })
}

/// Something that a task has and that is not so any more.
struct Stale {
    what: String,
    is_name: bool,
}

fn stale(cell: &Cell, job: &Job, on_change: OnChange, read: &ReadInputs) -> Option<Stale> {
    let variables = (on_change == OnChange::Restart).then_some(&read.variables);
    let mut secrets = read.files.iter().chain(variables.into_iter().flatten());
    let secret = secrets.find_map(|(name, has)| {
        let newest = cell.secret(&job.owner, name).and_then(|secret| secret.newest());
        let newest = newest.map(|version| version.number).filter(|newest| newest != has)?;
        let what = format!("version {has} of secret {name}, of which the newest is {newest}");
        Some(Stale { what, is_name: false })
    });
    secret.or_else(|| {
        read.names.iter().find_map(|(name, has)| {
            let is = cell.resolve(&job.owner, name).ok().filter(|is| is != has)?;
            let what = format!("{has} for {name}, which is {is}");
            (!moves(cell, job, name)).then_some(Stale { what, is_name: true })
        })
    })
}

/// Whether tasks of a job to which a task refers start or stop just now.
fn others_move(cell: &Cell, job: &Job, index: TaskIndex) -> bool {
    let names = job.described(index).task(index).names();
    let others =
        names.iter().filter_map(|name| cell.job_named(name.owner(&job.owner), &name.job.job));
    others.flat_map(|other| other.tasks()).any(|(_, task)| match &task.state {
        TaskState::Running(placement) => {
            placement.stop.is_some() || !matches!(placement.phase, Phase::Started { .. })
        }
        TaskState::Queued { .. } | TaskState::Pending { .. } | TaskState::Dead { .. } => false,
    })
}

/// Whether tasks of the job to which a name refers are on their way: then what it stands for may still change.
fn moves(cell: &Cell, job: &Job, name: &NameReference) -> bool {
    let other = cell.job_named(name.owner(&job.owner), &name.job.job);
    other.is_none_or(|other| {
        other.tasks().any(|(_, task)| match &task.state {
            TaskState::Running(placement) => {
                placement.stop.is_some() || !matches!(placement.phase, Phase::Started { .. })
            }
            TaskState::Queued { .. } | TaskState::Pending { .. } => true,
            TaskState::Dead { .. } => false,
        })
    })
}
