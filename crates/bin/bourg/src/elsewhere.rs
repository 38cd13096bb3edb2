//! Commands of other systems. The answer names the equivalent command, or says that there is none yet
//! and what to do instead.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use command::Failure;

/// The answer to a command of another system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suggestion {
    /// The equivalent, or the nearest command.
    Here(&'static str),
    /// There is no equivalent yet; what to do instead.
    NotYet(&'static str),
}

use Suggestion::{Here, NotYet};

/// The answers.
const ANSWERS: &[(&[&str], Suggestion)] = &[
    (
        &["apply", "create", "submit", "start", "deploy", "up", "launch"],
        Here(
            "`bourg run FILE` submits the jobs of a file, or updates them; `bourg plan FILE` only says what it would do",
        ),
    ),
    (
        &["sbatch", "qsub", "bsub"],
        Here(
            "`bourg run --detach FILE` submits a script, whose #BOURG lines say what it needs, as #SBATCH lines do for \
             Slurm; with those it tells the #BOURG lines to write. `bourg run --print FILE` shows the job",
        ),
    ),
    (
        &["srun"],
        Here(
            "`bourg run --wait --cpu 1 -- true` runs a command as a job and exits with its status, `bourg logs -f JOB` \
             shows its output, `bourg exec -it JOB/3` opens a shell inside a task that runs",
        ),
    ),
    (
        &["salloc"],
        Here(
            "an alloc set reserves room for jobs (docs/allocs.md): `bourg run FILE` makes one; `bourg exec -it JOB/3` \
             opens a shell inside a task",
        ),
    ),
    (
        &["ps", "ls", "list", "jobs", "tasks", "pods"],
        Here("`bourg status` shows jobs, `bourg status JOB` the tasks of one"),
    ),
    (
        &["squeue", "qstat", "bjobs"],
        Here(
            "`bourg queue` shows the batch jobs that wait, in their order; `bourg status` shows all jobs, `bourg why JOB` \
             why one does not run",
        ),
    ),
    (
        &["scontrol"],
        Here(
            "`bourg status JOB -o yaml` has every field of a job, `bourg machine show NAME` a machine; `bourg update FILE` \
             changes a job, `bourg drain NAME` drains a machine",
        ),
    ),
    (
        &["sacct", "sacctmgr", "sreport", "seff"],
        Here(
            "`bourg status --all` shows jobs with those that have ended, `bourg events JOB` the history of one, \
             `bourg usage JOB` what its tasks used, `bourg quota show` what users may have",
        ),
    ),
    (
        &["sprio", "sshare"],
        Here(
            "`bourg queue` shows what waits and who is next, `bourg queue -o wide` the shares of users, \
             `bourg status` all jobs",
        ),
    ),
    (
        &["get"],
        Here("`bourg status` shows jobs, `bourg machines` machines; `-o json` has every field"),
    ),
    (
        &["describe", "inspect", "show", "info"],
        Here("`bourg status JOB -o yaml` has every field, `bourg events JOB` its history"),
    ),
    (
        &["delete", "del", "rm", "remove", "stop", "cancel", "terminate", "down"],
        Here("`bourg kill JOB` ends a job, or some of its tasks (`bourg kill JOB/3`)"),
    ),
    (
        &["scancel", "qdel", "bkill"],
        Here(
            "`bourg kill JOB` ends a job, `bourg kill JOB/3` one of its tasks; jobs have names and not numbers, which \
             `bourg status` shows",
        ),
    ),
    (
        &["sinfo", "pbsnodes", "bhosts"],
        Here(
            "`bourg machines` shows the machines and what is taken of them, `bourg status` the jobs; there are no \
             partitions: machines have attributes, and jobs constraints",
        ),
    ),
    (
        &["nodes", "node", "hosts"],
        Here("`bourg machines` shows all, `bourg machine show NAME` one"),
    ),
    (
        &["cordon"],
        Here(
            "`bourg drain NAME` drains a machine; nothing is placed on it until `bourg undrain NAME`",
        ),
    ),
    (&["uncordon"], Here("`bourg undrain NAME` makes a machine available again")),
    (&["log", "tail"], Here("`bourg logs -f JOB` shows the output of tasks")),
    (
        &["history", "audit"],
        Here(
            "`bourg events` shows what happened and who did it, `bourg status --at 10m` a past state",
        ),
    ),
    (
        &["context", "contexts", "config", "clusters"],
        Here("`bourg cells` lists the registered cells, `bourg --cell NAME` selects one"),
    ),
    (
        &["login", "auth"],
        Here(
            "`bourg user add NAME`, by an administrator, creates a directory for `bourg --cell DIR`",
        ),
    ),
    (
        &["namespace", "namespaces", "ns", "project", "tenant"],
        Here("every job belongs to a user, as user/job: `bourg user list` lists the users"),
    ),
    (
        &["edit", "set", "patch"],
        Here("change the file and `bourg run FILE` again; `bourg eval FILE` prints its jobs"),
    ),
    (&["version"], Here("`bourg --version` prints it")),
    (&["server", "init", "install"], Here("`bourg dev` starts a whole cell on this machine")),
    (
        &["agent", "kubelet", "worker", "join"],
        Here("`bourg machine token NAME` issues a token with which `bourg borglet` joins the cell"),
    ),
    (&["scale"], Here("`bourg resize JOB N` gives a job another number of tasks")),
    (
        &["rollout", "upgrade", "rolling-update"],
        Here(
            "`bourg update FILE` updates jobs task by task, `bourg update status JOB` shows how it \
             proceeds, `bourg restart JOB` restarts them as they are",
        ),
    ),
    (
        &["rollback", "revert"],
        Here("`bourg update undo JOB` brings back the version before an update"),
    ),
    (
        &["ssh", "borgssh", "attach", "shell", "enter", "rsh"],
        Here(
            "`bourg exec -it JOB/3` opens a shell inside a task, `bourg logs -f JOB` shows its output",
        ),
    ),
    (
        &["scp", "sftp", "rsync", "sbcast"],
        Here(
            "`bourg cp JOB/3:PATH .` copies files out of a task, `bourg cp FILE JOB/3:PATH` into it",
        ),
    ),
    (
        &["stats", "sstat", "htop"],
        Here("`bourg usage JOB` shows what tasks use, `bourg top` everything live"),
    ),
    (
        &["cron", "cronjob", "schedule", "timer", "scrontab"],
        NotYet(
            "there are no scheduled jobs: have cron on some machine call `bourg run FILE`; \
                `after` in a job's description starts it after others have finished",
        ),
    ),
    (
        &["autoscale", "hpa", "vpa"],
        Here(
            "`bourg autoscaler` sets the limits of jobs with `autoscale` in their description; \
                `bourg resize JOB N` sets the number of tasks",
        ),
    ),
    (
        &["descheduler", "defrag", "rebalance"],
        Here("`bourg repacker` moves running tasks so that pending ones fit"),
    ),
    (
        &["diff", "validate", "lint"],
        Here(
            "`bourg plan FILE` says what would change and whether it fits, `bourg eval FILE` prints \
                the jobs of a file",
        ),
    ),
    (
        &["image", "images", "pull", "push", "build", "registry"],
        NotYet(
            "there are no images: `bourg package build DIR --name NAME` makes a package of a directory, which tasks \
             find below /packages (docs/packages.md)",
        ),
    ),
    (
        &["expose", "services", "ingress"],
        Here(
            "`bourg service set NAME --port http -l app=web` gives the tasks of jobs one name, \
             `bourg proxy NAME` forwards connections to them",
        ),
    ),
    (
        &["lookup", "resolve", "dns", "endpoints"],
        Here("`bourg bns get JOB` shows where the tasks of a job are, and on which ports"),
    ),
    (
        &["secrets", "configmap"],
        Here("`bourg secret list` shows your secrets; a job brings its configuration in `files`"),
    ),
    (&["ui", "dashboard"], Here("`bourg sigma open` opens the web UI")),
];

/// The answer to an unknown command, if another system has it.
pub(crate) fn answer(error: &clap::Error) -> Option<Failure> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let is_unknown = error.kind() == ErrorKind::InvalidSubcommand;
    // Not a subcommand, such as of `bourg machine`.
    let is_first = first_word(std::env::args().skip(1)).as_deref() == Some(word);
    (is_unknown && is_first).then(|| of(word)).flatten().map(Failure::usage)
}

