//! Every rejection, with each value of its data.

use cell::{
    CellPermission, Countable, DrainProblem, EndsWith, GrantProblem, JobPermission,
    LimitsHindrance, MachinePermission, MoveHindrance, NewerUpdate, NewerUpdateState, OutOfBounds,
    PackagePermission, Permission, Permitted, ReferenceField, Rejection, ReplicaPermission,
    ServicePermission, ServiceProblem, Shareable, TextField, UpdateAction, UpdateHindrance,
    UserPermission,
};
use model::{
    Band, Beyond, Bytes, Capability, CollectionId, Dimension, FilePath, GrantId, JobName, Level,
    LockMode, LockSessionId, Priority, ReplicaId, SessionId, Span, TaskIndex, UserName, Version,
};
use spec::{Autoscale, CpuRam, FieldName, Path};

use super::enrolment::serial;
use super::{instance, name, resources};

/// Rejections of requests that are wrong in themselves, repeat an earlier one, or lack permission.
pub(crate) fn of_requests() -> Vec<Rejection> {
    let session = SessionId(9);
    let of = || (name::<UserName>("ana"), name::<JobName>("web"));
    let ((owner, job), (user, service)) = (of(), of());
    let mut all = vec![
        Rejection::NotBootstrapped,
        Rejection::NeedsLevel { needs: Level(2), is: Level(1) },
        Rejection::NoSuchSession(session),
        Rejection::ForeignSession { session, owner: name("ana"), by: name("ben") },
        Rejection::AnswerForgotten { sequence: 3 },
        Rejection::OwnLimit,
        Rejection::InvalidDescription(Path::top()),
        Rejection::InvalidDescription(
            Path::top().field("overrides").key("3").field("cmd").element(2),
        ),
        Rejection::NoSuchMachine(name("m9")),
        Rejection::MachineInUse { machine: name("m3"), tasks: 4 },
        Rejection::NoDataKept { machine: name("m3"), instance: instance(1) },
        Rejection::NoSuchJob { user: name("ana"), name: name("web") },
        Rejection::NoSuchCollection(CollectionId(9)),
        Rejection::NoSuchTask { last: 7 },
        Rejection::AddressTaken(name("m1")),
        Rejection::TokenExists(serial(7)),
        Rejection::ReplicaHasJoined(ReplicaId(2)),
        Rejection::LockHeld { path: path(), session: LockSessionId(4), mode: LockMode::Shared },
        Rejection::LockNotHeld { path: path(), session: LockSessionId(4) },
        Rejection::NoTasks { owner, name: job },
    ];
    let references = [ReferenceField::After, ReferenceField::Parent, ReferenceField::AllocSet];
    all.extend(references.map(Rejection::NamesItself));
    let drain = |why| Rejection::InvalidDrain { machine: name("m1"), why };
    all.extend(
        [DrainProblem::NoDeadline, DrainProblem::DeadlineTooLate, DrainProblem::DeadlinePassed]
            .map(drain),
    );
    let grants = [
        GrantProblem::NotCharged,
        GrantProblem::NoAmount,
        GrantProblem::EndsBeforeItBegins,
        GrantProblem::Ended,
        GrantProblem::EndsTooLate,
    ];
    all.extend(grants.map(Rejection::InvalidGrant));
    all.extend([Band::Free, Band::Production].map(Rejection::NeverOversold));
    let services = [
        ServiceProblem::NoLabels,
        ServiceProblem::NoQuery,
        ServiceProblem::OwnerAsUser,
        ServiceProblem::Users { number: 101 },
    ];
    let invalid =
        |why| Rejection::InvalidService { owner: user.clone(), name: service.clone(), why };
    all.extend(services.map(invalid));
    let texts = [
        TextField::MachineAddress,
        TextField::ReplicaAddress,
        TextField::Platform,
        TextField::Reason,
        TextField::Command,
        TextField::AttributeName,
        TextField::AttributeValue,
        TextField::ServiceLabels,
    ];
    all.extend(texts.map(|what| Rejection::BadText { what, most: 256 }));
    let out = [
        OutOfBounds::Notice(Span(86_401_000_000)),
        OutOfBounds::QueueTime(Span::ZERO),
        OutOfBounds::Batch(0),
        OutOfBounds::Tasks(100_001),
        OutOfBounds::TokenUses(1_001),
        OutOfBounds::OversellPercent(10_001),
        OutOfBounds::LockLease(Span(61_000_000)),
        OutOfBounds::FileBytes(16_385),
        OutOfBounds::SealedBytes(65_553),
        OutOfBounds::Attributes { machine: name("m1"), number: 513 },
        OutOfBounds::GrantAmount(Dimension::DiskRate),
        OutOfBounds::LogKeep(Span(u64::MAX)),
        OutOfBounds::LogBytes(Bytes(1)),
        OutOfBounds::LogBytesOnMachine(Bytes(u64::MAX)),
    ];
    all.extend(out.map(Rejection::OutOfBounds));
    all.extend(super::volumes::rejections());
    all
}

