//! What rejections say of an object: which place, which bound, which number.

use api::{At, Fault, Malformed, dimension, read};
use cell::{
    Countable, NewerUpdate, NotAdmitted, OutOfBounds, PackageProblem, Rejection, ServiceProblem,
    UpdateHindrance, VolumeHindrance,
};
use model::{Beyond, Bytes, LockSessionId, MachineName, Span, UpdateAction, UserName, Version};
use spec::{Path, Step};

use super::{code, owned};
use crate::v1;
use api::update_action;
use v1::rejection::{
    self, countable, invalid_package, invalid_service, out_of_bounds, shared, step,
};

impl From<&Path> for rejection::InvalidDescription {
    fn from(path: &Path) -> Self {
        let step = |step: &Step| {
            let step = match step {
                Step::Field(name) => step::Step::Field(name.clone()),
                Step::Key(key) => step::Step::Key(key.clone()),
                Step::Element(position) => step::Step::Element(*position as u64),
            };
            rejection::Step { step: Some(step) }
        };
        Self { path: path.0.iter().map(step).collect() }
    }
}

/// The place in a description.
pub(super) fn path(invalid: rejection::InvalidDescription) -> Result<Path, Malformed> {
    let step = |(position, step): (usize, rejection::Step)| {
        let step = step.step.ok_or(Fault::UnknownKind).element(position)?;
        Ok::<_, Malformed>(match step {
            step::Step::Field(name) => Step::Field(name),
            step::Step::Key(key) => Step::Key(key),
            step::Step::Element(number) => {
                let out = Fault::OutOfRange { is: read::signed(number), least: 0, most: i64::MAX };
                Step::Element(usize::try_from(number).map_err(|_| out).element(position)?)
            }
        })
    };
    let steps = invalid.path.into_iter().enumerate().map(step);
    steps.collect::<Result<_, _>>().field("path").map(Path)
}

impl From<&OutOfBounds> for rejection::OutOfBounds {
    fn from(out: &OutOfBounds) -> Self {
        use out_of_bounds::Of;
        let of = match out {
            OutOfBounds::Notice(asked) => Of::Notice(api::duration(*asked)),
            OutOfBounds::QueueTime(asked) => Of::QueueTime(api::duration(*asked)),
            OutOfBounds::Batch(asked) => Of::Batch(*asked),
            OutOfBounds::Tasks(asked) => Of::Tasks(*asked),
            OutOfBounds::TokenUses(asked) => Of::TokenUses(*asked),
            OutOfBounds::OversellPercent(asked) => Of::OversellPercent(*asked),
            OutOfBounds::LockLease(asked) => Of::LockLease(api::duration(*asked)),
            OutOfBounds::FileBytes(asked) => Of::FileBytes(*asked),
            OutOfBounds::SealedBytes(asked) => Of::SealedBytes(*asked),
            OutOfBounds::Attributes { machine, number } => {
                let (machine, number) = (machine.to_string(), *number);
                Of::Attributes(out_of_bounds::Attributes { machine, number })
            }
            OutOfBounds::GrantAmount(of) => Of::GrantAmount(dimension::number(*of)),
            OutOfBounds::LogKeep(asked) => Of::LogKeep(api::duration(*asked)),
            OutOfBounds::LogBytes(asked) => Of::LogBytes(asked.0),
            OutOfBounds::LogBytesOnMachine(asked) => Of::LogBytesOnMachine(asked.0),
        };
        Self { of: Some(of) }
    }
}

impl TryFrom<rejection::OutOfBounds> for OutOfBounds {
    type Error = Malformed;

    fn try_from(out: rejection::OutOfBounds) -> Result<Self, Malformed> {
        use out_of_bounds::Of;
        let span = |asked, field| -> Result<Span, Malformed> { read::span(Some(asked), field) };
        Ok(match out.of.ok_or(Fault::UnknownKind)? {
            Of::Notice(asked) => Self::Notice(span(asked, "notice")?),
            Of::QueueTime(asked) => Self::QueueTime(span(asked, "queueTime")?),
            Of::Batch(asked) => Self::Batch(asked),
            Of::Tasks(asked) => Self::Tasks(asked),
            Of::TokenUses(asked) => Self::TokenUses(asked),
            Of::OversellPercent(asked) => Self::OversellPercent(asked),
            Of::LockLease(asked) => Self::LockLease(span(asked, "lockLease")?),
            Of::FileBytes(asked) => Self::FileBytes(asked),
            Of::SealedBytes(asked) => Self::SealedBytes(asked),
            Of::Attributes(of) => {
                let machine = read::name(&of.machine, "machine").field("attributes")?;
                Self::Attributes { machine, number: of.number }
            }
            Of::GrantAmount(of) => Self::GrantAmount(dimension::read(of).field("grantAmount")?),
            Of::LogKeep(asked) => Self::LogKeep(span(asked, "logKeep")?),
            Of::LogBytes(asked) => Self::LogBytes(Bytes(asked)),
            Of::LogBytesOnMachine(asked) => Self::LogBytesOnMachine(Bytes(asked)),
        })
    }
}

