//! `bourg events`: shows events with their actors and reasons.

use std::fmt::Write as _;

use cell::{Actor, EventKind, Grant, StopReason, Subject};
use client::{MasterClient, Target};
use model::{FinalUsage, Span, Time};
use process::clock::wall_clock;
use proto::event::Record;
use proto::v1;
use proto::v1::events_request::From;
use spec::LogSettings;

use super::change::tasks;
use super::exit::Done;
use super::follow::follow;
use super::moment::{self, Moment};
use super::output::{self, Format};
use super::{EventsArgs, job_address, with_cell};

/// The id of an event on the command line: `88412` or `88412.3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor(u64, u32);

impl std::str::FromStr for Cursor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (index, sub) = text.split_once('.').unwrap_or((text, "0"));
        let bad = |_| format!("'{}' is not an event id: use 88412 or 88412.3", text.escape_debug());
        Ok(Self(index.parse().map_err(bad)?, sub.parse().map_err(bad)?))
    }
}

pub(super) fn events(cell: Target<'_>, args: &EventsArgs) -> Done {
    let from = match (args.from, args.since, args.all) {
        (Some(Cursor(index, sub_index)), _, _) => {
            Some(From::Cursor(v1::EventCursor { index, sub_index }))
        }
        (None, Some(ago), _) => {
            let ago = Span(u64::try_from(ago.as_micros()).unwrap_or(u64::MAX));
            Some(From::Since((wall_clock() - ago).0))
        }
        (None, None, true) => None,
        (None, None, false) => Some(From::Last(args.last)),
    };
    let request = v1::EventsRequest {
        job: args.address.as_ref().map(job_address),
        tasks: args.address.as_ref().map(|address| (&address.tasks).into()),
        machine: args.machine.as_ref().map(ToString::to_string).unwrap_or_default(),
        labels: args.labels.as_ref().map(ToString::to_string).unwrap_or_default(),
        from,
        until: args.at.map(Moment::message),
        follow: args.follow,
    };
    with_cell(cell, async |mut connection| {
        let open = async |mut client: MasterClient, request| client.events(request).await;
        follow(&mut connection, request, args.follow, open, |request, answer| {
            answer.events.iter().try_for_each(|event| show(&args.output, event))?;
            request.from = answer.next.map(From::Cursor).or(request.from);
            Ok(())
        })
        .await
    })
}

fn show(format: &Format, event: &v1::EventRecord) -> Done {
    match format {
        Format::Table | Format::Wide => output::print(&line(event, *format == Format::Wide)),
        other => {
            let name = format!("{}.{}", event.index, event.sub_index);
            output::item(other, event, &name)
        }
    }
}

/// For example `2026-11-19 03:10:00.123  ana/web/3  EVICT  on m1, preempted by 7-0-1  (scheduler)`.
fn line(event: &v1::EventRecord, wide: bool) -> String {
    let mut text = String::new();
    if wide {
        let _infallible = write!(text, "{}.{}  ", event.index, event.sub_index);
    }
    let at = moment::shown(Time(event.time));
    let (subject, name, detail, by) = match Record::try_from(event.clone()) {
        Ok(record) => {
            let detail =
                [detail(&record), used(&record)].into_iter().filter(|text| !text.is_empty());
            let detail = detail.collect::<Vec<_>>().join(", ");
            (subject(&record), record.event.kind.name(), detail, by(&record))
        }
        Err(_) => unknown(event),
    };
    let comma = if detail.is_empty() { "" } else { ", " };
    let _infallible = writeln!(text, "{at}  {subject:24}  {name:14}  {detail}{comma}by {by}");
    text
}

/// What can be shown of an event of a kind that only newer versions know.
fn unknown(event: &v1::EventRecord) -> (String, &'static str, String, String) {
    let why = "unknown to this version: use a newer bourg".to_owned();
    // Replace the unknown kind with one without data, to decode the other fields.
    let kind = Some(v1::event_record::Kind::Queue(v1::Nothing {}));
    let (subject, by) = match Record::try_from(v1::EventRecord { kind, ..event.clone() }) {
        Ok(record) => (subject(&record), by(&record)),
        Err(_) => ("something".to_owned(), "somebody".to_owned()),
    };
    (subject, "UNKNOWN", why, by)
}

