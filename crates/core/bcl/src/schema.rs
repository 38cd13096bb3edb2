//! The fields of a job and their conversion to a [`JobSpec`].
//!
//! Quantities have two spellings: the one people write (`ram: '64 MiB'`) and that of the
//! description's canonical JSON (`ramBytes: "67108864"`), so that printed descriptions can be read
//! back.

use std::collections::BTreeMap;

use model::{
    Appclass, Band, JobName, KernelFeature, PackageReference, Priority, PriorityError,
    SchedulingClass, UserName,
};
use spec::{
    Autoscale, Cores, JobSpec, Kind, LogPolicy, Maximum, Path, ProblemKind, RestartPolicy,
    RestartWhen, Sizing, TaskSpec,
};

use crate::autoscale;
use crate::ends;
use crate::error::ErrorKind;
use crate::fields::{Diagnostics, Fields, Shape, Spelling};
use crate::files;
use crate::health;
use crate::json::Json;
use crate::network;
use crate::overrides::{JobFields, overrides};
use crate::policy;
use crate::problems::problems;
use crate::quantity::{self, text, truth, wrong_type};
use crate::related::{job_reference, predecessors};
use crate::restart;
use crate::volumes::volumes;
use crate::words;

const JOB: Shape = Shape {
    of: "a job",
    expected: "a job, such as { name: 'hello', cmd: ['bourg', 'example-server'] }",
    fields: &[
        "name",
        "tasks",
        "priority",
        "appclass",
        "schedulingClass",
        "labels",
        "cmd",
        "image",
        "packages",
        "env",
        "files",
        "secrets",
        "secretEnv",
        "onChange",
        "cpu",
        "ram",
        "disk",
        "diskRate",
        "cores",
        "cpuSlack",
        "processes",
        "ports",
        "network",
        "healthCheck",
        "readiness",
        "notice",
        "constraints",
        "volumes",
        "outputs",
        "keepOutputs",
        "scratch",
        "overrides",
        "maxPerMachine",
        "maxPerSwitch",
        "allocSet",
        "allocs",
        "restart",
        "metrics",
        "logs",
        "preemption",
        "saver",
        "estimation",
        "autoscale",
        "disruptions",
        "update",
        "kernelFeatures",
        "api",
        "memorySlack",
        "after",
        "parent",
        "gang",
        "atOnce",
        "maxRuntime",
        "expectedRuntime",
        "requeue",
        "scheduler",
    ],
    spellings: SPELLINGS,
};
/// Those of canonical JSON.
const SPELLINGS: &[&str] = &[
    "cpuMilli",
    "ramBytes",
    "diskBytes",
    "diskRateBytes",
    "scratchBytes",
    network::NUMBERS_SPELLING,
    network::STATIC_SPELLING,
    ends::OUTPUTS_PACKAGE,
    EVERY_MACHINE,
];
/// In canonical JSON, beside the number of tasks that there are.
const EVERY_MACHINE: &str = "everyMachine";
const MAXIMUM: Shape = Shape {
    of: "a maximum",
    expected: "a number of tasks, or one that is hard: { tasks: 1, hard: true }",
    fields: &["tasks", "hard"],
    spellings: &[],
};

const TASKS: &str = "a number of tasks, or 'every-machine' for one on each machine";

const ALLOCS: Shape = Shape {
    of: "an alloc set",
    expected: "the fields of an alloc set, such as { users: ['ana'] }",
    fields: &["users"],
    spellings: &[],
};

const USERS: &str = "a list of users, such as ['ana', 'ben']";

const FEATURES: &str = "a list of kernel features, such as ['net-bind-service']";

const PACKAGES: &str = "a list of packages, such as ['app@3', 'ana/python@3.12']";

