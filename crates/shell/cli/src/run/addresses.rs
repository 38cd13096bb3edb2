//! The names and addresses of a job's tasks.

use std::fmt::Write as _;

use api::v1;
use command::{Done, output};

/// Prints the names and addresses of a job's tasks: the first port in the address, others by name.
pub(super) fn print_addresses(cell: &str, job: &v1::JobStatus) -> Done {
    let name = job.spec.as_ref().map(|spec| spec.name.clone()).unwrap_or_default();
    let mut text = String::new();
    for task in job.tasks.iter().filter(|task| !task.ports.is_empty()) {
        let ports = task.ports.iter().map(|port| {
            let label =
                if task.ports.len() > 1 { format!("{}=", port.name) } else { String::new() };
            format!("{label}{}:{}", task.host, port.port)
        });
        let ports = ports.collect::<Vec<_>>().join(" ");
        let _infallible =
            writeln!(text, "{}.{name}.{}.{cell}.borg → {ports}", task.index, job.user);
    }
    output::print(&text)
}
