//! Random mutations for tests: one strategy for all of them, over values that the test provides.
//!
//! A test of a format provides arbitrary values; a test of the state machine provides few, so that
//! mutations interact. Proptest shrinks what it generates from [`mutation`]; loops with their own
//! seed use [`seeded`].
//!
//! Deliberately absent: operations that are not mutations, and mutations made to fit a cell's
//! state.

mod secrets;

mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use cell::{
    AcquireLock, AddMachine, AddReplica, AddUser, CloseLockSession, ControlUpdate, DeleteFile,
    DeletePackage, DeleteService, DrainMachine, ForgetJob, GrantQuota, IssueReplicaToken,
    IssueToken, Kill, MeterQuota, MoveReason, MoveTask, Mutation, OpenLockSession, Oversell,
    RecordBackup, ReleaseLock, RemoveMachine, RemoveReplica, RenewLockSession, ResizeJob,
    RestartJob, ResumeRescheduling, RevokeMachine, RevokeQuota, RevokeUser, Service, SetAttributes,
    SetCapability, SetLimits, SetPackage, SetPlatform, SetQueuePolicy, SetQueueWeight, SetService,
    UndrainMachine, UpdateAction, UpdateJob, UseCapability, WriteFile,
};
use model::{
    Band, Bytes, Capability, CollectionId, Digest, Dimension, FilePath, GcuFactor, Generation,
    GrantId, JobName, LabelQuery, LockMode, LockSessionId, LogIndex, MachineName, MilliCores,
    Package, PackageId, PackageKind, PackageReaders, PackageReference, PoorestUser, PortName,
    QueueSettings, ReplicaId, Resources, Sequencer, Serial, ShareWeights, Span, TaskId, TaskIndex,
    TaskSelection, Time, UserName, Version,
};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use spec::{
    Constraint, CpuRam, JobSpec, OnChange, OnFailure, Relation, Sizing, TaskSpec, UpdatePolicy,
};

/// The values from which mutations are generated.
#[derive(Clone, Debug)]
pub struct Values {
    /// Job descriptions to submit.
    pub spec: BoxedStrategy<Arc<JobSpec>>,
    /// Users.
    pub user: BoxedStrategy<UserName>,
    /// Names of jobs to kill.
    pub job: BoxedStrategy<JobName>,
    /// Tasks to kill.
    pub tasks: BoxedStrategy<TaskSelection>,
    /// Machines.
    pub machine: BoxedStrategy<MachineName>,
    /// Addresses of machines.
    pub address: BoxedStrategy<String>,
    /// Reasons to drain a machine.
    pub reason: BoxedStrategy<String>,
    /// Changes of attributes.
    pub changes: BoxedStrategy<BTreeMap<String, Option<String>>>,
    /// Platforms.
    pub platform: BoxedStrategy<String>,
    /// Factors of platforms.
    pub factor: BoxedStrategy<GcuFactor>,
    /// Serial numbers of users' certificates and of machines' tokens.
    pub serial: BoxedStrategy<Serial>,
    /// Serial numbers of replicas' tokens.
    pub replica_serial: BoxedStrategy<Serial>,
    /// How many machines a token admits, if it is for many.
    pub token_uses: BoxedStrategy<Option<u32>>,
    /// Validity of certificates and tokens.
    pub validity: BoxedStrategy<Span>,
    /// Replicas.
    pub replica: BoxedStrategy<ReplicaId>,
    /// Addresses of replicas.
    pub replica_address: BoxedStrategy<String>,
    /// Bands.
    pub band: BoxedStrategy<Band>,
    /// Amounts of quota.
    pub amount: BoxedStrategy<Resources>,
    /// Begin or end of a grant.
    pub moment: BoxedStrategy<Option<Time>>,
    /// Grants.
    pub grant: BoxedStrategy<GrantId>,
    /// Maximum percentage of a band that may be granted.
    pub percent: BoxedStrategy<u32>,
    /// Capabilities.
    pub capability: BoxedStrategy<Capability>,
    /// How updates proceed.
    pub policy: BoxedStrategy<Option<UpdatePolicy>>,
    /// Versions that users have seen.
    pub expected: BoxedStrategy<Option<Version>>,
    /// Numbers of tasks.
    pub size: BoxedStrategy<u32>,
    /// What users do with updates.
    pub action: BoxedStrategy<UpdateAction>,
    /// Deadlines of drains.
    pub deadline: BoxedStrategy<Option<Time>>,
    /// Whether drains are forced.
    pub force: BoxedStrategy<bool>,
    /// Job ids.
    pub collection: BoxedStrategy<CollectionId>,
    /// Paths of files.
    pub path: BoxedStrategy<FilePath>,
    /// Lock sessions.
    pub lock_session: BoxedStrategy<LockSessionId>,
    /// Leases of lock sessions.
    pub lease: BoxedStrategy<Span>,
    /// Contents of files.
    pub content: BoxedStrategy<Arc<[u8]>>,
    /// Generations that users expect of files.
    pub generation: BoxedStrategy<Option<LogIndex>>,
    /// Sequencers.
    pub sequencer: BoxedStrategy<Option<Sequencer>>,
    /// Names of services.
    pub service: BoxedStrategy<JobName>,
    /// Versions of packages; `None`: no mutation is about packages or secrets.
    pub package: Option<BoxedStrategy<PackageId>>,
    /// Ports of services.
    pub port: BoxedStrategy<PortName>,
    /// Labels of services.
    pub labels: BoxedStrategy<LabelQuery>,
    /// Users whose jobs may be behind services of others.
    pub users: BoxedStrategy<BTreeSet<UserName>>,
}