impl From<&Countable> for rejection::Countable {
    fn from(countable: &Countable) -> Self {
        use countable::What;
        let none = v1::Nothing {};
        let what = match countable {
            Countable::JobIds => What::JobIds(none),
            Countable::MachineIds => What::MachineIds(none),
            Countable::ReplicaIds => What::ReplicaIds(none),
            Countable::SessionIds => What::SessionIds(none),
            Countable::LockSessionIds => What::LockSessionIds(none),
            Countable::GrantIds => What::GrantIds(none),
            Countable::Machines => What::Machines(none),
            Countable::AttributesOf(machine) => What::AttributesOf(machine.to_string()),
            Countable::VolumesOf(machine) => What::VolumesOf(machine.to_string()),
            Countable::Platforms => What::Platforms(none),
            Countable::Replicas => What::Replicas(none),
            Countable::Users => What::Users(none),
            Countable::CertificatesOf(user) => What::CertificatesOf(user.to_string()),
            Countable::CapabilityHolders => What::CapabilityHolders(none),
            Countable::RevokedMachines => What::RevokedMachines(none),
            Countable::JoinTokens => What::JoinTokens(none),
            Countable::Grants => What::Grants(none),
            Countable::GrantsOf(user) => What::GrantsOf(user.to_string()),
            Countable::ServicesOf(user) => What::ServicesOf(user.to_string()),
            Countable::PackagesOf(user) => What::PackagesOf(user.to_string()),
            Countable::SecretsOf(user) => What::SecretsOf(user.to_string()),
            Countable::HoldersOf(path) => What::HoldersOf(path.to_string()),
            Countable::LocksOf(session) => What::LocksOf(session.0),
        };
        Self { what: Some(what) }
    }
}

impl TryFrom<rejection::Countable> for Countable {
    type Error = Malformed;

    fn try_from(countable: rejection::Countable) -> Result<Self, Malformed> {
        use countable::What;
        Ok(match countable.what.ok_or(Fault::UnknownKind)? {
            What::JobIds(v1::Nothing {}) => Self::JobIds,
            What::MachineIds(v1::Nothing {}) => Self::MachineIds,
            What::ReplicaIds(v1::Nothing {}) => Self::ReplicaIds,
            What::SessionIds(v1::Nothing {}) => Self::SessionIds,
            What::LockSessionIds(v1::Nothing {}) => Self::LockSessionIds,
            What::GrantIds(v1::Nothing {}) => Self::GrantIds,
            What::Machines(v1::Nothing {}) => Self::Machines,
            What::AttributesOf(machine) => {
                Self::AttributesOf(read::name(&machine, "attributesOf")?)
            }
            What::VolumesOf(machine) => Self::VolumesOf(read::name(&machine, "volumesOf")?),
            What::Platforms(v1::Nothing {}) => Self::Platforms,
            What::Replicas(v1::Nothing {}) => Self::Replicas,
            What::Users(v1::Nothing {}) => Self::Users,
            What::CertificatesOf(user) => {
                Self::CertificatesOf(read::name(&user, "certificatesOf")?)
            }
            What::CapabilityHolders(v1::Nothing {}) => Self::CapabilityHolders,
            What::RevokedMachines(v1::Nothing {}) => Self::RevokedMachines,
            What::JoinTokens(v1::Nothing {}) => Self::JoinTokens,
            What::Grants(v1::Nothing {}) => Self::Grants,
            What::GrantsOf(user) => Self::GrantsOf(read::name(&user, "grantsOf")?),
            What::ServicesOf(user) => Self::ServicesOf(read::name(&user, "servicesOf")?),
            What::PackagesOf(user) => Self::PackagesOf(read::name(&user, "packagesOf")?),
            What::SecretsOf(user) => Self::SecretsOf(read::name(&user, "secretsOf")?),
            What::HoldersOf(path) => Self::HoldersOf(api::locks::path(&path, "holdersOf")?),
            What::LocksOf(session) => Self::LocksOf(LockSessionId(session)),
        })
    }
}