/// Rejections because of the state of a job.
pub(crate) fn of_jobs() -> Vec<Rejection> {
    let of = |make: fn(UserName, JobName) -> Rejection| make(name("ana"), name("web"));
    let mut all = vec![
        of(|owner, name| Rejection::JobEnded { owner, name }),
        of(|owner, name| Rejection::BeingKilled { owner, name }),
        of(|owner, name| Rejection::JobAlive { owner, name }),
        of(|owner, name| Rejection::RestartsAllocSet { owner, name }),
        of(|owner, name| Rejection::NotAutoscaled { owner, name }),
        of(|user, name| Rejection::PredecessorEnded { user, name }),
        of(|user, name| Rejection::PredecessorFinished { user, name }),
        of(|user, name| Rejection::CounterpartsMissing { user, name, theirs: 4, own: 3 }),
        of(|user, name| Rejection::NotAnAllocSet { user, name }),
        of(|owner, name| Rejection::TaskBeingKilled { owner, name, index: TaskIndex(3) }),
        of(|owner, name| Rejection::InstanceEnded { owner, name, index: TaskIndex(3) }),
        of(|owner, name| Rejection::VersionNotKept { owner, name, version: Version(3) }),
        of(|owner, name| Rejection::VersionsTooLarge { owner, name, bytes: 1 << 30 }),
        of(|owner, name| {
            let fields = ["after", "parent"].map(|field| FieldName::find(field).expect("a field"));
            Rejection::Fixed { owner, name, fields: fields.into() }
        }),
    ];
    for (with, undoing) in [(EndsWith::Parent, true), (EndsWith::AllocSet, false)] {
        let (owner, other) = (name::<UserName>("ana"), CollectionId(7));
        all.push(Rejection::EndsWith { owner, name: name("web"), with, other });
        let (owner, to) = (name::<UserName>("ana"), Version(2));
        all.push(Rejection::RestartDuringUpdate { owner, name: name("web"), to, undoing });
    }
    let reference = |field| Rejection::NoSuchReference {
        field,
        user: name("ana"),
        name: name("extract"),
        dead: field == ReferenceField::After,
    };
    all.extend(
        [ReferenceField::After, ReferenceField::Parent, ReferenceField::AllocSet].map(reference),
    );
    let states = [
        NewerUpdateState::Rolling,
        NewerUpdateState::Paused,
        NewerUpdateState::Succeeded,
        NewerUpdateState::Undoing,
        NewerUpdateState::Undone,
        NewerUpdateState::Closed,
    ];
    let newer = states.map(|state| Some(NewerUpdate { by: name("ben"), to: Version(4), state }));
    all.extend(newer.into_iter().chain([None]).map(|update| {
        let (seen, now) = (Version(2), Version(4));
        Rejection::ChangedMeanwhile { owner: name("ana"), name: name("web"), seen, now, update }
    }));
    let hindrances = [
        UpdateHindrance::NoUpdate,
        UpdateHindrance::Closed,
        UpdateHindrance::Undone { by: None },
        UpdateHindrance::Undoing { by: Some(name("ben")) },
        UpdateHindrance::Paused { by: Some(name("ben")) },
        UpdateHindrance::Succeeded,
        UpdateHindrance::NotPaused,
        UpdateHindrance::NotSucceeded,
    ];
    let actions = [UpdateAction::Undo, UpdateAction::Pause, UpdateAction::Resume];
    let actions = actions.into_iter().chain([UpdateAction::Close]).cycle();
    all.extend(hindrances.into_iter().zip(actions).map(|(why, action)| {
        Rejection::CannotControlUpdate { owner: name("ana"), name: name("web"), action, why }
    }));
    let waits = [LimitsHindrance::Undoing, LimitsHindrance::NotComplete, LimitsHindrance::Falling];
    all.extend(waits.map(|why| {
        let (owner, version) = (name("ana"), Version(5));
        Rejection::LimitsWait { owner, name: name("web"), version, why }
    }));
    let hindrances = [
        MoveHindrance::NotUp,
        MoveHindrance::InAlloc,
        MoveHindrance::EveryMachine,
        MoveHindrance::Volumes,
        MoveHindrance::Replacement,
        MoveHindrance::Draining,
        MoveHindrance::Updating,
        MoveHindrance::SameMachine,
        MoveHindrance::NoRoom,
        MoveHindrance::Budget,
    ];
    all.extend(hindrances.map(|why| {
        let (owner, index) = (name("ana"), TaskIndex(3));
        Rejection::NotMovable { owner, name: name("web"), index, why }
    }));
    let limit = CpuRam::of(resources(1, 2, 0, 0));
    let constrained = Autoscale::Constrained { min: limit, max: limit };
    all.extend([Autoscale::Off, constrained, Autoscale::Full].map(|bounds| {
        Rejection::LimitOutOfBounds { owner: name("ana"), name: name("web"), limit, bounds }
    }));
    let priority = |number| Priority::new(number).expect("a priority");
    all.extend([
        Rejection::PriorityAboveAllocSet {
            job: name("web"),
            priority: priority(150),
            set_owner: name("ben"),
            set: name("room"),
            most: priority(100),
        },
        Rejection::PriorityBelowJob {
            set_owner: name("ben"),
            set: name("room"),
            priority: priority(99),
            owner: name("ana"),
            job: name("web"),
            has: priority(100),
        },
    ]);
    all
}