/// A number that is mostly small.
pub fn small_or_huge() -> impl Strategy<Value = u64> {
    prop_oneof![20 => 0..5_u64, 1 => Just(u64::MAX), 1 => any::<u64>()]
}

/// A number that is mostly small.
pub fn small_or_huge_32() -> impl Strategy<Value = u32> {
    prop_oneof![20 => 0..4_u32, 1 => Just(u32::MAX), 1 => any::<u32>()]
}

/// What users do with updates.
const ACTIONS: &[UpdateAction] =
    &[UpdateAction::Pause, UpdateAction::Resume, UpdateAction::Undo, UpdateAction::Close];

/// Files of few users.
const PATHS: &[&str] = &["/ana/a", "/ana/b/c", "/bob/a", "/eva/a"];

/// A sequencer of one of some paths.
pub fn sequencer(path: impl Strategy<Value = FilePath>) -> impl Strategy<Value = Sequencer> {
    (path, any::<bool>(), prop_oneof![20 => 0..99_u64, 1 => any::<u64>()]).prop_map(
        |(path, shared, generation)| Sequencer {
            path,
            mode: LockMode::shared(shared),
            generation: LogIndex(generation),
        },
    )
}

/// How an update proceeds.
fn policy() -> impl Strategy<Value = UpdatePolicy> {
    let most = prop::option::weighted(0.3, 0..3_u32);
    let batch = prop::option::of(1..4_u32);
    (batch, 0..5_u64, 1..30_u64, most, select(&OnFailure::ALL[..]), 0..30_u64).prop_map(
        |(batch, healthy, more, disruptions, on_failure, close)| UpdatePolicy {
            batch,
            healthy_for: Span::from_secs(healthy),
            healthy_within: Span::from_secs(healthy + more),
            wait: Span::ZERO,
            disruptions,
            on_failure,
            close_after: Span::from_secs(close),
        },
    )
}

/// One of some texts, parsed.
fn one_of<T>(texts: &'static [&'static str]) -> BoxedStrategy<T>
where
    T: std::str::FromStr<Err: Debug> + Debug + 'static,
{
    select(texts).prop_map(|text| text.parse().expect("it is one")).boxed()
}

