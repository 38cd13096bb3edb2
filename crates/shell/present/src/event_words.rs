//! Events in words for people, the same in every program that shows them.

use api::event::Record;
use api::v1;
use event::{
    Actor, EventKind, EvictionCause, KillReason, MoveReason, PendingCause, StopReason, Subject,
};
use model::{End, FinalUsage, Grant, PackageReaders, QueueSettings, StartPart};
use process::moment::shown;
use spec::LogSettings;

/// An event in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventWords {
    /// What it happened to, such as `ana/web/3`, a machine's name, or `the cell`.
    pub subject: String,
    /// Its name, such as `EVICT`.
    pub name: &'static str,
    /// Where, why and with what, such as `on m1, preempted by ben/big/0`; may be empty.
    pub detail: String,
    /// Who did it, such as `ana`, `scheduler main` or a machine's name.
    pub by: String,
}

impl EventWords {
    /// The words of an event, also of one of a kind that this version does not know.
    #[must_use]
    pub fn of(event: &v1::EventRecord) -> Self {
        let Ok(record) = Record::try_from(event.clone()) else { return unknown(event) };
        let detail = [detail(&record), used(&record)].into_iter().filter(|text| !text.is_empty());
        let detail = detail.collect::<Vec<_>>().join(", ");
        let name = record.event.kind.name();
        Self { subject: subject(&record), name, detail, by: by(&record) }
    }
}

/// The settings of the batch queue: `on, the poorest user is waited for, half-life 1 d, runtimes of 1 h assumed`.
fn queue_settings(settings: &QueueSettings) -> String {
    let QueueSettings { on, poorest, half_life, assumed_runtime } = settings;
    let on = if *on { "on" } else { "off" };
    let half_life = half_life.map(|span| format!(", half-life {span}")).unwrap_or_default();
    format!("{on}, the poorest user is {poorest}{half_life}, runtimes of {assumed_runtime} assumed")
}

/// A text that others wrote, on one line: control characters are escaped; quotes and backslashes
/// are not, since commands are full of them.
#[must_use]
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\'' | '\\' => line.push(character),
            other => line.extend(other.escape_debug()),
        }
    }
    line
}

/// `1 task`, `2 tasks`.
#[must_use]
pub fn tasks(count: u32) -> String {
    if count == 1 { "1 task".to_owned() } else { format!("{count} tasks") }
}

/// What can be shown of an event of a kind that only newer versions know.
fn unknown(event: &v1::EventRecord) -> EventWords {
    let why = "unknown to this version: use a newer bourg".to_owned();
    // Replace the unknown kind with one without data, to decode the other fields.
    let kind = Some(v1::event_record::Kind::Queue(v1::Nothing {}));
    let (subject, by) = match Record::try_from(v1::EventRecord { kind, ..event.clone() }) {
        Ok(record) => (subject(&record), by(&record)),
        Err(_) => ("something".to_owned(), "somebody".to_owned()),
    };
    EventWords { subject, name: "UNKNOWN", detail: why, by }
}

fn by(record: &Record) -> String {
    match &record.by {
        Actor::User(user) => user.to_string(),
        Actor::Scheduler(name) => format!("scheduler {name}"),
        Actor::Machine(id) => match &record.names.reporter {
            Some(machine) => machine.to_string(),
            None => format!("machine {id}"),
        },
        Actor::Master => "master".to_owned(),
    }
}

fn subject(record: &Record) -> String {
    let names = &record.names;
    let job = || match (&names.user, &names.job) {
        (Some(user), Some(job)) => format!("{user}/{job}"),
        _ => String::new(),
    };
    match record.event.subject {
        Subject::Cell => "the cell".to_owned(),
        Subject::Job(_) => job(),
        Subject::Task(id) => format!("{}/{}", job(), id.index),
        Subject::Machine(id) => names.machine.as_ref().map_or(id.to_string(), ToString::to_string),
    }
}

