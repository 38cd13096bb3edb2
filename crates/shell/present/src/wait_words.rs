//! What a job waits for, in words.

use api::v1;

/// How a job has to end, after its name: `has finished`, `have ended`.
#[must_use]
pub fn awaited(when: &str, jobs: usize) -> String {
    let have = if jobs == 1 { "has" } else { "have" };
    match when {
        "failed" => format!("{have} failed"),
        "ended" => format!("{have} ended"),
        _ => format!("{have} finished"),
    }
}

/// `until ana/extract has finished`, `until ana/a, ana/b have finished and ana/c has ended`, `until the same task of
/// ana/extract has finished`.
#[must_use]
pub fn until(waits: &[v1::Awaited]) -> String {
    let mut parts: Vec<(&str, bool, Vec<&str>)> = Vec::new();
    for one in waits {
        let (when, each_task) = (one.when.as_str(), one.each_task);
        match parts.iter_mut().find(|(word, each, _)| (*word, *each) == (when, each_task)) {
            Some((_, _, jobs)) => jobs.push(&one.job),
            None => parts.push((when, each_task, vec![&one.job])),
        }
    }
    let part = |(when, each_task, jobs): &(&str, bool, Vec<&str>)| {
        let (names, ends) = (jobs.join(", "), awaited(when, jobs.len()));
        let of = if *each_task { "the same task of " } else { "" };
        format!("{of}{names} {ends}")
    };
    let parts: Vec<String> = parts.iter().map(part).collect();
    if parts.is_empty() {
        return "until they are enabled".to_owned();
    }
    format!("until {}", parts.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_grouped_by_how_they_have_to_end() {
        let one = |job: &str, when: &str, each_task| v1::Awaited {
            job: job.to_owned(),
            when: when.to_owned(),
            each_task,
        };
        let extract = one("ana/extract", "finished", false);
        let all = [
            extract.clone(),
            one("ana/load", "ended", false),
            one("ana/clean", "finished", false),
            one("ana/rows", "failed", true),
        ];
        for (waits, said) in [
            (&[extract][..], "until ana/extract has finished"),
            (&[], "until they are enabled"),
            (
                &all[..],
                "until ana/extract, ana/clean have finished and ana/load has ended and the same task of ana/rows \
                 has failed",
            ),
        ] {
            assert_eq!(until(waits), said);
        }
    }
}
