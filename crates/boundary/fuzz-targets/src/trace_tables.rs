//! Tables of a trace, as anybody may have written them: machines, removals and task events, with an
//! empty line between them. They are rejected with an error that is harmless on terminals, or give
//! a cell whose parts are consistent.

use crate::assert_harmless;
use trace::google2011::{JobIn, Scale, Share, StepKind, TaskEvents, Trace};

pub(crate) fn run(data: &[u8]) {
    for row in TaskEvents::new(data) {
        row.err().iter().for_each(|error| assert_harmless(&error.to_string()));
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(share) = text.parse::<Share>() {
        assert_eq!(share.to_string().parse(), Ok(share));
    }
    let mut tables = text.splitn(3, "\n\n").map(str::as_bytes);
    let mut table = || tables.next().unwrap_or_default();
    match Trace::read(Scale::default(), table(), table(), table()) {
        Ok(trace) => belongs_together(&trace),
        Err(error) => assert_harmless(&error.to_string()),
    }
}

fn belongs_together(Trace { snapshot, churn }: &Trace) {
    assert_eq!(snapshot.jobs.len(), churn.standing.len());
    for (job, runs) in snapshot.jobs.iter().zip(&churn.standing) {
        assert_eq!(job.tasks.len(), runs.len());
        let mut machines = job.tasks.iter().filter_map(|task| task.machine);
        assert!(machines.all(|machine| machine < snapshot.machines.len()));
    }
    for step in &churn.steps {
        let StepKind::Kill { job, tasks } = &step.what else { continue };
        let job = match job {
            JobIn::Snapshot(place) => &snapshot.jobs[*place],
            JobIn::Arrivals(place) => &churn.arrivals[*place].job,
        };
        assert!(tasks.iter().all(|place| *place < job.tasks.len()));
    }
}