/// Rejections because of a bound of the cell.
pub(crate) fn of_bounds() -> Vec<Rejection> {
    let countable = [
        Countable::JobIds,
        Countable::MachineIds,
        Countable::ReplicaIds,
        Countable::SessionIds,
        Countable::LockSessionIds,
        Countable::GrantIds,
        Countable::Machines,
        Countable::AttributesOf(name("m1")),
        Countable::Platforms,
        Countable::Replicas,
        Countable::Users,
        Countable::CertificatesOf(name("ana")),
        Countable::CapabilityHolders,
        Countable::RevokedMachines,
        Countable::JoinTokens,
        Countable::Grants,
        Countable::GrantsOf(name("ana")),
        Countable::ServicesOf(name("ana")),
        Countable::PackagesOf(name("ana")),
        Countable::SecretsOf(name("ana")),
        Countable::HoldersOf(path()),
        Countable::LocksOf(LockSessionId(4)),
    ];
    let full = countable.map(|what| Rejection::Full { what, has: 5, most: 5 });
    let shareable = [
        Shareable::Tasks,
        Shareable::WaitingTasks,
        Shareable::DescriptionBytes,
        Shareable::Files,
        Shareable::FileBytes,
        Shareable::BareLocks,
        Shareable::Services,
        Shareable::EveryMachineJobs,
        Shareable::Packages,
        Shareable::PackageBytes,
        Shareable::LockSessions,
    ];
    let why = [Beyond::Share { own: 5, share: 4 }, Beyond::Bound { all: 5, max: 5 }];
    let shared = shareable.into_iter().zip(why.into_iter().cycle());
    let shared = shared.map(|(what, why)| Rejection::Shared { what, why });
    full.into_iter().chain(shared).collect()
}

