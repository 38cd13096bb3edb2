//! Evaluates a BCL file in a child process with limits on time and memory (design, section 8), so
//! that every evaluation terminates and no file can harm the caller.

use std::io::{Read, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use client::Connection;
use command::{Failure, output};
use model::{JobName, PackageId, PackageReference, PackageVersion};
use nix::sys::resource::{Resource, setrlimit};
use serde::{Deserialize, Serialize};
use spec::JobSpec;

use crate::imports::{Files, ImportArgs, PackageDirectory, check_length, read_source};
use crate::package::Readers;
use crate::package::registries::RegistryArgs;
use crate::package::upload::{self, Content, NewVersion};
use crate::registry_image::RegistryImage;

/// The maximum time of an evaluation.
const TIME_MAX: Duration = Duration::from_secs(8);
/// The maximum address space of an evaluation, program and stack included.
const MEMORY_MAX: u64 = 900 << 20;
/// The maximum size of the resulting job descriptions.
const OUTPUT_MAX: u64 = 64 << 20;
/// The maximum size of the error output.
const STDERR_MAX: u64 = 64 << 10;
/// How much address space the allocator reserves at a time, in KiB.
const ALLOCATOR_RESERVES_KIB: &str = "65536";
/// The stack size of the evaluating thread.
const STACK: usize = 16 << 20;
/// The name of the hidden command that the child runs.
pub(crate) const COMMAND: &str = "evaluate-in-this-process";

/// What the child prints, as JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Output {
    jobs: Vec<api::v1::JobSpec>,
    directories: Vec<PackageDirectory>,
    images: Vec<RegistryImage>,
}

/// The jobs of a file, of which some may have packages that are still directories, or images that are in a registry.
#[derive(Debug)]
pub struct Evaluated {
    jobs: Vec<JobSpec>,
    directories: Vec<PackageDirectory>,
    images: Vec<RegistryImage>,
    registry: RegistryArgs,
}

impl Evaluated {
    /// Whether the file has no jobs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// The names of the jobs.
    pub(crate) fn names(&self) -> impl Iterator<Item = &JobName> {
        self.jobs.iter().map(|job| &job.name)
    }

    /// The name of the first job.
    #[must_use]
    pub fn first(&self) -> Option<&JobName> {
        self.jobs.first().map(|job| &job.name)
    }

    /// Whether images of registries are downloaded when the jobs are published.
    pub(crate) fn downloads(&self) -> bool {
        !self.images.is_empty()
    }

    /// The jobs, with the versions that the directories and images would have; nothing is uploaded.
    ///
    /// # Errors
    /// If a directory cannot become a package, or a registry does not say which image is meant.
    pub fn into_jobs(mut self) -> Result<Vec<JobSpec>, Failure> {
        for directory in std::mem::take(&mut self.directories) {
            let content = Content::Directory(directory.path.clone());
            self.replace(&directory.placeholder, &content.version()?)?;
        }
        let images = std::mem::take(&mut self.images);
        if images.is_empty() {
            return Ok(self.jobs);
        }
        let runtime = command::runtime()?;
        for image in images {
            let resolved = process::block_on(&runtime, image.resolve(&self.registry))?;
            self.replace(&image.placeholder, &resolved.version)?;
        }
        Ok(self.jobs)
    }

    /// Makes packages of the directories and of the images of registries, and uploads what the store lacks. Returns
    /// the jobs, which use them.
    ///
    /// # Errors
    /// If a directory cannot become a package, an image cannot be imported, or one cannot be uploaded.
    pub async fn publish(mut self, connection: &mut Connection) -> Result<Vec<JobSpec>, Failure> {
        for directory in std::mem::take(&mut self.directories) {
            let new = NewVersion {
                owner: None,
                name: directory.name.parse().map_err(Failure::failed)?,
                version: None,
                readers: Readers::default(),
            };
            let content = Content::Directory(directory.path.clone());
            let added = upload::add(connection, &new, &content).await?;
            if added.is_new() {
                output::say(&format!("package  {added}\n"));
            }
            let id: PackageId = added.id.parse().map_err(Failure::failed)?;
            self.replace(&directory.placeholder, &id.version)?;
        }
        for image in std::mem::take(&mut self.images) {
            let version = image.publish(connection, &self.registry).await?;
            self.replace(&image.placeholder, &version)?;
        }
        Ok(self.jobs)
    }

    /// Gives what becomes a package its version in all jobs.
    fn replace(&mut self, placeholder: &str, version: &PackageVersion) -> Result<(), Failure> {
        let placeholder: PackageReference = placeholder.parse().map_err(Failure::failed)?;
        let known = PackageReference { version: version.clone(), ..placeholder.clone() };
        for job in &mut self.jobs {
            if job.task.packages.remove(&placeholder) {
                job.task.packages.insert(known.clone());
            }
            if job.task.image.as_ref() == Some(&placeholder) {
                job.task.image = Some(known.clone());
            }
        }
        Ok(())
    }
}

/// Evaluates a file in a child process.
///
/// # Errors
/// If the file is invalid, or takes too much time or memory.
pub fn evaluate(file: &Path, imports: &ImportArgs) -> Result<Evaluated, Failure> {
    evaluate_source(file, None, imports)
}

