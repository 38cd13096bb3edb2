//! `bourg why JOB --history`: how the reasons changed over time.
//!
//! Read are the views of the past at which the job's tasks changed, and others in the longest gaps between them: at most
//! so many as are asked for. Each is a read of the past, which a replica answers in a process of its own.

use std::collections::BTreeSet;

use api::v1;
use api::v1::events_request::From;
use client::{Connection, MasterClient, Target};
use clientd::follow;
use command::output::{self, Format, Listing};
use command::{Done, Failure, with_cell};
use model::Time;
use process::clock::wall_clock;
use process::moment;
use serde::Serialize;

use super::{Among, WhyArgs, choose, first_reason_in_short};

/// The newest events of a job that are looked at.
const HISTORY_EVENTS: u32 = 1_000;

/// For how long a job was pending for one reason, as far as the moments show that were read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct SameReason {
    from: u64,
    to: u64,
    /// Number of moments that were read.
    moments: u32,
    reason: String,
}

pub(super) fn history(cell: Target<'_>, args: &WhyArgs, most: u32) -> Done {
    with_cell(cell, async |mut connection| {
        let among = Among::Alive(None);
        let named = args.job.as_slice();
        let chosen = choose(&mut connection, named, None, &among).await?;
        let Some(chosen) = chosen.into_iter().next() else { return Ok(()) };
        let (job, tasks) = (chosen.job, v1::TaskSelection::from(&chosen.tasks));
        let events = events(&mut connection, &job, &tasks).await?;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let moments = moments(&events, wall_clock().0, most);
        let mut lines: Vec<SameReason> = Vec::new();
        let (mut failed, mut failure) = (0, None);
        for at in moments {
            let (job, tasks) = (Some(job.clone()), Some(tasks.clone()));
            let request = v1::WhyRequest { job, tasks, at: Some(at), scores: 0 };
            let answer = connection
                .ask(request, async |mut client, request| client.jobs.why(request).await)
                .await;
            match answer {
                Ok(answer) => add(&mut lines, answer.time, first_reason_in_short(&answer)),
                Err(error) => {
                    failed += 1;
                    failure = Some(Failure::from(error));
                }
            }
        }
        if lines.is_empty() {
            return match failure {
                Some(failure) => Err(failure),
                None => {
                    output::say("no event of this job is kept\n");
                    Ok(())
                }
            };
        }
        if failed > 0 {
            output::say(&format!("{failed} of the moments could not be read\n"));
        }
        show(&args.output, &lines)
    })
}

/// When the tasks of a job changed: log index and time.
async fn events(
    connection: &mut Connection,
    job: &v1::JobAddress,
    tasks: &v1::TaskSelection,
) -> Result<Vec<(u64, u64)>, Failure> {
    let request = v1::EventsRequest {
        job: Some(job.clone()),
        tasks: Some(tasks.clone()),
        from: Some(From::Last(HISTORY_EVENTS)),
        ..v1::EventsRequest::default()
    };
    let mut found: BTreeSet<(u64, u64)> = BTreeSet::new();
    let open = async |mut client: MasterClient, request| client.history.events(request).await;
    follow(connection, request, false, open, |request, answer| {
        found.extend(answer.events.iter().map(|event| (event.index, event.time)));
        request.from = answer.next.map(From::Cursor).or(request.from);
        Ok(())
    })
    .await?;
    Ok(found.into_iter().collect())
}

