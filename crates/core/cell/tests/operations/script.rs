//! Scripts: commands as an operator would type them, and below each what the cell gives.
//!
//! The expected text is the script: lines that begin with `> ` are its commands, so a test is one
//! text that reads like a terminal session, and `UPDATE_EXPECT=1` fills in the answers. Unless a
//! script begins with `> empty`, its cell is bootstrapped, administered by root, and has two machines of
//! 1 core, 1 GiB and 4 ports each, m1 and m2. After every command the whole cell is checked.
//!
//! ```text
//! empty                            begin with a cell that nothing has happened to
//! found CELL USER                  found the cell
//! administrators USER…             it is loaded with those
//! at SECONDS                       what the leader's clock says from now on
//! [as USER] submit OWNER/JOB N [cpu=MILLI] [ram=MIB] [ports=NAME,…] [cmd=TEXT] [check=PORT]
//!                               [failures=N] [delay=SECONDS] [big=INDEX:MILLI] [priority=P]
//!                               [on=CONSTRAINT,…] [after=JOB,…] [parent=JOB] [label=NAME:VALUE]
//!                               [in=SET] [allocs=USER,…|none]
//!                               [estimation=no] [kernel=FEATURE,…]
//! [as USER] kill ADDRESS           without `as`, the owner does it
//! [as USER] add MACHINE ADDRESS    without `as`, root does it
//! drain MACHINE [REASON]           undrain MACHINE            remove MACHINE
//! say MACHINE NAME[=VALUE]…        without a value, it is not said any more
//! platform PLATFORM FACTOR
//! level LEVEL
//! describe MACHINE [cpu=MILLI] [ram=MIB] [ports=FIRST-LAST] [is=NAME:VALUE]… [held=FIRST-LAST:NAME]…
//! assign INSTANCE MACHINE [PORT,…] [in ALLOC] [evicting INSTANCE…] [; INSTANCE MACHINE …]
//! started INSTANCE [on MACHINE]    reports come from m1 unless they say otherwise
//! health INSTANCE good|bad [on MACHINE]
//! ended INSTANCE exit CODE|signal N|oom|not-started TEXT|unhealthy TEXT|stopped|lost TEXT|rule TEXT
//!     [using CPU-MILLISECONDS MIB] [on MACHINE]
//! unreachable MACHINE              level 2 first, for this and what follows it
//! stop SILENT OF                   the breaker stops rescheduling
//! allow
//! resume                           root does it
//! [as USER] certify NAME SERIAL [for=SECONDS]    add a user. Root does it
//! [as USER] revoke-user NAME            root does it
//! [as USER] grant USER BAND [cpu=MILLI] [ram=MIB] [disk=MIB] [from=SECONDS] [until=SECONDS]
//! [as USER] revoke GRANT           [as USER] oversell BAND PERCENT        [as USER] meter on|off
//! [as USER] add-replica ADDRESS         [as USER] remove-replica ID         root does it
//! member ID learner|voter|out      what becomes of a replica in consensus
//! replica ID [in DIRECTORY] has LEVEL [ADDRESS]      what a replica says of itself
//! [as USER] token MACHINE SERIAL [for=SECONDS]      root does it
//! [as USER] revoke-machine MACHINE      root does it
//! enrol TOKEN KEY ADDRESS SERIAL [for=SECONDS]      a key is a number
//! renew MACHINE OLD SERIAL [for=SECONDS]
//! metered                          the master itself says that quota is metered
//! charges                          what is charged, and what is granted
//! [as USER] allow-to USER CAPABILITY              [as USER] forbid USER CAPABILITY
//! [as USER] use CAPABILITY JOB-ID
//! silent MACHINE
//! back MACHINE
//! forget ID…
//! open USER [times N]              open sessions
//! crowd N                          as many users open one each
//! request SESSION#SEQUENCE as USER COMMAND        with #FROM-TO, several; the last answer is shown
//! show                             what there is
//! [as USER] replica-token ID SERIAL [for=SECONDS]    root does it
//! join ID TOKEN KEY                a replica's process, with a token
//! show replicas                    who the replicas are
//! show users                       who was added or revoked
//! accepts NAME SERIAL              whether requests with that certificate are heard
//! show credentials                 tokens, and what was said of machines' certificates
//! trusts MACHINE SERIAL            whether that certificate is the machine's
//! show ports                       which ports are looked at next
//! ```
//!
//! Outside `request`, a user's requests go through a session of their own, opened when first used.

