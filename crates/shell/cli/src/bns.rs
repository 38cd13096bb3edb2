//! `bourg bns`: the Borg name service: where tasks are.

use std::collections::BTreeMap;

use api::{v1, word};
use clap::{Args, Subcommand};
use client::Target;
use clientd::{follow, watch_names};
use command::output::{self, Format, Listing};
use command::{Done, Failure, job_address, with_cell};
use model::{Address, LabelQuery, TaskIndex};

use super::moment::Moment;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Show where the tasks of a job or behind a service are, their ports, and whether they are healthy.
    Get(GetArgs),
    /// List the names: the jobs that are alive, and the services.
    List(BnsListArgs),
    /// Show changes of names as they happen.
    ///
    /// It begins with the present records; with --after, with what has changed since. A watch continues
    /// at another replica if its own fails, and misses nothing. Changes that follow each other quickly
    /// are combined. -o json has one object per line.
    Watch(WatchArgs),
}

#[derive(Debug, Args)]
pub(super) struct GetArgs {
    /// A job, some of its tasks, or a service: user/job, job, user/job/7, user/job/0-4.
    address: Address,
    /// Output format: table, wide, json, yaml, name (host:port of the first port), or the path of a
    /// field of the tasks.
    #[arg(short, long, default_value = "table")]
    output: Format,
    /// Show the state at this moment: an index (88412), a time (2026-11-19 03:10, UTC) or an age (10m).
    #[arg(long, value_name = "MOMENT")]
    at: Option<Moment>,
}

#[derive(Debug, Args)]
pub(super) struct BnsListArgs {
    /// Only jobs that match these labels, such as team=search,!spare.
    #[arg(long, short = 'l', value_name = "LABELS")]
    labels: Option<LabelQuery>,
    /// Output format: table, wide, json, yaml, name, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
    /// Show the state at this moment: an index (88412), a time (2026-11-19 03:10, UTC) or an age (10m).
    #[arg(long, value_name = "MOMENT")]
    at: Option<Moment>,
}

#[derive(Debug, Args)]
pub(super) struct WatchArgs {
    /// A job, some of its tasks, or a service. Default: all, or the jobs with the labels.
    address: Option<Address>,
    /// Only jobs that match these labels.
    #[arg(long, short = 'l', value_name = "LABELS")]
    labels: Option<LabelQuery>,
    /// Begin with what has changed after this index.
    #[arg(long, value_name = "INDEX", default_value_t = 0)]
    after: u64,
    /// Output format: table, or json (one object per line).
    #[arg(short, long, default_value = "table")]
    output: Format,
}

/// Executes a command.
pub(super) fn bns(cell: Target<'_>, command: &Command) -> Done {
    match command {
        Command::Get(args) => get(cell, args),
        Command::List(args) => list(cell, args),
        Command::Watch(args) => watch(cell, args),
    }
}

fn query(address: Option<&Address>, labels: Option<&LabelQuery>) -> v1::NameQuery {
    v1::NameQuery {
        jobs: address.map(job_address).into_iter().collect(),
        labels: labels.map(ToString::to_string).unwrap_or_default(),
    }
}

fn get(cell: Target<'_>, args: &GetArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let request = v1::GetNamesRequest {
            query: Some(query(Some(&args.address), None)),
            at: args.at.map(Moment::message),
        };
        let mut answer = connection
            .ask(request, async |mut client, request| client.names.get(request).await)
            .await?;
        let Some(mut record) = answer.records.pop() else {
            let address = &args.address;
            // A job of that name, or the nearest one.
            let jobs = vec![job_address(address)];
            let at = args.at.map(Moment::message);
            let request = v1::StatusRequest { jobs, at, ..v1::StatusRequest::default() };
            connection
                .ask(request, async |mut client, request| client.jobs.status(request).await)
                .await?;
            return Err(Failure::usage(format!(
                "error: {address} has no name: it is dead, or an alloc set"
            ))
            .next(format!("bourg status {}", args.address.job)));
        };
        record.tasks.retain(|task| args.address.tasks.contains(TaskIndex(task.index)));
        let record_job = format!("{}/{}", record.user, record.job);
        output::list(
            &args.output,
            &Listing {
                items: &record.tasks,
                name: endpoint,
                headings: &[
                    "TASK",
                    "HOST",
                    "PORTS",
                    "STATE",
                    "HEALTH",
                    "MACHINE",
                    "VERSION",
                    "GENERATION",
                ],
                wide: 3,
                row: |task| {
                    let [host, ports, state, health] = columns(task);
                    let name = match task.job.as_str() {
                        "" => format!("{record_job}/{}", task.index),
                        job => format!("{}/{job}/{}", task.user, task.index),
                    };
                    let (version, generation) = (task.version, task.generation);
                    let machine = output::one_line(&task.machine);
                    let numbers = [version.to_string(), generation.to_string()];
                    [name, host, ports, state, health, machine].into_iter().chain(numbers).collect()
                },
            },
        )
    })
}

