//! The outputs of ended tasks: what this machine keeps of their files for their owners.
//!
//! ```text
//! outputs/INSTANCE/kept.json   what is known about them; written before anything is moved here
//! outputs/INSTANCE/outputs     the outputs, by their paths in the home directory of the task
//! outputs/INSTANCE/complete    there if all of them are here, and become a version of a package
//! ```
//!
//! Crate `borglet` decides which of them are removed, as of logs: the oldest of the user who has most.
//! [`read`] sends them, [`clean`] removes them, and [`upload`] makes packages of them.

mod clean;
mod read;
mod upload;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use api::{duration, read as field, v1};
use linux::record::HOME_DIRECTORY;
use linux::task::TaskDirectory;
use linux::tree::{Measure, Used, move_beneath};
use model::{InstanceId, Time, UserName};
use process::clock::wall_clock;
use process::moment::shown;
use spec::{OutputPath, OutputPolicy};

use super::deleted_logs::Cause;
use super::tasks::{Files, read as read_file, write};

pub(crate) use clean::clean;
pub(crate) use read::{OutputReaders, read};
pub(crate) use upload::upload;

/// What is known about the outputs of an instance.
const KEPT_FILE: &str = "kept.json";
/// The outputs; also the name of all of them in an archive.
const OUTPUTS_DIRECTORY: &str = "outputs";
/// It is there when all outputs are, if they become a version of a package.
const COMPLETE_FILE: &str = "complete";
/// The maximum number of instances with kept outputs.
const INSTANCES_MAX: usize = 10_000;

/// The record of kept outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OutputRecord {
    user: UserName,
    policy: OutputPolicy,
    since: Time,
}

impl OutputRecord {
    fn of_message(kept: &v1::KeptOutputs) -> anyhow::Result<Self> {
        let keep = Some(field::span(kept.keep, "keep")?);
        let paths: BTreeSet<OutputPath> = field::set(&kept.paths, "paths")?;
        let package = Some(&kept.package).filter(|name| !name.is_empty());
        let package = package.map(|name| name.parse()).transpose()?;
        Ok(Self {
            user: kept.user.parse()?,
            policy: OutputPolicy { paths, keep, package },
            since: Time(kept.since),
        })
    }

    fn message(&self) -> v1::KeptOutputs {
        v1::KeptOutputs {
            user: self.user.to_string(),
            paths: self.policy.paths.iter().map(ToString::to_string).collect(),
            since: self.since.0,
            keep: Some(duration(self.policy.kept_for())),
            package: self.policy.package.as_ref().map(ToString::to_string).unwrap_or_default(),
        }
    }
}

impl Files {
    pub(super) fn outputs(&self) -> PathBuf {
        self.directory.join("outputs")
    }

    fn outputs_of(&self, instance: InstanceId) -> PathBuf {
        self.outputs().join(instance.to_string())
    }

    /// Moves the outputs of an ended instance to where they are kept; repeats what an earlier Borglet had
    /// begun. Those of earlier instances of the task are removed.
    pub(super) fn keep_outputs(
        &self,
        instance: InstanceId,
        task: &TaskDirectory,
    ) -> anyhow::Result<()> {
        let Some(desired) = self.desired_of(task)? else { return Ok(()) };
        let home = task.path().join(HOME_DIRECTORY);
        let policy = &desired.spec.outputs;
        if policy.paths.is_empty() || !home.exists() {
            return Ok(());
        }
        let directory = self.outputs_of(instance);
        let kept = directory.join(OUTPUTS_DIRECTORY);
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&kept);
        made.with_context(|| format!("cannot create {}", kept.display()))?;
        if self.output_record(instance)?.is_none() {
            let record = OutputRecord {
                user: desired.user.clone(),
                policy: policy.clone(),
                since: wall_clock(),
            };
            let text = serde_json::to_string(&record.message())?;
            if let Err(error) = write(&directory, KEPT_FILE, &text) {
                self.discard_outputs(instance)?;
                return Err(error);
            }
        }
        for path in &policy.paths {
            let moved = move_beneath(&home, Path::new(path.as_str()), &kept);
            moved.with_context(|| format!("cannot keep {path}"))?;
        }
        fs::File::open(&kept)?.sync_all()?;
        fs::File::open(self.outputs())?.sync_all()?;
        for earlier in self.with_outputs()? {
            if earlier.task() == instance.task() && earlier.generation < instance.generation {
                self.discard_outputs(earlier)?;
            }
        }
        if policy.package.is_some() {
            write(&directory, COMPLETE_FILE, "")?;
            self.outputs.to_upload.notify_one();
        }
        self.outputs.news.notify_one();
        Ok(())
    }

    /// The instances with kept outputs.
    fn with_outputs(&self) -> anyhow::Result<Vec<InstanceId>> {
        let names = linux::task::scan(&self.outputs())?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// The record of the outputs of an instance; `None` if there are none.
    fn output_record(&self, instance: InstanceId) -> anyhow::Result<Option<OutputRecord>> {
        let Some(text) = read_file(&self.outputs_of(instance).join(KEPT_FILE))? else {
            return Ok(None);
        };
        let kept: v1::KeptOutputs = serde_json::from_str(&text)?;
        OutputRecord::of_message(&kept).map(Some)
    }

    /// Removes the outputs of an instance: at once from where they are found, and later from the disk.
    pub(super) fn discard_outputs(&self, instance: InstanceId) -> anyhow::Result<()> {
        let directory = self.outputs_of(instance);
        linux::task::discard(&directory, &directory, &instance.to_string())?;
        Ok(())
    }

    /// How much the kept outputs of an instance take.
    fn measure_outputs(&self, instance: InstanceId) -> anyhow::Result<Used> {
        let mut measure = Measure::of(&self.outputs_of(instance))?;
        while !measure.advance(usize::MAX)? {}
        Ok(measure.used())
    }

    /// Why the outputs of an instance are not here.
    fn why_no_outputs(&self, instance: InstanceId) -> String {
        let room = self.outputs.room(&self.directory);
        let Some(deleted) = self.outputs.deleted.of(instance) else {
            return format!(
                "the machine has no outputs of it any more: they are kept for {} unless the job says \
                 otherwise (keepOutputs), and of all tasks at most {room}, of which the user with most loses \
                 the oldest",
                OutputPolicy::KEEP
            );
        };
        let why = match deleted.cause {
            Cause::Age(keep) => format!("outputs of the job are kept for {keep} (keepOutputs)"),
            Cause::Bytes(most) => format!(
                "the outputs of ended tasks on the machine had more than {most}, and the user had most of them"
            ),
            Cause::Instances(most) => {
                format!("the machine had the outputs of more than {most} ended tasks")
            }
            Cause::DiskIsFull => "the machine's disk was short of space".to_owned(),
            Cause::InPackage => {
                "they became a version of the package that the job names (bourg package list)"
                    .to_owned()
            }
        };
        format!("they were removed at {} UTC: {why}", shown(deleted.at))
    }
}
