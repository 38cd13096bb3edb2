//! The outputs of a job's tasks.

use model::Span;
use thiserror::Error;

use super::Problems;
use crate::path::Location;
use crate::{JobSpec, OutputPath, limits};

/// Why a task cannot have an output as its job says.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OutputProblem {
    /// It is in another output.
    #[error("is in {other}, which is kept with all that is in it: leave one of them out")]
    InOther {
        /// The other output.
        other: OutputPath,
    },
    /// There are no outputs to keep.
    #[error("applies to outputs, and the job has none: add outputs, or leave it out")]
    NoOutputs,
    /// The saver has the files of the task.
    #[error(
        "are not possible with a saver, which has the files of the task after its end: leave one out"
    )]
    WithSaver,
}

impl Problems {
    pub(super) fn outputs(&mut self, job: &JobSpec) {
        let (top, outputs) = (Location::TOP, &job.task.outputs);
        let at = top.field("outputs");
        self.count(&at, outputs.paths.len(), limits::OUTPUTS_MAX, "outputs");
        for (position, path) in outputs.paths.iter().enumerate() {
            if let Some(other) = outputs.paths.iter().find(|other| path.is_in(other)) {
                let other = other.clone();
                self.add(&at.element(position), OutputProblem::InOther { other }.into());
            }
        }
        if !outputs.paths.is_empty() && job.task.saver.is_some() {
            self.add(&at, OutputProblem::WithSaver.into());
        }
        if outputs.package.is_some() && outputs.paths.is_empty() {
            self.add(&at.clone().field("package"), OutputProblem::NoOutputs.into());
        }
        if let Some(keep) = outputs.keep {
            let at = top.field("keepOutputs");
            let most = Span::from_secs(limits::OUTPUT_KEEP_SECONDS_MAX);
            self.span(&at, keep, Span::from_secs(60), most);
            if outputs.paths.is_empty() {
                self.add(&at, OutputProblem::NoOutputs.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::job;
    use crate::{OutputPolicy, Saver};

    fn problems(
        paths: &[&str],
        keep: Option<u64>,
        change: impl FnOnce(&mut JobSpec),
    ) -> Vec<String> {
        let mut job = job();
        let paths = paths.iter().map(|path| path.parse().expect("a path")).collect();
        job.task.outputs = OutputPolicy { paths, keep: keep.map(Span::from_secs), package: None };
        change(&mut job);
        job.problems().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn outputs_are_apart_and_kept_for_a_bounded_time() {
        let many: Vec<String> = (0..65).map(|number| number.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let table: [(&[&str], Option<u64>, &[&str]); 7] = [
            (&[], None, &[]),
            (&["out", "out.txt", "a/b"], Some(60), &[]),
            (&["out"], Some(30 * 86_400), &[]),
            (&["out"], Some(0), &["keepOutputs: must be 1 m to 30 d, is 0 s"]),
            (
                &["out", "out/n"],
                None,
                &[
                    "outputs[1]: is in out, which is kept with all that is in it: leave one of them out",
                ],
            ),
            (
                &[],
                Some(60),
                &[
                    "keepOutputs: applies to outputs, and the job has none: add outputs, or leave it out",
                ],
            ),
            (&many, None, &["outputs: has 65 outputs, at most 64 are allowed"]),
        ];
        for (paths, keep, expected) in table {
            assert_eq!(problems(paths, keep, |_| {}), expected, "{paths:?} {keep:?}");
        }
    }

    #[test]
    fn a_package_of_no_outputs_is_rejected() {
        let package =
            |job: &mut JobSpec| job.task.outputs.package = Some("p".parse().expect("a name"));
        assert_eq!(
            problems(&[], None, package),
            [
                "outputs.package: applies to outputs, and the job has none: add outputs, or leave it out"
            ]
        );
        assert!(problems(&["out"], None, package).is_empty());
    }

    #[test]
    fn a_saver_and_outputs_exclude_each_other() {
        let with_saver =
            |job: &mut JobSpec| job.task.saver = Some(Saver::of(vec!["save".to_owned()]));
        assert_eq!(
            problems(&["out"], None, with_saver),
            [
                "outputs: are not possible with a saver, which has the files of the task after its end: \
              leave one out"
            ]
        );
    }
}
