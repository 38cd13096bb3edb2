//! The parts of sentences for the data of rejections.

use cell::bounds::{
    ATTRIBUTE_CHANGES_MAX, FILE_BYTES_MAX, GRANT_AMOUNT_MAX, LOCK_LEASE_MAX, LOCK_LEASE_MIN,
    NOTICE_MAX, OVERSELL_PERCENT_MAX, READERS_OF_A_PACKAGE_MAX, SEALED_BYTES_MAX, TOKEN_USES_MAX,
    USERS_OF_A_SERVICE_MAX,
};
use cell::{
    Countable, DrainProblem, GrantProblem, LimitsHindrance, MoveHindrance, NewerUpdate,
    NewerUpdateState, OutOfBounds, PackageProblem, ReferenceField, ServiceProblem, Shareable,
    TextField, UpdateHindrance, VolumeHindrance,
};
use model::{
    Band, JobName, MachineName, PACKAGE_ARCHITECTURES_MAX, PackageId, QueueSettings, UserName,
    VolumeName,
};
use spec::{LogSettingsProblem, limits};

pub(crate) fn text(field: TextField) -> &'static str {
    match field {
        TextField::MachineAddress => "a machine's address",
        TextField::ReplicaAddress => "a replica's address",
        TextField::Platform => "a platform",
        TextField::Reason => "a reason",
        TextField::Command => "a command",
        TextField::AttributeName => "an attribute's name",
        TextField::AttributeValue => "an attribute's value",
        TextField::ServiceLabels => "the labels of a service",
    }
}

pub(crate) fn countable(what: &Countable) -> String {
    match what {
        Countable::JobIds => "job ids".to_owned(),
        Countable::MachineIds => "machine ids".to_owned(),
        Countable::ReplicaIds => "replica ids".to_owned(),
        Countable::SessionIds => "session ids".to_owned(),
        Countable::LockSessionIds => "lock session ids".to_owned(),
        Countable::GrantIds => "grant ids".to_owned(),
        Countable::Machines => "machines".to_owned(),
        Countable::AttributesOf(machine) => format!("attributes of {machine}"),
        Countable::VolumesOf(machine) => format!("volumes of {machine}"),
        Countable::Platforms => "platforms".to_owned(),
        Countable::Replicas => "replicas".to_owned(),
        Countable::Users => "users".to_owned(),
        Countable::CertificatesOf(user) => format!("certificates of {user} that have not expired"),
        Countable::CapabilityHolders => "users with capabilities".to_owned(),
        Countable::RevokedMachines => "revoked names that no machine has".to_owned(),
        Countable::JoinTokens => "join tokens".to_owned(),
        Countable::Grants => "grants".to_owned(),
        Countable::GrantsOf(user) => format!("grants of {user}"),
        Countable::ServicesOf(user) => format!("services of {user}"),
        Countable::SecretsOf(user) => format!("secrets of {user}"),
        Countable::PackagesOf(user) => format!("versions of packages of {user}"),
        Countable::HoldersOf(path) => format!("holders of the lock of {path}"),
        Countable::LocksOf(session) => format!("locks and ephemeral files of session {session}"),
    }
}

/// What is shared, and what a user does who needs more of it.
pub(crate) fn shareable(what: Shareable) -> (&'static str, &'static str) {
    match what {
        Shareable::Tasks => (
            "tasks in the cell, dead ones included",
            "forget jobs that have ended (bourg forget JOB), or kill some first",
        ),
        Shareable::WaitingTasks => (
            "tasks that wait for a machine or for other jobs",
            "wait until more of them run, or kill some (bourg kill JOB)",
        ),
        Shareable::DescriptionBytes => (
            "bytes of job descriptions",
            "forget jobs that have ended (bourg forget JOB), or make the descriptions smaller",
        ),
        Shareable::Files => {
            ("files", "delete some first (bourg lock list, bourg lock delete PATH)")
        }
        Shareable::FileBytes => {
            ("bytes of files", "delete some first (bourg lock list, bourg lock delete PATH)")
        }
        Shareable::BareLocks => ("locks of files without a content", "release some first"),
        Shareable::Services => ("services", "delete some first (bourg service delete NAME)"),
        Shareable::EveryMachineJobs => {
            ("jobs with one task on every machine", "kill some first (bourg kill JOB)")
        }
        Shareable::Packages => {
            ("versions of packages", "delete some first (bourg package rm NAME@VERSION)")
        }
        Shareable::PackageBytes => {
            ("bytes of packages", "delete some first (bourg package rm NAME@VERSION)")
        }
        Shareable::Secrets => ("secrets", "delete some first (bourg secret rm NAME)"),
        Shareable::SecretBytes => ("bytes of secrets", "delete some first (bourg secret rm NAME)"),
        Shareable::LockSessions => {
            ("lock sessions", "close some first, or wait until their leases end")
        }
    }
}