fn of(word: &str) -> Option<String> {
    let (_, answer) = ANSWERS.iter().find(|(words, _)| words.contains(&word))?;
    Some(match answer {
        Here(what) => format!("error: there is no command '{word}': {what}"),
        NotYet(instead) => format!("error: there is no command '{word}' yet: {instead}"),
    })
}

/// The first argument that is not a global flag.
fn first_word(mut arguments: impl Iterator<Item = String>) -> Option<String> {
    loop {
        match arguments.next()?.as_str() {
            "--cell" => drop(arguments.next()),
            flag if flag.starts_with('-') => {}
            word => return Some(word.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::Bourg;

    #[test]
    fn no_word_is_a_command_here_or_answered_twice() {
        let bourg = Bourg::command();
        let mut seen: BTreeSet<&str> =
            bourg.get_subcommands().map(clap::Command::get_name).collect();
        for word in ANSWERS.iter().flat_map(|(words, _)| *words) {
            assert!(seen.insert(word), "{word}");
        }
    }

    /// `bourg machine drain NAME` and every other command, with its flags.
    #[test]
    fn every_command_in_an_answer_exists() {
        for (words, Here(text) | NotYet(text)) in ANSWERS {
            let said: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
            let commands = said.iter().filter_map(|said| said.strip_prefix("bourg "));
            let mut count = 0;
            for command in commands {
                count += 1;
                if command.starts_with("--") {
                    continue;
                }
                let values = ["FILE", "JOB", "JOB/3", "JOB/3:PATH", "NAME", "DIR", "N"];
                let value = |word: &str| match word {
                    "JOB" => "ana/web".to_owned(),
                    "JOB/3" => "ana/web/3".to_owned(),
                    "N" => "3".to_owned(),
                    word => word.to_lowercase(),
                };
                let line = command.split(' ').map(|word| match values.contains(&word) {
                    true => value(word),
                    false => word.to_owned(),
                });
                let parsed = Bourg::command()
                    .try_get_matches_from(std::iter::once("bourg".to_owned()).chain(line));
                // A Borglet needs a directory, too.
                let ok = parsed
                    .err()
                    .is_none_or(|error| error.kind() == ErrorKind::MissingRequiredArgument);
                assert!(ok, "{words:?}: bourg {command}");
            }
            assert!(count > 0, "{words:?}: {text}");
        }
    }

    #[test]
    fn commands_of_other_systems_are_found_behind_flags() {
        let first = |line: &str| first_word(line.split(' ').map(str::to_owned));
        assert_eq!(first("apply -f x"), Some("apply".to_owned()));
        assert_eq!(first("--cell ps --consistent ps"), Some("ps".to_owned()));
        assert_eq!(first("--cell=a machine list"), Some("machine".to_owned()));
        assert_eq!(first("--help"), None);
        assert!(of("apply").is_some_and(|said| said.contains("`bourg run FILE`")));
        assert!(of("cron").is_some_and(|said| said.contains("no command 'cron' yet: ")));
        assert_eq!(of("stauts"), None);
    }
}
