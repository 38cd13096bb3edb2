//! Sessions: a single replica, which leads, its cell, and machines that answer or do not, while
//! time passes.
//!
//! The expected text is the script: lines that begin with `> ` are its commands, and below each is
//! what was proposed meanwhile, with its second. Only [`LinkShard::next_tick`],
//! [`Master::next_tick`] and answers wake the world, so missing wake-ups show up as missing
//! actions.
//!
//! ```text
//! cell MACHINES TASKS       this many machines, m1 and so on, with this many tasks on each
//! set rate=N burst=N again=SECONDS   before the cell
//! slow SECONDS              the delay from now on until a proposal is applied
//! silent MACHINE…           they stop answering polls: m3, m2-m5
//! answer MACHINE…           they resume
//! for SECONDS               time passes
//! resume                    an administrator resumes rescheduling
//! remove MACHINE            removes one without tasks
//! lead                      another term of the same process begins
//! restart                   another process begins, with a term of its own
//! show                      the machines by state, and the breaker
//! ```

use std::collections::{BTreeMap, BTreeSet};

use borglet::{TaskReport, TaskStatus};
use cell::{
    AddMachine, Assignment, Mutation, Outcome, RemoveMachine, RequestId, Rescheduling,
    ResumeRescheduling,
};
use expect_test::Expect;
use model::{
    Bytes, CellName, InstanceId, MachineReport, MilliCores, PortRange, Resources, RestoreEpoch,
    SessionId, Stamp, TaskId, TaskIndex, Term, UserName,
};
use spec::{JobSpec, TaskSpec};

use super::*;

#[track_caller]
pub(super) fn session(expected: &Expect) {
    let mut world = World::new();
    let mut text = String::new();
    let lines: Vec<&str> = expected.data().lines().map(str::trim_start).collect();
    for command in lines.iter().filter_map(|line| line.strip_prefix("> ")) {
        world.command(command);
        text.push_str(&format!("> {command}\n{}", std::mem::take(&mut world.said)));
        assert_eq!(world.cell.check(), [], "after '{command}'");
    }
    expected.assert_eq(&text);
}

impl Master {
    /// Whether the incremental counts of silent machines equal a recount.
    pub(super) fn counts_right(&self, now: Time, cell: &Cell) -> bool {
        self.leading.as_ref().is_none_or(|leading| leading.lost_machines.lost.is_right(now, cell))
    }
}

/// What a machine does.
#[derive(Default)]
struct Borglet {
    silent: bool,
    stamp: Stamp,
    runs: Vec<InstanceId>,
}

/// What arrives later.
enum Later {
    Answer { machine: MachineId, had_order: bool },
    Apply(Op),
}

struct World {
    settings: Settings,
    slow: Span,
    now: Time,
    term: u64,
    cell: Cell,
    shard: LinkShard,
    master: Master,
    borglets: BTreeMap<MachineId, Borglet>,
    later: BTreeMap<(Time, u64), Later>,
    sequence: u64,
    said: String,
}

pub(super) fn name(text: &str) -> MachineName {
    MachineName::new(text).expect("a name")
}

pub(super) fn number<N: std::str::FromStr>(text: &str) -> N {
    text.parse().unwrap_or_else(|_| panic!("'{text}' is no number"))
}

impl World {
    fn new() -> Self {
        let settings = Settings::default();
        Self {
            settings,
            slow: Span::ZERO,
            now: Time::ZERO,
            term: 1,
            cell: Cell::empty(),
            shard: LinkShard::new(settings),
            master: Master::new(settings),
            borglets: BTreeMap::new(),
            later: BTreeMap::new(),
            sequence: 0,
            said: String::new(),
        }
    }

    fn command(&mut self, command: &str) {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words[..] {
            ["set", ref settings @ ..] => {
                for (key, value) in settings.iter().filter_map(|word| word.split_once('=')) {
                    match key {
                        "rate" => self.settings.reschedule_rate = number(value),
                        "burst" => self.settings.reschedule_burst = number(value),
                        "again" => self.settings.propose_again = Span::from_secs(number(value)),
                        _ => panic!("there is no setting {key}"),
                    }
                }
            }
            ["cell", machines, tasks] => self.begin(number(machines), number(tasks)),
            ["slow", seconds] => self.slow = Span::from_secs(number(seconds)),
            ["silent", ref machines @ ..] => self.silence(machines, true),
            ["answer", ref machines @ ..] => self.silence(machines, false),
            ["for", seconds] => self.pass(Span::from_secs(number(seconds))),
            ["resume"] => self.request(Mutation::ResumeRescheduling(ResumeRescheduling)),
            ["remove", machine] => {
                self.request(Mutation::RemoveMachine(RemoveMachine {
                    machine: name(machine),
                    force: false,
                }));
            }
            ["lead"] => self.lead(),
            ["restart"] => self.restart(),
            ["show"] => self.show(),
            _ => panic!("there is no command '{command}'"),
        }
        // Process its immediate consequences.
        if self.master.is_leading() {
            self.pass(Span::ZERO);
        }
    }

