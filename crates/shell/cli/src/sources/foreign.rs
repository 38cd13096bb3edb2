//! Files of other systems, which are no BCL: what they are, and what to write instead.

use command::Failure;

/// What to write instead of each kind of file.
const KUBERNETES: &str = "a Deployment is a borg.service with tasks, cmd, cpu, ram and healthCheck; a Job is a \
                          borg.batch; a Service is the name that every job has: docs/jobs.md";
const COMPOSE: &str = "write each entry of services as a borg.service with image, env and ports, in one list; \
                       bourg package import takes the images: docs/packages.md";
const NOMAD: &str = "write each group as a borg.service or borg.batch: count is tasks, resources are cpu and ram, \
                     check is healthCheck: docs/jobs.md";
const SLURM: &str = "begin it with #! and write #BOURG lines for its #SBATCH lines: --job-name is #BOURG name=, \
                     --cpus-per-task is cpu=, --mem is ram=, --array or --ntasks is tasks=, --time is maxRuntime=, --dependency is after=: docs/batch.md";
const SYSTEMD: &str =
    "ExecStart is cmd of a borg.service, Environment is env, Restart is restart: docs/jobs.md";

/// The failure for a file that is another system's; `None` if it is not known.
pub(super) fn explained(shown: &str, content: &[u8]) -> Option<Failure> {
    let text = String::from_utf8_lossy(content);
    let (what, instead) = kind(&text)?;
    Some(Failure::usage(format!("error: {shown} is {what}, and no BCL")).next(instead))
}

fn kind(text: &str) -> Option<(&'static str, &'static str)> {
    let begins = |key: &str| {
        text.lines().any(|line| {
            let line = line.trim_start_matches(['{', ' ', '\t', ',']);
            let line = line.strip_prefix('"').unwrap_or(line);
            line.strip_prefix(key).is_some_and(|rest| {
                let rest = rest.strip_prefix('"').unwrap_or(rest);
                rest.trim_start().starts_with(':')
            })
        })
    };
    let at_top = |key: &str| {
        text.lines().any(|line| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':')))
    };
    // JSON may have all of it in one line.
    let is_json = text.trim_start().starts_with('{');
    let has_member = |key: &str| {
        let name = format!("\"{key}\"");
        let mut parts = text.split(name.as_str()).skip(1);
        is_json && parts.any(|rest| rest.trim_start().starts_with(':'))
    };
    let has_line = |prefix: &str| text.lines().any(|line| line.starts_with(prefix));
    let is_nomad = text.lines().any(|line| {
        let Some(rest) = line.strip_prefix("job \"") else { return false };
        rest.split_once('"').is_some_and(|(_, after)| after.trim_start().starts_with('{'))
    });
    if has_line("#SBATCH") {
        Some(("a script for Slurm", SLURM))
    } else if ["apiVersion", "kind"].iter().all(|key| begins(key) || has_member(key)) {
        Some(("a file of Kubernetes", KUBERNETES))
    } else if is_nomad {
        Some(("a file of Nomad", NOMAD))
    } else if at_top("services") {
        Some(("a file of Docker Compose", COMPOSE))
    } else if has_line("[Service]") && has_line("[Unit]") {
        Some(("a unit of systemd", SYSTEMD))
    } else {
        None
    }
}

/// The failure for a script that has only words for Slurm.
pub(super) fn slurm(shown: &str) -> Failure {
    Failure::usage(format!(
        "error: {shown} has #SBATCH lines, which are for Slurm, and no #BOURG lines"
    ))
    .next(SLURM.trim_start_matches("begin it with #! and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_other_systems_are_known() {
        for (text, what) in [
            ("apiVersion: apps/v1\nkind: Deployment\n", Some("a file of Kubernetes")),
            ("{\"apiVersion\": \"v1\",\n \"kind\": \"Pod\"}", Some("a file of Kubernetes")),
            ("{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}", Some("a file of Kubernetes")),
            (
                "{\n\t\"spec\": {}, \"kind\" : \"Pod\", \"apiVersion\": \"v1\"\n}",
                Some("a file of Kubernetes"),
            ),
            ("{ \"name\": \"kind\", \"cmd\": [\"apiVersion\"] }", None),
            ("job \"web\" {\n  group \"a\" {}\n}\n", Some("a file of Nomad")),
            ("version: '3'\nservices:\n  web:\n    image: x\n", Some("a file of Docker Compose")),
            ("#SBATCH --mem=1G\n", Some("a script for Slurm")),
            ("[Unit]\n[Service]\nExecStart=/bin/x\n", Some("a unit of systemd")),
            ("{ name: 'kind', services: 1 }", None),
            ("job \"web\"", None),
            ("", None),
        ] {
            assert_eq!(kind(text).map(|(what, _)| what), what, "{text}");
        }
    }
}
