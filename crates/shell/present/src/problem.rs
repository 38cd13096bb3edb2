//! Problems of a cell in words, and what to run next: the same in every program that shows them.

use api::{v1, word};
use model::Time;

/// For example `ana/web: 3 tasks end again and again (first web/0)`.
#[must_use]
pub fn sentence(problem: &v1::Problem) -> String {
    use v1::ProblemKind as Kind;

    let job = format!("{}/{}", problem.user, problem.job);
    match problem.kind() {
        Kind::Failing => match problem.tasks {
            1 => format!("{job}/{} ends again and again", problem.task),
            tasks => {
                format!(
                    "{tasks} tasks of {job} end again and again, {job}/{} among them",
                    problem.task
                )
            }
        },
        Kind::UpdateStopped => {
            format!("the update of {job} failed, and waits to be resumed or undone")
        }
        Kind::UpdateUndone => format!("the update of {job} failed, and was undone"),
        Kind::UpdateStuck => format!("the update of {job} makes no progress"),
        Kind::ProductionPending => match problem.tasks {
            1 => format!("{job}/{}, which is production, is pending", problem.task),
            tasks => format!("{tasks} tasks of {job}, which is production, are pending"),
        },
        Kind::QuotaOversold => {
            let band = word::<v1::Band>(problem.band);
            format!("more quota of the band {band} is granted than the machines have")
        }
        Kind::CertificateEnds => {
            format!("the certificate of machine {} ends soon", problem.machine)
        }
        Kind::BackupOld => "no backup of the cell was saved".to_owned(),
        Kind::NoBackup => "no backup of the cell was ever saved".to_owned(),
        Kind::Unspecified => "a problem that this version does not know".to_owned(),
    }
}

/// What to run next; empty for a problem that this version does not know.
#[must_use]
pub fn next(problem: &v1::Problem) -> String {
    use v1::ProblemKind as Kind;

    let job = format!("{}/{}", problem.user, problem.job);
    match problem.kind() {
        Kind::Failing => format!("bourg logs {job}/{}", problem.task),
        Kind::UpdateStopped | Kind::UpdateUndone | Kind::UpdateStuck => {
            format!("bourg update status {job}")
        }
        Kind::ProductionPending => format!("bourg why {job}"),
        Kind::QuotaOversold => "bourg quota show".to_owned(),
        Kind::CertificateEnds => format!("bourg machine token {}", problem.machine),
        Kind::BackupOld | Kind::NoBackup => "bourg checkpoint save backup.checkpoint".to_owned(),
        Kind::Unspecified => String::new(),
    }
}

/// Since when, or of a backup, when it was saved; `None` for a problem that has no beginning.
#[must_use]
pub fn since(problem: &v1::Problem) -> Option<Time> {
    use v1::ProblemKind::{CertificateEnds, Failing, NoBackup};

    // A task that fails again and again is in its present state for a moment only.
    let is = problem.since > 0 && !matches!(problem.kind(), CertificateEnds | Failing | NoBackup);
    is.then_some(Time(problem.since))
}

#[cfg(test)]
mod tests {
    use api::v1::ProblemKind as Kind;

    use super::*;

    #[test]
    fn each_problem_is_a_sentence_with_what_to_run() {
        for (kind, tasks, said, run) in [
            (Kind::Failing, 1, "ana/web/2 ends again and again", "bourg logs ana/web/2"),
            (
                Kind::Failing,
                3,
                "3 tasks of ana/web end again and again, ana/web/2 among them",
                "bourg logs ana/web/2",
            ),
            (
                Kind::UpdateStopped,
                0,
                "the update of ana/web failed, and waits to be resumed or undone",
                "bourg update status ana/web",
            ),
            (
                Kind::UpdateUndone,
                0,
                "the update of ana/web failed, and was undone",
                "bourg update status ana/web",
            ),
            (
                Kind::UpdateStuck,
                0,
                "the update of ana/web makes no progress",
                "bourg update status ana/web",
            ),
            (
                Kind::ProductionPending,
                1,
                "ana/web/2, which is production, is pending",
                "bourg why ana/web",
            ),
            (
                Kind::ProductionPending,
                3,
                "3 tasks of ana/web, which is production, are pending",
                "bourg why ana/web",
            ),
            (
                Kind::QuotaOversold,
                0,
                "more quota of the band production is granted than the machines have",
                "bourg quota show",
            ),
            (
                Kind::CertificateEnds,
                0,
                "the certificate of machine m1 ends soon",
                "bourg machine token m1",
            ),
            (
                Kind::BackupOld,
                0,
                "no backup of the cell was saved",
                "bourg checkpoint save backup.checkpoint",
            ),
            (
                Kind::NoBackup,
                0,
                "no backup of the cell was ever saved",
                "bourg checkpoint save backup.checkpoint",
            ),
            (Kind::Unspecified, 0, "a problem that this version does not know", ""),
        ] {
            let problem = v1::Problem {
                kind: kind.into(),
                user: "ana".to_owned(),
                job: "web".to_owned(),
                tasks,
                task: 2,
                machine: "m1".to_owned(),
                band: v1::Band::Production.into(),
                ..v1::Problem::default()
            };
            assert_eq!((sentence(&problem), next(&problem)), (said.to_owned(), run.to_owned()));
        }
    }
}
