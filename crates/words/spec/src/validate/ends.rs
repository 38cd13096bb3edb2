//! What concerns the end of tasks: savers, and the notice of those that a job preempts.

use model::Span;

use super::{Problems, limits};
use crate::path::Location;
use crate::{JobSpec, Saver};

impl Problems {
    /// What concerns the end of tasks: of the job's own, and of those that it preempts.
    pub(super) fn ends(&mut self, job: &JobSpec) {
        let (top, longest) = (Location::TOP, Span::from_secs(limits::SPAN_SECONDS_MAX));
        if let Some(saver) = &job.task.saver {
            let at = top.field("saver");
            self.command_beside(&at.field("cmd"), &saver.cmd);
            let least = Saver::INTERVAL_MIN;
            self.span(&at.field("timeLimit"), saver.time_limit, least, longest);
            self.span(&at.field("interval"), saver.interval, least, longest);
        }
        if let Some(most) = job.preemption_notice_max {
            let at = top.field("preemption");
            self.span(&at.field("noticeMax"), most, Span::ZERO, longest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::job;

    #[test]
    fn a_saver_has_a_command_and_bounded_times() {
        let problems = |change: fn(&mut Saver)| {
            let mut job = job();
            let mut saver = Saver::of(vec!["save".to_owned(), "${task.index}".to_owned()]);
            change(&mut saver);
            job.task.saver = Some(saver);
            job.problems().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let none: [&str; 0] = [];
        assert_eq!(problems(|_| {}), none);
        assert_eq!(
            problems(|saver| (saver.interval, saver.time_limit) = (Span::ZERO, Span::ZERO)),
            [
                "saver.timeLimit: must be 1 s to 1 d, is 0 s",
                "saver.interval: must be 1 s to 1 d, is 0 s"
            ]
        );
        let said = problems(|saver| saver.cmd.clear());
        assert!(said[0].starts_with("saver.cmd: is empty"), "{said:?}");
        let said = problems(|saver| saver.cmd.push("${task.x}".to_owned()));
        assert!(said[0].starts_with("saver.cmd[2]: '${task.x}' refers to nothing"), "{said:?}");
    }

    #[test]
    fn the_notice_of_those_who_are_preempted_is_bounded_by_a_day() {
        let mut job = job();
        job.preemption_notice_max = Some(Span::from_secs(172_800));
        let said = job.problems().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(said, ["preemption.noticeMax: must be 0 s to 1 d, is 2 d"]);
    }
}
