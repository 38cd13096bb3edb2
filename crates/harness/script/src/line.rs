//! What a line stands for.

use std::sync::Arc;

use cell::{AddMachine, Assignment, Cell, MemberChange, Observation, Op, RequestId, Reservation};
use model::{
    Bytes, CellName, CollectionId, DirectoryId, Enabled, End, FinalUsage, InstanceId, KeyDigest,
    Level, MachineId, MachineName, MachineReport, NoticeDelivery, ReplicaId, Resources,
    SchedulerName, SessionId, Span, StartLatency, StartPart, Time,
};

use crate::language::not_a_line;
use crate::request::{Request, request_of};
use crate::words::{
    amount, mebibytes, no_such_option, not, number, option, pair, seconds, serial, small_number,
    split, user, validity, value,
};
use crate::{ScriptError, machine_report, update};

/// The most operations of one line.
const OPERATIONS_MAX: u64 = 10_000;
const HOUR: Span = Span::from_secs(3_600);

/// A line, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// The clock is set.
    At(Time),
    /// Operations; none for an empty line.
    Ops(Vec<Op>),
    /// A request in the user's own session.
    Request(Request),
    /// A machine is added unless it exists, and describes itself.
    Machine { name: MachineName, address: String, report: Arc<MachineReport> },
}

/// Tasks of a job: `7=3`.
fn enabled(text: &str) -> Result<Enabled, ScriptError> {
    let (job, tasks) = option(text)?;
    Ok(Enabled { job: CollectionId(number(job)?), tasks: small_number(tasks)? })
}

/// Where the names in a line are looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names<'a> {
    pub(crate) cell: &'a Cell,
    /// What stands for machines that the cell does not have; without it, they are errors.
    pub(crate) unknown_machine: Option<MachineId>,
}