use std::collections::BTreeMap;
use std::sync::Arc;

use cell::{
    AddMachine, AddReplica, AddUser, Assignment, Cell, DecisionChecker, DrainMachine, GrantQuota,
    IssueReplicaToken, IssueToken, Kill, MemberChange, MeterQuota, Mutation, Observation, Op,
    Outcome, Oversell, RemoveMachine, RemoveReplica, Reply, RequestId, ResumeRescheduling,
    RevokeMachine, RevokeQuota, RevokeUser, SetAttributes, SetCapability, SetPlatform,
    UndrainMachine, UseCapability,
};
use expect_test::Expect;
use model::{
    Address, Bytes, CellName, CollectionId, DirectoryId, End, FinalUsage, GrantId, HeldPorts,
    InstanceId, JobName, KeyDigest, Level, MachineId, MachineName, MachineReport, MilliCores,
    PortName, ReplicaId, Resources, Serial, SessionId, Span, TaskIndex, Time, UserName,
};
use spec::{Constraint, HealthCheck, JobSpec, Kind, Relation, TaskOverride, TaskSpec};

use crate::shown;

/// Runs the commands of a script and compares what they give.
#[track_caller]
pub(crate) fn session(expected: &Expect) {
    let mut script = Script::default();
    let lines: Vec<&str> = expected.data().lines().map(str::trim_start).collect();
    let commands = lines.iter().filter_map(|line| line.strip_prefix("> "));
    if commands.clone().next() != Some("empty") {
        for line in ["found cc root", "add m1 m1:1", "add m2 m2:1", "describe m1", "describe m2"] {
            script.command(line);
        }
    }
    let mut text = String::new();
    for command in commands {
        let answer = script.command(command);
        let violations = script.cell.check();
        assert!(violations.is_empty(), "after '{command}': {violations:#?}");
        let loaded = Cell::from_image(script.cell.image()).expect("the image of a cell");
        assert_eq!(loaded.image(), script.cell.image());
        text.push_str(&format!("> {command}\n{answer}"));
    }
    expected.assert_eq(&text);
}

/// The operations that a person's words stand for, and the cell that they are applied to.
#[derive(Default)]
struct Script {
    cell: Cell,
    watch: Option<DecisionChecker>,
    now: Time,
    sessions: BTreeMap<String, RequestId>,
}