impl Values {
    /// Few values, so that mutations affect the same objects.
    #[must_use]
    pub fn few() -> Self {
        let ranges = prop::collection::vec((small_or_huge_32(), small_or_huge_32()), 0..3);
        let ranges = ranges.prop_map(|ranges| {
            let index = |(from, to)| (TaskIndex(from), TaskIndex(to));
            TaskSelection::Some(ranges.into_iter().map(index).collect())
        });
        let on_change = one_of::<OnChange>(&OnChange::NAMES);
        let told = select(&["sleep", "${bns.db/0.host}", "${bns.ana/db.host}"][..]);
        let sizing = prop_oneof![9 => Just(None), 1 => any::<bool>().prop_map(Some)];
        let named = (one_of::<JobName>(&["web", "db"]), on_change, told, sizing);
        let gang = prop_oneof![4 => Just(false), 1 => Just(true)];
        let spec = (named, 1..4_u32, gang);
        let spec = spec.prop_map(|((name, on_change, told, everywhere), tasks, gang)| {
            let task = TaskSpec { on_change, ..TaskSpec::of(vec![told.to_owned()]) };
            let mut spec = JobSpec::of(name, Band::Production.usual(), tasks, task);
            spec.batch.gang = gang;
            // On every machine, or on every machine of a rack.
            if let Some(of_rack) = everywhere {
                spec.batch.gang = false;
                (spec.tasks, spec.sizing) = (0, Sizing::EveryMachine);
                spec.task.constraints.extend(of_rack.then(|| Constraint {
                    attribute: "rack".to_owned(),
                    relation: Relation::Equal,
                    value: "r1".to_owned(),
                    hard: true,
                }));
            }
            Arc::new(spec)
        });
        let said: &[(&str, Option<&str>)] =
            &[("rack", Some("r1")), ("rack", None), ("platform", Some("p")), ("", None)];
        let changes = select(said).prop_map(|(name, value)| {
            BTreeMap::from([(name.to_owned(), value.map(str::to_owned))])
        });
        let amount = (0..3_u64).prop_map(|tenths| Resources {
            cpu: MilliCores(tenths * 200),
            ram: Bytes(tenths << 27),
            ..Resources::default()
        });
        let moment = prop::option::of((0..60_u64).prop_map(|seconds| Time(seconds * 1_000_000)));
        let seconds = (55..90_u64).prop_map(Span::from_secs);
        Self {
            spec: spec.boxed(),
            user: one_of(&["ana", "bob", "root"]),
            job: one_of(&["web", "db", "room", "none"]),
            tasks: prop_oneof![1 => Just(TaskSelection::All), 3 => ranges].boxed(),
            machine: one_of(&["m1", "m2", "m3", "m4"]),
            address: "m[1-4]:1".boxed(),
            reason: Just(String::new()).boxed(),
            changes: changes.boxed(),
            platform: Just("p".to_owned()).boxed(),
            factor: one_of(&["0.5", "1", "2"]),
            serial: (0..5_u8).prop_map(|number| Serial([number; Serial::BYTES])).boxed(),
            token_uses: prop::option::weighted(0.5, 0..4_u32).boxed(),
            replica_serial: Just(Serial([9; Serial::BYTES])).boxed(),
            validity: prop_oneof![9 => seconds, 1 => any::<u64>().prop_map(Span)].boxed(),
            replica: small_or_huge().prop_map(ReplicaId).boxed(),
            replica_address: "h[1-9]?".boxed(),
            band: select(&Band::ALL[..]).boxed(),
            amount: amount.boxed(),
            moment: moment.boxed(),
            grant: (0..5_u64).prop_map(GrantId).boxed(),
            percent: small_or_huge_32().boxed(),
            capability: select(&Capability::ALL[..]).boxed(),
            policy: prop::option::of(policy()).boxed(),
            expected: prop::option::weighted(0.1, small_or_huge_32().prop_map(Version)).boxed(),
            size: prop_oneof![20 => 1..5_u32, 1 => Just(0), 1 => Just(u32::MAX)].boxed(),
            action: select(ACTIONS).boxed(),
            deadline: prop::option::weighted(
                0.3,
                (0..90_u64).prop_map(|seconds| Time(seconds * 1_000_000)),
            )
            .boxed(),
            force: prop::bool::weighted(0.2).boxed(),
            collection: small_or_huge().prop_map(CollectionId).boxed(),
            path: one_of(PATHS),
            lock_session: small_or_huge().prop_map(LockSessionId).boxed(),
            lease: prop_oneof![9 => (5..20_u64).prop_map(Span::from_secs), 1 => any::<u64>().prop_map(Span)]
                .boxed(),
            content: prop::collection::vec(any::<u8>(), 0..4).prop_map(Arc::from).boxed(),
            generation: prop::option::weighted(0.2, small_or_huge().prop_map(LogIndex)).boxed(),
            sequencer: prop::option::weighted(0.2, sequencer(one_of(PATHS))).boxed(),
            package: Some(
                (one_of::<UserName>(&["ana", "bob"]), one_of(&["app@1", "app@2", "tools@1"]))
                    .prop_map(|(owner, package): (_, PackageReference)| package.of(&owner))
                    .boxed(),
            ),
            // Jobs cannot have the name of a service.
            service: one_of(&["all", "front", "all", "front", "web"]),
            port: one_of(&["http", "rpc"]),
            labels: one_of(&["app=web", "app", "!app", "app!=web,tier=1"]),
            users: prop::collection::btree_set(one_of(&["ana", "bob", "eve"]), 0..2).boxed(),
        }
    }
}