impl From<&NewerUpdate> for rejection::NewerUpdate {
    fn from(update: &NewerUpdate) -> Self {
        let state = rejection::NewerUpdateState::from(update.state).into();
        Self { by: update.by.to_string(), to: update.to.0, state }
    }
}

impl TryFrom<rejection::NewerUpdate> for NewerUpdate {
    type Error = Malformed;

    fn try_from(update: rejection::NewerUpdate) -> Result<Self, Malformed> {
        let (by, to) = (read::name(&update.by, "by")?, Version(update.to));
        Ok(Self { by, to, state: code(update.state, "state")? })
    }
}

/// The message for a machine that a join token does not admit.
pub(super) fn not_admitted(
    machine: &MachineName,
    token: &MachineName,
    why: NotAdmitted,
) -> rejection::NotAdmitted {
    use rejection::not_admitted::Why;
    let why = match why {
        NotAdmitted::Name => Why::Name(v1::Nothing {}),
        NotAdmitted::Known => Why::Known(v1::Nothing {}),
        NotAdmitted::Spent { most } => Why::Spent(most),
    };
    let (machine, token) = (machine.to_string(), token.to_string());
    rejection::NotAdmitted { machine, token, why: Some(why) }
}

pub(super) fn not_admitted_of(read: &rejection::NotAdmitted) -> Result<Rejection, Malformed> {
    use rejection::not_admitted::Why;
    let why = match read.why.ok_or(Fault::UnknownKind)? {
        Why::Name(_) => NotAdmitted::Name,
        Why::Known(_) => NotAdmitted::Known,
        Why::Spent(most) => NotAdmitted::Spent { most },
    };
    let machine = read::name(&read.machine, "machine")?;
    Ok(Rejection::NotAdmitted { machine, token: read::name(&read.token, "token")?, why })
}

/// The message for an update that cannot be controlled that way.
pub(super) fn cannot_control(
    job: (String, String),
    action: UpdateAction,
    why: &UpdateHindrance,
) -> rejection::CannotControlUpdate {
    use rejection::UpdateHindrance as Code;
    let (why, by) = match why {
        UpdateHindrance::NoUpdate => (Code::NoUpdate, &None),
        UpdateHindrance::Closed => (Code::Closed, &None),
        UpdateHindrance::Undone { by } => (Code::Undone, by),
        UpdateHindrance::Undoing { by } => (Code::Undoing, by),
        UpdateHindrance::Paused { by } => (Code::Paused, by),
        UpdateHindrance::Succeeded => (Code::Succeeded, &None),
        UpdateHindrance::NotPaused => (Code::NotPaused, &None),
        UpdateHindrance::NotSucceeded => (Code::NotSucceeded, &None),
    };
    let ((owner, name), by) = (job, by.as_ref().map(ToString::to_string).unwrap_or_default());
    let action = v1::UpdateAction::from(action).into();
    rejection::CannotControlUpdate { owner, name, action, why: why.into(), by }
}

impl TryFrom<rejection::CannotControlUpdate> for Rejection {
    type Error = Malformed;

    fn try_from(cannot: rejection::CannotControlUpdate) -> Result<Self, Malformed> {
        use rejection::UpdateHindrance as Code;
        let (owner, name) = owned(&cannot.owner, &cannot.name)?;
        let by: Option<UserName> = read::optional_name(&cannot.by, "by")?;
        let meaning = |why| match why {
            Code::Unspecified => None,
            Code::NoUpdate => Some(UpdateHindrance::NoUpdate),
            Code::Closed => Some(UpdateHindrance::Closed),
            Code::Undone => Some(UpdateHindrance::Undone { by }),
            Code::Undoing => Some(UpdateHindrance::Undoing { by }),
            Code::Paused => Some(UpdateHindrance::Paused { by }),
            Code::Succeeded => Some(UpdateHindrance::Succeeded),
            Code::NotPaused => Some(UpdateHindrance::NotPaused),
            Code::NotSucceeded => Some(UpdateHindrance::NotSucceeded),
        };
        let why = read::value(cannot.why, meaning, "why")?;
        let action = update_action(cannot.action)?;
        Ok(Self::CannotControlUpdate { owner, name, action, why })
    }
}

impl From<ServiceProblem> for invalid_service::Why {
    fn from(why: ServiceProblem) -> Self {
        match why {
            ServiceProblem::NoLabels => Self::NoLabels(v1::Nothing {}),
            ServiceProblem::NoQuery => Self::NoQuery(v1::Nothing {}),
            ServiceProblem::OwnerAsUser => Self::OwnerAsUser(v1::Nothing {}),
            ServiceProblem::Users { number } => Self::Users(number),
        }
    }
}

