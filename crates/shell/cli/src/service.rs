//! `bourg service`: one name for the tasks of several jobs.

use api::v1;
use clap::{Args, Subcommand};
use client::Target;
use command::output::{self, Format, Listing};
use command::{Done, Failure, with_cell};
use model::{Address, LabelQuery, PortName, UserName};
use process::arguments::service_name;

use super::change::tasks as counted;
use super::moment::Moment;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Create a service, or replace the one of its name.
    ///
    /// Behind it are the live jobs whose labels match, of its owner and of the users that it names. It
    /// is found in BNS and DNS under its name, as a job is, so no live job of its owner can have it.
    Set(SetArgs),
    /// List services.
    List(ListArgs),
    /// Show a service, the jobs whose labels match, and the tasks behind it.
    Show(ShowArgs),
    /// Delete a service. The jobs behind it are unchanged.
    Delete {
        /// The service: user/name, or name.
        #[arg(value_parser = service_name)]
        service: Address,
    },
}

#[derive(Debug, Args)]
pub(super) struct SetArgs {
    /// The service: user/name, or name.
    #[arg(value_parser = service_name)]
    service: Address,
    /// The name of the port at which its tasks serve.
    #[arg(long, value_name = "NAME")]
    port: PortName,
    /// The labels of the jobs behind it, such as app=web,!canary.
    #[arg(long, short = 'l', value_name = "LABELS")]
    labels: LabelQuery,
    /// Another user whose jobs may be behind it; may be repeated.
    #[arg(long = "user", value_name = "USER")]
    users: Vec<UserName>,
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Output format: table, wide, json, yaml, name, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
    /// Show the state at this moment: an index (88412), a time (2026-11-19 03:10, UTC) or an age (10m).
    #[arg(long, value_name = "MOMENT")]
    at: Option<Moment>,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// The service: user/name, or name.
    #[arg(value_parser = service_name)]
    service: Address,
    /// Output format: table, json, yaml, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
    /// Show the state at this moment: an index (88412), a time (2026-11-19 03:10, UTC) or an age (10m).
    #[arg(long, value_name = "MOMENT")]
    at: Option<Moment>,
}

/// Executes a command.
pub(super) fn service(cell: Target<'_>, command: &Command) -> Done {
    match command {
        Command::Set(args) => set(cell, args),
        Command::List(args) => list(cell, args),
        Command::Show(args) => show(cell, args),
        Command::Delete { service } => delete(cell, service),
    }
}

fn named(address: &Address) -> v1::ServiceName {
    v1::ServiceName {
        user: address.user.as_ref().map(ToString::to_string).unwrap_or_default(),
        name: address.job.to_string(),
    }
}

fn set(cell: Target<'_>, args: &SetArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let v1::ServiceName { user, name } = named(&args.service);
        let service = v1::Service {
            user,
            name,
            port: args.port.to_string(),
            labels: args.labels.to_string(),
            users: args.users.iter().map(ToString::to_string).collect(),
        };
        let id = Some(connection.request_id().await?);
        let request = v1::SetServiceRequest { id, service: Some(service) };
        let answer = connection
            .ask(request, async |mut client, request| client.services.set(request).await)
            .await?;
        let set = answer.service.unwrap_or_default();
        let name = format!("{}/{}", set.user, set.name);
        let text = match &answer.before {
            None => format!("service {name} created\n"),
            Some(before) if *before == set => format!("service {name} is unchanged\n"),
            Some(before) => format!("service {name} replaced: {}\n", changes(before, &set)),
        };
        output::print(&text)
    })
}

/// What differs between two services of one name.
fn changes(before: &v1::Service, after: &v1::Service) -> String {
    let users = |service: &v1::Service| match service.users.as_slice() {
        [] => "none".to_owned(),
        users => users.join(" "),
    };
    let fields = [
        ("port", before.port.clone(), after.port.clone()),
        ("labels", before.labels.clone(), after.labels.clone()),
        ("users", users(before), users(after)),
    ];
    let changed = fields.iter().filter(|(_, old, new)| old != new);
    let changed: Vec<String> =
        changed.map(|(field, old, new)| format!("{field} {old} → {new}")).collect();
    changed.join(", ")
}

fn delete(cell: Target<'_>, service: &Address) -> Done {
    with_cell(cell, async |mut connection| {
        let id = Some(connection.request_id().await?);
        let request = v1::DeleteServiceRequest { id, service: Some(named(service)) };
        let answer = connection
            .ask(request, async |mut client, request| client.services.delete(request).await)
            .await?;
        output::print(&format!("service {}/{} deleted\n", answer.user, service.job))
    })
}

