//! Strategies: valid descriptions, and every value that the core's types can hold and a format can
//! carry.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use borglet::{Desired, Order, Report, TaskReport, TaskStatus};
use cell::{Assignment, Mutation, Observation, Op, Rejection, Reply, RequestId};
use model::{
    Appclass, Bytes, CollectionId, End, Generation, InstanceId, LogIndex, MachineId, MachineReport,
    MilliCores, PortName, PortRange, Priority, Resources, SessionId, Span, Stamp, TaskIndex,
    TaskSelection, Term,
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;
use spec::{HealthCheck, JobSpec, RestartPolicy, TaskOverride, TaskSpec};

type Words = BTreeMap<String, String>;

pub(crate) fn name<N>() -> impl Strategy<Value = N>
where
    N: FromStr<Err: std::fmt::Debug> + std::fmt::Debug,
{
    "[a-z0-9]([a-z0-9-]{0,6}[a-z0-9])?".prop_map(|text| text.parse().expect("a name"))
}

fn appclass() -> impl Strategy<Value = Appclass> {
    prop_oneof![Just(Appclass::Batch), Just(Appclass::LatencySensitive)]
}

fn priority() -> impl Strategy<Value = Priority> {
    (0..=i64::from(Priority::MAX)).prop_map(|number| Priority::new(number).expect("in range"))
}

/// What an `int64` can carry.
fn quantity() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1..1_000_u64, 0..=i64::MAX.unsigned_abs(), Just(i64::MAX.unsigned_abs())]
}

fn any_span() -> impl Strategy<Value = Span> {
    prop_oneof![Just(0), any::<u64>(), Just(u64::MAX)].prop_map(Span)
}

fn span(least_ms: u64) -> impl Strategy<Value = Span> {
    (least_ms * 1_000..=86_400_000_000).prop_map(Span)
}

fn resources() -> impl Strategy<Value = Resources> {
    (quantity(), quantity(), quantity(), quantity()).prop_map(|(cpu, ram, disk, rate)| Resources {
        cpu: MilliCores(cpu),
        ram: Bytes(ram),
        disk: Bytes(disk),
        disk_rate: Bytes(rate),
    })
}

fn valid_limit() -> impl Strategy<Value = Resources> {
    let (ram, disk) = (4 << 20..1_u64 << 40, 0..1_u64 << 40);
    (1..1_u64 << 20, ram, disk.clone(), disk).prop_map(|(cpu, ram, disk, rate)| Resources {
        cpu: MilliCores(cpu),
        ram: Bytes(ram),
        disk: Bytes(disk),
        disk_rate: Bytes(rate),
    })
}

fn valid_cmd() -> impl Strategy<Value = Vec<String>> {
    let argument = prop_oneof![
        "[ -#%-~é]{0,8}",
        Just("--port=${port.http}".to_owned()),
        Just("${task.index}".to_owned()),
    ];
    ("[a-z/]{1,8}", vec(argument, 0..4))
        .prop_map(|(program, arguments)| std::iter::once(program).chain(arguments).collect())
}

fn valid_env() -> impl Strategy<Value = Words> {
    btree_map("[A-Z_][A-Z0-9_]{0,5}", "[ -#%-~]{0,8}", 0..4)
}

fn health_check(span: impl Strategy<Value = Span> + Clone) -> impl Strategy<Value = HealthCheck> {
    (name(), "/[a-z]{0,8}", span.clone(), span.clone(), span, 1..=1_000_000_u32).prop_map(
        |(port, path, interval, timeout, start_grace, failures_max)| HealthCheck {
            port,
            path,
            interval,
            timeout,
            start_grace,
            failures_max,
        },
    )
}

fn valid_task() -> impl Strategy<Value = TaskSpec> {
    let check = of(health_check((10_000..=86_400_000_000_u64).prop_map(Span)));
    let (ports, processes) = (btree_set(name(), 0..4), 1..=1_u32 << 20);
    (valid_cmd(), valid_env(), valid_limit(), processes, ports, check, span(0)).prop_map(
        |(cmd, env, limit, processes, ports, health_check, notice)| TaskSpec {
            cmd,
            env,
            limit,
            processes,
            ports,
            health_check,
            notice,
        },
    )
}

fn valid_override() -> impl Strategy<Value = TaskOverride> {
    (of(valid_cmd()), valid_env(), of(valid_limit()), of(1..=1_u32 << 20))
        .prop_map(|(cmd, env, limit, processes)| TaskOverride { cmd, env, limit, processes })
}

