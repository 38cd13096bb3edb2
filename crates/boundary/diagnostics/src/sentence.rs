//! The sentence for each rejection.

use cell::bounds::{
    CERTIFICATE_VALIDITY_MAX, CERTIFICATE_VALIDITY_MIN, DESCRIPTIONS_OF_A_JOB_BYTES_MAX,
    TOKEN_VALIDITY_MAX, TOKEN_VALIDITY_MIN,
};
use cell::{EndsWith, NotAdmitted, Rejection};
use spec::{AutoscaleProblem, ProblemKind};

use crate::permission::{Doing, Whoever};
use crate::{insufficient_quota, oversold, reason};

/// The sentence for a rejection. Where it names an object by its id, a view of the cell may have its name.
#[must_use]
pub fn sentence(rejection: &Rejection) -> String {
    match rejection {
        Rejection::NotBootstrapped => "the cell is not bootstrapped yet".to_owned(),
        Rejection::NeedsLevel { needs, is } => {
            format!("that needs a cell at level {needs}, and this one is at level {is}")
        }
        Rejection::NoSuchSession(session) => format!(
            "session {session} is not open (it expired or never existed): open a new one and \
             check what was done before you repeat a request"
        ),
        Rejection::ForeignSession { session, owner, by } => {
            format!("session {session} belongs to {owner}, not to {by}")
        }
        Rejection::AnswerForgotten { sequence } => format!(
            "request {sequence} is older than the answers kept for its session: look at the \
             state to see whether it was done"
        ),
        Rejection::InvalidDescription(path) => format!("the job description is not valid: {path}"),
        Rejection::NamesItself(field) => {
            let (field, why) = (reason::reference(*field), ProblemKind::NamesItself);
            format!("the job description is not valid: {field}: {why}")
        }
        Rejection::OwnLimit => {
            let why = AutoscaleProblem::OwnLimit;
            format!("the job description is not valid: autoscale.own: {why}")
        }
        Rejection::OutOfBounds(out) => reason::out_of_bounds(out),
        Rejection::Fixed { owner, name, fields } => {
            let fields: Vec<&str> = fields.iter().map(|field| field.as_str()).collect();
            let fields = fields.join(", ");
            format!(
                "{owner}/{name} is alive and differs in {fields}, which cannot change while it \
                 is: kill it first (bourg kill {owner}/{name})"
            )
        }
        Rejection::JobEnded { owner, name } => {
            format!("{owner}/{name} has ended: run it again (bourg run FILE)")
        }
        Rejection::ChangedMeanwhile { owner, name, seen, now, update } => {
            let what = reason::newer_update(update.as_ref());
            format!(
                "{owner}/{name} has changed meanwhile, from version {seen} to {now}: {what}; look \
                 at it (bourg update status {owner}/{name}) and decide again"
            )
        }
        Rejection::BeingKilled { owner, name } => format!(
            "{owner}/{name} is being killed, and its tasks are still stopping: wait for its \
             end (bourg status {owner}/{name}), and run it again (bourg run FILE)"
        ),
        Rejection::TaskBeingKilled { owner, name, index } => {
            format!("task {index} of {owner}/{name} is being killed: restart it when it has ended")
        }
        Rejection::InstanceEnded { owner, name, index } => {
            format!("{owner}/{name}/{index} has just ended or been restarted: try again")
        }
        Rejection::JobAlive { owner, name } => format!(
            "{owner}/{name} is alive, and no job of that name has ended: kill it first (bourg \
             kill {owner}/{name})"
        ),
        Rejection::EndsWith { owner, name, with, other } => {
            let with = match with {
                EndsWith::Parent => "parent",
                EndsWith::AllocSet => "alloc set",
            };
            format!("{owner}/{name} ends with its {with}, job {other}, which has ended")
        }
        Rejection::CannotControlUpdate { owner, name, action, why } => {
            let (action, why) = (action.name(), reason::update_hindrance(why));
            format!("cannot {action} the update of {owner}/{name}: {why}")
        }
        Rejection::VersionNotKept { owner, name, version } => format!(
            "version {version} of {owner}/{name} is not kept: look for it with bourg versions \
             {owner}/{name}"
        ),
        Rejection::VersionsTooLarge { owner, name, bytes } => format!(
            "the tasks of {owner}/{name} have too many versions of its description: with this \
             one it would have {bytes} bytes of them, and the maximum is \
             {DESCRIPTIONS_OF_A_JOB_BYTES_MAX}; wait until its update has ended (bourg update \
             status {owner}/{name}) and update all of its tasks, or undo it (bourg update undo \
             {owner}/{name})"
        ),
        Rejection::RestartDuringUpdate { owner, name, to, undoing: true } => format!(
            "the update of {owner}/{name} to version {to} is being undone: wait for it (bourg \
             update status {owner}/{name})"
        ),
        Rejection::RestartDuringUpdate { owner, name, to, undoing: false } => format!(
            "{owner}/{name} is being updated to version {to}: wait until that has succeeded, \
             or undo it (bourg update undo)"
        ),
        Rejection::RestartsAllocSet { owner, name } => {
            format!("{owner}/{name} is an alloc set, which runs no program: restart the jobs in it")
        }
        Rejection::NoTasks { owner, name } => {
            format!(
                "{owner}/{name} is an alloc set, which has at least 1 alloc: to end it, use bourg kill \
                 {owner}/{name}"
            )
        }
        Rejection::NotAutoscaled { owner, name } => format!(
            "the limits of {owner}/{name} are its user's: its description does not have \
             autoscale"
        ),
        Rejection::LimitOutOfBounds { owner, name, limit, bounds } => {
            format!("the limit {limit} is out of the bounds of {owner}/{name}: {bounds}")
        }
        Rejection::LimitsWait { owner, name, version, why } => {
            let why = reason::limits_hindrance(*why);
            format!(
                "the limits of {owner}/{name} do not change now: its update to version {version} \
                 {why}"
            )
        }
        Rejection::NotMovable { owner, name, index, why } => {
            format!("{owner}/{name}/{index} cannot be moved now: {}", reason::move_hindrance(*why))
        }
        Rejection::PriorityAboveAllocSet { job, priority, set_owner, set, most } => format!(
            "a task in an alloc has at most the priority of the alloc: {job} would have \
             {priority}, and {set_owner}/{set} has {most}; give it {most} or less, or raise \
             the priority of {set_owner}/{set} first (bourg update), and close that update \
             (bourg update close {set_owner}/{set})"
        ),
        Rejection::PriorityBelowJob { set_owner, set, priority, owner, job, has } => format!(
            "a task in an alloc has at most the priority of the alloc: {owner}/{job} runs in \
             {set_owner}/{set} with {has}, and {set_owner}/{set} would have {priority}; lower \
             the priority of {owner}/{job} first (bourg update)"
        ),
        Rejection::NotAnAllocSet { user, name } => {
            format!("allocSet names {user}/{name}, which is not an alloc set")
        }
        Rejection::AllocTooSmall { alloc, dimension, asked, used } => {
            let (asked, used) = (dimension.show(*asked), dimension.show(*used));
            format!(
                "alloc {alloc} would have {asked} of {dimension}, but the tasks in it use {used}: \
                 nothing was changed"
            )
        }
        Rejection::NoSuchReference { field, user, name, dead } => {
            let field = reason::reference(*field);
            let why = if *dead { "that job has ended" } else { "there is no such job" };
            format!("{field} names {user}/{name}, but {why}")
        }
        Rejection::PredecessorEnded { user, name } => format!(
            "after names {user}/{name}, which has ended without finishing: run that again \
             first"
        ),
        Rejection::PredecessorFinished { user, name } => format!(
            "after waits for {user}/{name} to fail, and it has finished: leave it out, or wait with when: 'ended'"
        ),
        Rejection::CounterpartsMissing { user, name, theirs, own } => format!(
            "after waits for each task of {user}/{name}, which has {theirs} tasks, and this job has {own}: give \
             both the same number, or wait for the whole job"
        ),
        Rejection::NoSuchMachine(machine) => format!("there is no machine {machine}"),
        Rejection::MachineInUse { machine, tasks } => format!(
            "machine {machine} still has tasks ({tasks}): drain it first (bourg machine drain \
             {machine}), and wait until they have left"
        ),
        Rejection::InvalidDrain { machine, why } => reason::drain(machine, *why),
        Rejection::Volume { machine, volume, why } => reason::volume(machine, volume, why),
        Rejection::NoDataKept { machine, instance } => format!(
            "machine {machine} keeps no data of instance {instance} any more: bourg saver \
             list shows what is kept"
        ),
        Rejection::BadText { what, most } => {
            let what = reason::text(*what);
            format!("{what} must be 1 to {most} characters, none of them a control character")
        }
        Rejection::NoSuchJob { user, name } => format!("there is no job {user}/{name}"),
        Rejection::NoSuchCollection(id) => format!("there is no job {id}"),
        Rejection::NoSuchTask { last } => format!("the job has tasks 0 to {last} only"),
        Rejection::NotAllowed { by, what, who } => {
            format!("{by} may not {}: {} may", Doing(what), Whoever(who))
        }
        Rejection::Full { what, has, most } => {
            let what = reason::countable(what);
            format!("the cell has {has} {what}, and the maximum is {most}")
        }
        Rejection::Shared { what, why } => {
            let (what, next) = reason::shareable(*what);
            format!("no more {what}: {why}; {next}")
        }
        Rejection::StaticPortOfMachines { port, number, range } => format!(
            "port {port} cannot have the static number {number}: the cell's machines give the ports {range} to \
             tasks that ask for one by its name alone; choose a number beyond that, or no number"
        ),
        Rejection::AddressTaken(machine) => format!("machine {machine} already has that address"),
        Rejection::RevokesOneself(user) => {
            format!("{user} cannot revoke {user}: another administrator can")
        }
        Rejection::LastAdministrator(user) => format!(
            "{user} is the last administrator of the cell whose certificates are accepted: \
             nobody would be left to administer it"
        ),
        Rejection::Validity(asked) => format!(
            "a certificate can be valid for {CERTIFICATE_VALIDITY_MIN} to \
             {CERTIFICATE_VALIDITY_MAX}, not for {asked}"
        ),
        Rejection::NotStopped => {
            "rescheduling is not stopped: there is nothing to resume".to_owned()
        }
        Rejection::Quota(short) => insufficient_quota(short, None),
        Rejection::Oversold(why) => oversold(why),
        Rejection::NoSuchGrant(grant) => {
            format!("there is no grant {grant}: look for it with bourg quota show")
        }
        Rejection::InvalidGrant(why) => reason::grant(*why).to_owned(),
        Rejection::NeverOversold(band) => reason::never_oversold(*band).to_owned(),
        Rejection::TokenExists(serial) => {
            format!("there is a join token with the number {serial}: make another")
        }
        Rejection::NoSuchToken(serial) => format!(
            "join token {serial} is unknown: it has expired, or the machine or replica it was \
             issued for was revoked or removed; ask an administrator for another (bourg \
             machine token NAME, bourg master token REPLICA)"
        ),
        Rejection::TokenExpired(machine) => format!(
            "the join token for machine {machine} has expired: ask an administrator for \
             another (bourg machine token {machine})"
        ),
        Rejection::TokenUsed(machine) => format!(
            "the join token for machine {machine} was already used with another key: if that \
             was not you, have the machine revoked (bourg machine revoke {machine}); ask an \
             administrator for another token (bourg machine token {machine})"
        ),
        Rejection::NotAdmitted { machine, token, why } => match why {
            NotAdmitted::Name if machine == token => format!(
                "the join token is for machines whose names begin with {token}: give the name of \
                 this one with --name"
            ),
            NotAdmitted::Name => format!(
                "the join token is for {token}, or for machines whose names begin with it, not for \
                 {machine}: give the machine's name with --name"
            ),
            NotAdmitted::Known => format!(
                "there is a machine {machine}, or its name is revoked, and this join token is for \
                 new machines: ask an administrator for a token of its own (bourg machine token \
                 {machine})"
            ),
            NotAdmitted::Spent { most } => format!(
                "the join token for machines {token}* has admitted {most} machines, as many as it \
                 may: ask an administrator for another (bourg machine token {token} --uses \
                 NUMBER)"
            ),
        },
        Rejection::ReplicaTokenUsed(replica) => format!(
            "the join token for replica {replica} was already used with another key: if that \
             was not you, whoever used it has the cell's authority; remove the replica (bourg \
             master remove {replica}) and add another (bourg master add)"
        ),
        Rejection::TokenValidity(asked) => format!(
            "a join token can be valid for {TOKEN_VALIDITY_MIN} to {TOKEN_VALIDITY_MAX}, not \
             for {asked}"
        ),
        Rejection::MachineRevoked(machine) => format!(
            "the certificates of machine {machine} are revoked: ask an administrator for a \
             join token (bourg machine token {machine})"
        ),
        Rejection::NoSuchReplica(replica) => {
            format!("there is no replica {replica}: look for it with bourg master list")
        }
        Rejection::ReplicaHasJoined(replica) => format!(
            "replica {replica} has joined already: where its directory is lost, remove it \
             (bourg master remove {replica}) and add another (bourg master add)"
        ),
        Rejection::ReplicaAddressTaken(replica) => {
            format!("replica {replica} already has that address")
        }
        Rejection::LastVoter(replica) => format!(
            "replica {replica} is the last remaining voter, and the cell cannot commit \
             anything without one: add another first (bourg master add), and wait until it \
             votes"
        ),
        Rejection::NoSuchFile(path) => format!("there is no file {path}"),
        Rejection::NoSuchLockSession(session) => format!(
            "lock session {session} is lost: its lease has passed, or it was closed; its \
             locks are released"
        ),
        Rejection::LockTaken { path, by, session, mode } => {
            format!("the lock of {path} is held by {by} ({mode}, session {session})")
        }
        Rejection::LockHeld { path, session, mode } => {
            format!("session {session} holds the lock of {path} {mode} already: release it first")
        }
        Rejection::LockNotHeld { path, session } => {
            format!("session {session} does not hold the lock of {path}")
        }
        Rejection::FileChanged { path, expected, now } => format!(
            "{path} has generation {now}, not {expected}: it has changed meanwhile (bourg \
             lock show {path})"
        ),
        Rejection::NoSuchService { user, name } => format!("there is no service {user}/{name}"),
        Rejection::InvalidService { owner, name, why } => reason::service(owner, name, *why),
        Rejection::NameOfJob { user, name } => format!(
            "{user}/{name} is a job, and {name}.{user} means that job in BNS and DNS: give \
             the service another name"
        ),
        Rejection::NameOfService { user, name } => format!(
            "{user}/{name} is a service, and {name}.{user} means that service in BNS and DNS: \
             give the job another name, or delete the service (bourg service delete {name})"
        ),
        Rejection::OnEveryMachine { owner, name } => format!(
            "{owner}/{name} has one task on every machine that its constraints match, and so many tasks as there are \
             such machines: change its constraints (bourg update), or give it a number of tasks and submit it anew"
        ),
        Rejection::GangTooLarge { tasks, limit, fits, machines } => {
            let tasks_s = if *tasks == 1 { "" } else { "s" };
            let (machines_s, hold) = if *machines == 1 { ("", "holds") } else { ("s", "hold") };
            format!(
                "the gang has {tasks} task{tasks_s} of {limit}, and {machines} machine{machines_s} that suit{} it {hold} \
                 {fits} in all, whatever else runs: give it fewer or smaller tasks, or add machines (bourg machines)",
                if *machines == 1 { "s" } else { "" },
            )
        }
        Rejection::NoSuchPackage { id } => {
            format!("there is no package {id} (bourg package list shows those that you may use)")
        }
        Rejection::InvalidPackage { id, why } => reason::package(id, *why),
        Rejection::PackageVersionExists { id, digest } => format!(
            "{id} exists with another content, {digest}: a version never changes; give the new content another \
             version"
        ),
        Rejection::PackageInUse { id, owner, job } => format!(
            "job {owner}/{job} uses {id}, or may go back to it: update or kill the job first (bourg update, bourg \
             kill {owner}/{job})"
        ),
        Rejection::NoSuchSecret { owner, name } => {
            format!("{owner} has no secret {name}: set it first (bourg secret set {name} < FILE)")
        }
        Rejection::SecretInUse { owner, name, job } => format!(
            "job {owner}/{job} names secret {name}, or may go back to it: update or kill the job first (bourg update, \
             bourg kill {job})"
        ),
        Rejection::StaleSequencer(sequencer) => {
            format!("sequencer {sequencer} is not valid any more: that holder has lost the lock")
        }
    }
}