/// Builds a strategy of a mutation from strategies of its fields.
macro_rules! mutation {
    ($values:ident, $name:ident { $($field:ident: $of:ident),* }) => {
        ($($values.$of.clone(),)*)
            .prop_map(|($($field,)*)| Mutation::$name($name { $($field),* }))
            .boxed()
    };
}

/// Any mutation.
pub fn mutation(values: &Values) -> BoxedStrategy<Mutation> {
    let jobs = prop_oneof![
        4 => values.spec.clone().prop_map(Mutation::Submit),
        3 => (values.user.clone(), values.job.clone(), values.tasks.clone(), any::<bool>())
            .prop_map(|(owner, job, tasks, now)| Mutation::Kill(Kill { owner, job, tasks, now })),
        3 => updates(values),
        1 => mutation!(values, ForgetJob { owner: user, job: job }),
    ];
    let others = prop_oneof![
        7 => jobs,
        2 => mutation!(values, AddMachine { name: machine, address: address }),
        3 => prop_oneof![
            8 => machines(values),
            2 => volumes::volumes(values),
            2 => users(values),
            1 => replicas(values),
            1 => enrolment(values),
            4 => quota(values),
            3 => locks(values),
            1 => services(values),
        ],
    ];
    match &values.package {
        None => others.boxed(),
        Some(package) => prop_oneof![
            80 => others,
            1 => packages(values, package),
            1 => secrets::mutations(values),
        ]
        .boxed(),
    }
}

fn updates(values: &Values) -> BoxedStrategy<Mutation> {
    prop_oneof![
        3 => mutation!(values, UpdateJob {
            owner: user, spec: spec, tasks: tasks, policy: policy, expected: expected
        }),
        2 => mutation!(values, ResizeJob {
            owner: user, job: job, tasks: size, expected: expected
        }),
        1 => restarts(values),
        1 => limits(values),
        1 => moves(values),
        4 => mutation!(values, ControlUpdate {
            owner: user, job: job, action: action, to: expected, expected: expected
        }),
    ]
    .boxed()
}

fn restarts(values: &Values) -> BoxedStrategy<Mutation> {
    let job = (values.user.clone(), values.job.clone(), values.tasks.clone());
    (job, values.force.clone(), values.size.clone(), values.force.clone())
        .prop_map(|((owner, job, tasks), failed, size, batch)| {
            let batch = batch.then_some(size);
            RestartJob { owner, job, tasks, failed, batch }.into()
        })
        .boxed()
}

fn moves(values: &Values) -> BoxedStrategy<Mutation> {
    let instance = || {
        let incarnation = (small_or_huge_32(), small_or_huge_32());
        (values.collection.clone(), incarnation).prop_map(|(collection, (index, generation))| {
            TaskId { collection, index: TaskIndex(index) }.generation(Generation(generation))
        })
    };
    let why = prop::option::of(instance());
    (instance(), values.machine.clone(), why, values.sequencer.clone())
        .prop_map(|(instance, to, task, sequencer)| {
            let why = task.map_or(MoveReason::Empties, |task| MoveReason::Fits { task });
            MoveTask { instance, to, why, sequencer }.into()
        })
        .boxed()
}