impl Script {
    fn command(&mut self, command: &str) -> String {
        let words: Vec<&str> = command.split_whitespace().collect();
        let op = match words[..] {
            ["empty"] => return String::new(),
            ["at", seconds] => {
                self.now = Time::ZERO + Span::from_secs(number(seconds));
                return String::new();
            }
            ["show"] => return shown::cell(&self.cell),
            ["show", "credentials"] => return shown::credentials(&self.cell),
            ["trusts", machine, serial] => {
                let serial = self::serial(serial);
                let accepts = self.cell.accepts_machine(&machine_name(machine), &serial);
                return format!("{}\n", if accepts { "yes" } else { "no" });
            }
            ["show", "replicas"] => return shown::replicas(&self.cell),
            ["show", "users"] => return shown::users(&self.cell),
            ["accepts", name, serial] => {
                let accepts = self.cell.accepts(&user(name), self::serial(serial));
                return format!("{}\n", if accepts { "yes" } else { "no" });
            }
            ["show", "ports"] => return shown::free_ports(&self.cell),
            ["charges"] => return shown::charges(&self.cell),
            ["administrators", ref users @ ..] => return self.administered_by(users),
            ["metered"] => Op::MeterQuota,
            ["nothing"] => Op::Nothing,
            ["found", name, user] => Op::Bootstrap {
                name: CellName::new(name).expect("a cell's name"),
                administrator: self::user(user),
            },
            ["open", user] => Op::OpenSession { user: self::user(user) },
            ["open", user, "times", times] => return self.open_many(user, number(times)),
            ["crowd", count] => return self.crowd(number(count)),
            ["request", id, "as", by, ref rest @ ..] => return self.request_in(id, by, rest),
            ["as", by, ref rest @ ..] => self.request(by, rest),
            [
                "submit" | "kill" | "add" | "drain" | "undrain" | "remove" | "say" | "platform"
                | "resume" | "grant" | "revoke" | "oversell" | "meter" | "allow-to" | "forbid"
                | "use" | "certify" | "revoke-user" | "add-replica" | "remove-replica"
                | "replica-token" | "token" | "revoke-machine",
                ..,
            ] => self.request(&self.whose(&words), &words),
            ["describe", name, ref options @ ..] => {
                Op::DescribeMachine { machine: self.machine(name), report: report(options) }
            }
            ["assign", ..] => {
                let assignments = command["assign".len()..].split(';');
                Op::Assign(assignments.map(|text| self.assignment(text)).collect())
            }
            ["level", to] => {
                Op::RaiseLevel { to: Level(u32::try_from(number(to)).expect("a level")) }
            }
            ["unreachable", name] => Op::MachineUnreachable { machine: self.machine(name) },
            ["stop", silent, of] => {
                let count = |text| u32::try_from(number(text)).expect("a number of machines");
                Op::StopRescheduling { silent: count(silent), of: count(of) }
            }
            ["enrol", token, key, address, certificate, ref length @ ..] => Op::Enrol {
                token: serial(token),
                key: KeyDigest([u8::try_from(number(key)).expect("a byte"); KeyDigest::BYTES]),
                address: address.to_owned(),
                certificate: serial(certificate),
                validity: validity(length),
            },
            ["join", id, token, key] => Op::JoinReplica {
                replica: replica(id),
                token: serial(token),
                key: KeyDigest([u8::try_from(number(key)).expect("a byte"); KeyDigest::BYTES]),
            },
            ["renew", machine, old, certificate, ref length @ ..] => Op::RenewMachine {
                machine: machine_name(machine),
                old: serial(old),
                certificate: serial(certificate),
                validity: validity(length),
            },
            ["member", id, to] => Op::ChangeMember { replica: replica(id), to: member_change(to) },
            ["replica", id, "has", level, ref address @ ..] => {
                self.describe(id, "0", level, address)
            }
            ["replica", id, "in", directory, "has", level, ref address @ ..] => {
                self.describe(id, directory, level, address)
            }
            ["allow"] => Op::AllowRescheduling,
            ["silent", name] => Op::MachineSilent { machine: self.machine(name) },
            ["back", name] => Op::MachineBack { machine: self.machine(name) },
            ["forget", ref ids @ ..] => {
                Op::Forget { collections: ids.iter().map(|id| CollectionId(number(id))).collect() }
            }
            [ref report @ .., "on", machine] => self.observed(report, machine),
            ref report => self.observed(report, "m1"),
        };
        let mut watch = self.watch.take().unwrap_or_else(|| DecisionChecker::from(&self.cell));
        let applied = self.cell.apply(self.now, &op);
        let violations = watch.after(&self.cell, &applied);
        assert!(violations.is_empty(), "'{command}': {violations:#?}");
        shown::applied(&applied)
    }

    fn administered_by(&mut self, users: &[&str]) -> String {
        let administrators = users.iter().map(|name| user(name)).collect();
        let mut image = self.cell.image();
        image.administrators = administrators;
        self.cell = Cell::from_image(image).expect("the image of a cell");
        String::new()
    }