impl Names<'_> {
    fn machine(&self, word: &str) -> Result<MachineId, ScriptError> {
        let name = MachineName::new(word)?;
        let found = self.cell.machine_named(&name).map(|machine| machine.id);
        found.or(self.unknown_machine).ok_or(ScriptError::NoSuchMachine(name))
    }

    /// The machine that would report something of an instance.
    fn reporter(&self, instance: InstanceId) -> Result<MachineId, ScriptError> {
        let placed = self.cell.placement(instance).map(|placement| placement.machine);
        let first = || self.cell.machines().next().map(|machine| machine.id);
        placed.or_else(first).ok_or(ScriptError::NoMachines)
    }

    /// Parses a line.
    pub(crate) fn line(&self, line: &str) -> Result<Line, ScriptError> {
        let words = split(line)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            [] => Ok(Line::Ops(Vec::new())),
            [first, ..] if first.starts_with('#') => Ok(Line::Ops(Vec::new())),
            ["at", time] => Ok(Line::At(Time::ZERO + seconds(time)?)),
            ["machine", name, ref options @ ..] => machine_line(name, options),
            ["request", id, "as", by, ref rest @ ..] => requests(id, by, rest).map(Line::Ops),
            ["open", name] => sessions(1, |_| name.to_owned()).map(Line::Ops),
            ["open", name, "times", times] => {
                sessions(number(times)?, |_| name.to_owned()).map(Line::Ops)
            }
            ["crowd", count] => {
                sessions(number(count)?, |number| format!("c{number}")).map(Line::Ops)
            }
            ref words => match self.op(words)? {
                Some(op) => Ok(Line::Ops(vec![op])),
                None => request_of(words).map(Line::Request).map_err(|error| match error {
                    ScriptError::NotARequest(name) if words.first() == Some(&&*name) => {
                        not_a_line(words)
                    }
                    error => error,
                }),
            },
        }
    }

    /// The operation that the words stand for, unless they are a request, or nothing.
    fn op(&self, words: &[&str]) -> Result<Option<Op>, ScriptError> {
        if let Some(op) = update::op(|name| self.machine(name), words)? {
            return Ok(Some(op));
        }
        Ok(Some(match words {
            ["nothing"] => Op::Nothing,
            ["bootstrap", name, administrator] => {
                Op::Bootstrap { name: CellName::new(name)?, administrator: user(administrator)? }
            }
            ["describe", name, options @ ..] => Op::DescribeMachine {
                machine: self.machine(name)?,
                report: Arc::new(machine_report(options)?),
            },
            ["assign", words @ ..] => {
                let began = words.first().and_then(|word| word.strip_prefix("began="));
                let assignments = words.get(usize::from(began.is_some())..).unwrap_or_default();
                let assignments = assignments.join(" ");
                let assignments = assignments.split(';').map(|text| self.assignment(text));
                Op::Assign {
                    by: SchedulerName::main(),
                    assignments: assignments.collect::<Result<_, _>>()?,
                    began: began.map(seconds).transpose()?.map(|began| Time::ZERO + began),
                }
            }
            ["reserve", id, amounts @ ..] => Op::Reserve(vec![reservation(id, amounts)?]),
            ["unreachable", name] => Op::MachineUnreachable { machine: self.machine(name)? },
            ["silent", name] => Op::MachineSilent { machine: self.machine(name)? },
            ["back", name] => Op::MachineBack { machine: self.machine(name)? },
            ["stop", silent, of] => {
                Op::StopRescheduling { silent: small_number(silent)?, of: small_number(of)? }
            }
            ["allow"] => Op::AllowRescheduling,
            ["forget", ids @ ..] => {
                let ids = ids.iter().map(|id| number(id).map(CollectionId));
                Op::Forget { collections: ids.collect::<Result<_, _>>()? }
            }
            ["level", to] => Op::RaiseLevel { to: level(to)? },
            ["metered"] => Op::MeterQuota,
            ["queueing"] => Op::SwitchQueueOn,
            ["enable", jobs @ ..] => {
                let enabled = jobs.iter().map(|text| enabled(text));
                let enabled = enabled.collect::<Result<_, _>>()?;
                Op::Enable { by: SchedulerName::main(), enabled }
            }
            ["member", id, to] => {
                Op::ChangeMember { replica: replica(id)?, to: member_change(to)? }
            }
            ["replica", id, "has", level, address @ ..] if address.len() <= 1 => {
                replica_report(id, "0", level, address)?
            }
            ["replica", id, "in", directory, "has", level, address @ ..] if address.len() <= 1 => {
                replica_report(id, directory, level, address)?
            }
            ["enrol", token, of, address, certificate, length @ ..] if length.len() <= 1 => {
                Op::Enrol {
                    token: serial(token)?,
                    key: key(of)?,
                    machine: None,
                    address: (*address).to_owned(),
                    certificate: serial(certificate)?,
                    validity: validity(length, HOUR)?,
                }
            }
            ["enrol-as", name, token, of, address, certificate] => Op::Enrol {
                token: serial(token)?,
                key: key(of)?,
                machine: Some(MachineName::new(name)?),
                address: (*address).to_owned(),
                certificate: serial(certificate)?,
                validity: HOUR,
            },
            ["renew", machine, old, certificate, length @ ..] if length.len() <= 1 => {
                Op::RenewMachine {
                    machine: MachineName::new(machine)?,
                    old: serial(old)?,
                    certificate: serial(certificate)?,
                    validity: validity(length, HOUR)?,
                }
            }
            ["join", id, token, of] => {
                Op::JoinReplica { replica: replica(id)?, token: serial(token)?, key: key(of)? }
            }
            [observed @ .., "on", name] => match observation(observed)? {
                Some((_, observation)) => {
                    Op::Observe { machine: self.machine(name)?, observations: vec![observation] }
                }
                None => return Ok(None),
            },
            observed => match observation(observed)? {
                Some((instance, observation)) => Op::Observe {
                    machine: self.reporter(instance)?,
                    observations: vec![observation],
                },
                None => return Ok(None),
            },
        }))
    }

    fn assignment(&self, text: &str) -> Result<Assignment, ScriptError> {
        let (rest, victims) = text.split_once(" evicting ").unwrap_or((text, ""));
        let (rest, alloc) = rest.split_once(" in ").map_or((rest, None), |(t, a)| (t, Some(a)));
        let words: Vec<&str> = rest.split_whitespace().collect();
        let [id, machine, ref ports @ ..] = words[..] else {
            return Err(not(text.trim(), "INSTANCE MACHINE [at ADDRESS] [PORT,…]"));
        };
        let (address, ports) = match ports {
            ["at", address, ports @ ..] => (Some(value(address, "an address")?), ports),
            _ => (None, ports),
        };
        let ports = ports.iter().flat_map(|ports| ports.split(','));
        let ports = ports.map(|port| value(port, "a port"));
        Ok(Assignment {
            instance: instance(id)?,
            alloc: alloc.map(|alloc| instance(alloc.trim())).transpose()?,
            machine: self.machine(machine)?,
            address,
            ports: ports.collect::<Result<_, _>>()?,
            victims: victims.split_whitespace().map(instance).collect::<Result<_, _>>()?,
        })
    }
}

