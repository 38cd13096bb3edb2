//! What users ask for.

use std::sync::Arc;

use cell::{
    AddMachine, AddReplica, AddUser, EndSaver, ExecEnd, ForgetJob, GrantQuota, IssueReplicaToken,
    IssueToken, Kill, MeterQuota, Mutation, Oversell, RecordBackup, RecordExec, RemoveMachine,
    RemoveReplica, ResumeRescheduling, RevokeMachine, RevokeQuota, RevokeUser, SetAttributes,
    SetCapability, SetLogs, SetNoticeMax, SetPacking, SetPlatform, SetQueuePolicy, SetQueueWeight,
    SetReclamation, UndrainMachine, UseCapability,
};
use model::{
    Address, CollectionId, Dimension, GrantId, LogIndex, MachineName, PoorestUser, QueueSettings,
    ReplicaId, Resources, ShareWeights, Span, Time, UserName,
};
use spec::LogSettings;

use crate::language::not_a_request;
use crate::words::{
    amount, band, mebibytes, no_such_option, not, number, option, seconds, serial, small_number,
    split, user, validity, value,
};
use crate::{ScriptError, job_spec, locks, packages, secrets, services, update, volumes};

fn queue_settings(on: &str, options: &[&str]) -> Result<QueueSettings, ScriptError> {
    let mut settings = QueueSettings { on: on_or_off(on)?, ..QueueSettings::default() };
    for text in options {
        if let Ok(poorest) = text.parse::<PoorestUser>() {
            settings.poorest = poorest;
            continue;
        }
        match option(text)? {
            ("half-life", span) => settings.half_life = Some(seconds(span)?),
            ("assumed", span) => settings.assumed_runtime = seconds(span)?,
            (key, _) => return Err(no_such_option(key, &["half-life", "assumed"])),
        }
    }
    Ok(settings)
}

fn share_weights(weights: &[&str]) -> Result<ShareWeights, ScriptError> {
    let mut all = ShareWeights::default();
    for text in weights {
        let (name, weight) = option(text)?;
        let dimension = match name {
            "cpu" => Dimension::Cpu,
            "ram" => Dimension::Ram,
            "disk" => Dimension::Disk,
            "disk-rate" => Dimension::DiskRate,
            _ => return Err(no_such_option(name, &["cpu", "ram", "disk", "disk-rate"])),
        };
        let weighed = all.with(dimension, small_number(weight)?);
        all = weighed.map_err(|_| not(weight, "a weight in thousandths"))?;
    }
    Ok(all)
}

/// Who asks for everything that is not about a job, unless the line says otherwise.
const ADMINISTRATOR: &str = "root";
const HOUR: Span = Span::from_secs(3_600);

/// A mutation, and who asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Who asks.
    pub by: UserName,
    /// For what.
    pub mutation: Mutation,
}

