//! What is shown of a job that waits or has ended beyond the first failed check of each machine.

use std::fmt::Write as _;

use api::v1;
use model::{Priority, Time};
use process::moment;

use super::ranges;

/// The other checks that machines fail, of which the reasons name only the first; nothing if they say the same.
pub(super) fn failed_checks(text: &mut String, group: &v1::PendingGroup) {
    let named = |check: &v1::pending_group::FailedCheck| {
        let mut reasons = group.unschedulable_reasons.iter();
        reasons.any(|reason| reason.reason == check.check && reason.machines == check.machines)
    };
    if group.failed_checks.iter().all(named) {
        return;
    }
    let checks = group.failed_checks.iter().map(|check| match check.alone {
        0 => format!("{} {}", check.machines, check.check),
        alone if alone == check.machines => format!("{} {} alone", check.machines, check.check),
        alone => format!("{} {} ({alone} of them alone)", check.machines, check.check),
    });
    let checks: Vec<String> = checks.collect();
    let _infallible = writeln!(text, " every check: {}", checks.join("; "));
}

/// What makes all tasks of a group fit, and how many fit as they are.
pub(super) fn for_all(text: &mut String, group: &v1::PendingGroup) {
    let tasks: u32 = group.tasks.iter().map(|range| range.last - range.first + 1).sum();
    if let Some(fit) = group.fit_at_once.filter(|fit| (1..tasks).contains(fit)) {
        let _infallible = writeln!(text, " {fit} of these {tasks} tasks fit now");
    }
    let change = &group.smallest_change_for_all;
    if change.is_empty() || tasks == 1 && *change == group.smallest_change {
        return;
    }
    let which = if tasks == 1 { "it".to_owned() } else { format!("all {tasks}") };
    let _infallible = writeln!(text, " smallest change that starts {which} now: {change}");
}

/// What evictions would do.
pub(super) fn preemption(text: &mut String, group: &v1::PendingGroup) {
    let Some(found) = group.preemption.as_ref().filter(|_| group.fits == 0) else { return };
    let machines = |count: u32| match count {
        1 => "1 machine".to_owned(),
        several => format!("{several} machines"),
    };
    let mut line = |line: String| {
        let _infallible = writeln!(text, " {line}");
    };
    if found.leaving > 0 {
        line(format!(
            "{}: fits as soon as the tasks that leave have left",
            machines(found.leaving)
        ));
    }
    if found.possible > 0 {
        let s = if found.victim_count == 1 { "" } else { "s" };
        let more = if usize::try_from(found.victim_count).is_ok_and(|all| all > found.victims.len())
        {
            ", …"
        } else {
            ""
        };
        line(format!(
            "{}: fits if the scheduler evicts tasks of lower priority, fewest on {}: {} task{s} ({}{more})",
            machines(found.possible),
            found.machine,
            found.victim_count,
            found.victims.join(", ")
        ));
    }
    if found.production > 0 {
        line(format!(
            "{}: would fit only by evicting production: not allowed",
            machines(found.production)
        ));
    }
    if found.not_lower > 0 {
        line(format!(
            "{}: would fit only by evicting tasks of the same or a higher priority: not allowed",
            machines(found.not_lower)
        ));
    }
}

/// What is true of the whole job: who is ahead, maxima, and names that machines spell differently.
pub(super) fn of_job(text: &mut String, answer: &v1::WhyResponse) {
    for spelling in &answer.spellings {
        let _infallible = writeln!(text, " {spelling}");
    }
    for rule in &answer.maxima {
        let _infallible = writeln!(text, " {rule}");
    }
    let Some(ahead) = &answer.ahead else { return };
    let tasks = |tasks: u64, jobs: u32| {
        let (s, of) = (if tasks == 1 { "" } else { "s" }, if jobs == 1 { "" } else { "s" });
        format!("{tasks} pending task{s} of {jobs} job{of}")
    };
    if ahead.higher_tasks > 0 {
        let named = ahead.jobs.iter().map(|job| {
            let priority = Priority::new(job.priority.into());
            let priority = priority.map(|priority| priority.to_string()).unwrap_or_default();
            format!("{} {priority}", job.job)
        });
        let named: Vec<String> = named.collect();
        let all = usize::try_from(ahead.higher_jobs).is_ok_and(|jobs| jobs <= named.len());
        let _infallible = writeln!(
            text,
            " ahead of it: {} with a higher priority ({}{})",
            tasks(ahead.higher_tasks, ahead.higher_jobs),
            named.join(", "),
            if all { "" } else { ", …" }
        );
    }
    if ahead.equal_tasks > 0 {
        let _infallible = writeln!(
            text,
            " beside it: {} with the same priority, whose users take turns",
            tasks(ahead.equal_tasks, ahead.equal_jobs)
        );
    }
}

/// How the job and its tasks ended.
pub(super) fn ended(text: &mut String, answer: &v1::WhyResponse, name: &str) {
    if let Some((first, others)) = answer.ended_because.split_first() {
        let _infallible = writeln!(text, "{name}: {first}");
        for because in others {
            let _infallible = writeln!(text, " because {because}");
        }
    }
    for group in &answer.ended {
        let tasks: u32 = group.tasks.iter().map(|range| range.last - range.first + 1).sum();
        let s = if answer.tasks == 1 { "" } else { "s" };
        let which = match tasks == answer.tasks {
            true => String::new(),
            false => format!(" ({})", ranges(&group.tasks)),
        };
        let at = moment::shown(Time(group.at));
        let _infallible = writeln!(
            text,
            " {tasks} of {} task{s}{which}: {}, {at} (UTC)",
            answer.tasks, group.how
        );
        if !group.last_end_text.is_empty() {
            let failures = match group.failures {
                0 => String::new(),
                1 => ", after 1 failure".to_owned(),
                several => format!(", after {several} failures"),
            };
            let _infallible =
                writeln!(text, "  its last run ended: {}{failures}", group.last_end_text);
        }
    }
}