impl From<invalid_service::Why> for ServiceProblem {
    fn from(why: invalid_service::Why) -> Self {
        use invalid_service::Why;
        match why {
            Why::NoLabels(v1::Nothing {}) => Self::NoLabels,
            Why::NoQuery(v1::Nothing {}) => Self::NoQuery,
            Why::OwnerAsUser(v1::Nothing {}) => Self::OwnerAsUser,
            Why::Users(number) => Self::Users { number },
        }
    }
}

impl From<PackageProblem> for invalid_package::Why {
    fn from(why: PackageProblem) -> Self {
        match why {
            PackageProblem::OwnerAsReader => Self::OwnerAsReader(v1::Nothing {}),
            PackageProblem::Readers { number } => Self::Readers(number),
            PackageProblem::NotAnImage => Self::NotAnImage(v1::Nothing {}),
            PackageProblem::IsAnImage => Self::IsAnImage(v1::Nothing {}),
            PackageProblem::UsedTwice => Self::UsedTwice(v1::Nothing {}),
            PackageProblem::Architectures { number } => Self::Architectures(number),
        }
    }
}

impl From<invalid_package::Why> for PackageProblem {
    fn from(why: invalid_package::Why) -> Self {
        use invalid_package::Why;
        match why {
            Why::OwnerAsReader(v1::Nothing {}) => Self::OwnerAsReader,
            Why::Readers(number) => Self::Readers { number },
            Why::NotAnImage(v1::Nothing {}) => Self::NotAnImage,
            Why::IsAnImage(v1::Nothing {}) => Self::IsAnImage,
            Why::UsedTwice(v1::Nothing {}) => Self::UsedTwice,
            Why::Architectures(number) => Self::Architectures { number },
        }
    }
}

impl From<Beyond> for shared::Why {
    fn from(beyond: Beyond) -> Self {
        match beyond {
            Beyond::Share { own, share } => Self::Share(shared::Share { own, share }),
            Beyond::Bound { all, max } => Self::Bound(shared::Bound { all, max }),
        }
    }
}

impl From<shared::Why> for Beyond {
    fn from(why: shared::Why) -> Self {
        match why {
            shared::Why::Share(share) => Self::Share { own: share.own, share: share.share },
            shared::Why::Bound(bound) => Self::Bound { all: bound.all, max: bound.max },
        }
    }
}

/// What is in the way of a change of a volume.
pub(super) fn volume(why: &VolumeHindrance) -> rejection::rejected_volume::Why {
    use rejection::rejected_volume::Why;
    match why {
        VolumeHindrance::NoSuch => Why::NoSuch(v1::Nothing {}),
        VolumeHindrance::Overlaps(other) => Why::Overlaps(other.to_string()),
        VolumeHindrance::Claimed(by) => Why::Claimed(by.into()),
        VolumeHindrance::InUse(by) => Why::InUse(by.into()),
        VolumeHindrance::MachineLeaves { by, others } => {
            let (by, others) = (Some(by.into()), *others);
            Why::MachineLeaves(rejection::rejected_volume::MachineLeaves { by, others })
        }
        VolumeHindrance::Labels => Why::Labels(v1::Nothing {}),
        VolumeHindrance::DataOf(user) => Why::DataOf(user.to_string()),
    }
}

/// The same, from a message.
pub(super) fn read_volume(
    why: Option<rejection::rejected_volume::Why>,
) -> Result<VolumeHindrance, Malformed> {
    use rejection::rejected_volume::Why;
    Ok(match why.ok_or(Fault::UnknownKind).field("why")? {
        Why::NoSuch(v1::Nothing {}) => VolumeHindrance::NoSuch,
        Why::Overlaps(other) => VolumeHindrance::Overlaps(read::name(&other, "overlaps")?),
        Why::Claimed(by) => VolumeHindrance::Claimed(by.try_into().field("claimed")?),
        Why::InUse(by) => VolumeHindrance::InUse(by.try_into().field("inUse")?),
        Why::MachineLeaves(leaves) => VolumeHindrance::MachineLeaves {
            by: read::message(leaves.by, "by").field("machineLeaves")?,
            others: leaves.others,
        },
        Why::Labels(v1::Nothing {}) => VolumeHindrance::Labels,
        Why::DataOf(user) => VolumeHindrance::DataOf(read::name(&user, "dataOf")?),
    })
}
