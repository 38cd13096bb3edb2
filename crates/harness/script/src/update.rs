//! Updates and drains.

use std::sync::Arc;

use cell::{
    ControlUpdate, DrainMachine, MoveReason, MoveTask, Mutation, Op, ResizeJob, RestartJob,
    SetLimits, SkipReason, UpdateAction, UpdateFailure, UpdateJob, UpdateStep,
};
use model::{
    Address, Bytes, CollectionId, LockSessionId, MachineName, MilliCores, TaskId, TaskIndex, Time,
    UserName, Version,
};

use spec::CpuRam;

use crate::packages::files;
use crate::policy::{POLICY, policy};
use crate::words::{no_such_option, not, number, option, seconds, small_number, value};
use crate::{ScriptError, job_spec};

/// The owner, the job and its tasks in an address; who asks is the owner, unless the line says.
fn addressed(
    by: Option<&UserName>,
    text: &str,
) -> Result<(UserName, UserName, Address), ScriptError> {
    let address: Address = text.parse()?;
    let owner = address.user.clone().or_else(|| by.cloned());
    let owner = owner.ok_or_else(|| ScriptError::NoUser(text.to_owned()))?;
    Ok((by.cloned().unwrap_or_else(|| owner.clone()), owner, address))
}

/// A request about an update, if the words say that: who asks, and for what.
pub(crate) fn request(
    by: Option<&UserName>,
    words: &[&str],
) -> Result<Option<(UserName, Mutation)>, ScriptError> {
    Ok(Some(match words {
        ["update", address, tasks, options @ ..] => {
            let (by, owner, Address { job, tasks: chosen, .. }) = addressed(by, address)?;
            let (mut expected, mut of_job, mut own) = (None, Vec::new(), None);
            for word in options {
                let (key, text) = option(word)?;
                let mut changed = own.unwrap_or_default();
                if key == "expected" {
                    expected = Some(Version(small_number(text)?));
                } else if POLICY.contains(&key) && policy(&mut changed, key, text)? {
                    own = Some(changed);
                } else {
                    of_job.push(*word);
                }
            }
            let spec = Arc::new(job_spec(job.as_str(), small_number(tasks)?, &of_job)?);
            (by, UpdateJob { owner, spec, tasks: chosen, policy: own, expected }.into())
        }
        ["resize", address, tasks] => {
            let (by, owner, Address { job, .. }) = addressed(by, address)?;
            (by, ResizeJob { owner, job, tasks: small_number(tasks)?, expected: None }.into())
        }
        ["restart", address, options @ ..] => {
            let (by, owner, Address { job, tasks, .. }) = addressed(by, address)?;
            let (mut failed, mut batch) = (false, None);
            for word in options {
                match word.strip_prefix("batch=") {
                    Some(size) => batch = Some(small_number(size)?),
                    None if *word == "failed" => failed = true,
                    None => return Err(not(word, "failed or batch=N")),
                }
            }
            (by, RestartJob { owner, job, tasks, failed, batch }.into())
        }
        ["move", instance, to, why @ ..] => {
            let why = match why {
                [] => MoveReason::Empties,
                ["for", task] => {
                    MoveReason::Fits { task: value(task, "an instance such as 1-0-1")? }
                }
                _ => return Err(not(&why.join(" "), "nothing, or for INSTANCE")),
            };
            let instance = value(instance, "an instance such as 1-0-1")?;
            let by = by.cloned().map_or_else(|| UserName::new("root"), Ok)?;
            let (to, sequencer) = (MachineName::new(to)?, None);
            (by, MoveTask { instance, to, why, sequencer }.into())
        }
        ["limits", address, cpu, ram, options @ ..] => {
            let (by, owner, Address { job, .. }) = addressed(by, address)?;
            let limit = CpuRam {
                cpu: MilliCores(number(cpu)?),
                ram: Bytes(number(ram)?.saturating_mul(1 << 20)),
            };
            let (mut expected, mut reason) = (None, Vec::new());
            for word in options {
                match word.strip_prefix("expected=") {
                    Some(version) => expected = Some(Version(small_number(version)?)),
                    None => reason.push(*word),
                }
            }
            let (reason, sequencer) = (reason.join(" "), None);
            (by, SetLimits { owner, job, limit, reason, expected, sequencer }.into())
        }
        ["control", action, address, to @ ..]
            if to.first().is_some_and(|to| to.starts_with("to=")) =>
        {
            let (by, owner, Address { job, .. }) = addressed(by, address)?;
            if *action != UpdateAction::Undo.name() || to.len() > 1 {
                return Err(not(action, "undo, which alone goes to a version"));
            }
            let to = Some(Version(small_number(&to[0][3..])?));
            let action = UpdateAction::Undo;
            (by, ControlUpdate { owner, job, action, to, expected: None }.into())
        }
        ["control", action, address, expected @ ..] if expected.len() <= 1 => {
            let (by, owner, Address { job, .. }) = addressed(by, address)?;
            let all = [
                UpdateAction::Pause,
                UpdateAction::Resume,
                UpdateAction::Undo,
                UpdateAction::Close,
            ];
            let found = all.into_iter().find(|other| other.name() == *action);
            let action = found.ok_or_else(|| not(action, "pause, resume, undo or close"))?;
            let expected = expected.first().map(|word| small_number(word).map(Version));
            let expected = expected.transpose()?;
            (by, ControlUpdate { owner, job, action, to: None, expected }.into())
        }
        _ => return Ok(None),
    }))
}

