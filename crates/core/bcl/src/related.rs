//! References between jobs: their places in the value, and the check of their order.

use std::collections::BTreeMap;

use model::JobName;
use spec::{JobReference, JobSpec, Path};

use crate::error::ErrorKind;
use crate::fields::Diagnostics;
use crate::json::Json;
use crate::quantity::text;

/// A job, as a description names it.
pub(crate) fn job_reference(value: &Json) -> Result<JobReference, ErrorKind> {
    Ok(text("the name of a job, such as 'extract' or 'ana/load'", value)?.parse()?)
}

/// The path of an entry of `after`. The description sorts and deduplicates the entries, so the path
/// is searched in the value.
pub(crate) fn named_after(value: &Json, other: &JobReference) -> Option<Path> {
    let list = value.object()?.get("after")?.list()?;
    let is_it = |value| job_reference(value).is_ok_and(|reference| reference == *other);
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
        let after = job
            .after
            .iter()
            .filter_map(|other| Some((other, named_after(values.get(*position)?, other)?)));
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
