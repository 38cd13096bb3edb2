//! What Borglets ask of running tasks, health checks and metrics, and restarts.

use model::Span;

use super::{ProblemKind, Problems, limits};
use crate::path::Location;
use crate::ports::UsualPorts;
use crate::{HealthCheck, JobSpec, Probe, RestartPolicy};

/// The number of ports that an error names.
const PORTS_NAMED_MAX: usize = 8;

impl Problems {
    pub(super) fn health_check(&mut self, at: &Location<'_>, check: &HealthCheck) {
        let longest = Span::from_secs(limits::SPAN_SECONDS_MAX);
        let timeout_max = match &check.probe {
            Probe::Http { path, .. } => {
                self.request_path(&at.field("path"), path);
                longest
            }
            Probe::Tcp { .. } => longest,
            Probe::Exec { cmd } => {
                self.command_beside(&at.field("exec"), cmd);
                Span::from_secs(limits::EXEC_TIMEOUT_SECONDS_MAX)
            }
        };
        let shortest = Span::from_millis(10);
        self.span(&at.field("interval"), check.interval, shortest, longest);
        self.span(&at.field("timeout"), check.timeout, shortest, timeout_max);
        self.span(&at.field("startGrace"), check.start_grace, Span::ZERO, longest);
        self.range(&at.field("failures"), check.failures_max, 1, limits::FAILURES_MAX);
        self.range(&at.field("successes"), check.successes_min, 1, limits::FAILURES_MAX);
    }

    fn request_path(&mut self, at: &Location<'_>, path: &str) {
        if !path.starts_with('/') {
            self.add(at, ProblemKind::NotAPath);
        }
        self.count(at, path.len(), limits::HEALTH_PATH_BYTES_MAX, "bytes");
        if let Some(bad) = path.chars().find(|c| !c.is_ascii_graphic()) {
            let character = format!("'{}'", bad.escape_default());
            self.add(at, ProblemKind::BadCharacter { character });
        }
    }

    /// The port must be one of every task's: a change of the page restarts no task.
    pub(super) fn metrics(&mut self, job: &JobSpec, usual: &UsualPorts<'_>) {
        let Some(page) = &job.metrics else { return };
        let at = Location::TOP.field("metrics");
        self.request_path(&at.field("path"), &page.path);
        // Prometheus would quote what follows as part of the path.
        if let Some(bad) = page.path.chars().find(|c| matches!(c, '?' | '#')) {
            let character = format!("'{bad}'");
            self.add(&at.field("path"), ProblemKind::BadCharacter { character });
        }
        if job.kind.is_alloc_set() {
            return;
        }
        let lacking = |(index, change): (&model::TaskIndex, &crate::TaskOverride)| {
            (change.touches_ports() && !usual.has_with(change, &page.port)).then_some(index.0)
        };
        let (task, lacks) = match usual.has(&page.port) {
            false => (None, true),
            true => {
                let task = job.overrides.iter().find_map(lacking);
                (task, task.is_some())
            }
        };
        if lacks {
            let ports = job.task.all_ports().into_iter().take(PORTS_NAMED_MAX).collect();
            let port = page.port.clone();
            self.add(&at.field("port"), ProblemKind::NotAPort { port, task, ports });
        }
    }

    pub(super) fn restart(&mut self, at: &Location<'_>, restart: RestartPolicy) {
        if let Some(failures) = restart.failures_max {
            self.range(&at.field("failures"), failures, 0, limits::FAILURES_MAX);
        }
        let longest = Span::from_secs(limits::SPAN_SECONDS_MAX);
        self.span(&at.field("delay"), restart.delay, Span::ZERO, longest);
        self.span(&at.field("delayMax"), restart.delay_max, Span::ZERO, longest);
        self.span(&at.field("resetAfter"), restart.reset_after, Span::ZERO, longest);
        if restart.delay > restart.delay_max {
            let (other, most) = ("delayMax", restart.delay_max);
            self.add(&at.field("delay"), ProblemKind::LongerThan { other, most });
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{PortName, TaskIndex};

    use super::*;
    use crate::testing::job;
    use crate::{MetricsPage, TaskOverride};

    fn name(text: &str) -> PortName {
        PortName::new(text).expect("a name")
    }

    fn problems(change: impl FnOnce(&mut JobSpec)) -> Vec<String> {
        let mut job = job();
        change(&mut job);
        job.problems().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_kind_of_health_check_is_validated() {
        let with = |probe, change: fn(&mut HealthCheck)| {
            problems(|job| {
                let mut check = HealthCheck::of(probe);
                change(&mut check);
                job.task.health_check = Some(check);
            })
        };
        let exec =
            |cmd: &[&str]| Probe::Exec { cmd: cmd.iter().map(ToString::to_string).collect() };
        assert_eq!(with(Probe::Tcp { port: name("http") }, |_| {}), [""; 0]);
        assert_eq!(with(exec(&["check", "${port.http}"]), |_| {}), [""; 0]);
        let said = with(exec(&[]), |_| {});
        assert!(said[0].starts_with("healthCheck.exec: is empty"), "{said:?}");
        let said = with(exec(&["check", "${task.x}"]), |_| {});
        assert!(
            said[0].starts_with("healthCheck.exec[1]: '${task.x}' refers to nothing"),
            "{said:?}"
        );
        let slow = |check: &mut HealthCheck| check.timeout = Span::from_secs(61);
        assert_eq!(
            with(exec(&["check"]), slow),
            ["healthCheck.timeout: must be 10 ms to 1 m, is 1 m 1 s"]
        );
        assert_eq!(with(Probe::Tcp { port: name("http") }, slow), [""; 0]);
        assert_eq!(
            with(exec(&["check"]), |check| check.successes_min = 0),
            ["healthCheck.successes: must be 1 to 1000000, is 0"]
        );
        let http = Probe::Http { port: name("http"), path: "x y".to_owned() };
        assert_eq!(
            with(http, |_| {}),
            [
                "healthCheck.path: must begin with '/'",
                "healthCheck.path: contains ' ', which is not allowed here",
            ]
        );
    }

    #[test]
    fn the_port_of_the_metrics_is_one_of_every_task() {
        let page = |port| Some(MetricsPage::on(name(port)));
        assert_eq!(problems(|job| job.metrics = page("http")), [""; 0]);
        assert_eq!(
            problems(|job| job.metrics = page("htpp")),
            ["metrics.port: 'htpp' is not a port of the tasks: there are http"]
        );
        let query = problems(|job| {
            let path = "/metrics?all".to_owned();
            job.metrics = Some(MetricsPage { port: name("http"), path });
        });
        assert_eq!(query, ["metrics.path: contains '?', which is not allowed here"]);
        let none = problems(|job| {
            (job.metrics, job.task.cmd) = (page("http"), vec!["server".to_owned()]);
        });
        assert_eq!(
            none,
            [
                "metrics.port: 'http' is not a port of the tasks: it has none; list them in ports, or \
             refer to them as ${port.NAME}"
            ]
        );
        let one = problems(|job| {
            job.metrics = page("http");
            let cmd = Some(vec!["other".to_owned()]);
            job.overrides.insert(TaskIndex(1), TaskOverride { cmd, ..TaskOverride::default() });
        });
        assert_eq!(one, ["metrics.port: 'http' is not a port of task 1: there are http"]);
    }
}
