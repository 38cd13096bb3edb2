//! A job for tests.

use model::{Appclass, Band, JobName, SchedulingClass};

use crate::{JobSpec, TaskSpec};

pub(crate) fn job() -> JobSpec {
    let name = JobName::new("web").expect("a name");
    let task = TaskSpec::of(vec!["server".to_owned(), "--port=${port.http}".to_owned()]);
    JobSpec {
        appclass: Appclass::LatencySensitive,
        scheduling_class: SchedulingClass::usual(Appclass::LatencySensitive),
        ..JobSpec::of(name, Band::Production.usual(), 3, task)
    }
}