fn limits(values: &Values) -> BoxedStrategy<Mutation> {
    let job = (values.user.clone(), values.job.clone(), values.amount.clone());
    let rest = (values.reason.clone(), values.expected.clone(), values.sequencer.clone());
    (job, rest)
        .prop_map(|((owner, job, amount), (reason, expected, sequencer))| {
            let limit = CpuRam::of(amount);
            SetLimits { owner, job, limit, reason, expected, sequencer }.into()
        })
        .boxed()
}

fn machines(values: &Values) -> BoxedStrategy<Mutation> {
    prop_oneof![
        2 => mutation!(values, DrainMachine {
            machine: machine, reason: reason, deadline: deadline, force: force
        }),
        2 => mutation!(values, UndrainMachine { machine: machine }),
        1 => (values.machine.clone(), any::<bool>())
            .prop_map(|(machine, force)| RemoveMachine { machine, force }.into()),
        2 => mutation!(values, SetAttributes { machine: machine, changes: changes }),
        1 => mutation!(values, SetPlatform { platform: platform, factor: factor }),
        1 => Just(Mutation::ResumeRescheduling(ResumeRescheduling)),
    ]
    .boxed()
}

fn users(values: &Values) -> BoxedStrategy<Mutation> {
    prop_oneof![
        mutation!(values, AddUser { user: user, serial: serial, validity: validity }),
        mutation!(values, RevokeUser { user: user }),
    ]
    .boxed()
}

fn replicas(values: &Values) -> BoxedStrategy<Mutation> {
    prop_oneof![
        3 => mutation!(values, AddReplica { address: replica_address }),
        1 => mutation!(values, RemoveReplica { replica: replica }),
    ]
    .boxed()
}

fn enrolment(values: &Values) -> BoxedStrategy<Mutation> {
    prop_oneof![
        4 => mutation!(values, IssueToken {
            machine: machine, serial: serial, validity: validity, most: token_uses
        }),
        1 => mutation!(values, RevokeMachine { machine: machine }),
        2 => mutation!(values, IssueReplicaToken {
            replica: replica, serial: replica_serial, validity: validity
        }),
    ]
    .boxed()
}

fn locks(values: &Values) -> BoxedStrategy<Mutation> {
    let acquire = (values.path.clone(), values.lock_session.clone(), any::<bool>());
    let kept = prop::option::weighted(0.3, values.lock_session.clone());
    let expected = (values.generation.clone(), values.sequencer.clone());
    let write = (values.path.clone(), values.content.clone(), expected, kept);
    prop_oneof![
        2 => mutation!(values, OpenLockSession { lease: lease }),
        1 => mutation!(values, RenewLockSession { session: lock_session }),
        1 => mutation!(values, CloseLockSession { session: lock_session }),
        3 => write.prop_map(|(path, content, (expected, sequencer), session)| {
            WriteFile { path, content, expected, session, sequencer }.into()
        }),
        1 => mutation!(values, DeleteFile {
            path: path, expected: generation, sequencer: sequencer
        }),
        4 => acquire.prop_map(|(path, session, shared)| {
            AcquireLock { path, session, mode: LockMode::shared(shared) }.into()
        }),
        2 => mutation!(values, ReleaseLock { path: path, session: lock_session }),
    ]
    .boxed()
}

fn services(values: &Values) -> BoxedStrategy<Mutation> {
    let name = (values.user.clone(), values.service.clone());
    let behind = (values.port.clone(), values.labels.clone(), values.users.clone());
    prop_oneof![
        3 => (name, behind).prop_map(|((owner, name), (port, labels, users))| {
            SetService(Arc::new(Service { owner, name, port, labels, users })).into()
        }),
        1 => mutation!(values, DeleteService { owner: user, name: service }),
    ]
    .boxed()
}