/// Rejections of what a user may not do.
pub(crate) fn not_allowed() -> Vec<Rejection> {
    let (owner, service) = (name::<UserName>("ana"), name::<JobName>("web"));
    let capability = Capability::AdministerJobs;
    let jobs = [
        JobPermission::Kill,
        JobPermission::Forget,
        JobPermission::Restart,
        JobPermission::Update,
        JobPermission::Resize,
        JobPermission::SetLimits,
        JobPermission::MoveTasks,
        JobPermission::Exec,
        JobPermission::SubmitInto,
    ];
    let mut all: Vec<_> = jobs.map(|what| what.of(&owner, &service)).into();
    let actions =
        [UpdateAction::Pause, UpdateAction::Resume, UpdateAction::Undo, UpdateAction::Close];
    all.extend(actions.map(|action| {
        let (owner, name) = (owner.clone(), service.clone());
        Permission::ControlUpdate { owner, name, action }
    }));
    all.push(Permission::UseCapability {
        owner: owner.clone(),
        name: service.clone(),
        capability: Capability::ExecTasks,
    });
    let packages = [PackagePermission::Set, PackagePermission::Delete, PackagePermission::Use];
    all.extend(
        packages.map(|what| Permission::OfPackage {
            id: "ana/app@3".parse().expect("a package"),
            what,
        }),
    );
    let services = [ServicePermission::Set, ServicePermission::Delete];
    all.extend(services.map(|what| {
        let (owner, name) = (owner.clone(), service.clone());
        Permission::OfService { owner, name, what }
    }));
    let machines = [
        MachinePermission::Add,
        MachinePermission::Remove,
        MachinePermission::SetAttributes,
        MachinePermission::SetVolumes,
        MachinePermission::Drain,
        MachinePermission::Undrain,
        MachinePermission::IssueToken,
        MachinePermission::Revoke,
    ];
    all.extend(machines.map(|what| Permission::OfMachine { machine: name("m1"), what }));
    let replicas = [ReplicaPermission::IssueToken, ReplicaPermission::Remove];
    all.extend(replicas.map(|what| Permission::OfReplica { replica: ReplicaId(2), what }));
    let users = [
        UserPermission::Add,
        UserPermission::Revoke,
        UserPermission::GrantQuota,
        UserPermission::EndSavers,
    ];
    all.extend(users.map(|what| Permission::OfUser { user: name("eve"), what }));
    let cell = [
        CellPermission::MeterQuota,
        CellPermission::SetQueue,
        CellPermission::SetNoticeMax,
        CellPermission::SetLogs,
        CellPermission::SetReclamation,
        CellPermission::SetPacking,
        CellPermission::SetPlatform,
        CellPermission::ResumeRescheduling,
        CellPermission::EndSaversOfForgottenJobs,
        CellPermission::RotateSecretKey,
        CellPermission::SaveCheckpoint,
    ];
    all.extend(cell.map(Permission::OfCell));
    all.extend([true, false].map(|granted| Permission::SetCapability {
        user: name("eve"),
        capability: Capability::DrainMachines,
        granted,
    }));
    all.extend([
        Permission::SubmitWith(Capability::KernelFeatures),
        Permission::AddReplica { address: "m1:1".to_owned() },
        Permission::RevokeGrant(GrantId(3)),
        Permission::Oversell(Band::Mid),
        Permission::UseFile(path()),
        Permission::UseLockSession(LockSessionId(4)),
    ]);
    let who = [
        Permitted::Administrators,
        Permitted::Holders(capability),
        Permitted::User(owner.clone()),
        Permitted::OwnerOrAdministrators(owner.clone()),
        Permitted::OwnerOrHolders { owner: owner.clone(), capability },
        Permitted::UsersOfAllocSet { owner, capability },
    ];
    let who = who.into_iter().cycle();
    let all = all.into_iter().zip(who);
    all.map(|(what, who)| Rejection::NotAllowed { by: name("ben"), what, who }).collect()
}

fn path() -> FilePath {
    "/ana/leader".parse().expect("a path")
}