pub(crate) fn out_of_bounds(out: &OutOfBounds) -> String {
    match out {
        OutOfBounds::Notice(asked) => format!("a notice of {asked}: the maximum is {NOTICE_MAX}"),
        OutOfBounds::QueueTime(asked) => {
            let (least, most) = QueueSettings::SPANS.into_inner();
            format!("a half-life and an assumed runtime are from {least} to {most}, not {asked}")
        }
        OutOfBounds::Batch(asked) => {
            format!("a batch has 1 to {} tasks, not {asked}", limits::TASKS_MAX)
        }
        OutOfBounds::TokenUses(asked) => {
            format!("a join token admits 1 to {TOKEN_USES_MAX} machines, not {asked}")
        }
        OutOfBounds::Tasks(asked) => {
            format!("a job has at most {} tasks, not {asked}", limits::TASKS_MAX)
        }
        OutOfBounds::OversellPercent(asked) => format!(
            "a band can be granted up to 1 to {OVERSELL_PERCENT_MAX} % of the capacity, not {asked} %"
        ),
        OutOfBounds::LockLease(asked) => format!(
            "the lease of a lock session is {LOCK_LEASE_MIN} to {LOCK_LEASE_MAX}, not {asked}"
        ),
        OutOfBounds::SealedBytes(asked) => format!(
            "a secret has at most {} bytes, not {}",
            SEALED_BYTES_MAX.saturating_sub(16),
            asked.saturating_sub(16)
        ),
        OutOfBounds::FileBytes(asked) => format!(
            "the content of a file has at most {FILE_BYTES_MAX} bytes, this one has {asked}"
        ),
        OutOfBounds::Attributes { machine, number } => format!(
            "{number} attributes of {machine} in one request: the maximum is {ATTRIBUTE_CHANGES_MAX}"
        ),
        OutOfBounds::GrantAmount(dimension) => {
            let most = dimension.show(GRANT_AMOUNT_MAX.get(*dimension));
            format!("a grant can be at most {most} of {dimension}")
        }
        OutOfBounds::LogKeep(asked) => LogSettingsProblem::Keep(*asked).to_string(),
        OutOfBounds::LogBytes(asked) => LogSettingsProblem::Task(*asked).to_string(),
        OutOfBounds::LogBytesOnMachine(asked) => LogSettingsProblem::Machine(*asked).to_string(),
    }
}

pub(crate) fn reference(field: ReferenceField) -> &'static str {
    match field {
        ReferenceField::After => "after",
        ReferenceField::Parent => "parent",
        ReferenceField::AllocSet => "allocSet",
    }
}

/// Who did what to a job meanwhile; empty if nothing is known.
pub(crate) fn newer_update(update: Option<&NewerUpdate>) -> String {
    let Some(NewerUpdate { by, to, state }) = update else { return String::new() };
    let state = match state {
        NewerUpdateState::Rolling => "which is rolling",
        NewerUpdateState::Paused => "which is paused",
        NewerUpdateState::Succeeded => "which has succeeded",
        NewerUpdateState::Undoing => "which is being undone",
        NewerUpdateState::Undone => "which was undone",
        NewerUpdateState::Closed => "which is closed",
    };
    format!("{by} opened the update to version {to}, {state}")
}

pub(crate) fn update_hindrance(why: &UpdateHindrance) -> String {
    let whom = |by: &Option<UserName>| {
        by.as_ref().map_or_else(|| "because it failed".to_owned(), |by| format!("by {by}"))
    };
    match why {
        UpdateHindrance::NoUpdate => {
            "it has not been updated (bourg update FILE opens an update)".to_owned()
        }
        UpdateHindrance::Closed => {
            "it is closed; open another update with the old description".to_owned()
        }
        UpdateHindrance::Undone { by } => format!("it was undone {}: open another one", whom(by)),
        UpdateHindrance::Undoing { by } => format!("it is being undone {}", whom(by)),
        UpdateHindrance::Paused { by } => format!("it was paused already {}", whom(by)),
        UpdateHindrance::Succeeded => "it has succeeded, and there is nothing to pause".to_owned(),
        UpdateHindrance::NotPaused => "it is not paused: nothing holds it up".to_owned(),
        UpdateHindrance::NotSucceeded => {
            "it has not succeeded yet: wait for it, or undo it (bourg update undo)".to_owned()
        }
    }
}

pub(crate) fn limits_hindrance(why: LimitsHindrance) -> &'static str {
    match why {
        LimitsHindrance::Undoing => "is being undone",
        LimitsHindrance::NotComplete => "is not complete",
        LimitsHindrance::Falling => "is open, and until it is closed limits only rise",
    }
}

pub(crate) fn move_hindrance(why: MoveHindrance) -> &'static str {
    match why {
        MoveHindrance::NotUp => "that incarnation is not running and healthy, or is being stopped",
        MoveHindrance::InAlloc => "what runs in an alloc moves with it, and allocs are not moved",
        MoveHindrance::EveryMachine => "its job has a task on every machine",
        MoveHindrance::Volumes => "its volumes are on its machine",
        MoveHindrance::Replacement => "it stands in for another task, or is being removed",
        MoveHindrance::Draining => "its machine is being drained, and it leaves with the drain",
        MoveHindrance::Updating => {
            "its job has an open update: wait until it has ended, or close it (bourg update close)"
        }
        MoveHindrance::SameMachine => "it is on that machine",
        MoveHindrance::NoRoom => "it does not fit on that machine now",
        MoveHindrance::Budget => "its disruption budget allows no disruption now",
    }
}