/// `used 210 ms of CPU time, 52 MiB of memory at most, notice in full`, at the end of an instance.
fn used(record: &Record) -> String {
    match record.event.usage {
        FinalUsage::UNMEASURED => String::new(),
        usage => {
            let used = usage.to_string();
            let used = (!used.is_empty()).then(|| format!("used {used}"));
            let notice = usage.notice.map(|notice| notice.to_string());
            used.into_iter().chain(notice).collect::<Vec<_>>().join(", ")
        }
    }
}

/// The cause of an eviction, with the name of the task that preempted one.
fn evicted(record: &Record, cause: &EvictionCause) -> String {
    match (cause, &record.names.related) {
        (EvictionCause::Preempted { by }, Some((user, job))) => {
            format!("preempted by {user}/{job}/{}", by.index)
        }
        (EvictionCause::Moved { why: MoveReason::Fits { task }, .. }, Some((user, job))) => {
            format!("moved so that {user}/{job}/{} fits", task.index)
        }
        _ => cause.to_string(),
    }
}

/// Why something was killed, with the name of the other job that ended.
fn killed(record: &Record, why: &KillReason) -> String {
    let Some((user, job)) = &record.names.related else { return why.to_string() };
    match why {
        KillReason::ParentEnded(_) => format!("its parent, {user}/{job}, ended"),
        KillReason::AllocSetEnded(_) => {
            format!("the alloc set that it ran in, {user}/{job}, ended")
        }
        KillReason::PredecessorEnded(_) => {
            format!("{user}/{job}, which it was to run after, did not finish")
        }
        KillReason::PredecessorFinished(_) => {
            format!("{user}/{job}, for whose failure it waited, has finished")
        }
        KillReason::CounterpartEnded(task) => {
            format!("{user}/{job}/{}, which it was to run after, did not finish", task.index)
        }
        KillReason::CounterpartFinished(task) => {
            format!("{user}/{job}/{}, for whose failure it waited, has finished", task.index)
        }
        KillReason::User(_)
        | KillReason::Now(_)
        | KillReason::Removed
        | KillReason::MachineLeft(_)
        | KillReason::GangFailed { .. } => why.to_string(),
    }
}

