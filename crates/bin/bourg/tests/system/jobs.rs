//! Descriptions of jobs that are not for running.

use proto::v1;

/// A job in the free band that fits nowhere, so that nothing but people changes what it is.
pub(crate) fn that_fits_nowhere(name: &str) -> v1::JobSpec {
    let description = serde_json::json!({
        "name": name,
        "tasks": 1,
        "priority": 0,
        "appclass": "BATCH",
        "schedulingClass": 0,
        "cmd": ["true"],
        "cpuMilli": "1000000",
        "ramBytes": "16777216",
        "processes": 64,
        "notice": "10s",
        "restart": { "failures": 0, "delay": "1s", "delayMax": "1s" },
    });
    serde_json::from_value(description).expect("a job's description")
}

/// Makes a description as long as 3 MB, by what its thirty tasks have of an environment.
pub(crate) fn lengthen(spec: &mut v1::JobSpec) {
    let env = [("X".to_owned(), "x".repeat(100_000))].into();
    let task = v1::TaskOverride { env, ..v1::TaskOverride::default() };
    spec.tasks = 30;
    spec.overrides = (0..30).map(|index| (index, task.clone())).collect();
}