    /// Whoever would usually say that.
    fn whose(&self, words: &[&str]) -> String {
        match words {
            [
                "add" | "drain" | "undrain" | "remove" | "say" | "platform" | "resume" | "grant"
                | "revoke" | "oversell" | "meter" | "allow-to" | "forbid" | "use" | "certify"
                | "revoke-user" | "add-replica" | "remove-replica" | "replica-token" | "token"
                | "revoke-machine",
                ..,
            ] => "root".to_owned(),
            ["kill", "job", id] => self
                .cell
                .job(CollectionId(number(id)))
                .map_or("root".into(), |job| job.owner.to_string()),
            [_, address, ..] => address.split('/').next().expect("an owner").to_owned(),
            _ => panic!("{words:?} says too little"),
        }
    }

    /// A request in the user's own session.
    fn request(&mut self, by: &str, words: &[&str]) -> Op {
        if !self.sessions.contains_key(by) {
            let opened = self.cell.apply(self.now, &Op::OpenSession { user: user(by) });
            let Outcome::Request(Ok(Reply::Session(session))) = opened.outcome else {
                panic!("no session for {by}: {opened:?}")
            };
            self.sessions.insert(by.to_owned(), RequestId { session, sequence: 0 });
        }
        let mutation = self.mutation(by, words);
        let id = self.sessions.get_mut(by).expect("opened above");
        id.sequence += 1;
        Op::Request { id: *id, by: user(by), mutation }
    }

    /// Requests in a session that the script names.
    fn request_in(&mut self, id: &str, by: &str, words: &[&str]) -> String {
        let (session, sequence) = id.split_once('#').expect("SESSION#SEQUENCE");
        let (from, to) = sequence.split_once('-').unwrap_or((sequence, sequence));
        let mut last = String::new();
        for sequence in number(from)..=number(to) {
            let id = RequestId { session: SessionId(number(session)), sequence };
            let op = Op::Request { id, by: user(by), mutation: self.mutation(by, words) };
            last = shown::applied(&self.cell.apply(self.now, &op));
        }
        last
    }

    fn open_many(&mut self, name: &str, times: u64) -> String {
        let mut last = String::new();
        for _ in 0..times {
            last =
                shown::applied(&self.cell.apply(self.now, &Op::OpenSession { user: user(name) }));
        }
        last
    }

    /// Each with a session of their own.
    fn crowd(&mut self, count: u64) -> String {
        let mut last = String::new();
        for number in 0..count {
            let op = Op::OpenSession { user: user(&format!("c{number}")) };
            last = shown::applied(&self.cell.apply(self.now, &op));
        }
        last
    }

