//! Tables of a trace, as anybody may have written them: machines, removals and task events, with an
//! empty line between them. They are refused in a text that harms no terminal, or a cell comes of
//! them whose parts belong together.

#![no_main]

use fuzz::assert_harmless;
use libfuzzer_sys::fuzz_target;
use trace::google2011::{Happening, JobIn, Scale, Share, TaskEvents, Whole};

fuzz_target!(|data: &[u8]| {
    for row in TaskEvents::new(data) {
        row.err().iter().for_each(|error| assert_harmless(&error.to_string()));
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(share) = text.parse::<Share>() {
        assert_eq!(share.to_string().parse(), Ok(share));
    }
    let mut tables = text.splitn(3, "\n\n").map(str::as_bytes);
    let mut table = || tables.next().unwrap_or_default();
    match Whole::read(Scale::default(), table(), table(), table()) {
        Ok(whole) => belongs_together(&whole),
        Err(error) => assert_harmless(&error.to_string()),
    }
});

fn belongs_together(Whole { snapshot, churn }: &Whole) {
    assert_eq!(snapshot.jobs.len(), churn.standing.len());
    for (job, lives) in snapshot.jobs.iter().zip(&churn.standing) {
        assert_eq!(job.tasks.len(), lives.len());
        let mut machines = job.tasks.iter().filter_map(|task| task.machine);
        assert!(machines.all(|machine| machine < snapshot.machines.len()));
    }
    for step in &churn.steps {
        let Happening::Kill { job, tasks } = &step.what else { continue };
        let job = match job {
            JobIn::Snapshot(place) => &snapshot.jobs[*place],
            JobIn::Arrivals(place) => &churn.arrivals[*place].job,
        };
        assert!(tasks.iter().all(|place| *place < job.tasks.len()));
    }
}
