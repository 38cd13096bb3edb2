//! What commands about jobs are given: files, folders, the standard input, scripts and commands.

mod foreign;
pub(crate) mod line;
mod place;
mod script;
mod slurm;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use client::{Connection, Target};
use command::Failure;
use model::JobName;
use spec::JobSpec;

use crate::evaluate::{Evaluated, evaluate_source, read_stdin};
use crate::imports::{ImportArgs, read_source};
use crate::interrupt::with_cell_until_signal;
use line::JobLine;
use place::WrittenJob;

/// The maximum number of files that a command takes, those of folders included.
const FILES_MAX: usize = 200;
/// The maximum number of entries of a folder that is read for files.
const FOLDER_ENTRIES_MAX: usize = 10_000;
/// The name of the standard input in messages.
const STDIN: &str = "standard input";

/// The jobs of several files, in the order of the files.
#[derive(Debug)]
pub(crate) struct EvaluatedFiles {
    files: Vec<(PathBuf, Evaluated)>,
}

impl EvaluatedFiles {
    /// The jobs, with the versions that the directories would have; nothing is uploaded.
    pub(crate) fn into_jobs(self) -> Result<Vec<JobSpec>, Failure> {
        let mut jobs = Vec::new();
        for (_, evaluated) in self.files {
            jobs.extend(evaluated.into_jobs()?);
        }
        Ok(jobs)
    }

    /// Works with a cell in which the jobs are published. While images are downloaded, a signal that ends the command
    /// removes what has arrived.
    pub(crate) fn with_cell<T>(
        self,
        cell: Target<'_>,
        work: impl AsyncFnOnce(Connection, Vec<JobSpec>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let downloads = self.files.iter().any(|(_, evaluated)| evaluated.downloads());
        let work = async |mut connection: Connection| {
            let jobs = self.publish(&mut connection).await?;
            work(connection, jobs).await
        };
        match downloads {
            true => with_cell_until_signal(cell, work),
            false => command::with_cell(cell, work),
        }
    }

    /// Makes packages of the directories and uploads what the store lacks. Returns the jobs, which use them.
    async fn publish(self, connection: &mut Connection) -> Result<Vec<JobSpec>, Failure> {
        let mut jobs = Vec::new();
        for (_, evaluated) in self.files {
            jobs.extend(evaluated.publish(connection).await?);
        }
        Ok(jobs)
    }

    /// An error if there are no jobs.
    pub(crate) fn some(self) -> Result<Self, Failure> {
        if self.files.iter().all(|(_, evaluated)| evaluated.is_empty()) {
            let files: Vec<_> = self.files.iter().map(|(file, _)| shown(file)).collect();
            let verb = if files.len() == 1 { "has" } else { "have" };
            return Err(Failure::usage(format!("error: {} {verb} no jobs", files.join(", "))));
        }
        Ok(self)
    }

    /// An error if two files describe one job. Within a file the later one counts, as an update.
    fn each_job_once(self) -> Result<Self, Failure> {
        let mut places: BTreeMap<&JobName, usize> = BTreeMap::new();
        for (place, (file, evaluated)) in self.files.iter().enumerate() {
            for name in evaluated.names() {
                let before = *places.entry(name).or_insert(place);
                if before != place {
                    let (one, two) = (shown(&self.files[before].0), shown(file));
                    return Err(Failure::usage(format!(
                        "error: the job {name} is defined in {one} and in {two}"
                    ))
                    .next("remove it from one of them, or give it another name"));
                }
            }
        }
        Ok(self)
    }
}

fn shown(file: &Path) -> String {
    file.display().to_string().escape_debug().to_string()
}

/// Evaluates files: BCL, JSON or scripts; `-` is the standard input, and of a folder every `*.bcl` in it. The flags
/// of a job's line only go with scripts.
pub(crate) fn evaluate(
    files: &[PathBuf],
    imports: &ImportArgs,
    line: &JobLine,
) -> Result<EvaluatedFiles, Failure> {
    evaluate_any(files, imports, line)?.some()
}

/// The same for files that may have no jobs.
pub(crate) fn evaluate_any(
    files: &[PathBuf],
    imports: &ImportArgs,
    line: &JobLine,
) -> Result<EvaluatedFiles, Failure> {
    let mut evaluated = Vec::new();
    for source in sources(files)? {
        let (name, text) = (source.name.clone(), bcl_of(source, line)?);
        let done = evaluate_source(&name, text.bcl, imports).map_err(|failure| {
            if let Some(job) = &text.job {
                let shown = shown(&name);
                return failure.reworded(|report| job.placed(&shown, report));
            }
            let file = name.is_file().then(|| read_source(&name).ok()).flatten();
            let other = text.original.or(file);
            foreign::explained(&shown(&name), &other.unwrap_or_default()).unwrap_or(failure)
        })?;
        evaluated.push((name, done));
    }
    EvaluatedFiles { files: evaluated }.each_job_once()
}

/// Evaluates the job of a command.
pub(crate) fn evaluate_command(
    line: &JobLine,
    imports: &ImportArgs,
) -> Result<EvaluatedFiles, Failure> {
    let (name, text) = (PathBuf::from("command line"), line.bcl()?);
    let evaluated =
        evaluate_source(&name, Some(text.into_bytes()), imports).map_err(|failure| {
            let job = WrittenJob { flags: line.clone(), script: None };
            failure.reworded(|report| job.placed(&shown(&name), report))
        })?;
    EvaluatedFiles { files: vec![(name, evaluated)] }.some()
}

/// The BCL of the only file, which must be a script.
pub(crate) fn bcl_of_script(files: &[PathBuf], line: &JobLine) -> Result<String, Failure> {
    let mut sources = sources(files)?.into_iter();
    let (Some(source), None) = (sources.next(), sources.next()) else {
        return Err(Failure::usage("error: --print shows the job of one command or one script"));
    };
    let name = shown(&source.name);
    let is_script = source.is_script;
    match bcl_of(source, line)?.bcl.filter(|_| is_script) {
        Some(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
        None => {
            Err(Failure::usage(format!("error: {name} is not a script: it is its own BCL file"))
                .next("bourg eval FILE prints its jobs"))
        }
    }
}

/// A file, or the standard input.
struct Source {
    name: PathBuf,
    /// The content of the standard input.
    text: Option<Vec<u8>>,
    is_script: bool,
}

/// What is evaluated.
struct Text {
    /// The text in place of the file.
    bcl: Option<Vec<u8>>,
    /// What the text was made of, if it is not the file.
    original: Option<Vec<u8>>,
    /// What the text was made of, if it is a script.
    job: Option<WrittenJob>,
}

/// The files, with those of folders.
fn sources(files: &[PathBuf]) -> Result<Vec<Source>, Failure> {
    let mut found = Vec::new();
    let mut stdin_read = false;
    for file in files {
        if file == Path::new("-") {
            if std::mem::replace(&mut stdin_read, true) {
                return Err(Failure::usage("error: - is the standard input: give it once"));
            }
            let text = read_stdin(STDIN)?;
            let is_script = text.starts_with(b"#!");
            found.push(Source { name: STDIN.into(), text: Some(text), is_script });
        } else if file.is_dir() {
            let in_folder = in_folder(file)?.into_iter();
            found.extend(in_folder.map(|name| Source { name, text: None, is_script: false }));
        } else {
            let is_script = is_script(file);
            found.push(Source { name: file.clone(), text: None, is_script });
        }
        if found.len() > FILES_MAX {
            let text =
                format!("error: more than {FILES_MAX} files: a command takes at most so many");
            return Err(Failure::usage(text).next("give some of them, then the others"));
        }
    }
    Ok(found)
}

/// Whether a regular file begins with `#!`. What else a path may be is read with a limit on time.
fn is_script(file: &Path) -> bool {
    let mut begin = [0; 2];
    if !file.is_file() {
        return false;
    }
    let read = std::fs::File::open(file).and_then(|mut file| file.read_exact(&mut begin));
    read.is_ok() && begin == *b"#!"
}

/// The BCL files of a folder, sorted.
fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |error: std::io::Error| {
        Failure::usage(format!("error: cannot read {}: {error}", shown(folder)))
    };
    let mut files = Vec::new();
    for (number, entry) in std::fs::read_dir(folder).map_err(unreadable)?.enumerate() {
        if number >= FOLDER_ENTRIES_MAX {
            return Err(Failure::usage(format!(
                "error: {} has more than {FOLDER_ENTRIES_MAX} entries: name the files",
                shown(folder)
            )));
        }
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "bcl") && path.is_file() {
            files.push(path);
        }
    }
    if files.is_empty() {
        let text = format!("error: the folder {} has no files *.bcl", shown(folder));
        return Err(Failure::usage(text).next("name the files, or a folder that has them"));
    }
    files.sort();
    Ok(files)
}