    fn mutation(&self, by: &str, words: &[&str]) -> Mutation {
        match words {
            ["submit", address, tasks, options @ ..] => {
                let (_, job) = address.split_once('/').expect("OWNER/JOB");
                Mutation::Submit(submitted(job, number(tasks), options))
            }
            ["kill", address] => {
                let address: Address = address.parse().expect("an address");
                let Address { user: owner, job, tasks } = address;
                Mutation::Kill(Kill { owner: owner.unwrap_or_else(|| user(by)), job, tasks })
            }
            ["add", name, address] => Mutation::AddMachine(AddMachine {
                name: MachineName::new(name).expect("a machine's name"),
                address: (*address).to_owned(),
            }),
            ["drain", name, reason @ ..] => Mutation::DrainMachine(DrainMachine {
                machine: machine_name(name),
                reason: reason.join(" "),
            }),
            ["undrain", name] => {
                Mutation::UndrainMachine(UndrainMachine { machine: machine_name(name) })
            }
            ["remove", name] => {
                Mutation::RemoveMachine(RemoveMachine { machine: machine_name(name) })
            }
            ["say", name, changes @ ..] => Mutation::SetAttributes(SetAttributes {
                machine: machine_name(name),
                changes: changes
                    .iter()
                    .map(|change| match change.split_once('=') {
                        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                        None => ((*change).to_owned(), None),
                    })
                    .collect(),
            }),
            ["resume"] => Mutation::ResumeRescheduling(ResumeRescheduling),
            ["certify", name, serial, length @ ..] => Mutation::AddUser(AddUser {
                user: user(name),
                serial: self::serial(serial),
                validity: match length {
                    [] => Span::from_secs(90 * 86_400),
                    length => validity(length),
                },
            }),
            ["revoke-user", name] => Mutation::RevokeUser(RevokeUser { user: user(name) }),
            ["grant", user, band, options @ ..] => grant(user, band, options),
            ["revoke", id] => Mutation::RevokeQuota(RevokeQuota { grant: GrantId(number(id)) }),
            ["oversell", band, percent] => Mutation::Oversell(Oversell {
                band: band.parse().expect("a band"),
                percent: u32::try_from(number(percent)).expect("percent"),
            }),
            ["meter", on] => Mutation::MeterQuota(MeterQuota { on: *on == "on" }),
            ["use", capability, job] => Mutation::UseCapability(UseCapability {
                capability: capability.parse().expect("a capability"),
                collection: CollectionId(number(job)),
            }),
            [what @ ("allow-to" | "forbid"), user, capability] => {
                Mutation::SetCapability(SetCapability {
                    user: self::user(user),
                    capability: capability.parse().expect("a capability"),
                    granted: *what == "allow-to",
                })
            }
            ["token", machine, serial, length @ ..] => Mutation::IssueToken(IssueToken {
                machine: machine_name(machine),
                serial: self::serial(serial),
                validity: validity(length),
            }),
            ["replica-token", id, serial, length @ ..] => {
                Mutation::IssueReplicaToken(IssueReplicaToken {
                    replica: replica(id),
                    serial: self::serial(serial),
                    validity: validity(length),
                })
            }
            ["revoke-machine", machine] => {
                Mutation::RevokeMachine(RevokeMachine { machine: machine_name(machine) })
            }
            ["add-replica", address @ ..] => {
                Mutation::AddReplica(AddReplica { address: address.concat() })
            }
            ["remove-replica", id] => {
                Mutation::RemoveReplica(RemoveReplica { replica: replica(id) })
            }
            ["platform", platform, factor] => Mutation::SetPlatform(SetPlatform {
                platform: (*platform).to_owned(),
                factor: factor.parse().expect("a factor"),
            }),
            _ => panic!("{words:?} is not a request"),
        }
    }

    fn describe(&self, id: &str, directory: &str, level: &str, address: &[&str]) -> Op {
        Op::DescribeReplica {
            replica: replica(id),
            address: address.concat(),
            level: Level(u32::try_from(number(level)).expect("a level")),
            directory: DirectoryId(number(directory)),
        }
    }

    /// A machine by its name; an unknown one is machine 99.
    fn machine(&self, name: &str) -> MachineId {
        let name = MachineName::new(name).expect("a machine's name");
        self.cell.machine_named(&name).map_or(MachineId(99), |machine| machine.id)
    }

    fn assignment(&self, text: &str) -> Assignment {
        let (text, victims) = text.split_once("evicting").unwrap_or((text, ""));
        let (text, alloc) = text.split_once(" in ").map_or((text, None), |(t, a)| (t, Some(a)));
        let words: Vec<&str> = text.split_whitespace().collect();
        let [instance, machine, ref ports @ ..] = words[..] else {
            panic!("'{text}' is not an assignment")
        };
        let ports = ports.iter().flat_map(|ports| ports.split(','));
        Assignment {
            instance: self::instance(instance),
            alloc: alloc.map(|alloc| self::instance(alloc.trim())),
            machine: self.machine(machine),
            ports: ports.map(|port| port.parse().expect("a port")).collect(),
            victims: victims.split_whitespace().map(self::instance).collect(),
        }
    }

    fn observed(&self, words: &[&str], machine: &str) -> Op {
        let observation = match words {
            ["started", id] => Observation::Started { instance: instance(id) },
            ["health", id, state] => {
                Observation::Health { instance: instance(id), healthy: *state == "good" }
            }
            ["ended", id, end @ .., "using", cpu_ms, mib] => {
                let number = |word: &str| word.parse::<u64>().expect("a number");
                let usage = FinalUsage {
                    cpu_time: Some(Span(number(cpu_ms) * 1_000)),
                    memory_peak: Some(Bytes(number(mib) << 20)),
                };
                Observation::Ended { instance: instance(id), end: self::end(end), usage }
            }
            ["ended", id, end @ ..] => Observation::Ended {
                instance: instance(id),
                end: self::end(end),
                usage: FinalUsage::UNMEASURED,
            },
            _ => panic!("there is no command {words:?}"),
        };
        Op::Observe { machine: self.machine(machine), observations: vec![observation] }
    }
}