/// `drain MACHINE [by=SECONDS] [force] [REASON]`.
pub(crate) fn drain(name: &str, words: &[&str]) -> Result<Mutation, ScriptError> {
    let mut drain = DrainMachine::of(MachineName::new(name)?, "");
    let mut words = words;
    loop {
        match words {
            ["force", rest @ ..] => (drain.force, words) = (true, rest),
            [word, rest @ ..] if word.starts_with("by=") => {
                drain.deadline = Some(Time::ZERO + seconds(&word[3..])?);
                words = rest;
            }
            reason => {
                drain.reason = reason.join(" ");
                return Ok(drain.into());
            }
        }
    }
}

/// A step of an update, of a drain, or of replacements, if the words say that.
pub(crate) fn op(
    machine: impl Fn(&str) -> Result<model::MachineId, ScriptError>,
    words: &[&str],
) -> Result<Option<Op>, ScriptError> {
    let job = |word: &str| number(word).map(CollectionId);
    Ok(Some(match words {
        ["step", id, version, steps @ ..] => Op::StepUpdate {
            job: job(id)?,
            version: Version(small_number(version)?),
            steps: steps.iter().map(|word| step(word)).collect::<Result<_, _>>()?,
        },
        ["evict", name, instances @ ..] => {
            let instance = |word: &&str| value(word, "an instance such as 1-0-1");
            let instances = instances.iter().map(instance).collect::<Result<_, _>>()?;
            Op::EvictDraining { machine: machine(name)?, instances }
        }
        ["relieve", name, instance] => Op::RelieveMachine {
            machine: machine(name)?,
            instance: value(instance, "an instance such as 1-0-1")?,
        },
        ["elsewhere", job, index] => {
            let (collection, index) = (CollectionId(number(job)?), TaskIndex(small_number(index)?));
            Op::SendElsewhere { tasks: vec![TaskId { collection, index }] }
        }
        ["tell-inputs", id] => Op::TellInputs { job: job(id)? },
        ["read-secrets", name, instance] => Op::ReadSecrets {
            machine: value(name, "a machine")?,
            instance: value(instance, "an instance such as 1-0-1")?,
        },
        ["add-outputs", name, instance, id, content, mebibytes] => Op::AddOutputs {
            machine: value(name, "a machine")?,
            instance: value(instance, "an instance such as 1-0-1")?,
            package: Arc::new(files(id, content, mebibytes)?),
        },
        ["expire", name] => Op::ExpireDrain { machine: machine(name)? },
        ["expire-locks", sessions @ ..] => {
            let sessions = sessions.iter().map(|id| number(id).map(LockSessionId));
            Op::ExpireLockSessions { sessions: sessions.collect::<Result<_, _>>()? }
        }
        ["replace", id] => Op::StartReplacement { job: job(id)? },
        ["unreplace", id] => Op::RemoveReplacements { job: job(id)? },
        _ => return Ok(None),
    }))
}

/// `change=0`, `passed=0`, `skip=0`, `fail=1-0-2`, `finish`, `close`.
fn step(word: &str) -> Result<UpdateStep, ScriptError> {
    match word {
        "finish" => return Ok(UpdateStep::Finish),
        "close" => return Ok(UpdateStep::Close),
        _ => {}
    }
    let (key, text) = option(word)?;
    let index = || small_number(text).map(TaskIndex);
    Ok(match key {
        "change" => UpdateStep::Change(index()?),
        "passed" => UpdateStep::Passed(index()?),
        "skip" => UpdateStep::Skip(index()?, SkipReason::Disruptions),
        "fail" => {
            let instance = value(text, "an instance such as 1-0-1")?;
            UpdateStep::Fail(UpdateFailure { instance, end: None })
        }
        _ => return Err(no_such_option(key, &["change", "passed", "skip", "fail"])),
    })
}