/// The request that a line stands for: `[as USER] COMMAND …`.
///
/// # Errors
/// With what is wrong with the line.
pub fn request(line: &str) -> Result<Request, ScriptError> {
    let words = split(line)?;
    request_of(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

pub(crate) fn request_of(words: &[&str]) -> Result<Request, ScriptError> {
    match words {
        ["as"] | ["as", _] => Err(ScriptError::Usage("as USER REQUEST")),
        ["as", by, words @ ..] => requested(Some(user(by)?), words),
        _ => requested(None, words),
    }
}

/// The request of a user, or of whoever usually asks for that.
fn requested(by: Option<UserName>, words: &[&str]) -> Result<Request, ScriptError> {
    match words {
        ["submit", address, tasks, options @ ..] => {
            let (owner, job) = match address.split_once('/') {
                Some((owner, job)) => (Some(user(owner)?), job),
                None => (None, *address),
            };
            let mutation =
                Mutation::Submit(Arc::new(job_spec(job, small_number(tasks)?, options)?));
            match (by, owner) {
                (Some(by), Some(owner)) if by != owner => {
                    Err(ScriptError::NotTheOwner { by, owner })
                }
                (Some(by), _) | (None, Some(by)) => Ok(Request { by, mutation }),
                (None, None) => Err(ScriptError::NoUser((*address).to_owned())),
            }
        }
        [word @ ("kill" | "kill-now"), address] => {
            let now = *word == "kill-now";
            let Address { user, job, tasks } = address.parse()?;
            let owner = user.or_else(|| by.clone());
            let owner = owner.ok_or_else(|| ScriptError::NoUser((*address).to_owned()))?;
            let by = by.unwrap_or_else(|| owner.clone());
            Ok(Request { by, mutation: Mutation::Kill(Kill { owner, job, tasks, now }) })
        }
        ["forget-job", address] => {
            let Address { user, job, .. } = address.parse()?;
            let owner = user.or_else(|| by.clone());
            let owner = owner.ok_or_else(|| ScriptError::NoUser((*address).to_owned()))?;
            let by = by.unwrap_or_else(|| owner.clone());
            Ok(Request { by, mutation: Mutation::ForgetJob(ForgetJob { owner, job }) })
        }
        words => {
            if let Some((by, mutation)) = update::request(by.as_ref(), words)? {
                return Ok(Request { by, mutation });
            }
            if let Some((owner, mutation)) = services::mutation(words)? {
                return Ok(Request { by: by.unwrap_or(owner), mutation });
            }
            if let Some((owner, mutation)) = packages::mutation(words)? {
                return Ok(Request { by: by.unwrap_or(owner), mutation });
            }
            if let Some((owner, mutation)) = secrets::mutation(words)? {
                return Ok(Request { by: by.unwrap_or(owner), mutation });
            }
            let mutation = match (locks::mutation(words)?, volumes::mutation(words)?) {
                (Some(mutation), _) | (None, Some(mutation)) => mutation,
                (None, None) => administration(words)?,
            };
            let by = by.map_or_else(|| user(ADMINISTRATOR), Ok)?;
            Ok(Request { by, mutation })
        }
    }
}

/// A mutation that names everything it needs.
fn administration(words: &[&str]) -> Result<Mutation, ScriptError> {
    Ok(match words {
        ["add", name, address] => {
            AddMachine { name: machine(name)?, address: (*address).to_owned() }.into()
        }
        ["drain", name, words @ ..] => update::drain(name, words)?,
        ["undrain", name] => UndrainMachine { machine: machine(name)? }.into(),
        ["remove", name] => RemoveMachine { machine: machine(name)?, force: false }.into(),
        ["remove", name, "force"] => RemoveMachine { machine: machine(name)?, force: true }.into(),
        ["say", name, changes @ ..] => {
            let change = |change: &&str| match change.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => ((*change).to_owned(), None),
            };
            let changes = changes.iter().map(change).collect();
            SetAttributes { machine: machine(name)?, changes }.into()
        }
        ["platform", platform, factor] => {
            SetPlatform { platform: (*platform).to_owned(), factor: factor.parse()? }.into()
        }
        ["logs", options @ ..] => SetLogs(log_settings(options)?).into(),
        ["notice-max", seconds] => SetNoticeMax(crate::words::seconds(seconds)?).into(),
        ["reclaim", setting] => {
            let setting = setting.parse().map_err(|_| not(setting, "a setting of reclamation"))?;
            SetReclamation(setting).into()
        }
        ["pack", policy] => {
            SetPacking(policy.parse().map_err(|_| not(policy, "a packing policy"))?).into()
        }
        ["resume"] => ResumeRescheduling.into(),
        ["backed-up", index] => RecordBackup { index: LogIndex(number(index)?) }.into(),
        ["certify", name, number, length @ ..] if length.len() <= 1 => AddUser {
            user: user(name)?,
            serial: serial(number)?,
            validity: validity(length, Span::from_secs(90 * 86_400))?,
        }
        .into(),
        ["revoke-user", name] => RevokeUser { user: user(name)? }.into(),
        ["grant", name, band, options @ ..] => grant(name, band, options)?.into(),
        ["revoke", id] => RevokeQuota { grant: GrantId(number(id)?) }.into(),
        ["oversell", name, percent] => {
            Oversell { band: band(name)?, percent: small_number(percent)? }.into()
        }
        ["queue", on, options @ ..] => SetQueuePolicy(queue_settings(on, options)?).into(),
        ["weight", name, weights @ ..] => {
            SetQueueWeight { user: user(name)?, weights: share_weights(weights)? }.into()
        }
        ["meter", on] => MeterQuota { on: on_or_off(on)? }.into(),
        [verb @ ("allow-to" | "forbid"), name, capability] => SetCapability {
            user: user(name)?,
            capability: capability.parse()?,
            granted: *verb == "allow-to",
        }
        .into(),
        ["use", capability, job] => UseCapability {
            capability: capability.parse()?,
            collection: CollectionId(number(job)?),
        }
        .into(),
        ["end-saver", machine_name, instance] => EndSaver {
            machine: machine(machine_name)?,
            instance: value(instance, "an instance such as 1-0-1")?,
        }
        .into(),
        ["exec", instance, command @ ..] if !command.is_empty() => RecordExec {
            instance: value(instance, "an instance such as 1-0-1")?,
            command: command.join(" "),
            end: None,
        }
        .into(),
        ["exec-ended", instance, length, status, command @ ..] if !command.is_empty() => {
            RecordExec {
                instance: value(instance, "an instance such as 1-0-1")?,
                command: command.join(" "),
                end: Some(ExecEnd {
                    took: seconds(length)?,
                    status: match *status {
                        "-" => None,
                        status => Some(value(status, "an exit status from 0 to 255, or -")?),
                    },
                }),
            }
            .into()
        }
        ["add-replica"] => AddReplica { address: String::new() }.into(),
        ["add-replica", address] => AddReplica { address: (*address).to_owned() }.into(),
        ["remove-replica", id] => RemoveReplica { replica: replica(id)? }.into(),
        ["token", name, number, length @ ..] if length.len() <= 1 => IssueToken {
            machine: machine(name)?,
            serial: serial(number)?,
            validity: validity(length, HOUR)?,
            most: None,
        }
        .into(),
        ["tokens", most, name, number, length @ ..] if length.len() <= 1 => IssueToken {
            machine: machine(name)?,
            serial: serial(number)?,
            validity: validity(length, HOUR)?,
            most: Some(small_number(most)?),
        }
        .into(),
        ["revoke-machine", name] => RevokeMachine { machine: machine(name)? }.into(),
        ["replica-token", id, number, length @ ..] if length.len() <= 1 => IssueReplicaToken {
            replica: replica(id)?,
            serial: serial(number)?,
            validity: validity(length, HOUR)?,
        }
        .into(),
        _ => return Err(not_a_request(words)),
    })
}

fn grant(name: &str, in_band: &str, options: &[&str]) -> Result<GrantQuota, ScriptError> {
    let (user, band) = (user(name)?, band(in_band)?);
    let mut grant =
        GrantQuota { user, band, amount: Resources::default(), from: None, until: None };
    for word in options {
        let (key, value) = option(word)?;
        match key {
            "from" => grant.from = Some(Time::ZERO + seconds(value)?),
            "until" => grant.until = Some(Time::ZERO + seconds(value)?),
            _ if amount(&mut grant.amount, key, value)? => {}
            _ => return Err(no_such_option(key, &["cpu", "ram", "disk", "from", "until"])),
        }
    }
    Ok(grant)
}

fn log_settings(options: &[&str]) -> Result<LogSettings, ScriptError> {
    let mut settings = LogSettings::default();
    for word in options {
        let (key, value) = option(word)?;
        match key {
            "keep" => settings.keep = seconds(value)?,
            "max" => settings.max = mebibytes(value)?,
            "machine" => settings.machine = Some(mebibytes(value)?),
            _ => return Err(no_such_option(key, &["keep", "max", "machine"])),
        }
    }
    Ok(settings)
}

fn on_or_off(word: &str) -> Result<bool, ScriptError> {
    match word {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(not(word, "on or off")),
    }
}

fn machine(word: &str) -> Result<MachineName, ScriptError> {
    Ok(MachineName::new(word)?)
}

fn replica(word: &str) -> Result<ReplicaId, ScriptError> {
    number(word).map(ReplicaId)
}
