//! Job descriptions that are not meant to run.

use api::v1;

/// A job in the free band that fits nowhere, so that only users change it.
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

/// Makes a description 3 MB long, by the environments of thirty tasks.
pub(crate) fn lengthen(spec: &mut v1::JobSpec) {
    let env = [("X".to_owned(), "x".repeat(100_000))].into();
    let task = v1::TaskOverride { env, ..v1::TaskOverride::default() };
    spec.tasks = 30;
    spec.overrides = (0..30).map(|index| (index, task.clone())).collect();
}