fn grant(user: &str, band: &str, options: &[&str]) -> Mutation {
    let (mut amount, mut from, mut until) = (Resources::default(), None, None);
    let moment = |seconds: &str| Some(Time::ZERO + Span::from_secs(number(seconds)));
    for option in options {
        match option.split_once('=').expect("KEY=VALUE") {
            ("cpu", value) => amount.cpu = MilliCores(number(value)),
            ("ram", value) => amount.ram = Bytes(number(value) << 20),
            ("disk", value) => amount.disk = Bytes(number(value) << 20),
            ("from", value) => from = moment(value),
            ("until", value) => until = moment(value),
            _ => panic!("there is no option {option}"),
        }
    }
    let (user, band) = (self::user(user), band.parse().expect("a band"));
    Mutation::GrantQuota(GrantQuota { user, band, amount, from, until })
}

/// An hour, unless it is said otherwise.
fn validity(length: &[&str]) -> Span {
    match length {
        [length] => Span::from_secs(number(length.trim_start_matches("for="))),
        _ => Span::from_secs(3_600),
    }
}

fn replica(text: &str) -> ReplicaId {
    ReplicaId(number(text))
}

fn member_change(text: &str) -> MemberChange {
    let all = [MemberChange::Learner, MemberChange::Voter, MemberChange::Out];
    all.into_iter().find(|to| to.to_string() == text).expect("learner, voter or out")
}

fn machine_name(text: &str) -> MachineName {
    MachineName::new(text).expect("a machine's name")
}

/// `gpu=H200`, `cores>=8`, `ssd`, `!ssd`; with a `?` behind it, a preference.
fn constraint(text: &str) -> Constraint {
    let (text, hard) = text.strip_suffix('?').map_or((text, true), |text| (text, false));
    let relations = [
        ("!=", Relation::NotEqual),
        ("<=", Relation::LessThanEqual),
        (">=", Relation::GreaterThanEqual),
        ("<", Relation::LessThan),
        (">", Relation::GreaterThan),
        ("=", Relation::Equal),
    ];
    let compared = relations.iter().find_map(|(sign, relation)| {
        text.split_once(sign).map(|(attribute, value)| (attribute, *relation, value))
    });
    let (attribute, relation, value) = compared.unwrap_or_else(|| match text.strip_prefix('!') {
        Some(attribute) => (attribute, Relation::NotPresent, ""),
        None => (text, Relation::Present, ""),
    });
    Constraint { attribute: attribute.to_owned(), relation, value: value.to_owned(), hard }
}

pub(crate) fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("'{text}' is not a number"))
}

pub(crate) fn user(text: &str) -> UserName {
    UserName::new(text).expect("a user's name")
}

fn instance(text: &str) -> InstanceId {
    text.parse().unwrap_or_else(|()| panic!("'{text}' is not an instance"))
}

fn end(words: &[&str]) -> End {
    let reason = |words: &[&str]| words.join(" ");
    match words {
        ["exit", code] => End::Exited { code: code.parse().expect("an exit code") },
        ["signal", signal] => End::Signalled { signal: signal.parse().expect("a signal") },
        ["oom"] => End::OutOfMemory { limit: Bytes(64 << 20), peak: Bytes(65 << 20) },
        ["stopped"] => End::Stopped,
        ["not-started", words @ ..] => End::NotStarted { reason: reason(words) },
        ["unhealthy", words @ ..] => End::Unhealthy { reason: reason(words) },
        ["rule", words @ ..] => End::BrokeRule { reason: reason(words) },
        ["lost", words @ ..] => End::Lost { reason: reason(words) },
        _ => panic!("{words:?} is not an end"),
    }
}