pub(crate) fn package(id: &PackageId, why: PackageProblem) -> String {
    match why {
        PackageProblem::OwnerAsReader => {
            format!("{} owns package {id} and may use it already: name only others", id.owner)
        }
        PackageProblem::Readers { number } => format!(
            "package {id} has {number} readers: the maximum is {READERS_OF_A_PACKAGE_MAX}, unless everyone may \
             use it"
        ),
        PackageProblem::NotAnImage => format!(
            "package {id} is not an image, and cannot be the root of a task: name it in packages, or import an \
             image (bourg package import)"
        ),
        PackageProblem::IsAnImage => {
            format!("package {id} is an image: name it as the image of the tasks, not in packages")
        }
        PackageProblem::UsedTwice => format!(
            "package {id} is named both as image and in packages: name it once, as image if it is the root of the \
             tasks"
        ),
        PackageProblem::Architectures { number } => format!(
            "package {id} is for {number} architectures: the maximum is {PACKAGE_ARCHITECTURES_MAX}; import only \
             those that the machines have (--arch)"
        ),
    }
}

pub(crate) fn service(owner: &UserName, name: &JobName, why: ServiceProblem) -> String {
    match why {
        ServiceProblem::NoLabels => {
            format!("service {owner}/{name} has no labels: all jobs would be behind it")
        }
        ServiceProblem::NoQuery => {
            format!("the labels of service {owner}/{name} are no label query")
        }
        ServiceProblem::OwnerAsUser => format!(
            "the jobs of {owner} may be behind service {owner}/{name} already: name only others"
        ),
        ServiceProblem::Users { number } => format!(
            "service {owner}/{name} has {number} other users: the maximum is {USERS_OF_A_SERVICE_MAX}"
        ),
    }
}

pub(crate) fn drain(machine: &MachineName, why: DrainProblem) -> String {
    match why {
        DrainProblem::NoDeadline => {
            "a forced drain needs a deadline, at which it evicts what is left".to_owned()
        }
        DrainProblem::DeadlineTooLate => {
            "the deadline of a drain must be before the end of the year 9999".to_owned()
        }
        DrainProblem::DeadlinePassed => {
            format!("the deadline of the drain of machine {machine} is in the past")
        }
    }
}

pub(crate) fn grant(why: GrantProblem) -> &'static str {
    match why {
        GrantProblem::NotCharged => NOT_CHARGED,
        GrantProblem::NoAmount => "a grant needs an amount, such as cpu=2 ram=4GiB",
        GrantProblem::EndsBeforeItBegins => "a grant must end after it begins",
        GrantProblem::Ended => "the end of the grant is in the past",
        GrantProblem::EndsTooLate => "a grant must end by the end of the year 9999",
    }
}

pub(crate) fn never_oversold(band: Band) -> &'static str {
    match band {
        Band::Free => NOT_CHARGED,
        _ => "production and monitoring are never oversold",
    }
}

const NOT_CHARGED: &str = "the free band is never charged and needs no grants";

pub(crate) fn volume(machine: &MachineName, volume: &VolumeName, why: &VolumeHindrance) -> String {
    match why {
        VolumeHindrance::NoSuch => format!(
            "machine {machine} has no volume {volume}: bourg machine volume list {machine} lists them"
        ),
        VolumeHindrance::Overlaps(other) => format!(
            "the directory of {volume} is that of the volume {other} of {machine}, or one is below the \
             other: choose another"
        ),
        VolumeHindrance::Claimed(by) => format!(
            "the volume {volume} of {machine} is claimed by {by}: bourg machine volume rm {machine} \
             {volume} --force takes it away, and what is in the directory stays"
        ),
        VolumeHindrance::MachineLeaves { by, others } => {
            let others = match others {
                0 => String::new(),
                1 => ", and there is one more claim".to_owned(),
                others => format!(", and there are {others} more claims"),
            };
            format!(
                "the volume {volume} of {machine} is claimed by {by}{others}: bourg machine volume list \
                 {machine} lists them, and bourg machine remove {machine} --force ends them, so that \
                 their tasks start elsewhere without their data, which stays in the directory"
            )
        }
        VolumeHindrance::InUse(by) => format!(
            "the volume {volume} of {machine} is in use by {by}: drain the machine (bourg machine drain \
             {machine}), or ask {} to stop the task",
            by.user
        ),
        VolumeHindrance::DataOf(user) => format!(
            "the volume {volume} of {machine} has data of {user}: release it first (bourg machine volume \
             release {machine} {volume}), or give another volume that directory"
        ),
        VolumeHindrance::Labels => {
            "a volume has at most 16 labels, each with a name, of at most 256 \
             characters without control characters"
                .to_owned()
        }
    }
}