/// Reads a job; `None` if it has problems, which are then recorded.
pub(crate) fn job(value: &Json, top: &Path, found: &mut Diagnostics) -> Option<JobSpec> {
    let before = found.count();
    let fields = Fields::open(value, top.clone(), &JOB, found)?;
    fields.require("name", "name: 'hello'", found);
    let kind = kind(&fields, found);
    if !kind.is_alloc_set() && fields.get("image").is_none() {
        fields.require("cmd", "cmd: ['bourg', 'example-server']", found);
    }
    let name = fields.read("name", found, job_name);
    let (tasks, sizing) = size(&fields, found);
    let priority = fields.read("priority", found, priority);
    let appclass = fields.read("appclass", found, appclass).unwrap_or_default();
    let scheduling_class = fields.read("schedulingClass", found, scheduling_class);
    let network = network::network(&fields, found);
    let usual = JobFields::read(&fields, network::lists_ports(&fields), found);
    let mut task = TaskSpec::of(usual.cmd.unwrap_or_default());
    task.image = fields.read("image", found, package);
    let packages = fields.read_list("packages", PACKAGES, found, package);
    task.packages = packages.unwrap_or_default().into_iter().collect();
    task.env = usual.env;
    task.files = files::files(&fields, found);
    task.secrets =
        fields.read_map("secrets", files::SECRETS, found, files::secret).unwrap_or_default();
    let variables = fields.read_map("secretEnv", files::SECRET_ENV, found, files::secret);
    task.secret_env = variables.unwrap_or_default();
    task.on_change = fields.read("onChange", found, files::on_change).unwrap_or_default();
    task.limit = usual.limit.over(task.limit);
    task.processes = usual.processes.unwrap_or(task.processes);
    task.ports = usual.ports.unwrap_or_default();
    task.network = network;
    let (static_ports, others) = network::static_ports(&fields, found);
    (task.static_ports, task.ports) =
        (static_ports, task.ports.into_iter().chain(others).collect());
    task.cores = fields.read("cores", found, cores).unwrap_or_default();
    task.cpu_slack = fields.read("cpuSlack", found, truth).unwrap_or(true);
    task.health_check = usual.health_check;
    task.readiness = fields
        .get("readiness")
        .and_then(|value| health::health_check(value, top.field("readiness"), found));
    task.notice = usual.notice.unwrap_or(task.notice);
    task.constraints = usual.constraints.unwrap_or_default();
    task.volumes = match fields.get("volumes") {
        Some(value) => volumes(value, &top.field("volumes"), found),
        None => Vec::new(),
    };
    task.outputs = ends::outputs(&fields, found);
    task.scratch = fields.read_either(
        &Spelling { name: "scratch", read: quantity::bytes },
        &Spelling { name: "scratchBytes", read: quantity::whole_bytes },
        found,
    );
    let overrides = match fields.get("overrides") {
        Some(value) => overrides(value, &top.field("overrides"), tasks, &task, found),
        None => BTreeMap::new(),
    };
    // An alloc runs no program that could end.
    let usual_ends = match kind.is_alloc_set() {
        true => RestartWhen::default(),
        false => RestartWhen::usual(appclass),
    };
    let restart = match fields.get("restart") {
        Some(value) => restart::restart(value, top.field("restart"), usual_ends, found),
        None => RestartPolicy::on(usual_ends),
    };
    task.saver =
        fields.get("saver").and_then(|value| ends::saver(value, top.field("saver"), found));
    let preemption_notice_max = fields
        .get("preemption")
        .and_then(|value| ends::preemption(value, top.field("preemption"), found));
    let (max_per_machine, max_per_switch) =
        (maximum(&fields, "maxPerMachine", found), maximum(&fields, "maxPerSwitch", found));
    let estimation = fields.read("estimation", found, truth).unwrap_or(true);
    let autoscale = match fields.get("autoscale") {
        Some(value) => autoscale::autoscale(value, top.field("autoscale"), found),
        None => Autoscale::Off,
    };
    let disruptions = fields.get("disruptions");
    let disruptions =
        disruptions.map(|value| policy::disruptions(value, top.field("disruptions"), found));
    let update = fields.get("update");
    let update = update.map(|value| policy::update(value, top.field("update"), found));
    let features = fields.read_list("kernelFeatures", FEATURES, found, kernel_feature);
    task.kernel_features = features.unwrap_or_default().into_iter().collect();
    task.api = fields.read("api", found, truth).unwrap_or_default();
    task.memory_slack = fields.read("memorySlack", found, truth).unwrap_or_default();
    let after = predecessors(&fields, found);
    let parent = fields.read("parent", found, job_reference);
    let batch = policy::batch(&fields, found);
    let scheduler = fields.read("scheduler", found, policy::scheduler);
    task.logs = match fields.get("logs") {
        Some(value) => ends::logs(value, top.field("logs"), found),
        None => LogPolicy::default(),
    };
    let metrics =
        fields.get("metrics").and_then(|value| health::metrics(value, top.field("metrics"), found));
    if found.count() > before {
        return None;
    }
    let job = JobSpec {
        kind,
        name: name?,
        priority: priority.unwrap_or_else(|| Band::BestEffortBatch.usual()),
        appclass,
        scheduling_class: scheduling_class.unwrap_or_else(|| SchedulingClass::usual(appclass)),
        labels: usual.labels,
        tasks,
        sizing,
        task,
        overrides,
        max_per_machine,
        max_per_switch,
        restart,
        preemption_notice_max,
        estimation,
        autoscale,
        own_limit: None,
        disruptions: disruptions.unwrap_or_default(),
        update: update.unwrap_or_default(),
        after,
        parent,
        metrics,
        batch,
        scheduler,
    };
    problems(&job, value, top, found);
    (found.count() == before).then_some(job)
}

/// The number of tasks, or that there is one on every machine.
fn size(fields: &Fields<'_>, found: &mut Diagnostics) -> (u32, Sizing) {
    let on_every = |value: &Json| match value {
        Json::Text(text) => text == Sizing::EVERY_MACHINE,
        _ => false,
    };
    if fields.get("tasks").is_some_and(on_every)
        || fields.read(EVERY_MACHINE, found, truth).unwrap_or_default()
    {
        // The cell counts its machines.
        return (0, Sizing::EveryMachine);
    }
    let number = |value: &Json| match value {
        Json::Text(_) => quantity::whole_small(value).map_err(|_| wrong_type(TASKS, value)),
        _ => quantity::whole_small(value),
    };
    (fields.read("tasks", found, number).unwrap_or(1), Sizing::Number)
}