/// A description that is admitted, of a few tasks.
pub(crate) fn valid_job() -> impl Strategy<Value = JobSpec> {
    let failures = prop_oneof![0..2_u32, 0..=1_000_000_u32];
    let restart = (of(failures), span(0), span(0)).prop_map(|(failures_max, a, b)| RestartPolicy {
        failures_max,
        delay: a.min(b),
        delay_max: a.max(b),
    });
    let labels = btree_map("[a-z]{1,6}", "[ -~]{0,6}", 0..3);
    let overrides = vec((0..100_u32, valid_override()), 0..3);
    (name(), priority(), appclass(), labels, 1..100_u32, valid_task(), overrides, restart).prop_map(
        |(name, priority, appclass, labels, tasks, task, overrides, restart)| JobSpec {
            name,
            priority,
            appclass,
            labels,
            tasks,
            task,
            overrides: overrides.into_iter().map(|(at, o)| (TaskIndex(at % tasks), o)).collect(),
            restart,
        },
    )
}

/// What no cell would admit and the format carries all the same.
fn any_task() -> impl Strategy<Value = TaskSpec> {
    let words = btree_map(any::<String>(), any::<String>(), 0..3);
    let (cmd, ports) = (vec(any::<String>(), 0..3), btree_set(name(), 0..3));
    let check = of(health_check(any::<u64>().prop_map(Span)));
    (cmd, words, resources(), any::<u32>(), ports, check, any_span()).prop_map(
        |(cmd, env, limit, processes, ports, health_check, notice)| TaskSpec {
            cmd,
            env,
            limit,
            processes,
            ports,
            health_check,
            notice,
        },
    )
}

pub(crate) fn any_job() -> impl Strategy<Value = JobSpec> {
    let words = || btree_map(any::<String>(), any::<String>(), 0..3);
    let cmd = of(vec(any::<String>(), 1..3));
    let change = (cmd, words(), of(resources()), of(any::<u32>()))
        .prop_map(|(cmd, env, limit, processes)| TaskOverride { cmd, env, limit, processes });
    let overrides = btree_map(any::<u32>().prop_map(TaskIndex), change, 0..3);
    let restart =
        (of(any::<u32>()), any_span(), any_span()).prop_map(|(failures_max, delay, delay_max)| {
            RestartPolicy { failures_max, delay, delay_max }
        });
    (name(), priority(), appclass(), words(), any::<u32>(), any_task(), overrides, restart)
        .prop_map(|(name, priority, appclass, labels, tasks, task, overrides, restart)| JobSpec {
            name,
            priority,
            appclass,
            labels,
            tasks,
            task,
            overrides,
            restart,
        })
}

fn instance() -> impl Strategy<Value = InstanceId> {
    any::<(u64, u32, u32)>().prop_map(|(collection, index, generation)| InstanceId {
        collection: CollectionId(collection),
        index: TaskIndex(index),
        generation: Generation(generation),
    })
}

fn machine() -> impl Strategy<Value = MachineId> {
    any::<u64>().prop_map(MachineId)
}

pub(crate) fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        prop_oneof![Just(0), any::<u8>()].prop_map(|code| End::Exited { code }),
        any::<u8>().prop_map(|signal| End::Signalled { signal }),
        (quantity(), quantity())
            .prop_map(|(limit, peak)| End::OutOfMemory { limit: Bytes(limit), peak: Bytes(peak) }),
        any::<String>().prop_map(|reason| End::NotStarted { reason }),
        any::<String>().prop_map(|reason| End::Unhealthy { reason }),
        Just(End::Stopped),
        any::<String>().prop_map(|reason| End::Lost { reason }),
    ]
}

pub(crate) fn machine_report() -> impl Strategy<Value = MachineReport> {
    let words = btree_map(any::<String>(), any::<String>(), 0..3);
    (resources(), any::<(u16, u16)>(), words).prop_map(|(capacity, (first, last), attributes)| {
        MachineReport { capacity, ports: PortRange { first, last }, attributes }
    })
}

fn selection() -> impl Strategy<Value = TaskSelection> {
    let ranges = vec(any::<(u32, u32)>().prop_map(|(a, b)| (TaskIndex(a), TaskIndex(b))), 0..3);
    prop_oneof![Just(TaskSelection::All), ranges.prop_map(TaskSelection::Some)]
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        any_job().prop_map(|job| Mutation::Submit(Arc::new(job))),
        (any::<u64>(), selection()).prop_map(|(collection, tasks)| Mutation::Kill {
            collection: CollectionId(collection),
            tasks,
        }),
        (name(), any::<String>())
            .prop_map(|(name, address)| Mutation::AddMachine { name, address }),
    ]
}

