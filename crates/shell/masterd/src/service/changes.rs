//! The differences of a job's new description, as text.

use model::Dimension;
use spec::JobSpec;

/// The differences of two descriptions in what can change while a job runs: `RAM 64 MiB → 96 MiB`.
pub(crate) fn changes(before: &JobSpec, after: &JobSpec) -> Vec<String> {
    let mut found = Vec::new();
    if before.priority != after.priority {
        found.push(format!("priority {} → {}", before.priority, after.priority));
    }
    for dimension in Dimension::ALL {
        let (old, new) = (before.task.limit.get(dimension), after.task.limit.get(dimension));
        if old != new {
            found.push(format!("{dimension} {} → {}", dimension.show(old), dimension.show(new)));
        }
    }
    let others = [
        ("constraints", before.task.constraints != after.task.constraints),
        ("labels", before.labels != after.labels),
        ("schedulingClass", before.scheduling_class != after.scheduling_class),
        ("estimation", before.estimation != after.estimation),
        ("restart", before.restart != after.restart),
        ("overrides", before.overrides != after.overrides),
    ];
    found.extend(others.iter().filter(|(_, differs)| *differs).map(|(name, _)| (*name).to_owned()));
    found
}

#[cfg(test)]
mod tests {
    use model::{Band, Bytes};

    use super::*;

    fn job() -> JobSpec {
        let text = r#"{
            "name": "web", "tasks": 1, "priority": 200, "appclass": "BATCH", "cmd": ["true"],
            "cpuMilli": "100", "ramBytes": "67108864", "processes": 10, "notice": "10s",
            "restart": { "delay": "1s", "delayMax": "300s" }
        }"#;
        let message: proto::v1::JobSpec = serde_json::from_str(text).expect("a description");
        message.try_into().expect("a valid one")
    }

    #[test]
    fn each_difference_is_named_once_and_quantities_with_both_values() {
        let before = job();
        let mut after = before.clone();
        assert!(changes(&before, &after).is_empty());
        after.priority = Band::Free.usual();
        after.task.limit.ram = Bytes(96 << 20);
        after.labels.insert("team".to_owned(), "search".to_owned());
        assert_eq!(
            changes(&before, &after),
            ["priority production(200) → free(25)", "RAM 64 MiB → 96 MiB", "labels"]
        );
    }
}