fn machine_line(name: &str, options: &[&str]) -> Result<Line, ScriptError> {
    let name = MachineName::new(name)?;
    let address = options.iter().find_map(|word| word.strip_prefix("address="));
    let address = address.map_or_else(|| format!("{name}:1"), str::to_owned);
    let options = options.iter().copied().filter(|word| !word.starts_with("address="));
    let report = Arc::new(machine_report(&options.collect::<Vec<_>>())?);
    Ok(Line::Machine { name, address, report })
}

impl Line {
    /// The request with which a machine is added.
    pub(crate) fn addition(name: &MachineName, address: &str) -> Result<Request, ScriptError> {
        let machine = AddMachine { name: name.clone(), address: address.to_owned() };
        Ok(Request { by: user("root")?, mutation: machine.into() })
    }
}

/// Requests with consecutive numbers in a session.
fn requests(id: &str, by: &str, words: &[&str]) -> Result<Vec<Op>, ScriptError> {
    const EXPECTED: &str = "SESSION#SEQUENCE or SESSION#FROM-TO";
    let Request { by, mutation } = request_of(&[&["as", by], words].concat())?;
    let (session, sequences) = pair(id, '#', EXPECTED)?;
    let session = SessionId(value(session, "the number of a session")?);
    let (from, to) = sequences.split_once('-').unwrap_or((sequences, sequences));
    let (from, to) = (number(from)?, number(to)?);
    let count = to.checked_sub(from).ok_or_else(|| not(id, EXPECTED))?;
    few(count.saturating_add(1))?;
    let request = |sequence| {
        let id = RequestId { session, sequence };
        Op::Request { id, by: by.clone(), mutation: mutation.clone() }
    };
    Ok((from..=to).map(request).collect())
}

fn sessions(count: u64, name: impl Fn(u64) -> String) -> Result<Vec<Op>, ScriptError> {
    few(count)?;
    let open = |number| Ok(Op::OpenSession { user: user(&name(number))? });
    (0..count).map(open).collect()
}

fn few(count: u64) -> Result<(), ScriptError> {
    match count <= OPERATIONS_MAX {
        true => Ok(()),
        false => Err(ScriptError::TooMany { count, max: OPERATIONS_MAX }),
    }
}

fn reservation(id: &str, amounts: &[&str]) -> Result<Reservation, ScriptError> {
    let (mut reserved, mut newest_sample) = (Resources::default(), None);
    for word in amounts {
        match option(word)? {
            ("sample", value) => newest_sample = Some(Time::ZERO + seconds(value)?),
            (key, value) if amount(&mut reserved, key, value)? => {}
            (key, _) => return Err(no_such_option(key, &["cpu", "ram", "disk", "sample"])),
        }
    }
    Ok(Reservation { instance: instance(id)?, amount: reserved, newest_sample })
}

fn replica_report(
    id: &str,
    directory: &str,
    at: &str,
    address: &[&str],
) -> Result<Op, ScriptError> {
    Ok(Op::DescribeReplica {
        replica: replica(id)?,
        address: address.concat(),
        level: level(at)?,
        directory: DirectoryId(number(directory)?),
    })
}

/// How long a machine took for the parts of a start: `fetch=SECONDS start=SECONDS`.
fn start_latency(parts: &[&str]) -> Result<StartLatency, ScriptError> {
    parts.iter().try_fold(StartLatency::UNKNOWN, |latency, word| {
        let (key, value) = option(word)?;
        let part = [StartPart::Fetch, StartPart::Start].into_iter().find(|it| it.name() == key);
        let part = part.ok_or_else(|| no_such_option(key, &["fetch", "start"]))?;
        Ok(latency.with(part, seconds(value)?))
    })
}