fn by(record: &Record) -> String {
    match &record.by {
        Actor::User(user) => user.to_string(),
        Actor::Scheduler => "scheduler".to_owned(),
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
        EventKind::Submit { cause } => cause.to_string(),
        EventKind::Schedule { alloc: Some(alloc), .. } => with(format!("in alloc {}", alloc.index)),
        EventKind::Evict { cause } => with(cause.to_string()),
        EventKind::Fail { end: Some(end) } | EventKind::Lost { end } => with(end.to_string()),
        EventKind::Kill { why } => with(why.to_string()),
        EventKind::Stop { why: StopReason::Kill(why) } => with(format!("to be killed: {why}")),
        EventKind::Stop { why: StopReason::Evict(cause) } => {
            with(format!("to be evicted: {cause}"))
        }
        EventKind::Health { check: Some(check), .. } => with(check.escape_debug().to_string()),
        EventKind::Saved { attempts: 1, .. } => with("after 1 attempt".to_owned()),
        EventKind::Saved { attempts, .. } => with(format!("after {attempts} attempts")),
        EventKind::SaverGivenUp { reason, .. } => with(output::one_line(reason)),
        EventKind::MachineUpdated { capacity } => capacity.to_string(),
        EventKind::MachineShortage { shortage: Some(shortage) } => shortage.to_string(),
        EventKind::MachineShortage { shortage: None } => "no longer short".to_owned(),
        EventKind::Attribute { name, value } => {
            let name = name.escape_debug();
            match value {
                Some(value) => format!("{name} = {}", value.escape_debug()),
                None => format!("{name} is gone"),
            }
        }
        EventKind::UpdateOpened { from, to, changes } => {
            let changes: Vec<_> = changes.iter().map(ToString::to_string).collect();
            let changes = output::one_line(&changes.join(", "));
            format!("version {from} → {to}: {changes}")
        }
        EventKind::LimitsSet { version, reason, .. } => {
            format!("version {version}: {}", output::one_line(reason))
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
        EventKind::ServiceDeleted { owner, name } => format!("service {owner}/{name}"),
        EventKind::Lock { path, user, session, mode, generation, .. } => {
            format!("{path} {mode} by {user}, session {session}, generation {generation}")
        }
        EventKind::Reclamation(setting) => setting.to_string(),
        EventKind::LogSettings(LogSettings { keep, max, machine }) => {
            let machine = machine.map(|bytes| format!(", {bytes} on each machine"));
            format!("{keep}, {max} of each task{}", machine.unwrap_or_default())
        }
        EventKind::UserAdded { user, certificate } => {
            let until = moment::shown(certificate.expires);
            format!("{user}, certificate {} until {until}", certificate.serial)
        }
        EventKind::UserRevoked { user } => user.to_string(),
        EventKind::TokenIssued { machine, token } => {
            let until = moment::shown(token.expires);
            format!("to {machine}, number {} until {until}", token.serial)
        }
        EventKind::MachineEnrolled { token, certificate } => {
            let (number, until) = (certificate.serial, moment::shown(certificate.expires));
            format!("with token {token}, certificate {number} until {until}")
        }
        EventKind::MachineRenewed { certificate } => {
            let until = moment::shown(certificate.expires);
            format!("certificate {} until {until}", certificate.serial)
        }
        // The subject already names the machine if it exists.
        EventKind::MachineRevoked { machine } if record.names.machine.is_none() => {
            machine.to_string()
        }
        EventKind::LevelRaised { to } => to.to_string(),
        EventKind::QuotaGranted(grant) | EventKind::QuotaRevoked(grant) => {
            let Grant { id, user, band, amount, .. } = &**grant;
            let until = grant.until.map(|until| format!(" until {}", moment::shown(until)));
            let (amount, until) = (amount.in_words(), until.unwrap_or_default());
            format!("{id}: {user} {band} {amount} from {}{until}", moment::shown(grant.from))
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
            let until = moment::shown(token.expires);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_a_kind_that_is_not_known_is_shown_with_what_is() {
        use v1::event_record::actor::Who;
        use v1::event_record::subject::What;
        let mut event = v1::EventRecord {
            index: 7,
            sub_index: 1,
            actor: Some(v1::event_record::Actor { who: Some(Who::User("ana".to_owned())) }),
            subject: Some(v1::event_record::Subject { what: Some(What::Job(3)) }),
            user: "ana".to_owned(),
            job: "web".to_owned(),
            ..Default::default()
        };
        let shown = line(&event, true);
        assert!(shown.starts_with("7.1  "), "{shown}");
        assert!(shown.contains("  ana/web ") && shown.contains("  UNKNOWN "), "{shown}");
        assert!(shown.ends_with(", by ana\n"), "{shown}");
        event.subject = None;
        assert!(line(&event, false).contains("  UNKNOWN "), "nor what it happened to");
    }

    #[test]
    fn the_end_of_an_instance_is_shown_with_what_it_used() {
        use v1::event_record::actor::Who;
        use v1::event_record::subject::What;
        let instance = v1::InstanceId { collection: 3, index: 0, generation: 1 };
        let mut event = v1::EventRecord {
            actor: Some(v1::event_record::Actor { who: Some(Who::Master(v1::Nothing {})) }),
            subject: Some(v1::event_record::Subject { what: Some(What::Task(instance)) }),
            kind: Some(v1::event_record::Kind::Finish(v1::Nothing {})),
            machine: "m1".to_owned(),
            ..Default::default()
        };
        let shown = line(&event, false);
        assert!(shown.ends_with("  on m1, by master\n"), "{shown}");
        let cpu_time = Some(proto::duration(Span(210_000)));
        event.usage = Some(v1::FinalUsage {
            cpu_time,
            memory_peak_bytes: Some(52 << 20),
            notice: Some(v1::NoticeDelivery::NoticeInFull.into()),
        });
        let shown = line(&event, false);
        let used = "on m1, used 210 ms of CPU time, 52 MiB of memory at most, notice in full, by \
                    master\n";
        assert!(shown.ends_with(used), "{shown}");
    }
}
