//! `bourg events`: shows events with their actors and reasons.

use std::fmt::Write as _;

use api::v1;
use api::v1::events_request::From;
use client::{MasterClient, Target};
use clientd::follow;
use command::output::{self, Format};
use command::{Done, job_address, with_cell};
use model::{Span, Time};
use present::EventWords;
use process::clock::wall_clock;

use super::EventsArgs;
use super::moment::{self, Moment};

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
        let open = async |mut client: MasterClient, request| client.history.events(request).await;
        follow(&mut connection, request, args.follow, open, |request, answer| {
            answer.gap.iter().try_for_each(|gap| show_gap(&args.output, gap))?;
            answer.events.iter().try_for_each(|event| show(&args.output, event))?;
            request.from = answer.next.map(From::Cursor).or(request.from);
            Ok(())
        })
        .await
    })
}

/// For example `no events from 1250.1 to 1311.0 are stored at this replica`.
fn show_gap(format: &Format, gap: &v1::EventGap) -> Done {
    let shown = |at: Option<v1::EventCursor>| {
        let at = at.unwrap_or_default();
        format!("{}.{}", at.index, at.sub_index)
    };
    let (from, until) = (shown(gap.from), shown(gap.until));
    match format {
        Format::Table | Format::Wide => output::print(&format!(
            "-- the events from {from} until {until} are not stored at this replica; another one \
             may have them --\n"
        )),
        other => output::item(other, &Missing { gap }, &format!("gap {from} {until}")),
    }
}

/// A gap among events in JSON.
#[derive(serde::Serialize)]
struct Missing<'a> {
    gap: &'a v1::EventGap,
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

/// For example `2026-11-19 03:10:00.123  ana/web/3  EVICT  on m1, preempted by ben/big/0  (scheduler)`.
fn line(event: &v1::EventRecord, wide: bool) -> String {
    let mut text = String::new();
    if wide {
        let _infallible = write!(text, "{}.{}  ", event.index, event.sub_index);
    }
    let at = moment::shown(Time(event.time));
    let EventWords { subject, name, detail, by } = EventWords::of(event);
    let comma = if detail.is_empty() { "" } else { ", " };
    let _infallible = writeln!(text, "{at}  {subject:24}  {name:14}  {detail}{comma}by {by}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_unknown_kind_is_shown_with_its_known_fields() {
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
        let cpu_time = Some(api::duration(Span(210_000)));
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