    /// A bootstrapped cell whose machines are up, with their tasks, under its first leader.
    fn begin(&mut self, machines: u32, tasks: u32) {
        let ana = UserName::new("ana").expect("a name");
        let cell = CellName::new("dev").expect("a name");
        self.apply(&Op::Bootstrap { name: cell, administrator: ana.clone() });
        self.apply(&Op::OpenSession { user: ana });
        let report = machine_report();
        for number in 1..=machines {
            let address = format!("m{number}:1");
            self.request(Mutation::AddMachine(AddMachine {
                name: name(&format!("m{number}")),
                address,
            }));
            let machine = MachineId(number.into());
            self.apply(&Op::DescribeMachine { machine, report: Arc::clone(&report) });
            self.borglets.insert(machine, Borglet::default());
        }
        if machines * tasks > 0 {
            let job = model::JobName::new("web").expect("a name");
            let task = TaskSpec::of(vec!["x".to_owned()]);
            let spec = JobSpec::of(job, model::Band::Production.usual(), machines * tasks, task);
            self.request(Mutation::Submit(Arc::new(spec)));
            let assignments = (0..machines * tasks).map(|index| Assignment {
                address: None,
                instance: instance(index),
                alloc: None,
                machine: MachineId(u64::from(index / tasks) + 1),
                ports: vec![],
                victims: vec![],
            });
            let outcome = self.apply(&Op::assign(assignments.collect()));
            let Outcome::Assigned(answers) = outcome else { panic!("{outcome:?}") };
            assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        }
        self.restart();
        // Every machine has had its first order, and its tasks run.
        self.pass(Span::from_secs(10));
        self.said.clear();
    }

    fn lead(&mut self) {
        self.term += 1;
        let (term, index) = (Term(self.term), self.cell.index());
        let since = Stamp { restore_epoch: RestoreEpoch::NEVER, term, index };
        self.shard.term_began(self.now, &self.cell, since);
        self.master = Master::new(self.settings);
        self.master.lead(self.now, &self.cell);
        self.shard.serve(self.now, &self.cell, Some(everything()));
    }

    fn restart(&mut self) {
        self.later.clear();
        self.shard = LinkShard::new(self.settings);
        self.lead();
    }

    fn silence(&mut self, machines: &[&str], silent: bool) {
        for word in machines {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            let id = |text: &str| number::<u64>(text.strip_prefix('m').expect("m and a number"));
            for id in id(first)..=id(last) {
                self.borglets.get_mut(&MachineId(id)).expect("a machine").silent = silent;
            }
        }
    }

    fn request(&mut self, mutation: Mutation) {
        self.sequence += 1;
        let id = RequestId { session: SessionId(1), sequence: self.sequence };
        let by = UserName::new("ana").expect("a name");
        let outcome = self.apply(&Op::Request { id, by, mutation });
        if let Outcome::Request(Err(rejection)) = outcome {
            self.said.push_str(&format!("refused: {}\n", diagnostics::sentence(&rejection)));
        }
    }

    fn apply(&mut self, op: &Op) -> Outcome {
        let applied = self.cell.apply(self.now, op);
        let mut actions = Vec::new();
        self.shard.applied(self.now, &self.cell, op, &applied.reordered, &mut actions);
        self.master.applied(self.now, &self.cell, op, &applied.reordered);
        self.fulfil(actions);
        applied.outcome
    }

    fn pass(&mut self, span: Span) {
        let until = self.now + span;
        loop {
            let mut actions = Vec::new();
            self.shard.tick(self.now, &self.cell, &mut actions);
            self.master.spread(self.now, &[ReplicaId(1)]);
            let reachabilities = self.shard.contacts_changed();
            self.master.heard(self.now, &self.cell, ReplicaId(1), &reachabilities);
            self.master.tick(self.now, &self.cell, &mut actions);
            if !actions.is_empty() {
                self.fulfil(actions);
                continue;
            }
            let first = self.later.keys().next().map(|(at, _)| *at);
            let ticks = [self.shard.next_tick(), self.master.next_tick()];
            let Some(next) = first.into_iter().chain(ticks.into_iter().flatten()).min() else {
                break;
            };
            if next > until {
                break;
            }
            self.now = self.now.max(next);
            if first.is_some_and(|first| first <= self.now) {
                let (_, later) = self.later.pop_first().expect("there is one");
                self.comes(later);
            }
        }
        self.now = until;
    }