fn detail(record: &Record) -> String {
    let on = || match (&record.names.machine, record.event.subject) {
        (Some(machine), Subject::Task(_) | Subject::Job(_)) => format!("on {machine}"),
        _ => String::new(),
    };
    let with = |text: String| match on() {
        on if on.is_empty() => text,
        on => format!("{on}, {text}"),
    };
    match &record.event.kind {
        EventKind::Submit { cause: PendingCause::Evicted(cause) } => {
            format!("evicted: {}", evicted(record, cause))
        }
        EventKind::Submit { cause } => cause.to_string(),
        EventKind::Schedule { alloc: Some(alloc), .. } => with(format!("in alloc {}", alloc.index)),
        EventKind::Evict { cause } => with(evicted(record, cause)),
        // The event's own name says that it was lost.
        EventKind::Lost { end: End::Lost { reason } } => with(reason.escape_debug().to_string()),
        EventKind::Fail { end: Some(end) } | EventKind::Lost { end } => with(end.to_string()),
        EventKind::Kill { why } => with(killed(record, why)),
        EventKind::Stop { why: StopReason::Kill(why) } => {
            with(format!("to be killed: {}", killed(record, why)))
        }
        EventKind::Stop { why: StopReason::Evict(cause) } => {
            with(format!("to be evicted: {}", evicted(record, cause)))
        }
        EventKind::Start { latency, .. } if !latency.is_unknown() => with(latency.to_string()),
        EventKind::Unready { check: Some(check) } => with(check.escape_debug().to_string()),
        EventKind::Health { check, latency, .. } => {
            let after = latency.part(StartPart::Healthy).map(|took| format!("after {took}"));
            let check = check.as_ref().map(|check| check.escape_debug().to_string());
            match (check, after) {
                (None, None) => on(),
                (Some(said), None) | (None, Some(said)) => with(said),
                (Some(check), Some(after)) => with(format!("{after}: {check}")),
            }
        }
        EventKind::Saved { attempts: 1, .. } => with("after 1 attempt".to_owned()),
        EventKind::Saved { attempts, .. } => with(format!("after {attempts} attempts")),
        EventKind::SaverGivenUp { reason, .. } => with(one_line(reason)),
        EventKind::MachineUpdated { capacity } => capacity.to_string(),
        EventKind::MachineShortage { shortage: Some(shortage) } => shortage.to_string(),
        EventKind::MachineShortage { shortage: None } => "no longer short".to_owned(),
        EventKind::MachineReadiness { reason: Some(reason) } => one_line(reason),
        EventKind::MachineReadiness { reason: None } => "can run tasks again".to_owned(),
        EventKind::Attribute { name, value } => {
            let name = name.escape_debug();
            match value {
                Some(value) => format!("{name} = {}", value.escape_debug()),
                None => format!("{name} is gone"),
            }
        }
        EventKind::UpdateOpened { from, to, changes } => {
            let changes: Vec<_> = changes.iter().map(ToString::to_string).collect();
            let changes = one_line(&changes.join(", "));
            format!("version {from} → {to}: {changes}")
        }
        EventKind::LimitsSet { version, reason, .. } => {
            format!("version {version}: {}", one_line(reason))
        }
        EventKind::UpdatePaused { version }
        | EventKind::UpdateResumed { version }
        | EventKind::UpdateUndoing { version }
        | EventKind::UpdateUndone { version }
        | EventKind::UpdateClosed { version } => format!("version {version}"),
        EventKind::UpdateSucceeded { version, skipped: 0 } => format!("version {version}"),
        EventKind::UpdateSucceeded { version, skipped } => {
            format!("version {version}, {} skipped", tasks(*skipped))
        }
        EventKind::UpdateSkipped { version, why } => format!("version {version}: {why}"),
        EventKind::UpdateFailed { version, end: Some(end) } => format!("version {version}: {end}"),
        EventKind::UpdateFailed { version, end: None } => {
            format!("version {version}: not healthy in time")
        }
        EventKind::DrainExpired { left } => format!("{} left", tasks(*left)),
        EventKind::MachineDrained { reason } => reason.escape_debug().to_string(),
        EventKind::Platform { platform, factor } => {
            format!("{} × {factor}", platform.escape_debug())
        }
        EventKind::ServiceSet { service, replaced } => {
            let verb = if *replaced { "replaced" } else { "new" };
            let users: String = service.users.iter().map(|user| format!(", {user}")).collect();
            format!(
                "service {}/{} {verb}: port {}, labels {}, jobs of {}{users}",
                service.owner, service.name, service.port, service.labels, service.owner
            )
        }
        EventKind::VolumeAdded { volume } => {
            let size = volume.size.map(|size| format!(", {size}")).unwrap_or_default();
            format!("volume {} at {}, {}{size}", volume.name, volume.path, volume.sharing)
        }
        EventKind::VolumeRemoved { volume } => format!("volume {volume}"),
        EventKind::VolumeClaimed { volume, by } => format!("volume {volume} by {by} at {}", by.at),
        EventKind::VolumeReleased { volume, by } => format!("volume {volume} by {by}"),
        EventKind::ServiceDeleted { owner, name } => format!("service {owner}/{name}"),
        EventKind::PackageSet { package, replaced } => {
            let verb = if *replaced { "readers changed" } else { "new" };
            let readers = match &package.readers {
                PackageReaders::Everyone => ", for everyone".to_owned(),
                PackageReaders::Users(users) => {
                    users.iter().map(|user| format!(", {user}")).collect()
                }
            };
            format!(
                "{} {verb}: {}, {}, digest {}, for {}{readers}",
                package.id, package.kind, package.stored, package.digest, package.id.owner
            )
        }
        EventKind::SecretSet { owner, name, version } => {
            format!("secret {owner}/{name} version {version}")
        }
        EventKind::SecretDeleted { owner, name } => format!("secret {owner}/{name}"),
        EventKind::SecretRead { name, version } => format!("secret {name} version {version}"),
        EventKind::InputsChanged { what, restarts: true } => format!("{what}: restarted"),
        EventKind::InputsChanged { what, restarts: false } => format!("{what}: told"),
        EventKind::SecretResealed { owner, name } => format!("secret {owner}/{name}"),
        EventKind::PackageDeleted { id } => id.to_string(),
        EventKind::Lock { path, user, session, mode, generation, .. } => {
            format!("{path} {mode} by {user}, session {session}, generation {generation}")
        }
        EventKind::Reclamation(setting) => setting.to_string(),
        EventKind::Packing(policy) => policy.to_string(),
        EventKind::NoticeMax(most) => most.to_string(),
        EventKind::QueueSettings(settings) => queue_settings(settings),
        EventKind::QueueWeights { user, weights } => format!("{user}: {weights}"),
        EventKind::LogSettings(LogSettings { keep, max, machine }) => {
            let machine = machine.map(|bytes| format!(", {bytes} on each machine"));
            format!("{keep}, {max} of each task{}", machine.unwrap_or_default())
        }
        EventKind::UserAdded { user, certificate } => {
            let until = shown(certificate.expires);
            format!("{user}, certificate {} until {until}", certificate.serial)
        }
        EventKind::UserRevoked { user } => user.to_string(),
        EventKind::TokenIssued { machine, token, most } => {
            let until = shown(token.expires);
            let to = match most {
                Some(most) => format!("{most} machines {machine}*"),
                None => machine.to_string(),
            };
            format!("to {to}, number {} until {until}", token.serial)
        }
        EventKind::MachineEnrolled { token, certificate } => {
            let (number, until) = (certificate.serial, shown(certificate.expires));
            format!("with token {token}, certificate {number} until {until}")
        }
        EventKind::MachineRenewed { certificate } => {
            let until = shown(certificate.expires);
            format!("certificate {} until {until}", certificate.serial)
        }
        // The subject already names the machine if it exists.
        EventKind::MachineRevoked { machine } if record.names.machine.is_none() => {
            machine.to_string()
        }
        EventKind::LevelRaised { to } => to.to_string(),
        EventKind::BackupSaved { index } => format!("as of index {index}"),
        EventKind::QuotaGranted(grant) | EventKind::QuotaRevoked(grant) => {
            let Grant { id, user, band, amount, .. } = &**grant;
            let until = grant.until.map(|until| format!(" until {}", shown(until)));
            let (amount, until) = (amount.in_words(), until.unwrap_or_default());
            format!("{id}: {user} {band} {amount} from {}{until}", shown(grant.from))
        }
        EventKind::Oversell { band, percent } => format!("{band} up to {percent} %"),
        EventKind::Metering { on } => if *on { "on" } else { "off" }.to_owned(),
        EventKind::CapabilityGranted { user, capability } => format!("{capability} to {user}"),
        EventKind::CapabilityRevoked { user, capability } => format!("{capability} of {user}"),
        EventKind::CapabilityUsed { capability } => with(capability.to_string()),
        EventKind::ExecStarted { command } => with(command.clone()),
        EventKind::ExecEnded { command, end } => with(match end.status {
            Some(status) => format!("exit status {status} after {}: {command}", end.took),
            None => format!("disconnected after {}: {command}", end.took),
        }),
        EventKind::ReplicaTokenIssued { replica, token } => {
            let until = shown(token.expires);
            format!("to replica {replica}, number {} until {until}", token.serial)
        }
        EventKind::ReplicaJoined { replica, token } => format!("{replica} with token {token}"),
        EventKind::ReplicaAdded { replica, address } => {
            format!("{replica} at {}", address.escape_debug())
        }
        EventKind::ReplicaRemoved { replica } => replica.to_string(),
        EventKind::ReplicaMember { replica, to } => format!("{replica}: {to}"),
        EventKind::ReplicaDescribed { replica, address, level } => {
            let at = Some(address.escape_debug()).filter(|_| !address.is_empty());
            let at = at.map(|address| format!(" at {address},")).unwrap_or_default();
            format!("{replica}:{at} level {level}")
        }
        EventKind::ReschedulingStopped { silent, of } => {
            format!("{silent} of {of} machines are unreachable")
        }
        _ => on(),
    }
}