/// `10.0.0.1:31000`; the host alone if there is no port.
fn endpoint(task: &v1::NameTask) -> String {
    let host = if task.host.contains(':') { format!("[{}]", task.host) } else { task.host.clone() };
    match task.ports.first() {
        Some(port) => format!("{host}:{}", port.port),
        None => host,
    }
}

/// Host, ports, state and health.
pub(super) fn columns(task: &v1::NameTask) -> [String; 4] {
    let ports: Vec<String> =
        task.ports.iter().map(|port| format!("{}={}", port.name, port.port)).collect();
    let health = match word::<v1::Health>(task.health) {
        _ if !task.reachable => "unreachable".into(),
        word => word,
    };
    let state = word::<v1::TaskState>(task.state).into_owned();
    [output::one_line(&task.host), output::one_line(&ports.join(" ")), state, health.to_lowercase()]
}

fn list(cell: Target<'_>, args: &BnsListArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let request = v1::GetNamesRequest {
            query: Some(query(None, args.labels.as_ref())),
            at: args.at.map(Moment::message),
        };
        let answer = connection
            .ask(request, async |mut client, request| client.names.get(request).await)
            .await?;
        output::list(
            &args.output,
            &Listing {
                items: &answer.records,
                name: |record| format!("{}/{}", record.user, record.job),
                headings: &["NAME", "SIZE", "PLACED", "SERVING", "LABELS", "CHANGED AT"],
                wide: 2,
                row: |record| {
                    let serving = record.tasks.iter().filter(|task| task.serves).count();
                    let mut labels: Vec<_> =
                        record.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
                    labels.sort_unstable();
                    vec![
                        format!("{}/{}", record.user, record.job),
                        record
                            .service
                            .as_ref()
                            .map_or(record.size.to_string(), |_| "service".to_owned()),
                        record.tasks.len().to_string(),
                        serving.to_string(),
                        match &record.service {
                            Some(service) => output::one_line(&service.labels),
                            None => output::one_line(&labels.join(",")),
                        },
                        record.changed.to_string(),
                    ]
                },
            },
        )
    })
}

fn watch(cell: Target<'_>, args: &WatchArgs) -> Done {
    let query = query(args.address.as_ref(), args.labels.as_ref());
    let request = v1::WatchNamesRequest { query: Some(query), after: args.after };
    with_cell(cell, async |mut connection| {
        let mut known = ShownTasks::default();
        let open = async |client, request| watch_names(client, request, args.after).await;
        follow(&mut connection, request, true, open, |request, change| {
            if !change.more {
                request.after = change.index;
            }
            known.show(change, args)
        })
        .await
    })
}

/// A task under a name. Only one behind a service has a user and a job of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct NamedTask {
    user: String,
    job: String,
    index: u32,
}

impl NamedTask {
    fn of(task: &v1::NameTask) -> Self {
        Self { user: task.user.clone(), job: task.job.clone(), index: task.index }
    }
}

/// A task under the name of a job or service, as it is shown.
fn shown(user: &str, name: &str, task: &NamedTask) -> String {
    let NamedTask { user: of, job, index } = task;
    match job.as_str() {
        "" => format!("{user}/{name}/{index}"),
        job => format!("{user}/{name}  {of}/{job}/{index}"),
    }
}

/// A task as it was shown last, by the user and name of its record.
#[derive(Default)]
struct ShownTasks {
    /// Its incarnation, and its line.
    lines: BTreeMap<(String, String, NamedTask), (u32, String)>,
    /// The jobs of a complete list, until its last message.
    listed: Option<Vec<(String, String)>>,
}