/// The moments that are read, oldest first: of the changes at most so many, evenly, and the newest always; the rest in
/// the longest gaps between them, up to now.
fn moments(changes: &[(u64, u64)], now: u64, most: usize) -> Vec<v1::Moment> {
    let (Some(first), true) = (changes.first(), most > 0) else { return Vec::new() };
    let step = changes.len().div_ceil(most.max(1)).max(1);
    let mut chosen: Vec<(u64, v1::Moment)> =
        changes.iter().rev().step_by(step).map(|(index, time)| (*time, of_index(*index))).collect();
    chosen.sort_by_key(|(time, _)| *time);
    let mut ends: Vec<u64> = chosen.iter().map(|(time, _)| *time).chain([now]).collect();
    ends.push(first.1);
    ends.sort_unstable();
    while chosen.len() < most {
        let gaps = ends.windows(2).map(|pair| match pair {
            [from, to] => (to.saturating_sub(*from), *from),
            _ => (0, 0),
        });
        let Some((gap, from)) = gaps.max().filter(|(gap, _)| *gap > 1_000_000) else { break };
        let middle = from + gap / 2;
        chosen.push((middle, of_time(middle)));
        ends.push(middle);
        ends.sort_unstable();
    }
    chosen.sort_by_key(|(time, _)| *time);
    chosen.into_iter().map(|(_, moment)| moment).collect()
}

fn of_index(index: u64) -> v1::Moment {
    v1::Moment { at: Some(v1::moment::At::Index(index)) }
}

fn of_time(time: u64) -> v1::Moment {
    v1::Moment { at: Some(v1::moment::At::Time(time)) }
}

fn add(lines: &mut Vec<SameReason>, time: u64, reason: String) {
    match lines.last_mut() {
        Some(last) if last.reason == reason => {
            last.to = time;
            last.moments += 1;
        }
        _ => lines.push(SameReason { from: time, to: time, moments: 1, reason }),
    }
}

fn show(format: &Format, lines: &[SameReason]) -> Done {
    let name = |line: &SameReason| line.from.to_string();
    if let Format::Table | Format::Wide = format {
        return output::print(&lines.iter().map(line).collect::<String>());
    }
    output::list(
        format,
        &Listing { items: lines, name, headings: &[], wide: 0, row: |_| Vec::new() },
    )
}

/// `2026-11-19 10:02:00.000 to 2026-11-19 10:14:00.000  12 tasks pending: of 3 machines, 3 lack RAM`.
fn line(line: &SameReason) -> String {
    let (from, to) = (moment::shown(Time(line.from)), moment::shown(Time(line.to)));
    match line.moments {
        1 => format!("{from}  {}\n", line.reason),
        _ => format!("{from} to {to}  {}\n", line.reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn at_most_so_many_moments_are_read_and_gaps_are_halved() {
        let read = |changes: &[(u64, u64)], now, most| -> Vec<String> {
            let shown = |moment: v1::Moment| match moment.at {
                Some(v1::moment::At::Index(index)) => format!("index {index}"),
                Some(v1::moment::At::Time(time)) => format!("{} s", time / SECOND),
                None => "none".to_owned(),
            };
            moments(changes, now, most).into_iter().map(shown).collect()
        };
        assert_eq!(read(&[], 100 * SECOND, 4), Vec::<String>::new());
        assert_eq!(read(&[(7, 0)], 0, 4), ["index 7"]);
        let changes = [(7, 0), (9, 10 * SECOND)];
        assert_eq!(read(&changes, 100 * SECOND, 4), ["index 7", "index 9", "55 s", "77 s"]);
        let many: Vec<(u64, u64)> = (0..100).map(|n| (n, n * SECOND)).collect();
        assert_eq!(read(&many, 100 * SECOND, 4), ["index 24", "index 49", "index 74", "index 99"]);
    }

    #[test]
    fn equal_reasons_are_one_line() {
        let mut lines = Vec::new();
        for (time, reason) in [(1, "a"), (2, "a"), (3, "b"), (5, "a")] {
            add(&mut lines, time * SECOND, reason.to_owned());
        }
        let shown: String = lines.iter().map(line).collect();
        assert_eq!(
            shown,
            "1970-01-01 00:00:01.000 to 1970-01-01 00:00:02.000  a\n1970-01-01 00:00:03.000  b\n\
             1970-01-01 00:00:05.000  a\n"
        );
    }
}
