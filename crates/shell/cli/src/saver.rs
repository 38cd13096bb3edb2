//! `bourg saver`: the data of ended tasks and allocs that machines keep for their savers.

use api::v1;
use api::v1::change_machine_request::{Change, EndSaver};
use clap::{Args, Subcommand};
use client::{Connection, Target};
use command::output::{self, Format, Listing};
use command::{Done, Failure, with_cell};
use model::{Bytes, Time};

use crate::{machine, moment};

/// The subcommands of `bourg saver`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the data of ended tasks and allocs that machines keep for their savers.
    List(ListArgs),
    /// End savers, whether they run or wait, and delete the data that they were to save.
    ///
    /// For the owners of the tasks, and administrators.
    End(EndArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only these: a task (ana/web/3), all of a job (ana/web), or all of a user (ana). Default: all.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Output format: table, wide, json, yaml, name, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
}

#[derive(Debug, Args)]
pub(crate) struct EndArgs {
    /// Whose savers: a task (ana/web/3), all of a job (ana/web), or all of a user (ana).
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

/// What one machine keeps of one instance.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct SavedInstance {
    machine: String,
    #[serde(flatten)]
    saving: v1::SavingStatus,
}

pub(crate) fn saver(cell: Target<'_>, command: &Command) -> Done {
    match command {
        Command::List(args) => list(cell, args),
        Command::End(args) => end(cell, args),
    }
}

/// Whether a name of the command line means a task.
fn means(name: &str, task: &str) -> bool {
    task.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What all machines keep, of these only if there are any.
async fn kept(
    connection: &mut Connection,
    names: &[String],
) -> Result<Vec<SavedInstance>, Failure> {
    let machines = machine::machines(connection, String::new(), &[]).await?;
    let mut found = Vec::new();
    for v1::MachineStatus { name, saving, .. } in machines {
        let wanted = |task: &str| names.is_empty() || names.iter().any(|name| means(name, task));
        let wanted = saving.into_iter().filter(|saving| wanted(&saving.name));
        found.extend(wanted.map(|saving| SavedInstance { machine: name.clone(), saving }));
    }
    Ok(found)
}

fn list(cell: Target<'_>, args: &ListArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let found = kept(&mut connection, &args.names).await?;
        output::list(
            &args.output,
            &Listing {
                items: &found,
                name: |kept: &SavedInstance| kept.saving.name.clone(),
                headings: &["TASK", "GENERATION", "MACHINE", "SIZE", "ATTEMPTS", "UNTIL"],
                wide: 0,
                row: |SavedInstance { machine, saving }| {
                    vec![
                        saving.name.clone(),
                        saving.generation.to_string(),
                        machine.clone(),
                        Bytes(saving.bytes.unsigned_abs()).to_string(),
                        saving.attempts.to_string(),
                        moment::shown(Time(saving.until)),
                    ]
                },
            },
        )
    })
}

fn end(cell: Target<'_>, args: &EndArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let found = kept(&mut connection, &args.names).await?;
        let tasks = || found.iter().map(|kept| kept.saving.name.as_str());
        if let Some(none) = args.names.iter().find(|name| !tasks().any(|task| means(name, task))) {
            let none = none.escape_debug();
            return Err(Failure::usage(format!(
                "error: no machine keeps data of {none} for a saver"
            ))
            .next("bourg saver list"));
        }
        for SavedInstance { machine, saving } in &found {
            let change = Change::EndSaver(EndSaver { instance: saving.instance });
            machine::change(&mut connection, machine, change).await?;
            eprintln!("{}: its saver on {machine} ends, and the data is deleted", saving.name);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::means;

    #[test]
    fn a_name_means_a_task_a_job_or_a_user() {
        for (name, task, expected) in [
            ("ana/web/3", "ana/web/3", true),
            ("ana/web", "ana/web/3", true),
            ("ana", "ana/web/3", true),
            ("ana/web/3", "ana/web/33", false),
            ("an", "ana/web/3", false),
            ("ana/we", "ana/web/3", false),
        ] {
            assert_eq!(means(name, task), expected, "{name} {task}");
        }
    }
}
