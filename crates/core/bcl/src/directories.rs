//! Directories among the packages of jobs, as `borg.directory('./app')` gives them: the loader makes packages of them.

use std::collections::BTreeMap;

use spec::Path;

use crate::error::ErrorKind;
use crate::fields::Diagnostics;
use crate::interpreter::Loader;
use crate::json::Json;

/// The field of a job with its packages.
const PACKAGES: &str = "packages";
/// The fields of a directory.
const DIRECTORY: &str = "directory";
const NAME: &str = "name";

/// Replaces the directories in a result by the references that the loader gives for them.
pub(crate) fn resolve(result: &mut Json, loader: &mut dyn Loader, found: &mut Diagnostics) {
    match result {
        Json::List(jobs) => {
            for (position, job) in jobs.iter_mut().enumerate() {
                of_job(job, &Path::top().element(position), loader, found);
            }
        }
        job => of_job(job, &Path::top(), loader, found),
    }
}

fn of_job(job: &mut Json, path: &Path, loader: &mut dyn Loader, found: &mut Diagnostics) {
    let Json::Object(fields) = job else { return };
    let Some(Json::List(packages)) = fields.get_mut(PACKAGES) else { return };
    for (position, package) in packages.iter_mut().enumerate() {
        let Json::Object(fields) = &*package else { continue };
        let Some((directory, name)) = directory(fields) else { continue };
        match loader.directory(directory, name) {
            Ok(reference) => *package = Json::Text(reference.to_string()),
            Err(why) => {
                let (directory, at) =
                    (directory.to_owned(), path.field(PACKAGES).element(position));
                found.add(at, ErrorKind::Directory { directory, why });
                // Any version, so that nothing more is said of it: the evaluation fails.
                *package = Json::Text(format!("failed-{position}@1"));
            }
        }
    }
}

/// The directory and the name of its package; anything else is an error of the schema.
fn directory(fields: &BTreeMap<String, Json>) -> Option<(&str, &str)> {
    let text = |name| match fields.get(name) {
        Some(Json::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    (fields.len() == 2).then_some(())?;
    Some((text(DIRECTORY)?, text(NAME)?))
}