impl ShownTasks {
    fn show(&mut self, change: v1::NamesChange, args: &WatchArgs) -> Done {
        if args.output == Format::Json {
            let says = change.complete || !change.records.is_empty() || !change.gone.is_empty();
            return if says { output::item(&args.output, &change, "") } else { Ok(()) };
        }
        let mut text = String::new();
        let index = change.index;
        for record in &change.records {
            let job = (record.user.clone(), record.job.clone());
            let chosen = |task: &&v1::NameTask| {
                args.address
                    .as_ref()
                    .is_none_or(|address| address.tasks.contains(TaskIndex(task.index)))
            };
            let now: BTreeMap<NamedTask, (u32, String)> = record
                .tasks
                .iter()
                .filter(chosen)
                .map(|task| (NamedTask::of(task), (task.generation, columns(task).join("  "))))
                .collect();
            self.forget(&job, index, |task| !now.contains_key(task), &mut text);
            for (task, line) in now {
                let name = shown(&job.0, &job.1, &task);
                let key = (job.0.clone(), job.1.clone(), task);
                // A new incarnation can look like the one before.
                if self.lines.get(&key) != Some(&line) {
                    text += &format!("{index}  + {name}  {}\n", line.1);
                    self.lines.insert(key, line);
                }
            }
        }
        for job in &change.gone {
            self.forget(&(job.user.clone(), job.job.clone()), index, |_| true, &mut text);
        }
        if change.complete {
            let listed = self.listed.get_or_insert_default();
            listed.extend(change.records.into_iter().map(|record| (record.user, record.job)));
            if !change.more {
                let listed = self.listed.take().unwrap_or_default();
                let known: Vec<_> =
                    self.lines.keys().map(|(user, job, _)| (user.clone(), job.clone())).collect();
                for job in known.iter().filter(|job| !listed.contains(job)) {
                    self.forget(job, index, |_| true, &mut text);
                }
            }
        }
        output::print(&text)
    }

    /// Tells tasks of a job that are gone.
    fn forget(
        &mut self,
        job: &(String, String),
        index: u64,
        is_gone: impl Fn(&NamedTask) -> bool,
        text: &mut String,
    ) {
        let first = (job.0.clone(), job.1.clone(), NamedTask::default());
        let keys = self.lines.range(first..).map(|(key, _)| key.clone());
        let keys = keys.take_while(|(user, name, _)| (user, name) == (&job.0, &job.1));
        let gone: Vec<_> = keys.filter(|(_, _, task)| is_gone(task)).collect();
        for key in gone {
            self.lines.remove(&key);
            *text += &format!("{index}  - {}\n", shown(&key.0, &key.1, &key.2));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(job: &str, tasks: &[(u32, u32, bool)]) -> v1::NameRecord {
        let task = |(index, port, healthy): &(u32, u32, bool)| v1::NameTask {
            index: *index,
            host: "10.0.0.1".to_owned(),
            ports: vec![v1::NamedPort { name: "http".to_owned(), port: *port }],
            state: v1::TaskState::Running.into(),
            health: if *healthy { v1::Health::Healthy } else { v1::Health::Unhealthy }.into(),
            reachable: true,
            serves: *healthy,
            ..v1::NameTask::default()
        };
        v1::NameRecord {
            user: "ana".to_owned(),
            job: job.to_owned(),
            tasks: tasks.iter().map(task).collect(),
            ..v1::NameRecord::default()
        }
    }

    #[test]
    fn an_endpoint_has_the_first_port_and_brackets_around_ipv6() {
        let mut task = record("web", &[(0, 31000, true)]).tasks.remove(0);
        assert_eq!(endpoint(&task), "10.0.0.1:31000");
        task.host = "fd00::1".to_owned();
        assert_eq!(endpoint(&task), "[fd00::1]:31000");
        task.ports.clear();
        assert_eq!(endpoint(&task), "[fd00::1]");
    }

    #[test]
    fn a_job_that_is_gone_has_no_lines() {
        let mut known = ShownTasks::default();
        let mut text = String::new();
        let task = |index| NamedTask { index, ..NamedTask::default() };
        let key = |index| ("ana".to_owned(), "web".to_owned(), task(index));
        let line = || (1, "line".to_owned());
        known.lines = [0, 3].map(|index| (key(index), line())).into();
        known.lines.insert(("ana".to_owned(), "web2".to_owned(), NamedTask::default()), line());
        known.forget(&("ana".to_owned(), "web".to_owned()), 7, |task| task.index != 0, &mut text);
        assert_eq!(text, "7  - ana/web/3\n");
        known.forget(&("ana".to_owned(), "web".to_owned()), 8, |_| true, &mut text);
        assert_eq!(text, "7  - ana/web/3\n8  - ana/web/0\n");
        assert_eq!(known.lines.len(), 1);
    }
}
