//! The data of ended tasks and allocs, until their savers have succeeded: one directory for each
//! instance, beside those of tasks. Crate `borglet` decides when a saver runs, and when data is
//! given up.
//!
//! ```text
//! savers/INSTANCE/kept.json   what is known about it; written before the data is moved here
//! savers/INSTANCE/data        the home directory of the task, or the shared one of the alloc
//! savers/INSTANCE/attempt     the task directory of the last attempt
//! ```

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use api::{Malformed, duration, read as field, v1};
use borglet::{KeptData, RecoveredAttempt, RecoveredData, SaverLaunch};
use linux::cgroup::{Limits, Sharing};
use linux::record::{self, Bind, ExitReason, Jail, Rotation};
use linux::task::{Inspection, TaskDirectory};
use linux::tree::{Measure, Used};
use model::{Bytes, InstanceId, Time};

use super::tasks::{Files, read, write};

/// What is known about kept data.
const KEPT_FILE: &str = "kept.json";
/// The data.
const DATA_DIRECTORY: &str = "data";
/// The task directory of the last attempt.
const ATTEMPT: &str = "attempt";
/// Where a saver sees the data, which is also its working directory.
const DATA_IN_JAIL: &str = "/home/task";

/// A saver runs below the batch tasks, so it needs nothing more.
const SHARING: Sharing = Sharing { batch: false, cpus: Vec::new(), disk_rate: None };
/// The limits of a saver, whatever its task's were: 0.1 cores, 64 MiB and 128 processes.
const LIMITS: Limits = Limits {
    cpu_milli: 100,
    cpu_hard_cap: false,
    memory_bytes: 64 << 20,
    pids_max: 128,
    sharing: SHARING,
};
/// The kernel kills a saver after the tasks of the lowest bands, and before production.
const OOM_SCORE_ADJ: u16 = 500;
/// Its `/tmp` counts as its memory.
const TMP_BYTES_MAX: u64 = 16 << 20;
/// Its output, of which the last line is told if it fails.
const ROTATION: Rotation = Rotation { file_bytes_max: 64 << 10, files_max: 1 };
/// The longest last line that is told, in bytes.
const LINE_BYTES_MAX: u64 = 200;
/// How long a saver has from SIGTERM to SIGKILL; it is killed at once.
const NOTICE_MS: u64 = 0;
/// The maximum of all kept data, and its maximum fraction of a small disk.
const BYTES_MAX: u64 = 10 << 30;
const BYTES_PART: u64 = 10;

/// The maximum of all kept data on the disk of a directory.
pub(super) fn room(directory: &Path) -> Bytes {
    let disk = nix::sys::statvfs::statvfs(directory).ok();
    let part = disk.map(|disk| disk.blocks().saturating_mul(disk.fragment_size()) / BYTES_PART);
    Bytes(part.map_or(BYTES_MAX, |part| part.min(BYTES_MAX)))
}

impl Files {
    pub(super) fn savers(&self) -> PathBuf {
        self.directory.join("savers")
    }

    fn saver(&self, instance: InstanceId) -> PathBuf {
        self.savers().join(instance.to_string())
    }

    /// The attempt that runs, or ran last; it need not exist.
    pub(crate) fn attempt(&self, instance: InstanceId) -> anyhow::Result<TaskDirectory> {
        Ok(TaskDirectory::open(&self.saver(instance), ATTEMPT)?)
    }

    /// Moves the data of an ended instance to where its saver finds it. Repeats what an earlier
    /// Borglet had begun. Returns what is kept; `None` if there is nothing, or it was kept before.
    pub(super) fn keep(&self, data: &Path, kept: KeptData) -> anyhow::Result<Option<KeptData>> {
        let directory = self.saver(kept.instance);
        if !data.exists() {
            return Ok(None);
        }
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        made.with_context(|| format!("cannot create {}", directory.display()))?;
        let kept = match self.read_kept(kept.instance)? {
            // Its time runs since then.
            Some(known) => known,
            None => {
                self.write_kept(&kept)?;
                kept
            }
        };
        let to = directory.join(DATA_DIRECTORY);
        fs::rename(data, &to).with_context(|| format!("cannot move it to {}", to.display()))?;
        fs::File::open(&directory)?.sync_all()?;
        fs::File::open(self.savers())?.sync_all()?;
        Ok(Some(kept))
    }

    fn read_kept(&self, instance: InstanceId) -> anyhow::Result<Option<KeptData>> {
        let Some(text) = read(&self.saver(instance).join(KEPT_FILE))? else { return Ok(None) };
        let kept: v1::KeptData = serde_json::from_str(&text)?;
        Ok(Some(of_record(kept)?))
    }