/// What a machine observes of an instance, if the words say that.
fn observation(words: &[&str]) -> Result<Option<(InstanceId, Observation)>, ScriptError> {
    let (id, observation) = match words {
        ["started", id, parts @ ..] => {
            let (instance, latency) = (instance(id)?, start_latency(parts)?);
            (instance, Observation::Started { instance, latency })
        }
        ["health", id, state, text @ ..] => {
            let healthy = match *state {
                "good" => true,
                "bad" => false,
                _ => return Err(not(state, "good or bad")),
            };
            let (instance, check) = (instance(id)?, text.join(" "));
            (instance, Observation::Health { instance, healthy, check })
        }
        ["not-ready", id, text @ ..] => {
            let (instance, check) = (instance(id)?, text.join(" "));
            (instance, Observation::Unready { instance, check })
        }
        ["unready", id, text @ ..] => {
            let (instance, check) = (instance(id)?, text.join(" "));
            (instance, Observation::NotHealthyYet { instance, check })
        }
        ["ended", id, reason @ .., "notice", delivery] => {
            let words = NoticeDelivery::ALL.into_iter().find(|one| one.name() == *delivery);
            let notice = words.ok_or_else(|| not(delivery, "full, partial or none"))?;
            let usage = FinalUsage { notice: Some(notice), ..FinalUsage::UNMEASURED };
            let end = end(reason)?;
            (instance(id)?, Observation::Ended { instance: instance(id)?, end, usage })
        }
        ["ended", id, reason @ .., "using", cpu, mib] => {
            let milliseconds = number(cpu)?.checked_mul(1_000);
            let cpu_time = milliseconds.ok_or_else(|| not(cpu, "a number of milliseconds"))?;
            let usage = FinalUsage {
                cpu_time: Some(Span(cpu_time)),
                memory_peak: Some(mebibytes(mib)?),
                notice: None,
            };
            let end = end(reason)?;
            (instance(id)?, Observation::Ended { instance: instance(id)?, end, usage })
        }
        ["ended", id, reason @ ..] => {
            let (end, usage) = (end(reason)?, FinalUsage::UNMEASURED);
            (instance(id)?, Observation::Ended { instance: instance(id)?, end, usage })
        }
        _ => return Ok(None),
    };
    Ok(Some((id, observation)))
}

fn end(words: &[&str]) -> Result<End, ScriptError> {
    Ok(match words {
        ["exit", code] => End::Exited { code: value(code, "an exit code")? },
        ["signal", signal] => End::Signalled { signal: value(signal, "the number of a signal")? },
        ["oom"] => End::OutOfMemory { limit: Bytes(64 << 20), peak: Bytes(65 << 20) },
        ["stopped"] => End::Stopped,
        ["not-started", reason @ ..] => End::NotStarted { reason: reason.join(" ") },
        ["unhealthy", reason @ ..] => End::Unhealthy { reason: reason.join(" ") },
        ["rule", reason @ ..] => End::BrokeRule { reason: reason.join(" ") },
        ["short", reason @ ..] => End::OutOfResources { reason: reason.join(" ") },
        ["over-runtime", most] => {
            let seconds = value(most, "a number of seconds")?;
            End::OverRuntime { most: Span::from_secs(seconds) }
        }
        ["lost", reason @ ..] => End::Lost { reason: reason.join(" ") },
        _ => return Err(not(&words.join(" "), "the reason of an end, such as 'exit 0'")),
    })
}

fn instance(word: &str) -> Result<InstanceId, ScriptError> {
    value(word, "an instance such as 1-0-1")
}

fn level(word: &str) -> Result<Level, ScriptError> {
    small_number(word).map(Level)
}

fn replica(word: &str) -> Result<ReplicaId, ScriptError> {
    number(word).map(ReplicaId)
}

fn key(word: &str) -> Result<KeyDigest, ScriptError> {
    value(word, "a key, which is a number up to 255")
        .map(|byte| KeyDigest([byte; KeyDigest::BYTES]))
}

fn member_change(word: &str) -> Result<MemberChange, ScriptError> {
    match word {
        "learner" => Ok(MemberChange::Learner),
        "voter" => Ok(MemberChange::Voter),
        "out" => Ok(MemberChange::Out),
        _ => Err(not(word, "learner, voter or out")),
    }
}
