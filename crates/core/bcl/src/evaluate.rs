//! Evaluates a source file to job descriptions.

use rsjsonnet_lang::arena::Arena;
use rsjsonnet_lang::program::Value;
use spec::{JobSpec, Path};

use crate::directories;
use crate::error::{Error, ErrorKind, Errors};
use crate::explain::Explainer;
use crate::fields::{Diagnostic, Diagnostics};
use crate::images;
use crate::interpreter::{Interpreter, Loader, Settings};
use crate::json::{Json, TooLarge};
use crate::limits;
use crate::locate::Trees;
use crate::parameters::applied;
use crate::related::check_order;
use crate::schema;
use crate::source::{FileId, Files};

/// Evaluates a file to the jobs that it describes: one job, or those of a list in its order.
///
/// `file_name` appears in errors and is the base of the file's imports; the loader interprets it.
/// Every returned job has no [`JobSpec::problems`] and refers to no later job of the file. Two jobs
/// of one file may have the same name: the caller decides what that means.
///
/// # Errors
/// When the file is not Jsonnet, cannot be evaluated within [`limits`], or is not a job. All
/// invalid fields are reported together, each with its place in the sources.
pub fn evaluate(
    file_name: &str,
    source: &[u8],
    loader: &mut dyn Loader,
    settings: &Settings,
) -> Result<Vec<JobSpec>, Errors> {
    let arena = Arena::new();
    let mut interpreter = Interpreter::new(&arena, loader, settings);
    let evaluated = interpreter.evaluate(file_name, source);
    let value = evaluated.and_then(|file| applied(&mut interpreter, file, settings));
    let value = match value {
        Ok(value) => value,
        Err(failure) => {
            return Err(Explainer { interpreter: &interpreter, settings }.explain(failure).into());
        }
    };
    let (files, loader) = (&interpreter.host.files, &mut *interpreter.host.loader);
    let mut result = result(&value).map_err(|kind| {
        let arena = Arena::new();
        let spot = Trees::new(files, &arena).locate(FileId(0), &Json::Null, &Path::top());
        Error { place: spot.map(|spot| files.place(spot.whole)), ..Error::new(kind) }
    })?;
    let mut found = Diagnostics::default();
    directories::resolve(&mut result, loader, &mut found);
    images::resolve(&mut result, loader, &mut found);
    let jobs: Vec<JobSpec> = match &result {
        Json::List(values) => {
            let job = |(position, job)| {
                let job = schema::job(job, &Path::top().element(position), &mut found)?;
                Some((position, job))
            };
            let jobs: Vec<_> = values.iter().enumerate().filter_map(job).collect();
            check_order(&jobs, values, &mut found);
            jobs.into_iter().map(|(_, job)| job).collect()
        }
        job => schema::job(job, &Path::top(), &mut found).into_iter().collect(),
    };
    match placed(found, files, &result) {
        Some(errors) => Err(errors),
        None => Ok(jobs),
    }
}

/// The bounded result of an evaluation.
fn result(value: &Value<'_>) -> Result<Json, ErrorKind> {
    if let Some(jobs) = value.to_array().filter(|jobs| jobs.len() > limits::JOBS_MAX) {
        return Err(ErrorKind::TooManyJobs { has: jobs.len() });
    }
    let result = Json::of(value).map_err(|error| match error {
        TooLarge::Values => ErrorKind::TooManyValues,
        TooLarge::Text => ErrorKind::TooMuchText,
        TooLarge::Depth => ErrorKind::ResultTooDeep,
    })?;
    let hint = match &result {
        Json::Object(_) | Json::List(_) => return Ok(result),
        Json::Function => "; a file can be one function of parameters, not several",
        _ => "",
    };
    Err(ErrorKind::NotAJob { found: result.kind(), hint })
}

/// Resolves the places of diagnostics in the sources.
fn placed(found: Diagnostics, files: &Files, result: &Json) -> Option<Errors> {
    if found.list.is_empty() {
        return None;
    }
    let arena = Arena::new();
    let trees = Trees::new(files, &arena);
    let place = |Diagnostic { at, shown, kind }: Diagnostic| {
        let spot = trees.locate(FileId(0), result, &at);
        let range = spot.map(|spot| match kind {
            ErrorKind::UnknownField { .. } => spot.name,
            _ => spot.whole,
        });
        Error {
            place: range.map(|range| files.place(range)),
            exact: spot.is_none_or(|spot| spot.exact),
            path: Some(shown),
            ..Error::new(kind)
        }
    };
    let mut errors: Vec<Error> = Vec::new();
    for error in found.list.into_iter().map(place) {
        // Report each problem at a place once, even if it affects several tasks or jobs.
        let same = |other: &Error| {
            other.exact && error.exact && other.place == error.place && other.kind == error.kind
        };
        if error.place.is_none() || !errors.iter().any(same) {
            errors.push(error);
        }
    }
    Errors::of(errors, found.untold)
}