    fn write_kept(&self, kept: &KeptData) -> anyhow::Result<()> {
        let text = serde_json::to_string(&record_of(kept))?;
        write(&self.saver(kept.instance), KEPT_FILE, &text)
    }

    /// The size of kept data.
    pub(super) fn measure_data(&self, instance: InstanceId) -> anyhow::Result<Bytes> {
        let mut measure = Measure::of(&self.saver(instance).join(DATA_DIRECTORY))?;
        while !measure.advance(usize::MAX)? {}
        let Used { bytes, .. } = measure.used();
        Ok(Bytes(bytes))
    }

    /// Records an attempt, and prepares its directory and its launch record.
    pub(super) fn prepare_saver(
        &self,
        launch: &SaverLaunch,
    ) -> anyhow::Result<(TaskDirectory, record::Launch)> {
        let SaverLaunch { kept, uid } = launch;
        self.write_kept(kept)?;
        let attempt = self.attempt(kept.instance)?;
        attempt.remove()?;
        TaskDirectory::create(&self.saver(kept.instance), ATTEMPT)?;
        let mut jail = Jail::host(self.executable().to_owned());
        jail.binds.push(Bind {
            source: self.saver(kept.instance).join(DATA_DIRECTORY),
            target: DATA_IN_JAIL.into(),
            writable: true,
        });
        let launch = record::Launch {
            label: format!("saver of {} generation {}", kept.name, kept.instance.generation),
            argv: kept.argv.clone(),
            env: kept.env.clone(),
            isolation: self.isolation,
            uid: *uid,
            gid: *uid,
            hostname: "saver".to_owned(),
            cgroup: self.cgroup_of_saver(kept.instance),
            in_alloc: false,
            oom_score_adj: OOM_SCORE_ADJ,
            limits: LIMITS,
            log: ROTATION,
            tmp_bytes_max: TMP_BYTES_MAX,
            scratch_bytes_max: None,
            notice_ms: NOTICE_MS,
            stop_signal: None,
            working_directory: None,
            jail,
            network: None,
            capabilities: Vec::new(),
            secret_env: Vec::new(),
            bindable_ports: self.bindable([]),
        };
        Ok((attempt, launch))
    }

    /// The end of an attempt; `None` while it runs. Makes sure that nothing of it is left.
    pub(super) fn saver_end(
        &self,
        instance: InstanceId,
    ) -> anyhow::Result<Option<Result<(), String>>> {
        let attempt = self.attempt(instance)?;
        let exit = match attempt.inspect()? {
            Inspection::Starting | Inspection::Running(_) => return Ok(None),
            Inspection::Ended(exit) => exit,
            Inspection::Lost { .. } => {
                attempt.kill()?;
                return Ok(Some(Err("how it ended is not known".to_owned())));
            }
        };
        let how = match exit.reason {
            ExitReason::Exited { code: 0 } => return Ok(Some(Ok(()))),
            ExitReason::Exited { code } => format!("exit code {code}"),
            ExitReason::Signalled { signal } => format!("signal {signal}"),
            ExitReason::OutOfMemory { .. } => {
                format!("it used more than {} of memory", Bytes(LIMITS.memory_bytes))
            }
            ExitReason::MachineOutOfMemory { .. } => "its machine had no memory left".to_owned(),
            ExitReason::NotStarted { reason } | ExitReason::NotSetUp { reason } => {
                format!("not started: {reason}")
            }
        };
        let said = last_line(&attempt.path().join(record::LOG_DIRECTORY));
        Ok(Some(Err(said.map_or(how.clone(), |said| format!("{how}: {said}")))))
    }

    /// Records what became of data, and deletes the data.
    pub(super) fn end_data(&self, kept: &KeptData) -> anyhow::Result<()> {
        self.write_kept(kept)?;
        self.discard_data(kept.instance)?;
        Ok(self.attempt(kept.instance)?.remove()?)
    }

