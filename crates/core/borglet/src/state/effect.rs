//! What a Borglet has its shell do.

use model::{InstanceId, Resources, Span, Stamp, UserName};
use poll::{DesiredAlloc, Notice, VolumeDirectory};
use spec::{LogPolicy, LogSettings};

use super::{KeptData, Probe, Rule, SaverLaunch};
use crate::Launch;
use crate::health::CheckKind;
use crate::starvation::CpuCap;

/// An action for the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Write the stamp of the newest order to disk, before the effects that follow.
    PersistStamp(Stamp),
    /// Start an instance; [`Input::Started`], [`Input::Ended`], [`Input::UidTaken`] or
    /// [`Input::PortTaken`] must follow.
    Start(Box<Launch>),
    /// Write the notice for an instance, and then send SIGTERM. [`Input::NoticeFailed`] must follow if
    /// either fails.
    Terminate(InstanceId, Notice),
    /// Send SIGKILL to all of its processes.
    Kill(InstanceId),
    /// Log and count that a rule ended an instance; it is killed by another effect.
    NoteRule {
        /// The instance.
        instance: InstanceId,
        /// The rule.
        rule: Rule,
        /// Why it applied, with numbers.
        reason: String,
    },
    /// Check the health or the readiness of an instance; [`Input::Checked`] must follow, at the latest
    /// when the timeout has passed since its turn.
    Check {
        /// The instance.
        instance: InstanceId,
        /// Which of its checks.
        kind: CheckKind,
        /// Its owner: users share the checks that run at once.
        user: UserName,
        /// What to do.
        probe: Probe,
        /// The timeout.
        timeout: Span,
    },
    /// Apply another limit to a running instance and record it for later Borglets;
    /// [`Input::Resized`] must follow.
    Resize {
        /// The instance.
        instance: InstanceId,
        /// The new limit.
        limit: Resources,
    },
    /// Let the latency-sensitive tasks that share cores run on these CPUs only.
    ShareCpus(Vec<u32>),
    /// Change the cap of a greedy task ([`crate::starvation`]), which is not recorded: it ends with this
    /// process.
    CapCpu {
        /// The task.
        instance: InstanceId,
        /// The change, with its rule and numbers.
        cap: CpuCap,
    },
    /// Read the secrets and names of a running instance again, write its files anew, and send SIGHUP.
    ReadAgain(Box<Launch>),
    /// Delete an instance's record; its logs are kept for a while.
    Retire {
        /// The instance.
        instance: InstanceId,
        /// What its job says of its logs, if that has changed since its start.
        logs: Option<LogPolicy>,
    },
    /// Apply these settings to the logs of tasks that have ended.
    KeepLogs(LogSettings),
    /// Look at these volumes from time to time; [`Input::Volumes`] follows when something has changed.
    LookAtVolumes(Vec<VolumeDirectory>),
    /// Run a probe task; [`Input::Probed`] must follow.
    Probe,
    /// Create an alloc, or complete it; [`Input::AllocMade`] must follow.
    MakeAlloc(Box<DesiredAlloc>),
    /// Apply another limit to an alloc, as [`Effect::Resize`] does to a running instance.
    ResizeAlloc {
        /// The alloc.
        instance: InstanceId,
        /// The new limit of all its tasks together.
        limit: Resources,
    },
    /// Remove an empty alloc with its files; [`Input::AllocRemoved`] or [`Input::AllocStays`] must
    /// follow. If its data is to be saved, and its set has a saver, [`Input::Kept`] must follow too.
    RemoveAlloc {
        /// The alloc.
        instance: InstanceId,
        /// Whether its data is to be saved.
        save: bool,
    },
    /// Measure the data of an ended instance; [`Input::DataMeasured`] must follow if it is known.
    MeasureData(InstanceId),
    /// Record an attempt, and run a saver; [`Input::SaverEnded`] must follow.
    RunSaver(Box<SaverLaunch>),
    /// Kill a saver that runs.
    KillSaver(InstanceId),
    /// Record what became of data, and delete it.
    EndData(Box<KeptData>),
    /// Delete the record of data that is gone.
    ForgetData(InstanceId),
}
