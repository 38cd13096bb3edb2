//! Tables and golden texts: the results of valid files and the errors of invalid ones.

mod bounds;
mod canonical;
mod directories;
mod examples;
mod files;
mod good;
mod images;
mod parameters;
mod places;
mod standard;
mod wrong_evaluation;
mod wrong_fields;
mod wrong_wishes;

use std::collections::BTreeMap;

use bcl::{Loaded, Loader, NotLoaded, Settings};
use model::PackageReference;
use spec::JobSpec;

/// Files by name, all in one folder, and their trace output.
#[derive(Default)]
pub(crate) struct Files {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    pub(crate) traced: Vec<String>,
}

impl Loader for Files {
    fn load(&mut self, _from: &str, path: &str) -> Result<Loaded, NotLoaded> {
        let name = path.to_owned();
        match self.files.get(path) {
            Some(content) => Ok(Loaded { name, content: content.clone() }),
            None => Err(NotLoaded { tried: vec![(name, "no such file".to_owned())] }),
        }
    }

    fn directory(&mut self, path: &str, name: &str) -> Result<PackageReference, String> {
        match path.starts_with("./") {
            true => format!("{name}@1").parse().map_err(|error| format!("{error}")),
            false => Err("it is outside".to_owned()),
        }
    }

    fn image(&mut self, reference: &str) -> Result<PackageReference, String> {
        match reference.contains("none") {
            false => "web@1".parse().map_err(|error| format!("{error}")),
            true => Err("the registry has no such image".to_owned()),
        }
    }

    fn trace(&mut self, text: &str) {
        self.traced.push(text.to_owned());
    }
}

pub(crate) fn settings() -> Settings {
    let variables = [("cell", "dev"), ("user", "ana")];
    Settings {
        variables: variables.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        ..Settings::default()
    }
}

pub(crate) fn with_files(source: &[u8], files: &[(&str, &str)]) -> Result<Vec<JobSpec>, String> {
    let files = files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()));
    let mut files = Files { files: files.collect(), traced: Vec::new() };
    bcl::evaluate("job.bcl", source, &mut files, &settings()).map_err(|errors| errors.to_string())
}

pub(crate) fn jobs(source: &str) -> Vec<JobSpec> {
    with_files(source.as_bytes(), &[]).unwrap_or_else(|errors| panic!("{source}\n{errors}"))
}

/// The only job of a file that starts with the library's import.
pub(crate) fn job(source: &str) -> JobSpec {
    let mut jobs = jobs(&format!("local borg = import 'borg.libsonnet';\n{source}"));
    assert_eq!(jobs.len(), 1, "{source}");
    jobs.remove(0)
}

/// The errors of an invalid file.
pub(crate) fn says(source: impl AsRef<[u8]>) -> String {
    with_files(source.as_ref(), &[]).expect_err("the file is wrong")
}

/// The errors of several files in short: the message, the place, and the marked text there.
pub(crate) fn table<'s>(
    sources: impl IntoIterator<Item = (&'s str, String)>,
    files: &[(&str, &str)],
) -> String {
    let mut table = String::new();
    for (shown, source) in sources {
        table += shown;
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()));
        let mut files = Files { files: files.collect(), traced: Vec::new() };
        let errors = bcl::evaluate("job.bcl", source.as_bytes(), &mut files, &settings());
        for error in errors.expect_err(shown).iter() {
            table += &format!("\n    {}", error.what());
            if let Some(place) = &error.place {
                let marked = place.excerpt.chars().skip(place.marked_from).take(place.marked);
                let marked: String = marked.collect();
                let place = format!("{}:{}:{}", place.file, place.line, place.column);
                table += &format!(
                    "\n    {} {place} `{marked}`",
                    if error.exact { "at" } else { "around" }
                );
            }
            for place in &error.by {
                table += &format!("\n    from {}:{}:{}", place.file, place.line, place.column);
            }
        }
        table += "\n\n";
    }
    table
}
