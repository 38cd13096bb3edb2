//! Validation of descriptions. A valid one can be admitted, placed and started; whether there is room is not asked.

mod autoscale;
mod batch;
mod constraints;
mod cores;
mod ends;
mod every_machine;
mod files;
mod health;
mod kind;
mod logs;
mod network;
mod outputs;
mod packages;
mod policy;
mod programs;
mod slips;
mod volumes;

use std::collections::BTreeMap;

use model::{Bytes, MilliCores, PortName, Resources, Span};
use thiserror::Error;

pub use autoscale::AutoscaleProblem;
pub use batch::BatchProblem;
pub use cores::CoresProblem;
pub use every_machine::EveryMachineProblem;
pub use files::FilePathProblem;
pub use logs::LogSettingsProblem;
pub use outputs::OutputProblem;
pub use volumes::VolumeProblem;

use crate::limits;
use crate::path::{Location, Path};
use crate::ports::UsualPorts;
use crate::template;
use crate::{JobSpec, TaskOverride, TaskSpec};

/// A problem in a description.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{path}: {kind}")]
pub struct Problem {
    /// The place.
    pub path: Path,
    /// The problem.
    pub kind: ProblemKind,
}

/// The kinds of problems.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProblemKind {
    /// A number out of range.
    #[error("must be {least} to {most}, is {is}")]
    OutOfRange {
        /// The value, formatted for people.
        is: String,
        /// The minimum.
        least: String,
        /// The maximum.
        most: String,
    },
    /// More bytes, elements or characters than allowed.
    #[error("has {has} {unit}, at most {most} are allowed")]
    TooMany {
        /// The actual number.
        has: usize,
        /// The maximum.
        most: usize,
        /// The unit counted.
        unit: &'static str,
    },
    /// A job without a program.
    #[error(
        "is empty: name the program to run and its arguments, such as ['bourg', 'example-server']"
    )]
    NoCommand,
    /// A program that is an empty text.
    #[error("is empty: the first element of a command is its program")]
    EmptyProgram,
    /// A zero byte or another character that is invalid at this place.
    #[error("contains {character}, which is not allowed here")]
    BadCharacter {
        /// The character, escaped.
        character: String,
    },
    /// Not a valid name of an environment variable.
    #[error("is not a variable's name: use letters, digits and underscores, and no digit first")]
    BadVariable,
    /// A reference to an unknown port or field.
    #[error("'${{{}}}' refers to nothing: {}", .reference.escape_debug(), programs::what_there_is(.reference))]
    BadReference {
        /// The text in the braces.
        reference: String,
    },
    /// A probable typo in a reference.
    #[error("'${{{}}}' is not a reference: did you mean '${{{}}}'?", .text.escape_debug(), .meant.escape_debug())]
    NearReference {
        /// The text in the braces.
        text: String,
        /// The suggestion.
        meant: String,
    },
    /// An override for a task that the job does not have.
    #[error("there is no task {index}: the job has tasks 0 to {last}")]
    NoSuchTask {
        /// The index.
        index: u32,
        /// The highest index.
        last: u32,
    },
    /// A path of a request that does not start with a slash.
    #[error("must begin with '/'")]
    NotAPath,
    /// A port that the task does not have.
    #[error("'{port}' is not a port of {}: {}", of_task(.task), ports_text(.ports))]
    NotAPort {
        /// The port.
        port: PortName,
        /// The task, if only that one lacks it.
        task: Option<u32>,
        /// The ports that the job's tasks have, at most a few.
        ports: Vec<PortName>,
    },
    /// Ports without numbers in a network of the task's own.
    #[error(
        "lists names, but with network: 'own' every port needs a number: write ports: {{ http: 80 }}"
    )]
    PortsWithoutNumbers,
    /// Ports with numbers in the host's network.
    #[error(
        "gives numbers, but in the network of the host the cell assigns them: list the names, such \
         as ports: ['http'], or ask for a static one, ports: {{ http: {{ static: 80 }} }}, or network: 'own'"
    )]
    PortsWithNumbers,
    /// Static ports in a network of the task's own.
    #[error(
        "gives static numbers, but with network: 'own' each task has an address of its own, where every \
         number is its own, too: write ports: {{ http: 443 }}"
    )]
    StaticPortsOfOwnNetwork,
    /// Ports of one task in a network of its own.
    #[error(
        "cannot differ from task to task with network: 'own': leave it out, and give all ports in \
         the job's ports"
    )]
    PortsOfOneTask,
    /// Two ports with the same number.
    #[error("is {number}, which is the number of {other}, too: give each port a number of its own")]
    SameNumber {
        /// The number.
        number: u16,
        /// The other port.
        other: PortName,
    },
    /// A port that is referred to and has no number.
    #[error(
        "has no number for '{port}', to which {} refer{}: with network: 'own' give it one, such as \
         ports: {{ {port}: 8080 }}", of_task(.task), if task.is_some() { "s" } else { "" }
    )]
    NoNumber {
        /// The port.
        port: PortName,
        /// The task, if only that one refers to it.
        task: Option<u32>,
    },
    /// A constraint's value that must be an integer and is not.
    #[error("'{}' is not an integer, and {relation} compares integers", .value.escape_debug())]
    NotAnInteger {
        /// The value.
        value: String,
        /// The relation's name.
        relation: &'static str,
    },
    /// A value for a relation that does not use one.
    #[error("{relation} takes no value: leave it out")]
    NoValue {
        /// The relation's name.
        relation: &'static str,
    },
    /// A field of tasks that allocs do not have.
    #[error("applies to tasks only, and an alloc runs no program: leave it out")]
    OfATask,
    /// A label or an attribute without a name.
    #[error("has an empty name")]
    NoName,
    /// Two packages of one task with the same name.
    #[error(
        "has the name of another package of the list: tasks find each below /packages by its name"
    )]
    SamePackageName,
    /// A volume that a task cannot have.
    #[error(transparent)]
    Volume(#[from] VolumeProblem),
    /// An output that a task cannot have.
    #[error(transparent)]
    Output(#[from] OutputProblem),
    /// Tasks that cannot wait and run so.
    #[error(transparent)]
    Batch(#[from] BatchProblem),
    /// A task on every machine that cannot be.
    #[error(transparent)]
    EveryMachine(#[from] EveryMachineProblem),
    /// A job that names itself as predecessor or parent.
    #[error("names the job itself: name another one, or leave it out")]
    NamesItself,
    /// Whole cores that tasks cannot have.
    #[error(transparent)]
    Cores(CoresProblem),
    /// A path at which no task can have a file.
    #[error(transparent)]
    FilePath(#[from] FilePathProblem),
    /// A variable with a value and a secret.
    #[error("is in env, too: a variable has either a value or a secret")]
    SecretAndValue,
    /// A secret or file of the task in the command of its saver.
    #[error(
        "has {what}, and a saver has no files and secrets of the job: it runs after the end of its task, so let the task \
         itself save what needs them before it ends"
    )]
    NotOfSaver {
        /// The path, or the variable.
        what: String,
    },
    /// A problem of autoscaling.
    #[error(transparent)]
    Autoscale(#[from] AutoscaleProblem),
    /// A delay that exceeds its own maximum.
    #[error("is longer than {other} ({most})")]
    LongerThan {
        /// The field with the maximum.
        other: &'static str,
        /// That field's value.
        most: Span,
    },
}

fn of_task(task: &Option<u32>) -> String {
    task.map_or_else(|| "the tasks".to_owned(), |index| format!("task {index}"))
}

fn ports_text(ports: &[PortName]) -> String {
    let names: Vec<&str> = ports.iter().map(PortName::as_str).collect();
    match names.as_slice() {
        [] => "it has none; list them in ports, or refer to them as ${port.NAME}".to_owned(),
        names => format!("there are {}", names.join(", ")),
    }
}

impl JobSpec {
    /// All problems; empty if the description is valid.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        self.problems_with_tasks_from(1)
    }

    /// The same for the description of a job that is there: it may have been resized to no tasks.
    #[must_use]
    pub fn problems_of_resized(&self) -> Vec<Problem> {
        self.problems_with_tasks_from(0)
    }

    fn problems_with_tasks_from(&self, fewest: u32) -> Vec<Problem> {
        let mut found = Problems::of(self);
        let top = Location::TOP;
        let fewest = if self.is_on_every_machine() { 0 } else { fewest };
        found.range(&top.field("tasks"), self.tasks, fewest, limits::TASKS_MAX);
        found.every_machine(self);
        found.batch(self);
        found.labels(&top.field("labels"), &self.labels);
        let usual = UsualPorts::of(&self.task);
        found.kind(self);
        found.task(&top, &self.task, usual.count());
        found.count(&top, self.names().len(), limits::NAME_REFERENCES_MAX, "names of other jobs");
        found.ends(self);
        found.cores(self);
        found.metrics(self, &usual);
        found.network(self, &usual);
        found.volumes(self);
        found.outputs(self);
        found.logs(&top.field("logs"), self.task.logs);
        found.autoscale(self);
        let overrides = top.field("overrides");
        for (index, change) in &self.overrides {
            let key = index.to_string();
            let at = overrides.key(&key);
            if index.0 >= self.tasks && !self.is_on_every_machine() {
                let last = self.tasks.saturating_sub(1);
                found.add(&at, ProblemKind::NoSuchTask { index: index.0, last });
                continue;
            }
            found.change(&at, change);
            // If the job itself has too many ports, that is already reported, so do not repeat it
            // for each task.
            if change.changes_ports_of_texts() && usual.count() <= limits::PORTS_MAX {
                let ports = usual.count_with(change);
                found.count(&at.field("ports"), ports, limits::PORTS_MAX, "ports");
            }
        }
        for (field, maximum) in
            [("maxPerMachine", self.max_per_machine), ("maxPerSwitch", self.max_per_switch)]
        {
            if let Some(maximum) = maximum {
                let at = top.field(field);
                found.range(&at.field("tasks"), maximum.tasks, 1, limits::TASKS_MAX);
            }
        }
        found.restart(&top.field("restart"), self.restart);
        found.disruptions(&top.field("disruptions"), self.disruptions);
        found.update(&top.field("update"), &self.update);
        let after = top.field("after");
        found.count(&after, self.after.len(), limits::AFTER_MAX, "jobs");
        for (position, predecessor) in self.after.iter().enumerate() {
            let other = &predecessor.job;
            // With a user named, only the cell can tell.
            if other.user.is_none() && other.job == self.name {
                found.add(&after.element(position), ProblemKind::NamesItself);
            }
        }
        if self.parent.as_ref().is_some_and(|p| p.user.is_none() && p.job == self.name) {
            found.add(&top.field("parent"), ProblemKind::NamesItself);
        }
        let total = self.total();
        if found.problems.is_empty() && total.cpu.0 > limits::CPU_MILLI_MAX {
            let (least, most) = (MilliCores(0), MilliCores(limits::CPU_MILLI_MAX));
            found.range(&top.field("cpu"), total.cpu, least, most);
        }
        for (field, bytes) in
            [("ram", total.ram), ("disk", total.disk), ("diskRate", total.disk_rate)]
        {
            if found.problems.is_empty() {
                found.range(&top.field(field), bytes, Bytes(0), Bytes(limits::BYTES_MAX));
            }
        }
        found.problems
    }
}

struct Problems {
    problems: Vec<Problem>,
    /// The longest values of references in this job.
    values: template::Longest,
}

impl Problems {
    fn of(job: &JobSpec) -> Self {
        let values = template::Longest::of(job.name.as_str(), job.tasks);
        Self { problems: Vec::new(), values }
    }

    fn add(&mut self, place: &Location<'_>, kind: ProblemKind) {
        self.problems.push(Problem { path: place.path(), kind });
    }

    fn range<T: PartialOrd + ToString + Copy>(
        &mut self,
        at: &Location<'_>,
        is: T,
        least: T,
        most: T,
    ) {
        if is < least || is > most {
            let (is, least, most) = (is.to_string(), least.to_string(), most.to_string());
            self.add(at, ProblemKind::OutOfRange { is, least, most });
        }
    }

    fn span(&mut self, at: &Location<'_>, is: Span, least: Span, most: Span) {
        self.range(at, SpanText(is), SpanText(least), SpanText(most));
    }

    fn count(&mut self, at: &Location<'_>, has: usize, most: usize, unit: &'static str) {
        if has > most {
            self.add(at, ProblemKind::TooMany { has, most, unit });
        }
    }

    fn no_zero_byte(&mut self, at: &Location<'_>, text: &str) {
        if text.contains('\0') {
            let character = "a zero byte".to_owned();
            self.add(at, ProblemKind::BadCharacter { character });
        }
    }

    fn labels(&mut self, at: &Location<'_>, labels: &BTreeMap<String, String>) {
        self.count(at, labels.len(), limits::LABELS_MAX, "labels");
        for (key, value) in labels {
            let at = at.key(key);
            self.named(&at, key);
            self.word(&at, key);
            self.word(&at, value);
            if !key.is_empty() && !model::can_be_queried(key, value) {
                let character = "a comma, '!=', or an '=', '!' or space where queries end a name";
                self.add(&at, ProblemKind::BadCharacter { character: character.to_owned() });
            }
        }
    }

    /// Rules specific to jobs or to alloc sets.
    fn task(&mut self, top: &Location<'_>, task: &TaskSpec, ports: usize) {
        self.env(&top.field("env"), &task.env);
        self.files(top, task);
        self.limit(top, &task.limit);
        self.range(&top.field("processes"), task.processes, 1, limits::PROCESSES_MAX);
        self.count(&top.field("ports"), ports, limits::PORTS_MAX, "ports");
        if let Some(check) = &task.health_check {
            self.health_check(&top.field("healthCheck"), check);
        }
        if let Some(check) = &task.readiness {
            self.health_check(&top.field("readiness"), check);
        }
        self.notice(&top.field("notice"), task.notice);
        self.constraints(&top.field("constraints"), &task.constraints);
    }

    fn change(&mut self, at: &Location<'_>, change: &TaskOverride) {
        if let Some(cmd) = &change.cmd {
            self.cmd(&at.field("cmd"), cmd);
        }
        self.env(&at.field("env"), &change.env);
        if let Some(limit) = change.limit {
            self.limit(at, &limit);
        }
        if let Some(processes) = change.processes {
            self.range(&at.field("processes"), processes, 1, limits::PROCESSES_MAX);
        }
        if let Some(check) = &change.health_check {
            self.health_check(&at.field("healthCheck"), check);
        }
        if let Some(notice) = change.notice {
            self.notice(&at.field("notice"), notice);
        }
        if let Some(constraints) = &change.constraints {
            self.constraints(&at.field("constraints"), constraints);
        }
        self.labels(&at.field("labels"), &change.labels);
    }

    fn notice(&mut self, at: &Location<'_>, notice: Span) {
        self.span(at, notice, Span::ZERO, Span::from_secs(limits::SPAN_SECONDS_MAX));
    }

    fn named(&mut self, at: &Location<'_>, name: &str) {
        if name.is_empty() {
            self.add(at, ProblemKind::NoName);
        }
    }

    /// A text that is displayed on terminals: a label, an attribute.
    fn word(&mut self, at: &Location<'_>, text: &str) {
        self.count(at, text.chars().count(), limits::LABEL_CHARACTERS_MAX, "characters");
        if let Some(control) = text.chars().find(|c| c.is_control()) {
            let character = format!("the control character {}", control.escape_default());
            self.add(at, ProblemKind::BadCharacter { character });
        }
    }

    fn limit(&mut self, at: &Location<'_>, limit: &Resources) {
        let most = MilliCores(limits::CPU_MILLI_MAX);
        self.range(&at.field("cpu"), limit.cpu, MilliCores(1), most);
        let (least, most) = (Bytes(limits::RAM_BYTES_MIN), Bytes(limits::BYTES_MAX));
        self.range(&at.field("ram"), limit.ram, least, most);
        self.range(&at.field("disk"), limit.disk, Bytes(0), most);
        self.range(&at.field("diskRate"), limit.disk_rate, Bytes(0), most);
    }
}

/// A span that compares as a span and displays as one.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
struct SpanText(Span);

impl std::fmt::Display for SpanText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::job;
    use crate::{Constraint, HealthCheck, Relation, RestartPolicy, TaskOverride};
    use model::TaskIndex;

    fn problems(change: impl FnOnce(&mut JobSpec)) -> Vec<String> {
        let mut job = job();
        change(&mut job);
        job.problems().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_usual_job_is_valid() {
        assert_eq!(problems(|_| {}), Vec::<String>::new());
    }

    #[test]
    fn each_problem_names_its_place_and_what_would_be_right() {
        let one = |change: fn(&mut JobSpec), says: &str| assert_eq!(problems(change), [says]);
        one(|job| job.tasks = 0, "tasks: must be 1 to 100000, is 0");
        one(
            |job| job.task.cmd[0].clear(),
            "cmd[0]: is empty: the first element of a command is its program",
        );
        one(
            |job| job.task.cmd[1].push('\0'),
            "cmd[1]: contains a zero byte, which is not allowed here",
        );
        one(
            |job| job.task.cmd[1] = "${task.indx}".to_owned(),
            "cmd[1]: '${task.indx}' refers to nothing: there are ${port.NAME} and ${task.index}, \
             ${task.job}, ${task.user}, ${task.cell}, ${task.cpu}, ${task.ram}, ${task.tasks}",
        );
        one(
            |job| job.task.cmd[1] = "${port.\u{1b}}".to_owned(),
            "cmd[1]: '${port.\\u{1b}}' refers to nothing: there are ${port.NAME} and ${task.index}, \
             ${task.job}, ${task.user}, ${task.cell}, ${task.cpu}, ${task.ram}, ${task.tasks}",
        );
        one(|job| job.task.limit.ram = Bytes(1), "ram: must be 4 MiB to 1024 PiB, is 1 B");
        one(
            |job| job.task.limit.cpu = MilliCores(0),
            "cpu: must be 0.001 cores to 1099511627.776 cores, is 0 cores",
        );
        one(
            |job| drop(job.task.env.insert("1X".to_owned(), String::new())),
            "env[\"1X\"]: is not a variable's name: use letters, digits and underscores, and no digit first",
        );
        one(
            |job| drop(job.overrides.insert(TaskIndex(3), TaskOverride::default())),
            "overrides[\"3\"]: there is no task 3: the job has tasks 0 to 2",
        );
        one(
            |job| job.restart.delay = Span::from_secs(400),
            "restart.delay: is longer than delayMax (5 m)",
        );
        one(
            |job| drop(job.labels.insert("team".to_owned(), "\u{1b}[31m".to_owned())),
            "labels[\"team\"]: contains the control character \\u{1b}, which is not allowed here",
        );
    }

    #[test]
    fn constraints_and_other_jobs_are_looked_at() {
        let constraint = |relation, value: &str| Constraint {
            attribute: "cores".to_owned(),
            relation,
            value: value.to_owned(),
            hard: true,
        };
        let says = problems(|job| {
            job.task.constraints = vec![
                constraint(Relation::GreaterThan, "8"),
                constraint(Relation::LessThan, "many"),
                constraint(Relation::Present, "8"),
            ];
            job.after.insert("web".parse().expect("a job"));
            job.parent = Some("ana/web".parse().expect("a job"));
        });
        assert_eq!(
            says,
            [
                "constraints[1].value: 'many' is not an integer, and less-than compares integers",
                "constraints[2].value: present takes no value: leave it out",
                "after[0]: names the job itself: name another one, or leave it out",
            ]
        );
    }

    #[test]
    fn likely_mistakes_are_found_without_being_rejected() {
        type Change = fn(&mut JobSpec);
        let table: [(Change, &[&str]); 5] = [
            (|_| {}, &[]),
            (
                |job| job.task.cmd[1] = "${HOME}/${host.name}/${prot.http}".to_owned(),
                &["cmd[1]: '${prot.http}' is not a reference: did you mean '${port.http}'?"],
            ),
            (
                |job| drop(job.task.env.insert("WHO".to_owned(), "${Task.index}".to_owned())),
                &[
                    "env[\"WHO\"]: '${Task.index}' is not a reference: did you mean '${task.index}'?",
                ],
            ),
            (
                |job| {
                    let cmd = Some(vec!["x".to_owned(), "${tsk.job} ${ports.a}".to_owned()]);
                    let change = TaskOverride { cmd, ..TaskOverride::default() };
                    job.overrides.insert(TaskIndex(1), change);
                },
                &[
                    "overrides[\"1\"].cmd[1]: '${tsk.job}' is not a reference: did you mean '${task.job}'?",
                    "overrides[\"1\"].cmd[1]: '${ports.a}' is not a reference: did you mean '${port.a}'?",
                ],
            ),
            (
                |job| job.task.cmd[1] = "${prot.\u{1b}\u{7f}}".to_owned(),
                &["cmd[1]: '${prot.\\u{1b}\\u{7f}}' is not a reference: did you mean \
                   '${port.\\u{1b}\\u{7f}}'?"],
            ),
        ];
        for (change, says) in table {
            let mut job = job();
            change(&mut job);
            assert_eq!(job.problems(), []);
            let slips: Vec<String> = job.slips().iter().map(ToString::to_string).collect();
            assert_eq!(slips, says);
        }
    }

    #[test]
    fn a_job_that_asks_for_more_than_numbers_hold_is_refused() {
        let says = problems(|job| {
            job.tasks = limits::TASKS_MAX;
            job.task.limit.ram = Bytes(limits::BYTES_MAX);
        });
        assert_eq!(says, ["ram: must be 0 B to 1024 PiB, is 16383.9 PiB"]);
    }

    #[test]
    fn overrides_change_their_task_alone() {
        let mut job = job();
        let limit = Resources { cpu: MilliCores(500), ..job.task.limit };
        let change = TaskOverride { limit: Some(limit), ..TaskOverride::default() };
        job.overrides.insert(TaskIndex(1), change);
        assert_eq!(job.task(TaskIndex(0)).limit.cpu, MilliCores(100));
        assert_eq!(job.task(TaskIndex(1)).limit.cpu, MilliCores(500));
        assert_eq!(job.total().cpu, MilliCores(700));
    }

    #[test]
    fn ports_are_those_listed_referred_to_and_checked() {
        let mut task = TaskSpec::of(vec!["${port.http}".to_owned()]);
        task.ports.insert(PortName::new("admin").expect("a name"));
        task.health_check = Some(HealthCheck::on(PortName::new("health").expect("a name")));
        let names: Vec<String> = task.all_ports().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["admin", "health", "http"]);
    }

    #[test]
    fn the_wait_before_a_restart_doubles_up_to_its_maximum() {
        let policy = RestartPolicy::default();
        let waits: Vec<u64> = [1, 2, 3, 8, 9, 10, u32::MAX]
            .map(|failures| policy.delay_after(failures).0 / 1_000_000)
            .to_vec();
        assert_eq!(waits, [1, 2, 4, 128, 256, 300, 300]);
        assert!(policy.allows(10) && !policy.allows(11));
    }
}