pub(crate) fn report(options: &[&str]) -> Arc<MachineReport> {
    let mut report = MachineReport {
        capacity: Resources { cpu: MilliCores(1_000), ram: Bytes(1 << 30), ..Resources::default() },
        ports: "31000-31003".parse().expect("ports"),
        ..MachineReport::default()
    };
    for option in options {
        match option.split_once('=').expect("KEY=VALUE") {
            ("cpu", value) => report.capacity.cpu = MilliCores(number(value)),
            ("ram", value) => report.capacity.ram = Bytes(number(value) << 20),
            ("ports", "none") => report.ports = model::PortRange::default(),
            ("ports", value) => report.ports = value.parse().expect("ports"),
            ("is", value) => {
                let (name, value) = value.split_once(':').expect("NAME:VALUE");
                report.attributes.insert(name.to_owned(), value.to_owned());
            }
            ("held", value) => {
                let (ports, by) = value.split_once(':').expect("FIRST-LAST:NAME");
                let ports = ports.parse().expect("ports");
                report.held_ports.push(HeldPorts { ports, by: by.to_owned() });
            }
            _ => panic!("there is no option {option}"),
        }
    }
    Arc::new(report)
}

/// A description: programs of 0.1 cores and 64 MiB that may fail once, unless it says otherwise.
pub(crate) fn submitted(name: &str, tasks: u64, options: &[&str]) -> Arc<JobSpec> {
    let tasks = u32::try_from(tasks).expect("a number of tasks");
    let name = JobName::new(name).expect("a job's name");
    let task = TaskSpec::of(vec!["server".to_owned()]);
    let mut job = JobSpec::of(name, model::Band::Production.usual(), tasks, task);
    job.restart.failures_max = Some(1);
    let port = |name: &str| PortName::new(name).expect("a port's name");
    for option in options {
        // Constraints may hold the sign too.
        let (key, value) = option.split_once('=').expect("KEY=VALUE");
        match key {
            "cpu" => job.task.limit.cpu = MilliCores(number(value)),
            "ram" => job.task.limit.ram = Bytes(number(value) << 20),
            "ports" => job.task.ports = value.split(',').map(port).collect(),
            "cmd" => job.task.cmd = vec![value.to_owned()],
            "check" => job.task.health_check = Some(HealthCheck::on(port(value))),
            "failures" => job.restart.failures_max = u32::try_from(number(value)).ok(),
            "priority" => job.priority = value.parse().expect("a priority"),
            "on" => job.task.constraints = value.split(',').map(constraint).collect(),
            "after" => {
                job.after = value.split(',').map(|job| job.parse().expect("a job")).collect();
            }
            "in" => job.kind = Kind::Job { alloc_set: Some(value.parse().expect("a job")) },
            "allocs" => {
                let users = value.split(',').filter(|user| *user != "none").map(user).collect();
                (job.kind, job.task.cmd) = (Kind::AllocSet { users }, Vec::new());
            }
            "estimation" => job.estimation = value != "no",
            "kernel" => {
                let feature = |name: &str| name.parse().expect("a kernel feature");
                job.task.kernel_features = value.split(',').map(feature).collect();
            }
            "api" => job.task.api = value == "yes",
            "parent" => job.parent = Some(value.parse().expect("a job")),
            "label" => {
                let (name, value) = value.split_once(':').expect("NAME:VALUE");
                job.labels.insert(name.to_owned(), value.to_owned());
            }
            "delay" => job.restart.delay = Span::from_secs(number(value)),
            "big" => {
                let (index, milli) = value.split_once(':').expect("INDEX:MILLI");
                let index = TaskIndex(u32::try_from(number(index)).expect("an index"));
                let limit = Resources { cpu: MilliCores(number(milli)), ..job.task.limit };
                let change = TaskOverride { limit: Some(limit), ..TaskOverride::default() };
                job.overrides.insert(index, change);
            }
            _ => panic!("there is no option {option}"),
        }
    }
    Arc::new(job)
}

fn serial(text: &str) -> Serial {
    Serial::from_bytes(&number(text).to_be_bytes()).expect("a serial number")
}
