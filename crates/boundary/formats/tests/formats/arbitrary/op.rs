//! Operations, and the answers of requests.

use std::sync::Arc;

use cell::{
    Assignment, Countable, ExpiringQuota, Mutation, NewerUpdate, NewerUpdateState, NotAdmitted,
    Observation, Op, OutOfBounds, Oversold, Permission, Permitted, ReferenceField, Rejection,
    Reply, RequestId, Reservation, Shareable, Shortfall, SkipReason, Submission, TextField,
    UpdateAction, UpdateFailure, UpdateStep,
};
use generator::{Values, sequencer};
use model::{
    Beyond, Capability, CollectionId, Dimension, DirectoryId, Enabled, GrantId, Level, LockMode,
    LockSessionId, LogIndex, SchedulerName, SessionId, TaskId, TaskIndex, Time, Version,
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use spec::{FIELDS, FieldChange, FieldName, Path};

use super::job::{any_job, policy};
use super::{
    any_span, band, certificate, collection, described_package, digest, end, factor, instance, key,
    labels, latency, machine, machine_report, member_change, name, package, path, replica,
    resources, selection, serial, service, usage,
};
use crate::examples::rejections::{not_allowed, of_bounds, of_jobs, of_requests};

/// Any mutation of anything.
fn mutation() -> BoxedStrategy<Mutation> {
    let text = || any::<String>().boxed();
    generator::mutation(&Values {
        spec: any_job().prop_map(Arc::new).boxed(),
        user: name().boxed(),
        job: name().boxed(),
        tasks: selection().boxed(),
        machine: name().boxed(),
        address: text(),
        reason: text(),
        changes: btree_map(any::<String>(), of(any::<String>()), 0..4).boxed(),
        platform: text(),
        factor: factor().boxed(),
        serial: serial().boxed(),
        replica_serial: serial().boxed(),
        validity: any_span().boxed(),
        replica: replica().boxed(),
        replica_address: text(),
        band: band().boxed(),
        amount: resources().boxed(),
        moment: of(any::<u64>().prop_map(Time)).boxed(),
        grant: any::<u64>().prop_map(GrantId).boxed(),
        percent: any::<u32>().boxed(),
        capability: select(&Capability::ALL[..]).boxed(),
        collection: collection().boxed(),
        policy: of(policy()).boxed(),
        expected: of(version()).boxed(),
        size: any::<u32>().boxed(),
        action: select(vec![
            UpdateAction::Pause,
            UpdateAction::Resume,
            UpdateAction::Undo,
            UpdateAction::Close,
        ])
        .boxed(),
        token_uses: of(any::<u32>()).boxed(),
        deadline: of(any::<u64>().prop_map(Time)).boxed(),
        force: any::<bool>().boxed(),
        path: path().boxed(),
        lock_session: any::<u64>().prop_map(LockSessionId).boxed(),
        lease: any_span().boxed(),
        content: vec(any::<u8>(), 0..4).prop_map(Arc::from).boxed(),
        generation: of(any::<u64>().prop_map(LogIndex)).boxed(),
        sequencer: of(sequencer(path())).boxed(),
        package: Some(package().boxed()),
        service: name().boxed(),
        port: name().boxed(),
        labels: labels().boxed(),
        users: btree_set(name(), 0..3).boxed(),
    })
}

fn observation() -> impl Strategy<Value = Observation> {
    prop_oneof![
        instance()
            .prop_map(|instance| Observation::Started { instance, latency: latency(instance) }),
        (instance(), any::<bool>(), ".{0,9}").prop_map(|(instance, healthy, check)| {
            Observation::Health { instance, healthy, check }
        }),
        (instance(), ".{0,9}")
            .prop_map(|(instance, check)| Observation::NotHealthyYet { instance, check }),
        (instance(), ".{0,9}")
            .prop_map(|(instance, check)| Observation::Unready { instance, check }),
        (instance(), end(), usage()).prop_map(|(instance, end, usage)| Observation::Ended {
            instance,
            end,
            usage
        }),
    ]
}

fn version() -> impl Strategy<Value = Version> {
    any::<u32>().prop_map(Version)
}

fn step() -> impl Strategy<Value = UpdateStep> {
    let index = || any::<u32>().prop_map(TaskIndex);
    let skip = select(vec![SkipReason::Disruptions, SkipReason::Budget]);
    prop_oneof![
        index().prop_map(UpdateStep::Change),
        index().prop_map(UpdateStep::Passed),
        (index(), skip).prop_map(|(index, why)| UpdateStep::Skip(index, why)),
        (instance(), of(end()))
            .prop_map(|(instance, end)| UpdateStep::Fail(UpdateFailure { instance, end })),
        Just(UpdateStep::Finish),
        Just(UpdateStep::Close),
    ]
}

pub(crate) fn op() -> BoxedStrategy<Op> {
    let id = any::<(u64, u64)>()
        .prop_map(|(session, sequence)| RequestId { session: SessionId(session), sequence });
    let address = of(any::<u32>().prop_map(std::net::Ipv4Addr::from_bits));
    let ports = vec(any::<u16>(), 0..3);
    let assignment = (instance(), machine(), ports, vec(instance(), 0..3), address).prop_map(
        |(instance, machine, ports, victims, address)| Assignment {
            address,
            instance,
            alloc: None,
            machine,
            ports,
            victims,
        },
    );
    let reservation = (instance(), resources()).prop_map(|(instance, amount)| {
        // Drawing it would shift all that is drawn after it.
        let newest_sample = Some(Time(amount.cpu.0)).filter(|_| amount.ram.0.is_multiple_of(2));
        Reservation { instance, amount, newest_sample }
    });
    let requests =
        (id, name(), mutation()).prop_map(|(id, by, mutation)| Op::Request { id, by, mutation });
    let others = prop_oneof![
        Just(Op::Nothing),
        (name(), name()).prop_map(|(name, administrator)| Op::Bootstrap { name, administrator }),
        name().prop_map(|user| Op::OpenSession { user }),
        vec(assignment, 0..3).prop_map(|assignments| {
            // Drawing it would shift all that is drawn after it.
            let began = assignments.first().map(|first| Time(first.machine.0));
            Op::Assign { by: SchedulerName::main(), assignments, began }
        }),
        (machine(), vec(observation(), 0..3))
            .prop_map(|(machine, observations)| Op::Observe { machine, observations }),
        (machine(), machine_report().prop_map(Arc::new))
            .prop_map(|(machine, report)| Op::DescribeMachine { machine, report }),
        machine().prop_map(|machine| Op::MachineSilent { machine }),
        machine().prop_map(|machine| Op::MachineBack { machine }),
        vec(collection(), 0..4).prop_map(|collections| Op::Forget { collections }),
        vec(reservation, 0..3).prop_map(Op::Reserve),
        any::<u32>().prop_map(|level| Op::RaiseLevel { to: Level(level) }),
        machine().prop_map(|machine| Op::MachineUnreachable { machine }),
        any::<(u32, u32)>().prop_map(|(silent, of)| Op::StopRescheduling { silent, of }),
        (collection(), version(), vec(step(), 0..3))
            .prop_map(|(job, version, steps)| Op::StepUpdate { job, version, steps }),
        (machine(), vec(instance(), 0..3))
            .prop_map(|(machine, instances)| Op::EvictDraining { machine, instances }),
        (machine(), instance())
            .prop_map(|(machine, instance)| Op::RelieveMachine { machine, instance }),
        machine().prop_map(|machine| Op::ExpireDrain { machine }),
        (name(), instance()).prop_map(|(machine, instance)| Op::ReadSecrets { machine, instance }),
        (name(), instance(), described_package()).prop_map(
            |(machine, instance, package)| Op::AddOutputs { machine, instance, package },
        ),
        vec(any::<u64>().prop_map(LockSessionId), 0..3)
            .prop_map(|sessions| Op::ExpireLockSessions { sessions }),
        collection().prop_map(|job| Op::StartReplacement { job }),
        collection().prop_map(|job| Op::TellInputs { job }),
        collection().prop_map(|job| Op::RemoveReplacements { job }),
        Just(Op::AllowRescheduling),
        Just(Op::MeterQuota),
        Just(Op::SwitchQueueOn),
        vec((collection(), any::<u32>()), 0..3).prop_map(|enabled| {
            let each = |(job, tasks)| Enabled { job, tasks };
            let enabled = enabled.into_iter().map(each).collect();
            Op::Enable { by: SchedulerName::main(), enabled }
        }),
        (serial(), key(), of(name()), any::<String>(), serial(), any_span()).prop_map(
            |(token, key, machine, address, certificate, validity)| Op::Enrol {
                token,
                key,
                machine,
                address,
                certificate,
                validity,
            }
        ),
        (replica(), serial(), key()).prop_map(|(replica, token, key)| Op::JoinReplica {
            replica,
            token,
            key
        }),
        (name(), serial(), serial(), any_span()).prop_map(
            |(machine, old, certificate, validity)| Op::RenewMachine {
                machine,
                old,
                certificate,
                validity,
            }
        ),
        (replica(), member_change()).prop_map(|(replica, to)| Op::ChangeMember { replica, to }),
        (replica(), any::<String>(), any::<u32>()).prop_map(|(replica, address, level)| {
            let directory = DirectoryId(u64::from(level).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            Op::DescribeReplica { replica, address, level: Level(level), directory }
        }),
    ];
    prop_oneof![1 => requests, 2 => others].boxed()
}

fn changes() -> impl Strategy<Value = Arc<[FieldChange]>> {
    let change = (any::<String>(), any::<String>(), any::<String>())
        .prop_map(|(field, old, new)| FieldChange { field, old, new });
    vec(change, 0..3).prop_map(Into::into)
}

fn expiring_quota() -> impl Strategy<Value = ExpiringQuota> {
    (band(), any::<u64>(), resources()).prop_map(|(band, at, above)| ExpiringQuota {
        band,
        at: Time(at),
        above,
    })
}

fn reply() -> impl Strategy<Value = Reply> {
    let submission = select(vec![Submission::New, Submission::Unchanged, Submission::Updated]);
    prop_oneof![
        any::<u64>().prop_map(|id| Reply::Session(SessionId(id))),
        (collection(), submission, version(), changes(), of(expiring_quota())).prop_map(
            |(collection, submission, version, changes, expiring_quota)| Reply::Submitted {
                collection,
                submission,
                version,
                changes,
                expiring_quota,
            },
        ),
        (collection(), any::<u32>())
            .prop_map(|(collection, tasks)| Reply::Killed { collection, tasks }),
        (collection(), any::<u32>(), of(version())).prop_map(|(collection, started, version)| {
            Reply::Restarted { collection, started, version }
        }),
        machine().prop_map(Reply::MachineAdded),
        any::<u32>().prop_map(|tasks| Reply::Drained { tasks }),
        (collection(), version(), any::<bool>(), changes()).prop_map(
            |(collection, version, unchanged, changes)| Reply::Updated {
                collection,
                version,
                unchanged,
                changes,
            },
        ),
        certificate().prop_map(Reply::UserAdded),
        any::<bool>().prop_map(|known| Reply::UserRevoked { known }),
        any::<u64>().prop_map(|id| Reply::Granted(GrantId(id))),
        any::<u64>().prop_map(|id| Reply::LockSession(LockSessionId(id))),
        any::<u64>().prop_map(|index| Reply::FileGeneration(LogIndex(index))),
        of(service()).prop_map(|before| Reply::ServiceSet { before }),
        any::<bool>().prop_map(|existed| Reply::PackageSet { existed }),
        any::<u32>().prop_map(|version| Reply::SecretSet { version }),
        replica().prop_map(Reply::ReplicaAdded),
        certificate().prop_map(Reply::TokenIssued),
        (machine(), certificate())
            .prop_map(|(machine, certificate)| Reply::Enrolled { machine, certificate }),
        certificate().prop_map(Reply::MachineRenewed),
        any::<bool>().prop_map(|known| Reply::MachineRevoked { known }),
        Just(Reply::Done),
    ]
}

fn short_of_quota() -> BoxedStrategy<Rejection> {
    let whose = (name(), band(), name());
    let amounts = (resources(), resources(), resources(), resources());
    let short = (whose, amounts, any::<(u32, u32)>(), vec(band(), 0..3)).prop_map(
        |((user, band, job), (asked, had, others, granted), tasks, bands_that_pass)| {
            Rejection::Quota(Box::new(Shortfall {
                user,
                band,
                job,
                asked,
                had,
                others,
                granted,
                tasks: tasks.0,
                tasks_that_pass: tasks.1,
                bands_that_pass,
            }))
        },
    );
    let oversold = (band(), resources(), resources(), resources(), any::<u32>()).prop_map(
        |(band, asked, left, capacity, percent)| {
            Rejection::Oversold(Box::new(Oversold { band, asked, left, capacity, percent }))
        },
    );
    prop_oneof![short, oversold].boxed()
}

fn of_locks() -> BoxedStrategy<Rejection> {
    let taken = (path(), name(), any::<u64>(), any::<bool>());
    prop_oneof![
        path().prop_map(Rejection::NoSuchFile),
        any::<u64>().prop_map(|id| Rejection::NoSuchLockSession(LockSessionId(id))),
        taken.prop_map(|(path, by, session, shared)| Rejection::LockTaken {
            path,
            by,
            session: LockSessionId(session),
            mode: LockMode::shared(shared),
        }),
        (path(), any::<u64>(), any::<u64>()).prop_map(|(path, expected, now)| {
            Rejection::FileChanged { path, expected: LogIndex(expected), now: LogIndex(now) }
        }),
        sequencer(path()).prop_map(Rejection::StaleSequencer),
    ]
    .boxed()
}

fn of_services() -> BoxedStrategy<Rejection> {
    prop_oneof![
        (name(), name()).prop_map(|(user, name)| Rejection::NoSuchService { user, name }),
        package().prop_map(|id| Rejection::NoSuchPackage { id }),
        (name(), name()).prop_map(|(owner, name)| Rejection::NoSuchSecret { owner, name }),
        (name(), name(), name()).prop_map(|(owner, name, job)| Rejection::SecretInUse {
            owner,
            name,
            job
        }),
        (package(), digest())
            .prop_map(|(id, digest)| Rejection::PackageVersionExists { id, digest }),
        (package(), name(), name()).prop_map(|(id, owner, job)| Rejection::PackageInUse {
            id,
            owner,
            job
        }),
        (name(), name()).prop_map(|(user, name)| Rejection::NameOfJob { user, name }),
        (name(), name()).prop_map(|(user, name)| Rejection::NameOfService { user, name }),
        (name(), name()).prop_map(|(owner, name)| Rejection::OnEveryMachine { owner, name }),
        (any::<u32>(), resources(), any::<u32>(), any::<u32>()).prop_map(
            |(tasks, limit, fits, machines)| Rejection::GangTooLarge {
                tasks,
                limit,
                fits,
                machines
            }
        ),
    ]
    .boxed()
}

fn rejection() -> BoxedStrategy<Rejection> {
    let word = || any::<String>();
    let task = (collection(), any::<u32>())
        .prop_map(|(collection, index)| TaskId { collection, index: TaskIndex(index) });
    let too_small = (task, select(&Dimension::ALL[..]), any::<(u64, u64)>()).prop_map(
        |(alloc, dimension, (asked, used))| Rejection::AllocTooSmall {
            alloc,
            dimension,
            asked,
            used,
        },
    );
    let others = prop_oneof![
        Just(Rejection::NotBootstrapped),
        any::<u64>().prop_map(|id| Rejection::NoSuchSession(SessionId(id))),
        (any::<u64>(), name(), name()).prop_map(|(session, owner, by)| {
            Rejection::ForeignSession { session: SessionId(session), owner, by }
        }),
        any::<u64>().prop_map(|sequence| Rejection::AnswerForgotten { sequence }),
        (word(), word(), any::<u16>()).prop_map(|(field, key, element)| {
            let path = Path::top().field(&field).key(&key).element(element.into());
            Rejection::InvalidDescription(path)
        }),
        (name(), name(), vec(0..FIELDS.len(), 0..3)).prop_map(|(owner, name, fields)| {
            let fields = fields.iter().filter_map(|field| FieldName::find(FIELDS[*field].name));
            Rejection::Fixed { owner, name, fields: fields.collect() }
        }),
        (name(), name()).prop_map(|(owner, name)| Rejection::JobEnded { owner, name }),
        (name(), name(), version(), version(), of((name(), version()))).prop_map(
            |(owner, name, seen, now, update)| {
                let state = NewerUpdateState::Rolling;
                let update = update.map(|(by, to)| NewerUpdate { by, to, state });
                Rejection::ChangedMeanwhile { owner, name, seen, now, update }
            }
        ),
        (name(), name()).prop_map(|(owner, name)| Rejection::BeingKilled { owner, name }),
        (name(), name(), any::<bool>()).prop_map(|(user, name, dead)| {
            Rejection::NoSuchReference { field: ReferenceField::Parent, user, name, dead }
        }),
        (any::<u64>(), name()).prop_map(|(number, machine)| {
            Rejection::OutOfBounds(OutOfBounds::Attributes { machine, number })
        }),
        any_span().prop_map(|asked| Rejection::OutOfBounds(OutOfBounds::Notice(asked))),
        (name(), name()).prop_map(|(user, name)| Rejection::PredecessorEnded { user, name }),
        (name(), name()).prop_map(|(user, name)| Rejection::PredecessorFinished { user, name }),
        (name(), name(), any::<u32>(), any::<u32>()).prop_map(|(user, name, theirs, own)| {
            Rejection::CounterpartsMissing { user, name, theirs, own }
        }),
        name().prop_map(Rejection::NoSuchMachine),
        (name(), any::<u64>())
            .prop_map(|(machine, tasks)| Rejection::MachineInUse { machine, tasks }),
        any::<u64>().prop_map(|most| Rejection::BadText { what: TextField::Command, most }),
        (name(), name()).prop_map(|(user, name)| Rejection::NoSuchJob { user, name }),
        any::<u64>().prop_map(|id| Rejection::NoSuchCollection(CollectionId(id))),
        any::<u32>().prop_map(|last| Rejection::NoSuchTask { last }),
        (name(), word(), select(&Capability::ALL[..])).prop_map(|(by, address, capability)| {
            let (what, who) = (Permission::AddReplica { address }, Permitted::Holders(capability));
            Rejection::NotAllowed { by, what, who }
        }),
        (name(), any::<u64>(), any::<u64>()).prop_map(|(user, has, most)| {
            Rejection::Full { what: Countable::GrantsOf(user), has, most }
        }),
        (any::<bool>(), any::<(u64, u64)>()).prop_map(|(share, (a, b))| {
            let bound = Beyond::Bound { all: a, max: b };
            let why = if share { Beyond::Share { own: a, share: b } } else { bound };
            Rejection::Shared { what: Shareable::Files, why }
        }),
        name().prop_map(Rejection::AddressTaken),
        Just(Rejection::NotStopped),
        name().prop_map(Rejection::RevokesOneself),
        name().prop_map(Rejection::LastAdministrator),
        (name(), any::<u16>(), any::<u16>(), any::<u16>()).prop_map(
            |(port, number, first, last)| Rejection::StaticPortOfMachines {
                port,
                number,
                range: model::PortRange { first, last },
            }
        ),
        any_span().prop_map(Rejection::Validity),
        any::<u64>().prop_map(|id| Rejection::NoSuchGrant(GrantId(id))),
        select([of_requests(), of_jobs(), of_bounds(), not_allowed()].concat()),
        replica().prop_map(Rejection::NoSuchReplica),
        replica().prop_map(Rejection::ReplicaAddressTaken),
        replica().prop_map(Rejection::LastVoter),
        serial().prop_map(Rejection::NoSuchToken),
        name().prop_map(Rejection::TokenExpired),
        name().prop_map(Rejection::TokenUsed),
        (name(), name(), any::<u32>()).prop_map(|(machine, token, most)| {
            Rejection::NotAdmitted { machine, token, why: NotAdmitted::Spent { most } }
        }),
        replica().prop_map(Rejection::ReplicaTokenUsed),
        any_span().prop_map(Rejection::TokenValidity),
        name().prop_map(Rejection::MachineRevoked),
        of_locks(),
        of_services(),
    ];
    prop_oneof![3 => others, 1 => short_of_quota(), 1 => too_small].boxed()
}

pub(crate) fn answer() -> impl Strategy<Value = Result<Reply, Rejection>> {
    prop_oneof![1 => reply().prop_map(Ok), 3 => rejection().prop_map(Err)]
}