fn job_name(value: &Json) -> Result<JobName, ErrorKind> {
    Ok(JobName::new(text("a name, such as 'hello'", value)?)?)
}

/// A job, possibly in an alloc set; or an alloc set, marked by the field `allocs`.
fn kind(fields: &Fields<'_>, found: &mut Diagnostics) -> Kind {
    let alloc_set = fields.read("allocSet", found, job_reference);
    let Some(value) = fields.get("allocs") else { return Kind::Job { alloc_set } };
    if alloc_set.is_some() {
        found.add(fields.path.field("allocSet"), ErrorKind::Problem(ProblemKind::OfATask));
    }
    let Some(allocs) = Fields::open(value, fields.path.field("allocs"), &ALLOCS, found) else {
        return Kind::default();
    };
    let users = allocs.read_list("users", USERS, found, user_name).unwrap_or_default();
    Kind::AllocSet { users: users.into_iter().collect() }
}

fn user_name(value: &Json) -> Result<UserName, ErrorKind> {
    Ok(UserName::new(text("a user's name, such as 'ana'", value)?)?)
}

fn scheduling_class(value: &Json) -> Result<SchedulingClass, ErrorKind> {
    let expected = "a scheduling class from 0 (batch) to 3 (the most latency-sensitive)";
    let number = match value {
        Json::Text(text) => text.parse().ok(),
        // Numbers beyond ±2^53 are all out of range.
        #[expect(clippy::cast_possible_truncation)]
        Json::Number(number) if number.fract() == 0.0 => Some(*number as i64),
        _ => None,
    };
    Ok(SchedulingClass::new(number.ok_or_else(|| wrong_type(expected, value))?)?)
}

fn priority(value: &Json) -> Result<Priority, ErrorKind> {
    let bad = |error: PriorityError| {
        let nearest = match &error {
            PriorityError::NotOne(text) => words::nearest(text, &Band::ALL.map(Band::name)),
            PriorityError::OutOfRange(_) => None,
        };
        ErrorKind::Priority { error, nearest }
    };
    match value {
        Json::Text(text) => text.parse().map_err(bad),
        // Numbers beyond ±2^53 are all out of range.
        #[expect(clippy::cast_possible_truncation)]
        Json::Number(number) if number.fract() == 0.0 => Priority::new(*number as i64).map_err(bad),
        other => Err(wrong_type("a number from 0 to 450 or a band, such as 'production'", other)),
    }
}

fn appclass(value: &Json) -> Result<Appclass, ErrorKind> {
    let words = &["latency-sensitive", "batch"];
    let text = text("'latency-sensitive' or 'batch'", value)?;
    let is =
        |appclass: &Appclass| appclass.name() == text || words::constant(appclass.name()) == text;
    Appclass::ALL.into_iter().find(is).ok_or_else(|| ErrorKind::UnknownWord {
        text: text.to_owned(),
        what: "an appclass",
        words,
        nearest: words::nearest(text, words),
    })
}

fn cores(value: &Json) -> Result<Cores, ErrorKind> {
    const WORDS: &[&str] = &Cores::NAMES;
    let text = text("'shared' or 'exclusive'", value)?;
    let of = |word: &&&str| text == **word || text == words::constant(word);
    let known = WORDS.iter().find(of).and_then(|word| word.parse().ok());
    known.ok_or_else(|| ErrorKind::UnknownWord {
        text: text.to_owned(),
        what: "a way to use cores",
        words: WORDS,
        nearest: words::nearest(text, WORDS),
    })
}

fn package(value: &Json) -> Result<PackageReference, ErrorKind> {
    Ok(text("a package and its version, such as 'app@3' or 'ana/app@3'", value)?.parse()?)
}

fn kernel_feature(value: &Json) -> Result<KernelFeature, ErrorKind> {
    const WORDS: &[&str] = &KernelFeature::NAMES;
    let text = text("a kernel feature, such as 'net-bind-service'", value)?;
    text.parse().map_err(|_| ErrorKind::UnknownWord {
        text: text.to_owned(),
        what: "a kernel feature",
        words: WORDS,
        nearest: words::nearest(text, WORDS),
    })
}

/// A number of tasks, which is a preference, or an object that may make it hard.
fn maximum(fields: &Fields<'_>, name: &str, found: &mut Diagnostics) -> Option<Maximum> {
    let value = fields.get(name)?;
    if value.object().is_none() {
        let tasks = fields.read(name, found, quantity::whole_small)?;
        return Some(Maximum { tasks, hard: false });
    }
    let fields = Fields::open(value, fields.path.field(name), &MAXIMUM, found)?;
    fields.require("tasks", "tasks: 1", found);
    let hard = fields.read("hard", found, truth).unwrap_or(false);
    Some(Maximum { tasks: fields.read("tasks", found, quantity::whole_small)?, hard })
}