/// What a source is evaluated as.
fn bcl_of(source: Source, line: &JobLine) -> Result<Text, Failure> {
    let name = shown(&source.name);
    if source.is_script {
        let script = source.text.map_or_else(|| read_source(&source.name), Ok)?;
        let file = if name == STDIN { Path::new("script") } else { &*source.name };
        let written = String::from_utf8_lossy(&script).into_owned();
        let bcl = script::bcl(file, &name, script, line)?;
        let job = Some(WrittenJob { flags: line.clone(), script: Some(written) });
        return Ok(Text { bcl: Some(bcl.into_bytes()), original: None, job });
    }
    if let Some(flag) = line.first_flag() {
        return Err(Failure::usage(format!(
            "error: {flag} goes with a command after -- or with a script, and {name} is a file of jobs"
        ))
        .next("write it into the file; a file that is a function takes parameters with --var"));
    }
    Ok(Text { bcl: source.text.clone(), original: source.text, job: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_its_bcl_files_sorted() {
        let place = tempfile::tempdir().expect("a folder");
        let says = |files: &[PathBuf]| sources(files).err().map(|error| error.to_string());
        let empty = says(&[place.path().to_owned()]).expect("an error");
        assert!(empty.contains("has no files *.bcl"), "{empty}");
        for name in ["b.bcl", "a.bcl", "notes.txt", "run.sh"] {
            std::fs::write(place.path().join(name), "#!/bin/sh\n").expect("written");
        }
        std::fs::create_dir(place.path().join("c.bcl")).expect("a folder");
        let found = sources(&[place.path().to_owned(), place.path().join("run.sh")]);
        let found: Vec<_> = found.ok().into_iter().flatten().collect();
        let names: Vec<_> = found
            .iter()
            .map(|source| {
                (source.name.file_name().and_then(|name| name.to_str()), source.is_script)
            })
            .collect();
        let expected =
            [(Some("a.bcl"), false), (Some("b.bcl"), false), (Some("run.sh"), true)].to_vec();
        assert_eq!(names, expected);
    }
}