fn packages(values: &Values, package: &BoxedStrategy<PackageId>) -> BoxedStrategy<Mutation> {
    let readers = prop_oneof![
        3 => values.users.clone().prop_map(PackageReaders::Users),
        1 => Just(PackageReaders::Everyone),
    ];
    let architecture = select(vec!["amd64", "arm64"]);
    let architectures = prop::collection::btree_set(architecture, 0..3);
    let content = (0..2_u8, 1..1_u64 << 41, architectures);
    prop_oneof![
        3 => (package.clone(), content, readers).prop_map(|(id, (content, bytes, names), readers)| {
            let architectures = names.into_iter().filter_map(|name| name.parse().ok()).collect();
            let stored = Bytes(bytes);
            let digest = Digest::from_bytes([content; Digest::BYTES]);
            let (kind, unpacked, entries) = (PackageKind::Files, stored, 1);
            let package = Package {
                id, digest, kind, stored, unpacked, entries, architectures, readers,
            };
            SetPackage(Arc::new(package)).into()
        }),
        1 => package.clone().prop_map(|id| DeletePackage(id).into()),
    ]
    .boxed()
}

fn quota(values: &Values) -> BoxedStrategy<Mutation> {
    let (user, capability) = (values.user.clone(), values.capability.clone());
    let weights = (values.user.clone(), share_weights());
    let set = (user, capability, prop::bool::weighted(0.7));
    prop_oneof![
        6 => mutation!(values, GrantQuota {
            user: user, band: band, amount: amount, from: moment, until: moment
        }),
        2 => mutation!(values, RevokeQuota { grant: grant }),
        1 => mutation!(values, Oversell { band: band, percent: percent }),
        2 => prop::bool::weighted(0.8).prop_map(|on| Mutation::MeterQuota(MeterQuota { on })),
        1 => queue_settings().prop_map(|settings| SetQueuePolicy(settings).into()),
        1 => weights.prop_map(|(user, weights)| SetQueueWeight { user, weights }.into()),
        6 => set.prop_map(|(user, capability, granted)| {
            Mutation::SetCapability(SetCapability { user, capability, granted })
        }),
        1 => mutation!(values, UseCapability { capability: capability, collection: collection }),
        1 => (0..200_u64).prop_map(|index| RecordBackup { index: LogIndex(index) }.into()),
    ]
    .boxed()
}

/// Settings of the batch queue, of which some are out of bounds.
fn queue_settings() -> impl Strategy<Value = QueueSettings> {
    let span = || (0..40_000_000_u64).prop_map(Span::from_secs);
    let half_life = prop::option::of(span());
    let on = prop::bool::weighted(0.7);
    let poorest = select(&PoorestUser::ALL[..]);
    (on, poorest, half_life, span()).prop_map(|(on, poorest, half_life, assumed_runtime)| {
        QueueSettings { on, poorest, half_life, assumed_runtime }
    })
}

/// Any weights.
fn share_weights() -> impl Strategy<Value = ShareWeights> {
    let weight = (select(&Dimension::ALL[..]), ShareWeights::RANGE);
    let weigh = |weights: ShareWeights, (dimension, weight)| {
        weights.with(dimension, weight).unwrap_or(weights)
    };
    prop::collection::vec(weight, 0..3)
        .prop_map(move |all| all.into_iter().fold(ShareWeights::default(), weigh))
}

/// An endless, deterministic sequence of mutations for a seed.
pub fn seeded(values: &Values, seed: u64) -> impl Iterator<Item = Mutation> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = mutation(values);
    std::iter::from_fn(move || strategy.new_tree(&mut runner).ok().map(|tree| tree.current()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_mutation_is_made_and_a_seed_makes_the_same_ones() {
        let made: Vec<Mutation> = seeded(&Values::few(), 1).take(3_000).collect();
        let kinds: BTreeSet<&str> = made.iter().map(Mutation::name).collect();
        // Savers end on machines, of which there are none here. Records of commands only add events, and no
        // client can send them; the settings of logs, of notices, of reclamation and of packing concern nothing else in a
        // cell.
        let others =
            ["EndSaver", "RecordExec", "SetLogs", "SetNoticeMax", "SetReclamation", "SetPacking"];
        let all = Mutation::NAMES.iter().copied().filter(|name| !others.contains(name));
        assert_eq!(kinds, all.collect());
        assert_eq!(seeded(&Values::few(), 1).take(3_000).collect::<Vec<_>>(), made);
        assert_ne!(seeded(&Values::few(), 2).take(3_000).collect::<Vec<_>>(), made);
    }
}