fn observation() -> impl Strategy<Value = Observation> {
    prop_oneof![
        instance().prop_map(|instance| Observation::Started { instance }),
        (instance(), any::<bool>())
            .prop_map(|(instance, healthy)| Observation::Health { instance, healthy }),
        (instance(), end()).prop_map(|(instance, end)| Observation::Ended { instance, end }),
    ]
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    let id = any::<(u64, u64)>()
        .prop_map(|(session, sequence)| RequestId { session: SessionId(session), sequence });
    let assignment = (instance(), machine(), vec(any::<u16>(), 0..3))
        .prop_map(|(instance, machine, ports)| Assignment { instance, machine, ports });
    prop_oneof![
        Just(Op::Nothing),
        (name(), name()).prop_map(|(name, administrator)| Op::Found { name, administrator }),
        name().prop_map(|user| Op::OpenSession { user }),
        (id, name(), mutation()).prop_map(|(id, by, mutation)| Op::Request { id, by, mutation }),
        vec(assignment, 0..3).prop_map(Op::Assign),
        (machine(), vec(observation(), 0..3))
            .prop_map(|(machine, observations)| Op::Observe { machine, observations }),
        (machine(), machine_report().prop_map(Arc::new))
            .prop_map(|(machine, report)| Op::DescribeMachine { machine, report }),
        machine().prop_map(|machine| Op::MachineSilent { machine }),
        machine().prop_map(|machine| Op::MachineBack { machine }),
        vec(any::<u64>().prop_map(CollectionId), 0..4)
            .prop_map(|collections| Op::Forget { collections }),
    ]
}

pub(crate) fn answer() -> impl Strategy<Value = Result<Reply, Rejection>> {
    let word = || any::<String>();
    let full_of =
        prop::sample::select(vec!["tasks", "machines", "job ids", "machine ids", "session ids"]);
    let foreign = (any::<u64>(), name(), name());
    prop_oneof![
        any::<u64>().prop_map(|id| Ok(Reply::Session(SessionId(id)))),
        any::<(u64, bool)>().prop_map(|(collection, unchanged)| {
            Ok(Reply::Submitted { collection: CollectionId(collection), unchanged })
        }),
        any::<u32>().prop_map(|tasks| Ok(Reply::Killed { tasks })),
        machine().prop_map(|machine| Ok(Reply::MachineAdded(machine))),
        Just(Err(Rejection::NotFounded)),
        any::<u64>().prop_map(|id| Err(Rejection::NoSuchSession(SessionId(id)))),
        foreign.prop_map(|(session, owner, by)| {
            Err(Rejection::ForeignSession { session: SessionId(session), owner, by })
        }),
        any::<u64>().prop_map(|sequence| Err(Rejection::AnswerForgotten { sequence })),
        word().prop_map(|problem| Err(Rejection::Invalid(problem))),
        (name(), name())
            .prop_map(|(owner, name)| Err(Rejection::DiffersFromLiving { owner, name })),
        any::<u64>().prop_map(|id| Err(Rejection::NoSuchJob(CollectionId(id)))),
        any::<u32>().prop_map(|last| Err(Rejection::NoSuchTask { last })),
        (name(), word(), word()).prop_map(|(by, what, who)| Err(Rejection::NotAllowed {
            by,
            what,
            who
        })),
        (full_of, any::<u64>(), any::<u64>()).prop_map(|(what, has, most)| Err(Rejection::Full {
            what,
            has,
            most
        })),
        name().prop_map(|machine| Err(Rejection::AddressTaken(machine))),
    ]
}

fn stamp() -> impl Strategy<Value = Stamp> {
    any::<(u64, u64, u64)>().prop_map(|(restore_epoch, term, index)| Stamp {
        restore_epoch,
        term: Term(term),
        index: LogIndex(index),
    })
}

pub(crate) fn order() -> impl Strategy<Value = Order> {
    let ports = vec((name::<PortName>(), any::<u16>()), 0..3);
    let names = (name(), name(), name());
    let desired = (instance(), names, priority(), appclass(), any_task(), ports).prop_map(
        |(instance, (cell, user, job), priority, appclass, spec, ports)| Desired {
            instance,
            cell,
            user,
            job,
            priority,
            appclass,
            spec: Arc::new(spec),
            ports,
        },
    );
    (stamp(), vec(desired, 0..3)).prop_map(|(stamp, tasks)| Order { stamp, tasks })
}

pub(crate) fn report() -> impl Strategy<Value = Report> {
    let status = prop_oneof![
        Just(TaskStatus::Starting),
        of(any::<bool>()).prop_map(|healthy| TaskStatus::Running { healthy }),
        Just(TaskStatus::Stopping),
        end().prop_map(TaskStatus::Ended),
    ];
    let task = (instance(), status).prop_map(|(instance, status)| TaskReport { instance, status });
    (stamp(), machine_report().prop_map(Arc::new), vec(task, 0..3))
        .prop_map(|(stamp, machine, tasks)| Report { stamp, machine, tasks })
}