    fn comes(&mut self, later: Later) {
        match later {
            Later::Apply(op) => drop(self.apply(&op)),
            Later::Answer { machine, had_order } => {
                let borglet = &self.borglets[&machine];
                let running = |instance: &InstanceId| TaskReport {
                    check: String::new(),
                    latency: StartLatency::UNKNOWN,
                    instance: *instance,
                    status: TaskStatus::Running { healthy: None },
                };
                let answer = match borglet.silent {
                    true => Answer::Failed,
                    false => Answer::Report {
                        report: Arc::new(Report {
                            stamp: borglet.stamp,
                            machine: machine_report(),
                            tasks: borglet.runs.iter().map(running).collect(),
                        }),
                        version: borglet.stamp.index.0,
                        usage: Arc::default(),
                    },
                };
                let mut actions = Vec::new();
                let (now, cell) = (self.now, &self.cell);
                self.shard.answered(now, cell, machine, had_order, &answer, &mut actions);
                self.fulfil(actions);
            }
        }
        assert_eq!(self.shard.overlooked(self.now, &self.cell), [], "at {}", self.now.0);
        assert!(self.master.counts_right(self.now, &self.cell), "at {}", self.now.0);
    }

    fn fulfil(&mut self, actions: Vec<Action>) {
        for action in actions {
            self.sequence += 1;
            let sequence = self.sequence;
            match action {
                Action::Propose(op) => {
                    self.say(&op);
                    match self.slow {
                        Span::ZERO => drop(self.apply(&op)),
                        slow => {
                            self.later.insert((self.now + slow, sequence), Later::Apply(op));
                        }
                    }
                }
                Action::Poll(poll) => self.poll(poll, sequence),
                Action::BeginAnew(machines) => self.shard.begin_anew(&machines),
            }
        }
    }

    /// A poll is answered after its hold, or at once if it has an order. Unanswered polls fail at
    /// once, as if nothing listened.
    fn poll(&mut self, poll: Poll, sequence: u64) {
        let borglet = self.borglets.get_mut(&poll.machine).expect("a machine");
        let had_order = poll.order.is_some();
        let at = if had_order || borglet.silent { self.now } else { self.now + poll.hold };
        if let Some(order) = poll.order.filter(|_| !borglet.silent) {
            borglet.stamp = order.stamp;
            borglet.runs = order.tasks.iter().map(|task| task.instance).collect();
        }
        let machine = poll.machine;
        self.later.insert((at, sequence), Later::Answer { machine, had_order });
    }

    fn say(&mut self, op: &Op) {
        let named = |machine: &MachineId| {
            self.cell.machine(*machine).map_or("nobody".to_owned(), |known| known.name.to_string())
        };
        let words = match op {
            Op::MachineUnreachable { machine } => format!("unreachable {}", named(machine)),
            Op::MachineSilent { machine } => format!("down {}", named(machine)),
            Op::MachineBack { machine } => format!("back {}", named(machine)),
            Op::StopRescheduling { silent, of } => format!("stop: {silent} of {of} are silent"),
            Op::AllowRescheduling => "allow".to_owned(),
            _ => return,
        };
        let seconds = self.now.0.div_ceil(100_000);
        self.said.push_str(&format!("{}.{} s: {words}\n", seconds / 10, seconds % 10));
    }

    fn show(&mut self) {
        let mut states: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for machine in self.cell.machines() {
            let state = match machine.state {
                MachineState::Joining => "joining",
                MachineState::Up => "up",
                MachineState::Unreachable { .. } => "unreachable",
                MachineState::Down { .. } => "down",
            };
            states.entry(state).or_default().insert(machine.name.to_string());
        }
        for (state, machines) in states {
            let machines: Vec<_> = machines.into_iter().collect();
            self.said.push_str(&format!("{state}: {}\n", machines.join(" ")));
        }
        self.said.push_str(match self.cell.rescheduling() {
            Rescheduling::Allowed => "rescheduling is allowed\n",
            Rescheduling::Stopped { .. } => "rescheduling is stopped\n",
            Rescheduling::Resumed { .. } => "rescheduling is resumed\n",
        });
    }
}

fn instance(index: u32) -> InstanceId {
    let task = TaskId { collection: CollectionId(1), index: TaskIndex(index) };
    task.generation(Generation(1))
}

pub(super) fn machine_report() -> Arc<MachineReport> {
    let capacity =
        Resources { cpu: MilliCores(1 << 40), ram: Bytes(1 << 50), ..Resources::default() };
    let ports = PortRange { first: 31_000, last: 31_009 };
    Arc::new(MachineReport { capacity, ports, ..MachineReport::default() })
}