    /// Deletes the record of data that is gone.
    pub(super) fn forget_data(&self, instance: InstanceId) -> anyhow::Result<()> {
        let directory = self.saver(instance);
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", directory.display()))
            }
            _ => Ok(()),
        }
    }

    fn discard_data(&self, instance: InstanceId) -> anyhow::Result<()> {
        let data = self.saver(instance).join(DATA_DIRECTORY);
        // Renamed beside the directories of tasks, it is deleted like theirs.
        let name = format!("{instance}-data");
        linux::task::discard(&data, &self.tasks().join(instance.to_string()), &name)?;
        Ok(())
    }

    /// What earlier Borglets kept.
    pub(super) fn recover_data(&self) -> anyhow::Result<Vec<RecoveredData>> {
        let mut found = Vec::new();
        let savers = self.savers();
        if !savers.exists() {
            return Ok(found);
        }
        for name in linux::task::scan(&savers)? {
            let Ok(instance) = name.parse::<InstanceId>() else {
                tracing::warn!("{} is not the data of an instance", name.escape_debug());
                continue;
            };
            match self.recover_one_data(instance) {
                Ok(recovered) => found.extend(recovered),
                Err(error) => tracing::error!("cannot keep the data of {instance}: {error:#}"),
            }
        }
        Ok(found)
    }

    fn recover_one_data(&self, instance: InstanceId) -> anyhow::Result<Option<RecoveredData>> {
        let Some(kept) = self.read_kept(instance)? else {
            // The Borglet died after creating the directory.
            self.forget_data(instance)?;
            return Ok(None);
        };
        if kept.outcome.is_some() {
            self.discard_data(instance)?;
            return Ok(Some(RecoveredData { kept, attempt: RecoveredAttempt::None }));
        }
        if !self.saver(instance).join(DATA_DIRECTORY).exists() {
            // It died before it moved the data: that is done with the recovery of the instance.
            self.forget_data(instance)?;
            return Ok(None);
        }
        let attempt = match self.attempt(instance)?.path().exists() {
            false => RecoveredAttempt::None,
            true => match self.saver_end(instance) {
                Ok(None) => RecoveredAttempt::Running { uid: self.uid_of_attempt(instance)? },
                Ok(Some(ended)) => RecoveredAttempt::Ended(ended),
                Err(error) => RecoveredAttempt::Ended(Err(format!("{error:#}"))),
            },
        };
        Ok(Some(RecoveredData { kept, attempt }))
    }

    /// The user id of an attempt that runs. Not that of the data: an alloc's has none.
    fn uid_of_attempt(&self, instance: InstanceId) -> anyhow::Result<u32> {
        let attempt = self.attempt(instance)?;
        let launch = record::Launch::read(attempt.path())?;
        Ok(launch.context("its attempt runs without a launch record")?.uid)
    }

    /// Kills every saver that runs, when the tasks of this machine end with the Borglet.
    pub(super) fn sweep_savers(&self) -> anyhow::Result<()> {
        let savers = self.savers();
        if !savers.exists() {
            return Ok(());
        }
        for name in linux::task::scan(&savers)? {
            for (_, why) in linux::task::sweep(&savers.join(&name), NOTICE_MS)?.failed {
                tracing::error!("cannot end the saver of {name}: {why}");
            }
        }
        Ok(())
    }
}

/// The last line that a saver wrote to its standard error, if it wrote one.
fn last_line(logs: &Path) -> Option<String> {
    let entries = fs::read_dir(logs).ok()?.flatten();
    let name = |entry: fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        (name.starts_with("stderr.") && !name.ends_with(".times")).then(|| entry.path())
    };
    let mut file = fs::File::open(entries.filter_map(name).max()?).ok()?;
    let bytes = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(bytes.saturating_sub(LINE_BYTES_MAX))).ok()?;
    let mut end = Vec::new();
    file.take(LINE_BYTES_MAX).read_to_end(&mut end).ok()?;
    let end = String::from_utf8_lossy(&end).into_owned();
    let line = end.trim_end().lines().last()?.trim();
    (!line.is_empty()).then(|| line.chars().filter(|c| !c.is_control()).collect())
}

/// The record of kept data.
fn record_of(kept: &KeptData) -> v1::KeptData {
    let variable = |(name, value): &(String, String)| v1::kept_data::Variable {
        name: name.clone(),
        value: value.clone(),
    };
    v1::KeptData {
        instance: Some(kept.instance.into()),
        name: kept.name.clone(),
        argv: kept.argv.clone(),
        env: kept.env.iter().map(variable).collect(),
        uid: kept.uid,
        since: kept.since.0,
        until: kept.until.0,
        interval: Some(duration(kept.interval)),
        attempts: kept.attempts,
        outcome: kept.outcome.as_ref().map(Into::into),
        user: kept.user.to_string(),
    }
}

/// The kept data of a record.
fn of_record(kept: v1::KeptData) -> Result<KeptData, Malformed> {
    Ok(KeptData {
        instance: field::message(kept.instance, "instance")?,
        user: field::name(&kept.user, "user")?,
        name: kept.name,
        argv: kept.argv,
        env: kept.env.into_iter().map(|variable| (variable.name, variable.value)).collect(),
        uid: kept.uid,
        since: Time(kept.since),
        until: Time(kept.until),
        interval: field::span(kept.interval, "interval")?,
        attempts: kept.attempts,
        outcome: field::optional(kept.outcome, "outcome")?,
    })
}
