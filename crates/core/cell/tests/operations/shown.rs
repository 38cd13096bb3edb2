//! The outcomes and state of a cell, as text.

use cell::{
    Act, Applied, Cell, Event, EventKind, Grant, JobState, MachineState, Op, Outcome, Package,
    Phase, Reply, Rescheduling, Service, StopReason, Subject, Submission, Task, TaskState, Update,
    UpdateState,
};
use model::{FinalUsage, NoticeDelivery, NoticeReason, PackageReaders, Span, StartLatency, Time};

/// The events and the answer of an operation; `(nothing)` if there are neither.
pub(crate) fn applied(op: &Op, applied: &Applied) -> String {
    let mut lines: Vec<String> = applied.events.iter().map(event).collect();
    match &applied.outcome {
        Outcome::Done if lines.is_empty() => lines.push("(nothing)".to_owned()),
        Outcome::Done => {}
        Outcome::Request(Ok(reply)) => lines.push(self::reply(reply)),
        Outcome::Request(Err(rejection)) => {
            let said = match op {
                Op::Request { mutation, .. } => diagnostics::of_mutation(mutation, rejection),
                _ => diagnostics::sentence(rejection),
            };
            lines.push(format!("refused: {said}"));
        }
        Outcome::Assigned(answers) => lines.extend(answers.iter().map(|answer| match answer {
            Ok(()) => "accepted".to_owned(),
            Err(refused) => format!("refused: {refused}"),
        })),
        Outcome::Enabled(answers) => lines.extend(answers.iter().map(|answer| match answer {
            Ok(()) => "accepted".to_owned(),
            Err(refused) => format!("refused: {refused}"),
        })),
        Outcome::Observed(refused) if refused.is_empty() => {}
        Outcome::Observed(refused) => {
            lines.extend(refused.iter().map(|(_, why)| format!("refused: {why}")));
        }
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

fn reply(reply: &Reply) -> String {
    match reply {
        Reply::Session(id) => format!("session {id}"),
        Reply::Submitted { collection, submission, .. } => match submission {
            Submission::New => format!("job {collection}"),
            Submission::Unchanged => format!("job {collection}, unchanged"),
            Submission::Updated => format!("job {collection}, updated"),
        },
        Reply::Updated { version, unchanged: true, .. } => format!("unchanged, version {version}"),
        Reply::Updated { version, .. } => format!("version {version}"),
        Reply::Killed { tasks, .. } => format!("killed {tasks}"),
        Reply::Restarted { started, version: None, .. } => format!("{started} start"),
        Reply::Restarted { started, version: Some(version), .. } => {
            format!("{started} start, version {version}")
        }
        Reply::MachineAdded(id) => format!("machine {id}"),
        Reply::Granted(id) => format!("grant {id}"),
        Reply::Drained { tasks } => format!("{tasks} leave"),
        Reply::UserAdded(certificate) => {
            format!("certificate {} until {} s", certificate.serial, seconds(certificate.expires))
        }
        Reply::UserRevoked { known: true } => "revoked".to_owned(),
        Reply::UserRevoked { known: false } => "revoked, and nothing was known of them".to_owned(),
        Reply::TokenIssued(token) => format!("token {}", certificate(token)),
        Reply::Enrolled { machine, certificate } => {
            format!("machine {machine}, certificate {}", self::certificate(certificate))
        }
        Reply::MachineRenewed(renewed) => format!("certificate {}", certificate(renewed)),
        Reply::MachineRevoked { known: true } => "revoked".to_owned(),
        Reply::MachineRevoked { known: false } => "revoked, and nothing was known of it".to_owned(),
        Reply::LockSession(session) => format!("lock session {session}"),
        Reply::FileGeneration(generation) => format!("generation {generation}"),
        Reply::ReplicaAdded(replica) => format!("replica {replica}"),
        Reply::ServiceSet { before: None } => "new".to_owned(),
        Reply::ServiceSet { before: Some(before) } => format!("was {}", service(before)),
        Reply::SecretSet { version } => format!("version {version}"),
        Reply::PackageSet { existed: true } => "existed".to_owned(),
        Reply::PackageSet { existed: false } => "new".to_owned(),
        Reply::Done => "done".to_owned(),
    }
}

/// An event, with the usage of an instance that ended.
fn event(event: &Event) -> String {
    match event.usage {
        FinalUsage::UNMEASURED => what_happened(event),
        usage => {
            let used = usage.to_string();
            let used = if used.is_empty() { used } else { format!(" used {used}") };
            let notice = usage.notice.map(|notice| format!(", {notice}")).unwrap_or_default();
            format!("{}{used}{notice}", what_happened(event))
        }
    }
}

/// An event under its name in the published traces, if it has one.
fn what_happened(event: &Event) -> String {
    let subject = match event.subject {
        Subject::Cell => "the cell".to_owned(),
        Subject::Job(id) => format!("job {id}"),
        Subject::Task(id) => id.to_string(),
        Subject::Machine(id) => format!("machine {id}"),
    };
    let name = event.kind.name();
    match &event.kind {
        EventKind::Submit { cause } => format!("{name} {subject} ({cause})"),
        EventKind::Schedule { machine, alloc: Some(alloc) } => {
            format!("{name} {subject} on {machine} in {alloc}")
        }
        EventKind::SaverGivenUp { machine, reason } => {
            format!("{name} {subject} on {machine} ({reason})")
        }
        EventKind::Saved { machine, attempts } => {
            format!("{name} {subject} on {machine} ({attempts} attempts)")
        }
        EventKind::Schedule { machine, .. } => format!("{name} {subject} on {machine}"),
        EventKind::Start { machine, latency } => {
            format!("{name} {subject} on {machine}{}", took(*latency))
        }
        EventKind::Health { latency, .. } => format!("{name} {subject}{}", took(*latency)),
        EventKind::Evict { cause } => format!("{name} {subject} ({cause})"),
        EventKind::Fail { end: Some(end) } | EventKind::Lost { end } => {
            format!("{name} {subject} ({end})")
        }
        EventKind::Kill { why } => format!("{name} {subject} ({why})"),
        EventKind::Stop { why } => format!("{name} {subject} ({})", stop(why)),
        EventKind::MachineUpdated { capacity } => format!("{name} {subject} to {capacity}"),
        EventKind::MachineShortage { shortage: Some(shortage) } => {
            format!("{name} {subject} {shortage}")
        }
        EventKind::MachineReadiness { reason: Some(reason) } => {
            format!("{name} {subject} ({reason})")
        }
        EventKind::MachineShortage { shortage: None } => format!("{name} {subject} over"),
        EventKind::Attribute { name: key, value: Some(value) } => {
            format!("{name} {subject} {key} = {value}")
        }
        EventKind::Attribute { name: key, value: None } => format!("{name} {subject} {key} gone"),
        EventKind::MachineDrained { reason } => format!("{name} {subject} ({reason})"),
        EventKind::BackupSaved { index } => format!("{name} as of index {index}"),
        EventKind::Reclamation(setting) => format!("{name} {setting}"),
        EventKind::Packing(policy) => format!("{name} {policy}"),
        EventKind::Platform { platform, factor } => format!("{name} {platform} {factor}"),
        EventKind::UserAdded { user, certificate } => {
            format!("{name} {user} {} until {} s", certificate.serial, seconds(certificate.expires))
        }
        EventKind::UserRevoked { user } => format!("{name} {user}"),
        EventKind::TokenIssued { machine, token, most } => {
            let most = most.map(|most| format!(" {most} of")).unwrap_or_default();
            format!("{name}{most} {machine} {}", certificate(token))
        }
        EventKind::MachineEnrolled { token, certificate } => {
            format!("{name} {subject} with {token}: {}", self::certificate(certificate))
        }
        EventKind::MachineRenewed { certificate } => {
            format!("{name} {subject} {}", self::certificate(certificate))
        }
        EventKind::MachineRevoked { machine } => format!("{name} {subject} ({machine})"),
        EventKind::ReplicaTokenIssued { replica, token } => {
            format!("{name} replica {replica} {}", certificate(token))
        }
        EventKind::ReplicaJoined { replica, token } => format!("{name} {replica} with {token}"),
        EventKind::Lock { path, user, session, mode, generation, .. } => {
            format!("{name} {path} {mode} {generation} by {user}, session {session}")
        }
        EventKind::ServiceSet { service: set, replaced } => {
            format!("{name} {}{}", service(set), if *replaced { " replaced" } else { "" })
        }
        EventKind::PackageSet { package, replaced } => {
            format!("{name} {}{}", self::package(package), if *replaced { " replaced" } else { "" })
        }
        EventKind::PackageDeleted { id } => format!("{name} {id}"),
        EventKind::SecretSet { owner, name: secret, version } => {
            format!("{name} {owner}/{secret} version {version}")
        }
        EventKind::SecretDeleted { owner, name: secret }
        | EventKind::SecretResealed { owner, name: secret } => format!("{name} {owner}/{secret}"),
        EventKind::InputsChanged { what, restarts } => {
            format!("{name} {what}{}", if *restarts { " restarts" } else { "" })
        }
        EventKind::SecretRead { name: secret, version } => {
            format!("{name} {secret} version {version}")
        }
        EventKind::ServiceDeleted { owner, name: service } => format!("{name} {owner}/{service}"),
        EventKind::ReplicaAdded { replica, address } => format!("{name} {replica} at {address}"),
        EventKind::ReplicaRemoved { replica } => format!("{name} {replica}"),
        EventKind::ReplicaMember { replica, to } => format!("{name} {replica} {to}"),
        EventKind::ReplicaDescribed { replica, address, level } => {
            format!("{name} {replica} at '{address}' level {level}")
        }
        EventKind::LevelRaised { to } => format!("{name} {to}"),
        EventKind::QuotaGranted(grant) | EventKind::QuotaRevoked(grant) => {
            format!("{name} {}", self::grant(grant))
        }
        EventKind::Oversell { band, percent } => format!("{name} {band} {percent} %"),
        EventKind::Metering { on } => format!("{name} {}", if *on { "on" } else { "off" }),
        EventKind::CapabilityGranted { user, capability }
        | EventKind::CapabilityRevoked { user, capability } => {
            format!("{name} {user} {capability}")
        }
        EventKind::ExecStarted { command } => format!("{name} {subject} '{command}'"),
        EventKind::ExecEnded { command, end } => {
            let status = end.status.map_or("-".to_owned(), |status| status.to_string());
            format!("{name} {subject} '{command}' {status} after {}", end.took)
        }
        EventKind::CapabilityUsed { capability } => format!("{name} {subject} {capability}"),
        EventKind::ReschedulingStopped { silent, of } => format!("{name} {silent} of {of}"),
        _ => format!("{name} {subject}"),
    }
}

fn grant(grant: &Grant) -> String {
    let seconds = |at: Time| at.0 / 1_000_000;
    let until = grant.until.map(|until| format!(" until {} s", seconds(until)));
    let (from, until) = (seconds(grant.from), until.unwrap_or_default());
    let Grant { id, user, band, by, .. } = grant;
    format!("{id}: {user} {band} {} from {from} s{until} by {by}", grant.amount.in_words())
}

/// Every user's charge and current grant in each band, and every grant.
pub(crate) fn charges(cell: &Cell) -> String {
    let charge = |(user, band, charged): (&model::UserName, model::Band, &cell::Total)| {
        let granted = cell.granted(user, band, cell.time()).resources().in_words();
        format!("{user} {band} {} of {granted}\n", charged.resources().in_words())
    };
    let charges: String = cell.charges().map(charge).collect();
    let grants: String = cell.grants().map(|kept| grant(kept) + "\n").collect();
    charges + &grants
}

fn stop(why: &StopReason) -> String {
    match why {
        StopReason::Kill(why) => format!("kill, {why}"),
        StopReason::Evict(cause) => format!("evict, {cause}"),
    }
}

/// How many tasks had their notice, by reason.
pub(crate) fn notices(cell: &Cell) -> String {
    let line = |(reason, delivery, count): (NoticeReason, NoticeDelivery, u64)| {
        format!("{reason}: {} {count}\n", delivery.name())
    };
    cell.notices().iter().map(line).collect()
}

/// The time, the jobs with their tasks, and the machines.
pub(crate) fn cell(cell: &Cell) -> String {
    let mut lines = vec![format!("{} s", cell.time().0 / 1_000_000)];
    if *cell.rescheduling() != Rescheduling::Allowed {
        lines.push(format!("{:?}", cell.rescheduling()));
    }
    for job in cell.jobs() {
        let state = match job.state {
            JobState::Queued => "queued",
            JobState::Pending => "pending",
            JobState::Running => "running",
            JobState::Dead { .. } => "dead",
        };
        let newest = cell.job_named(&job.owner, &job.spec.name).is_some_and(|new| new.id == job.id);
        let older = if newest { "" } else { ", not the newest of that name" };
        lines.push(format!("job {} {}/{} {state}{older}", job.id, job.owner, job.spec.name));
        lines.extend(job.update.as_deref().map(update));
        for (index, task) in job.tasks() {
            let id = job.instance(index).expect("a task of it");
            let version = match task.version == job.version {
                true => String::new(),
                false => format!(", version {}", task.version),
            };
            lines.push(format!("  {id} {}{version}", self::task(task)));
        }
    }
    for machine in cell.machines() {
        let state = match machine.state {
            MachineState::Joining => "joining",
            MachineState::Up => "up",
            MachineState::Unreachable { .. } => "unreachable",
            MachineState::Down { .. } => "down",
        };
        let state = match machine.drain {
            Some(_) => format!("{state}, draining"),
            None => state.to_owned(),
        };
        let instances: Vec<String> = machine.instances().iter().map(ToString::to_string).collect();
        lines.push(format!(
            "{} {state} [{}] takes {}, ports {:?}, {} free",
            machine.name,
            instances.join(" "),
            machine.taken(),
            machine.ports_taken(),
            machine.free_port_count(),
        ));
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

/// For example `  update 1 to 2 rolling, changing 0 1, skipped 2 (…), 1 disrupted`.
fn update(update: &Update) -> String {
    let state = match update.state {
        UpdateState::Rolling => "rolling",
        UpdateState::Paused { .. } => "paused",
        UpdateState::Succeeded { .. } => "succeeded",
        UpdateState::Undoing { .. } => "undoing",
        UpdateState::Undone { .. } => "undone",
        UpdateState::Closed { .. } => "closed",
    };
    let mut text = format!("  update {} to {} {state}", update.from, update.to);
    let changing: String = update.changing.keys().map(|index| format!(" {index}")).collect();
    if !changing.is_empty() {
        text += &format!(", changing{changing}");
    }
    for (index, why) in &update.skipped {
        text += &format!(", skipped {index} ({why})");
    }
    if update.disruptions > 0 {
        text += &format!(", {} disrupted", update.disruptions);
    }
    text
}

fn certificate(known: &cell::Certificate) -> String {
    format!("{} until {} s", known.serial, seconds(known.expires))
}

/// The join tokens, and the records of machines' certificates.
pub(crate) fn credentials(cell: &Cell) -> String {
    let token = |(serial, token): (model::Serial, &std::sync::Arc<cell::Token>)| {
        let Act { at, by } = &token.issued;
        let used = token.used.map(|used| {
            format!(", used by {} for {}", used.key.0[0], certificate(&used.certificate))
        });
        let (issued, until) = (seconds(*at), seconds(token.expires));
        let used = used.unwrap_or_default();
        let many = token.many.as_ref().map(|many| {
            let names: Vec<_> = many.admitted.keys().map(ToString::to_string).collect();
            format!(", at most {}: {}", many.most, names.join(" "))
        });
        let used = many.unwrap_or(used);
        format!(
            "token {serial} for {} at {issued} s by {by} until {until} s{used}\n",
            token.machine
        )
    };
    let said = |name: &model::MachineName, said: &cell::Credentials| {
        let revoked = said.revoked.as_ref();
        let revoked = revoked.map(|act| format!(" revoked at {} s by {}", seconds(act.at), act.by));
        let certificates = said.certificates.iter();
        let certificates = certificates.map(|known| format!(" {}", certificate(known)));
        let certificates: String = certificates.collect();
        format!("{name}{}:{certificates}\n", revoked.unwrap_or_default())
    };
    let tokens = cell.tokens().map(token);
    let machines = cell.machines();
    let machines =
        machines.filter_map(|machine| Some(said(&machine.name, machine.credentials.as_ref()?)));
    let gone = cell.revoked_machines().map(|(name, gone)| format!("gone: {}", said(name, gone)));
    tokens.chain(machines).chain(gone).collect()
}

/// The recorded replicas, and the members of consensus.
pub(crate) fn replicas(cell: &Cell) -> String {
    let line = |replica: &cell::Replica| {
        let (id, member) = (replica.id, format!("{:?}", replica.member).to_lowercase());
        let leaving = if replica.leaving { ", leaving" } else { "" };
        let token = replica.token.map_or_else(String::new, |token| match token.used {
            None => format!(", token {}", token.certificate.serial),
            Some(key) => format!(", token {} used by {}", token.certificate.serial, key.0[0]),
        });
        let (at, level) = (&replica.address, replica.level);
        let directory = match replica.directory.is_known() {
            true => format!(", directory {}", replica.directory.0),
            false => String::new(),
        };
        format!("{id} {member}{leaving} at '{at}' level {level}{token}{directory}\n")
    };
    let ids =
        |ids: Vec<model::ReplicaId>| ids.iter().map(|id| format!(" {id}")).collect::<String>();
    let (voters, learners) = (ids(cell.voters().collect()), ids(cell.learners().collect()));
    let records: String = cell.replicas().map(line).collect();
    let last = cell.last_replica();
    format!("{records}voters{voters}; learners{learners}; last id {last}\n")
}

/// The users that were added or revoked.
pub(crate) fn users(cell: &Cell) -> String {
    let act = |what: &str, act: Option<&Act>| match act {
        Some(Act { at, by }) => format!(" {what} at {} s by {by}", seconds(*at)),
        None => String::new(),
    };
    let line = |(name, user): (&model::UserName, &std::sync::Arc<cell::User>)| {
        let certificates = user.certificates.iter();
        let certificates = certificates
            .map(|known| format!(" {} until {} s", known.serial, seconds(known.expires)));
        let (added, revoked) =
            (act("added", user.added.as_ref()), act("revoked", user.revoked.as_ref()));
        format!("{name}{added}{revoked}:{}\n", certificates.collect::<String>())
    };
    cell.users().map(line).collect()
}

fn seconds(time: Time) -> u64 {
    time.0 / 1_000_000
}

/// The free ports of each machine, in the order of assignment.
pub(crate) fn free_ports(cell: &Cell) -> String {
    let line = |name: &model::MachineName, ports: Vec<u16>| format!("{name} {ports:?}\n");
    cell.machines().map(|machine| line(&machine.name, machine.free_ports(9, &[]))).collect()
}

/// Where the time of a start went, if it took any.
fn took(latency: StartLatency) -> String {
    if latency.total() > Span::ZERO { format!(" ({latency})") } else { String::new() }
}

fn task(task: &Task) -> String {
    let mut text = match &task.state {
        TaskState::Queued { .. } => "queued".to_owned(),
        TaskState::Pending { not_before, cause, .. } => {
            format!("pending ({cause}), not before {} s", not_before.0 / 1_000_000)
        }
        TaskState::Running(placement) => {
            let phase = match placement.phase {
                Phase::Starting => "starting".to_owned(),
                Phase::Started { health, .. } => format!("{health:?}").to_lowercase(),
            };
            let leaving = match placement.stop.as_deref() {
                Some(why) => format!(", stopping ({})", stop(why)),
                None => String::new(),
            };
            let check = placement.check.as_ref().map(|text| format!(" ({text})"));
            let check = check.unwrap_or_default();
            let (machine, took) = (placement.machine, took(placement.latency));
            let again = match placement.lost_starts {
                0 => String::new(),
                tries => format!(", after {tries} lost starts"),
            };
            format!("{phase}{check} on {machine} {:?}{took}{again}{leaving}", placement.ports)
        }
        TaskState::Dead { death: cell::Death::Killed(why), .. } => format!("killed {why}"),
        TaskState::Dead { death, .. } => format!("{death:?}").to_lowercase(),
    };
    if task.failures > 0 {
        text += &format!(", failures {}", task.failures);
    }
    if task.finishes > 0 {
        text += &format!(", finishes {}", task.finishes);
    }
    if let Some(incarnation) = &task.last_incarnation {
        text += &format!(", last: {}", incarnation.end);
        if incarnation.usage != FinalUsage::UNMEASURED {
            text += &format!(" ({})", incarnation.usage);
        }
    }
    text
}

/// Every file with its content and its lock, and every lock session.
pub(crate) fn locks(cell: &Cell) -> String {
    let mut text = String::new();
    for file in cell.files_below("/") {
        text.push_str(file.path.as_str());
        if let Some(content) = &file.content {
            let bytes = String::from_utf8_lossy(&content.bytes).escape_debug().to_string();
            let shown = if bytes.len() > 40 { format!("{} bytes", bytes.len()) } else { bytes };
            text.push_str(&format!(" {shown} ({})", content.generation));
            if let Some(session) = content.session {
                text.push_str(&format!(" with session {session}"));
            }
        }
        if let Some(lock) = &file.lock {
            text.push_str(&format!(" locked {}:", lock.mode));
            for holder in &lock.holders {
                text.push_str(&format!(" session {} ({})", holder.session, holder.generation));
            }
        }
        text.push('\n');
    }
    for (expires, id) in cell.lock_sessions_by_expiry() {
        let Some(session) = cell.lock_session(id) else { continue };
        let until = seconds(expires);
        text.push_str(&format!("session {id} of {} until {until} s\n", session.user));
    }
    if text.is_empty() { "(nothing)\n".to_owned() } else { text }
}

fn service(service: &Service) -> String {
    let mut text = format!("{}/{} {}", service.owner, service.name, service.port);
    text.push_str(&format!(" {}", service.labels));
    for user in &service.users {
        text.push_str(&format!(" {user}"));
    }
    text
}

/// The secrets, one in each line: the numbers of the versions, each with the last digit of its key.
pub(crate) fn secrets(cell: &Cell) -> String {
    let version = |version: &model::SecretVersion| {
        format!(" {}({})", version.number, version.sealed.key.0[7])
    };
    let secret = |it: &std::sync::Arc<model::Secret>| {
        let versions: String = it.versions.iter().map(version).collect();
        format!("{}/{}{versions}\n", it.owner, it.name)
    };
    cell.secrets().map(secret).collect()
}

/// The packages, one in each line.
pub(crate) fn packages(cell: &Cell) -> String {
    let text: String = cell.packages().map(|it| format!("{}\n", package(it))).collect();
    if text.is_empty() { "(nothing)\n".to_owned() } else { text }
}

fn package(package: &Package) -> String {
    let readers = match &package.readers {
        PackageReaders::Everyone => " for everyone".to_owned(),
        PackageReaders::Users(users) => users.iter().map(|user| format!(" for {user}")).collect(),
    };
    format!("{} {}{readers}", package.id, package.stored)
}

/// Every service.
pub(crate) fn services(cell: &Cell) -> String {
    let text: String = cell.services().map(|it| format!("{}\n", service(it))).collect();
    if text.is_empty() { "(nothing)\n".to_owned() } else { text }
}