/// Evaluates a file, or a text as if it were the content of the file.
pub(crate) fn evaluate_source(
    file: &Path,
    text: Option<Vec<u8>>,
    imports: &ImportArgs,
) -> Result<Evaluated, Failure> {
    let shown = file.display();
    let failed = |what: &dyn std::fmt::Display| {
        Failure::failed(format!("error: {shown} cannot be evaluated: {what}"))
    };
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    let mut child = Command::new(program)
        .arg(COMMAND)
        .arg(file)
        .args(imports.flags())
        .args(text.is_some().then_some("--stdin"))
        // By default the allocator reserves a GiB of address space at its start, which exceeds the
        // limit.
        .env("MIMALLOC_ARENA_RESERVE", ALLOCATOR_RESERVES_KIB)
        .stdin(if text.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(&error))?;
    if let (Some(text), Some(mut stdin)) = (text, child.stdin.take()) {
        // If the child ends before it has read everything, its error says why.
        std::thread::spawn(move || drop(stdin.write_all(&text)));
    }
    let read = |from: Option<Box<dyn Read + Send>>, most: u64| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(from) = from {
                let _truncated = from.take(most + 1).read_to_end(&mut bytes);
            }
            bytes
        })
    };
    let output = read(child.stdout.take().map(|out| Box::new(out) as _), OUTPUT_MAX);
    let stderr = read(child.stderr.take().map(|err| Box::new(err) as _), STDERR_MAX);
    let until = Instant::now() + TIME_MAX;
    let status = loop {
        match child.try_wait().map_err(|error| failed(&error))? {
            Some(status) => break Some(status),
            None if Instant::now() >= until => {
                let _gone = child.kill();
                let _status = child.wait();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    let output = output.join().unwrap_or_default();
    let stderr = stderr.join().unwrap_or_default();
    let stderr = String::from_utf8_lossy(&stderr);
    let Some(status) = status else {
        return Err(Failure::usage(format!(
            "error: {shown} takes longer than {} s to evaluate",
            TIME_MAX.as_secs()
        )));
    };
    match status.code() {
        Some(0) if output.len() as u64 <= OUTPUT_MAX => {}
        Some(0) => {
            return Err(Failure::usage(format!(
                "error: the job descriptions in {shown} are longer than {} MiB",
                OUTPUT_MAX >> 20
            )));
        }
        Some(2) => return Err(Failure::usage(stderr)),
        Some(code) => return Err(failed(&format!("{stderr} (exit code {code})"))),
        None => {
            return Err(Failure::usage(format!(
                "error: evaluating {shown} needs more than {} MiB of memory or too deep a recursion",
                MEMORY_MAX >> 20
            )));
        }
    }
    if !stderr.is_empty() {
        output::say(&stderr);
    }
    let Output { jobs, directories, images } =
        serde_json::from_slice(&output).map_err(|error| failed(&error))?;
    let jobs = jobs.into_iter().map(JobSpec::try_from);
    let jobs = jobs.collect::<Result<_, _>>().map_err(|error| failed(&error))?;
    Ok(Evaluated { jobs, directories, images, registry: imports.registry.clone() })
}

/// The child: evaluates the file and prints its jobs as a JSON array.
pub(crate) fn in_this_process(
    file: &Path,
    stdin: bool,
    imports: ImportArgs,
) -> Result<(), Failure> {
    let limit =
        |resource, most| setrlimit(resource, most, most).context("cannot set a resource limit");
    limit(Resource::RLIMIT_AS, MEMORY_MAX)?;
    limit(Resource::RLIMIT_CPU, TIME_MAX.as_secs())?;
    limit(Resource::RLIMIT_CORE, 0)?;
    let file = file.to_owned();
    let evaluated = std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || text_of(&file, stdin, &imports))
        .context("cannot start a thread")?
        .join();
    let text = match evaluated {
        Ok(text) => text?,
        Err(_) => return Err(Failure::failed("error: the evaluation panicked")),
    };
    output::print(&text)
}

/// Reads the standard input completely.
pub(crate) fn read_stdin(shown: &str) -> Result<Vec<u8>, Failure> {
    let (mut source, most) = (Vec::new(), bcl::limits::SOURCE_BYTES_MAX as u64);
    let read = std::io::stdin().take(most + 1).read_to_end(&mut source);
    read.map_err(|error| Failure::usage(format!("error: cannot read {shown}: {error}")))?;
    check_length(&source, shown)?;
    Ok(source)
}

fn text_of(file: &Path, stdin: bool, imports: &ImportArgs) -> Result<String, Failure> {
    let name = file.to_string_lossy().into_owned();
    let source = match stdin {
        true => read_stdin(&name)?,
        false => read_source(file)?,
    };
    let settings = imports.settings()?;
    let mut files = Files::new(file, imports);
    let jobs = bcl::evaluate(&name, &source, &mut files, &settings).map_err(Failure::usage)?;
    let (directories, images) = files.into_sources();
    let jobs = jobs.iter().map(Into::into).collect();
    serde_json::to_string(&Output { jobs, directories, images }).map_err(Failure::failed)
}