fn of(status: &v1::ServiceStatus) -> v1::Service {
    status.service.clone().unwrap_or_default()
}

fn list(cell: Target<'_>, args: &ListArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let at = args.at.map(Moment::message);
        let request = v1::ServicesRequest { at, ..v1::ServicesRequest::default() };
        let answer = connection
            .ask(request, async |mut client, request| client.services.list(request).await)
            .await?;
        output::list(
            &args.output,
            &Listing {
                items: &answer.services,
                name: |status| format!("{}/{}", of(status).user, of(status).name),
                headings: &["SERVICE", "PORT", "LABELS", "SERVING", "TASKS", "USERS"],
                wide: 1,
                row: |status| {
                    let service = of(status);
                    vec![
                        format!("{}/{}", service.user, service.name),
                        service.port,
                        output::one_line(&service.labels),
                        status.serving.to_string(),
                        status.tasks.to_string(),
                        service.users.join(" "),
                    ]
                },
            },
        )
    })
}

fn show(cell: Target<'_>, args: &ShowArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let at = args.at.map(Moment::message);
        let request = v1::ServicesRequest { service: Some(named(&args.service)), at };
        let answer = connection
            .ask(request, async |mut client, request| client.services.list(request).await)
            .await?;
        let Some(status) = answer.services.into_iter().next() else {
            return Err(Failure::failed(
                "error: the master answered without the service".to_owned(),
            ));
        };
        let service = status.service.clone().unwrap_or_default();
        let name = format!("{}/{}", service.user, service.name);
        let jobs = vec![v1::JobAddress { user: service.user.clone(), job: service.name.clone() }];
        let query = Some(v1::NameQuery { jobs, labels: String::new() });
        let names = connection
            .ask(v1::GetNamesRequest { query, at }, async |mut client, request| {
                client.names.get(request).await
            })
            .await?;
        let tasks = names.records.into_iter().next().map(|record| record.tasks);
        output::object(&args.output, &status, &name, || {
            shown(&status, &service, &tasks.unwrap_or_default())
        })
    })
}

fn shown(status: &v1::ServiceStatus, service: &v1::Service, tasks: &[v1::NameTask]) -> String {
    let mut text = format!(
        "service {}/{}: port {}, labels {}\n",
        service.user,
        service.name,
        service.port,
        output::one_line(&service.labels)
    );
    if !service.users.is_empty() {
        text += &format!("jobs of {} and {}\n", service.user, service.users.join(", "));
    }
    text += &format!("{}, {} serving\n\n", counted(status.tasks), status.serving);
    let job = |job: &v1::ServiceJob| {
        let behind = if job.behind { "yes".to_owned() } else { format!("no: {}", job.why) };
        vec![format!("{}/{}", job.user, job.job), output::one_line(&behind)]
    };
    text += &output::table(&["JOB", "BEHIND"], status.jobs.iter().map(job).collect());
    if !tasks.is_empty() {
        let task = |task: &v1::NameTask| {
            let [host, ports, state, health] = super::bns::columns(task);
            let serves = if task.serves { "yes" } else { "no" }.to_owned();
            let name = format!("{}/{}/{}", task.user, task.job, task.index);
            vec![name, host, ports, state, health, serves]
        };
        let headings = ["TASK", "HOST", "PORT", "STATE", "HEALTH", "SERVING"];
        text += "\n";
        text += &output::table(&headings, tasks.iter().map(task).collect());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_a_service_are_shown_field_by_field() {
        let old = v1::Service {
            port: "http".to_owned(),
            labels: "app=web".to_owned(),
            ..v1::Service::default()
        };
        let new =
            v1::Service { port: "rpc".to_owned(), users: vec!["bob".to_owned()], ..old.clone() };
        assert_eq!(changes(&old, &new), "port http → rpc, users none → bob");
        assert_eq!(changes(&new, &old), "port rpc → http, users bob → none");
        assert_eq!(changes(&old, &old), "");
    }

    #[test]
    fn a_service_has_no_tasks_of_its_own() {
        assert!(service_name("web").is_ok() && service_name("ana/web").is_ok());
        assert!(service_name("ana/web/3").expect_err("a task").contains("no tasks of its own"));
    }
}
