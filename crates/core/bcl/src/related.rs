//! References between jobs: their places in the value, and the check of their order.

use std::collections::{BTreeMap, BTreeSet};

use model::JobName;
use spec::{EndCondition, JobReference, JobSpec, Path, Predecessor, PredecessorError};

use crate::error::ErrorKind;
use crate::fields::{Diagnostics, Fields, Shape};
use crate::json::Json;
use crate::quantity::{text, truth, wrong_type};
use crate::words;

/// A job, as a description names it.
pub(crate) fn job_reference(value: &Json) -> Result<JobReference, ErrorKind> {
    Ok(text("the name of a job, such as 'extract' or 'ana/load'", value)?.parse()?)
}

const AFTER: &str = "a list of jobs, such as ['extract', { job: 'ana/load', when: 'ended' }]";

const PREDECESSOR: Shape = Shape {
    of: "a job to run after",
    expected: "a job to run after, such as 'extract' or { job: 'load', when: 'ended' }",
    fields: &["job", "when", "eachTask"],
    spellings: &[],
};

/// The ways to wait for a job.
const CONDITIONS: &[&str] = &["finished", "ended", "failed", "each-task"];

/// The jobs that a job runs after.
pub(crate) fn predecessors(fields: &Fields<'_>, found: &mut Diagnostics) -> BTreeSet<Predecessor> {
    let Some(value) = fields.get("after") else { return BTreeSet::new() };
    let path = fields.path.field("after");
    let Some(list) = value.list() else {
        found.add(path, wrong_type(AFTER, value));
        return BTreeSet::new();
    };
    let one = |(position, value)| predecessor(value, path.element(position), found);
    list.iter().enumerate().filter_map(one).collect()
}

fn predecessor(value: &Json, path: Path, found: &mut Diagnostics) -> Option<Predecessor> {
    if let Json::Text(text) = value {
        return named(text).map_err(|kind| found.add(path, kind)).ok();
    }
    let fields = Fields::open(value, path, &PREDECESSOR, found)?;
    fields.require("job", "job: 'extract'", found);
    let job = fields.read("job", found, job_reference);
    let when = fields.read("when", found, condition).unwrap_or_default();
    let each_task = fields.read("eachTask", found, truth).unwrap_or_default();
    Some(Predecessor { job: job?, when, each_task })
}

/// A job and how it has to end, in one text.
fn named(text: &str) -> Result<Predecessor, ErrorKind> {
    text.parse().map_err(|error| match error {
        PredecessorError::Name(error) => error.into(),
        PredecessorError::NoSuchCondition(word) => no_condition(&word, CONDITIONS),
    })
}

fn condition(value: &Json) -> Result<EndCondition, ErrorKind> {
    let text = text("'finished', 'ended' or 'failed'", value)?;
    EndCondition::find(text).ok_or_else(|| no_condition(text, &CONDITIONS[..3]))
}

fn no_condition(text: &str, words: &'static [&'static str]) -> ErrorKind {
    let (text, nearest) = (text.to_owned(), words::nearest(text, words));
    ErrorKind::UnknownWord { text, what: "a way to wait for a job", words, nearest }
}

/// The path of an entry of `after`. The description sorts and deduplicates the entries, so the path
/// is searched in the value.
pub(crate) fn named_after(value: &Json, other: &JobReference) -> Option<Path> {
    let list = value.object()?.get("after")?.list()?;
    let reference = |value: &Json| match value {
        Json::Text(text) => text.parse().ok().map(|read: Predecessor| read.job),
        _ => job_reference(value.object()?.get("job")?).ok(),
    };
    let is_it = |value| reference(value).is_some_and(|reference| reference == *other);
    Some(Path::top().field("after").element(list.iter().position(is_it)?))
}

/// Records a problem for each job of a list that refers to a later one: it would not exist yet at
/// submission. This also rules out two jobs of a file that wait for each other.
pub(crate) fn check_order(jobs: &[(usize, JobSpec)], values: &[Json], found: &mut Diagnostics) {
    let mut given: BTreeMap<&JobName, usize> = BTreeMap::new();
    for (position, job) in jobs {
        given.entry(&job.name).or_insert(*position);
    }
    for (position, job) in jobs {
        let after = job.after.iter().filter_map(|other| {
            Some((&other.job, named_after(values.get(*position)?, &other.job)?))
        });
        let parent = job.parent.iter().map(|other| (other, Path::top().field("parent")));
        let set = job.kind.alloc_set().map(|other| (other, Path::top().field("allocSet")));
        for (other, at) in after.chain(parent).chain(set) {
            // With a user named, only the cell can tell.
            let later = given.get(&other.job).is_some_and(|given| given > position);
            if later && other.user.is_none() {
                let job = Path::top().element(*position);
                let at = Path(job.0.into_iter().chain(at.0).collect());
                found.add(at, ErrorKind::ComesLater { name: other.job.clone() });
            }
        }
    }
}
