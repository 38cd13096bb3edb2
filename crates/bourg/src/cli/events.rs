//! `bourg events`: what happened, with who did it and why.

use std::fmt::Write as _;
use std::time::Duration;

use cell::{Actor, EventKind, StopReason, Subject};
use model::Span;
use proto::event::Record;
use proto::v1;
use proto::v1::events_request::From;

use super::exit::{Done, Failure};
use super::moment::{self, Moment};
use super::output::{self, Format};
use super::{EventsArgs, job_address, with_cell};
use crate::clock::wall_clock;

/// How long a follower waits before it asks a master that was restarted.
const AGAIN: Duration = Duration::from_millis(200);

/// The name of an event on the command line: `88412` or `88412.3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor(u64, u32);

impl std::str::FromStr for Cursor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (index, sub) = text.split_once('.').unwrap_or((text, "0"));
        let bad = |_| format!("'{}' names no event: use 88412 or 88412.3", text.escape_debug());
        Ok(Self(index.parse().map_err(bad)?, sub.parse().map_err(bad)?))
    }
}

pub(super) fn events(cell: Option<&str>, args: &EventsArgs) -> Done {
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
        let mut request = request;
        loop {
            let mut stream = connection
                .stream(request.clone(), async |mut client, request| client.events(request).await)
                .await?;
            loop {
                match stream.message().await {
                    Ok(Some(answer)) => {
                        answer.events.iter().try_for_each(|event| show(&args.output, event))?;
                        request.from = answer.next.map(From::Cursor).or(request.from);
                    }
                    // The master was restarted: it goes on where this one stopped.
                    Ok(None) | Err(_) if args.follow => break,
                    Ok(None) => return Ok(()),
                    Err(status) => return Err(Failure::from(status)),
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    })
}

fn show(format: &Format, event: &v1::EventRecord) -> Done {
    match format {
        Format::Table | Format::Wide => {
            let record = Record::try_from(event.clone()).map_err(|error| {
                Failure::failed(format!("error: an event cannot be read: {error}"))
            })?;
            output::print(&line(&record, *format == Format::Wide))
        }
        // A line each, so that a stream of them can be read as it comes.
        Format::Json => {
            let json = serde_json::to_string(event)
                .map_err(|error| Failure::failed(format!("error: {error}")))?;
            output::print(&format!("{json}\n"))
        }
        other => {
            let name = format!("{}.{}", event.index, event.sub_index);
            output::object(other, event, &name, String::new)
        }
    }
}

/// `2026-11-19 03:10:00.123  ana/web/3  EVICT  on m1, preempted by 7-0-1  (scheduler)`.
fn line(record: &Record, wide: bool) -> String {
    let mut text = String::new();
    if wide {
        let _infallible = write!(text, "{}.{}  ", record.index, record.sub);
    }
    let (at, subject) = (moment::shown(record.at), subject(record));
    let (name, detail) = (record.event.kind.name(), detail(record));
    let by = match &record.by {
        Actor::User(user) => user.to_string(),
        Actor::Scheduler => "scheduler".to_owned(),
        Actor::Machine(id) => match &record.names.reporter {
            Some(machine) => machine.to_string(),
            None => format!("machine {id}"),
        },
        Actor::Master => "master".to_owned(),
    };
    let _infallible = writeln!(
        text,
        "{at}  {subject:24}  {name:14}  {detail}{}by {by}",
        if detail.is_empty() { "" } else { ", " }
    );
    text
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
        EventKind::Evict { cause } => with(cause.to_string()),
        EventKind::Fail { end: Some(end) } | EventKind::Lost { end } => with(end.to_string()),
        EventKind::Kill { why } => with(why.to_string()),
        EventKind::Stop { why: StopReason::Kill(why) } => with(format!("to be killed {why}")),
        EventKind::Stop { why: StopReason::Evict(cause) } => {
            with(format!("to be evicted: {cause}"))
        }
        EventKind::MachineUpdated { capacity } => capacity.to_string(),
        EventKind::Attribute { name, value } => {
            let name = name.escape_debug();
            match value {
                Some(value) => format!("{name} = {}", value.escape_debug()),
                None => format!("{name} is gone"),
            }
        }
        EventKind::MachineDrained { reason } => reason.escape_debug().to_string(),
        EventKind::Platform { platform, factor } => {
            format!("{} × {factor}", platform.escape_debug())
        }
        EventKind::LevelRaised { to } => to.to_string(),
        _ => on(),
    }
}
