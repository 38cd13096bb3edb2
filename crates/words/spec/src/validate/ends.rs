//! What concerns the end of tasks: savers, and the notice of those that a job preempts.

use model::Span;

use super::{ProblemKind, Problems, limits};
use crate::path::Location;
use crate::{JobSpec, Saver};

impl Problems {
    /// What concerns the end of tasks: of the job's own, and of those that it preempts.
    pub(super) fn ends(&mut self, job: &JobSpec) {
        let (top, longest) = (Location::TOP, Span::from_secs(limits::SPAN_SECONDS_MAX));
        if let Some(saver) = &job.task.saver {
            let at = top.field("saver");
            self.command_beside(&at.field("cmd"), &saver.cmd);
            self.saver_without_files(&at.field("cmd"), job, &saver.cmd);
            let least = Saver::INTERVAL_MIN;
            self.span(&at.field("timeLimit"), saver.time_limit, least, longest);
            self.span(&at.field("interval"), saver.interval, least, longest);
        }
        if let Some(most) = job.preemption_notice_max {
            let at = top.field("preemption");
            self.span(&at.field("noticeMax"), most, Span::ZERO, longest);
        }
    }

    /// A saver runs after the end of its task, when its machine gets no secrets for it any more.
    fn saver_without_files(&mut self, at: &Location<'_>, job: &JobSpec, cmd: &[String]) {
        let task = &job.task;
        let variables = task.secret_env.keys();
        let words = variables.flat_map(|name| [format!("${name}"), format!("${{{name}}}")]);
        let paths = task.secrets.keys().chain(task.files.keys()).cloned();
        let missing: Vec<String> = words.chain(paths).collect();
        for (position, text) in cmd.iter().enumerate() {
            if let Some(what) = missing.iter().find(|what| is_word_in(what, text)) {
                let what = what.clone();
                self.add(&at.element(position), ProblemKind::NotOfSaver { what });
            }
        }
    }
}

/// Whether a text has a variable or path that does not go on after it.
fn is_word_in(what: &str, text: &str) -> bool {
    let goes_on = |rest: &str| {
        let next = rest.chars().next();
        !what.ends_with('}')
            && next
                .is_some_and(|next| next.is_ascii_alphanumeric() || matches!(next, '_' | '-' | '.'))
    };
    text.match_indices(what).any(|(place, _)| !goes_on(&text[place + what.len()..]))
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
        let secret = || -> model::SecretName { "key".parse().expect("a name") };
        for (text, names) in [
            ("curl -H $KEY x", Some("$KEY")),
            ("curl -H ${KEY}s x", Some("${KEY}")),
            ("curl -H $KEYS x", None),
            ("curl --key /etc/key x", Some("/etc/key")),
            ("curl --key /etc/key.pub x", None),
            ("curl x", None),
        ] {
            let mut job = job();
            job.task.secret_env.insert("KEY".to_owned(), secret());
            job.task.secrets.insert("/etc/key".to_owned(), secret());
            job.task.saver =
                Some(Saver::of(vec!["sh".to_owned(), "-c".to_owned(), text.to_owned()]));
            let said = job.problems().iter().map(ToString::to_string).collect::<Vec<_>>();
            assert_eq!(said.len(), usize::from(names.is_some()), "{text}: {said:?}");
            if let (Some(names), Some(said)) = (names, said.first()) {
                let expected = format!("saver.cmd[2]: has {names}, and a saver has no files");
                assert!(said.starts_with(&expected), "{said}");
            }
        }
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
