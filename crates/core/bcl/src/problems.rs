//! Reports problems and probable typos of a parsed description in the spelling of its file.

use model::{TaskIndex, TaskSelection};
use spec::{JobSpec, Path, ProblemKind, Step};

use crate::error::ErrorKind;
use crate::fields::{Diagnostic, Diagnostics};
use crate::json::Json;
use crate::related::named_after;

/// The two spellings of each quantity, and of ports with numbers.
const SPELLINGS: &[(&str, &str)] = &[
    ("cpu", "cpuMilli"),
    ("ram", "ramBytes"),
    ("disk", "diskBytes"),
    ("diskRate", "diskRateBytes"),
    ("scratch", "scratchBytes"),
    ("ports", crate::network::NUMBERS_SPELLING),
];

/// Records the problems and probable typos of a whole description, in the spelling of its file.
pub(crate) fn problems(job: &JobSpec, value: &Json, top: &Path, found: &mut Diagnostics) {
    let mut noted: Vec<(Path, ProblemKind)> = Vec::new();
    for problem in job.problems().into_iter().chain(job.slips()) {
        let path = listed(job, value, problem.path);
        let at = spelled(value, &path);
        // A limit that an override only inherits is reported for the job, and one key's tasks are
        // reported for the first of them.
        let inherited = !is_given(value, &at);
        let seen = noted.iter().any(|(path, kind)| {
            let same = *path == at || (inherited && path.0.last() == at.0.last());
            same && *kind == problem.kind
        });
        if seen {
            continue;
        }
        noted.push((at.clone(), problem.kind.clone()));
        let within = |path: Path| Path(top.0.iter().cloned().chain(path.0).collect());
        let kind = ErrorKind::Problem(problem.kind);
        found.add_shown(Diagnostic { at: within(at), shown: within(path), kind });
    }
}

/// Maps the path of an `after` entry to its position in the file.
fn listed(job: &JobSpec, value: &Json, path: Path) -> Path {
    match &path.0[..] {
        [Step::Field(field), Step::Element(position)] if field == "after" => {
            let other = job.after.iter().nth(*position);
            other.and_then(|other| named_after(value, &other.job)).unwrap_or(path)
        }
        _ => path,
    }
}

/// A description's path in the spelling of the value it was read from.
fn spelled(value: &Json, path: &Path) -> Path {
    let mut spelled = Path::top();
    let mut here = Some(value);
    for step in &path.0 {
        let object = here.and_then(Json::object);
        let name = match step {
            Step::Element(position) => {
                here = here.and_then(Json::list).and_then(|list| list.get(*position));
                spelled = spelled.element(*position);
                continue;
            }
            Step::Field(name) | Step::Key(name) => name,
        };
        let has = |name: &str| object.is_some_and(|object| object.contains_key(name));
        let other = SPELLINGS.iter().find(|(one, _)| one == name).map(|(_, other)| *other);
        let index = name.parse().map(TaskIndex);
        let covers = |key: &&String| match (&index, key.parse::<TaskSelection>()) {
            (Ok(index), Ok(tasks)) => tasks.contains(*index),
            _ => false,
        };
        let key = match (other, step) {
            _ if has(name) => name.as_str(),
            (Some(other), _) if has(other) => other,
            (_, Step::Key(_)) => {
                object.and_then(|object| object.keys().find(covers)).unwrap_or(name)
            }
            _ => name.as_str(),
        };
        here = object.and_then(|object| object.get(key));
        spelled = spelled.field(key);
    }
    spelled
}

/// Whether a value has something at a path.
fn is_given(value: &Json, path: &Path) -> bool {
    path.0.iter().try_fold(value, |here, step| here.below(step)).is_some()
}
