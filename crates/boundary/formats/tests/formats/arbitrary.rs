//! Strategies: valid descriptions, and every value that both the core's types and a format can
//! represent.

pub(crate) mod event;
pub(crate) mod job;
pub(crate) mod op;

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use cell::{Certificate, Grant, MemberChange, Package, PackageId, Service};
use model::{
    Appclass, Band, Bytes, CollectionId, Digest, Dimension, End, FilePath, FinalUsage, GcuFactor,
    Generation, GrantId, HeldPorts, InstanceId, KeyDigest, LabelQuery, LogIndex, MachineId,
    MachineReport, MilliCores, NoticeDelivery, NoticeReason, PackageKind, PackageReaders, Permille,
    PortName, PortRange, Priority, ReplicaId, Resources, RestoreEpoch, SaverOutcome, Saving,
    SchedulingClass, Serial, Shortage, ShortageState, Span, Stamp, StartLatency, StartPart,
    TaskIndex, TaskSelection, Term, Time,
};
use poll::{
    CpuDistribution, Desired, DesiredAlloc, Measured, Order, Report, Stop, TaskReport, TaskStatus,
    Usage, UsageSample, UsageSubject, UsageWindow,
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use spec::{LogSettings, TaskSpec};

type Words = BTreeMap<String, String>;

pub(crate) fn name<N>() -> impl Strategy<Value = N>
where
    N: FromStr<Err: std::fmt::Debug> + std::fmt::Debug,
{
    "[a-z0-9]([a-z0-9-]{0,6}[a-z0-9])?".prop_map(|text| text.parse().expect("a name"))
}

fn path() -> impl Strategy<Value = FilePath> {
    "/[a-z]{1,4}(/[A-Za-z0-9_-]{1,5}){1,3}".prop_map(|text| text.parse().expect("a path"))
}

fn labels() -> impl Strategy<Value = LabelQuery> {
    let term = "!?[a-z]{1,4}|[a-z]{1,4}!?=[a-z=]{0,4}";
    vec(term, 1..4).prop_map(|terms| terms.join(",").parse().expect("a label query"))
}

fn package() -> impl Strategy<Value = PackageId> {
    let version = "[A-Za-z0-9_][A-Za-z0-9_.+-]{0,9}";
    (name(), name(), version).prop_map(|(owner, name, version)| PackageId {
        owner,
        name,
        version: version.parse().expect("a version"),
    })
}

fn digest() -> impl Strategy<Value = Digest> {
    any::<[u8; Digest::BYTES]>().prop_map(Digest::from_bytes)
}

fn described_package() -> impl Strategy<Value = Arc<Package>> {
    let readers = prop_oneof![
        btree_set(name(), 0..3).prop_map(PackageReaders::Users),
        Just(PackageReaders::Everyone),
    ];
    let kind = prop_oneof![Just(PackageKind::Files), Just(PackageKind::Image)];
    let bytes = || (0..=i64::MAX as u64).prop_map(Bytes);
    (package(), digest(), kind, (bytes(), bytes(), any::<u64>()), readers).prop_map(
        |(id, digest, kind, (stored, unpacked, entries), readers)| {
            let architectures =
                ["amd64", "arm64"].into_iter().take(usize::from(entries % 3 == 0) * 2);
            let architectures = architectures.filter_map(|name| name.parse().ok()).collect();
            Arc::new(Package {
                id,
                digest,
                kind,
                stored,
                unpacked,
                entries,
                architectures,
                readers,
            })
        },
    )
}

fn service() -> impl Strategy<Value = Arc<Service>> {
    let users = btree_set(name(), 0..3);
    (name(), name(), name(), labels(), users).prop_map(|(owner, name, port, labels, users)| {
        Arc::new(Service { owner, name, port, labels, users })
    })
}

fn words() -> impl Strategy<Value = Words> {
    btree_map(any::<String>(), any::<String>(), 0..3)
}

fn appclass() -> impl Strategy<Value = Appclass> {
    prop_oneof![Just(Appclass::Batch), Just(Appclass::LatencySensitive)]
}

fn scheduling_class() -> impl Strategy<Value = SchedulingClass> {
    (0..=i64::from(SchedulingClass::MAX)).prop_map(|n| SchedulingClass::new(n).expect("in range"))
}

fn priority() -> impl Strategy<Value = Priority> {
    (0..=i64::from(Priority::MAX)).prop_map(|number| Priority::new(number).expect("in range"))
}

fn factor() -> impl Strategy<Value = GcuFactor> {
    (1..=GcuFactor::MAX).prop_map(|milli| GcuFactor::from_milli(milli).expect("in range"))
}

/// The range of an `int64`.
fn quantity() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1..1_000_u64, 0..=i64::MAX.unsigned_abs(), Just(i64::MAX.unsigned_abs())]
}

fn any_span() -> impl Strategy<Value = Span> {
    prop_oneof![Just(0), any::<u64>(), Just(u64::MAX)].prop_map(Span)
}

fn serial() -> impl Strategy<Value = Serial> {
    vec(any::<u8>(), 0..=Serial::BYTES)
        .prop_map(|bytes| Serial::from_bytes(&bytes).expect("short enough"))
}

fn key() -> impl Strategy<Value = KeyDigest> {
    any::<[u8; KeyDigest::BYTES]>().prop_map(KeyDigest)
}

fn certificate() -> impl Strategy<Value = Certificate> {
    (serial(), any::<(u64, u64)>()).prop_map(|(serial, (issued, expires))| Certificate {
        serial,
        issued: Time(issued),
        expires: Time(expires),
    })
}

fn resources() -> impl Strategy<Value = Resources> {
    (quantity(), quantity(), quantity(), quantity()).prop_map(|(cpu, ram, disk, rate)| Resources {
        cpu: MilliCores(cpu),
        ram: Bytes(ram),
        disk: Bytes(disk),
        disk_rate: Bytes(rate),
    })
}

fn band() -> impl Strategy<Value = Band> {
    select(&Band::ALL[..])
}

fn grant() -> impl Strategy<Value = Grant> {
    let period = (any::<u64>().prop_map(Time), of(any::<u64>().prop_map(Time)));
    (any::<u64>(), name(), band(), resources(), period, name()).prop_map(
        |(id, user, band, amount, (from, until), by)| Grant {
            id: GrantId(id),
            user,
            band,
            amount,
            from,
            until,
            by,
        },
    )
}

fn collection() -> impl Strategy<Value = CollectionId> {
    any::<u64>().prop_map(CollectionId)
}

fn replica() -> impl Strategy<Value = ReplicaId> {
    any::<u64>().prop_map(ReplicaId)
}

fn member_change() -> impl Strategy<Value = MemberChange> {
    select(vec![MemberChange::Learner, MemberChange::Voter, MemberChange::Out])
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
        any::<String>().prop_map(|reason| End::BrokeRule { reason }),
        (0..1_u64 << 40).prop_map(|most| End::OverRuntime { most: Span(most) }),
        any::<String>().prop_map(|reason| End::OutOfResources { reason }),
    ]
}

pub(crate) fn machine_report() -> impl Strategy<Value = MachineReport> {
    let held_ports = vec(held_ports(), 0..3);
    let task_network = of((any::<u16>(), 16_u8..=30).prop_map(|(bits, prefix)| {
        let address = std::net::Ipv4Addr::from_bits(u32::from(bits) << 16);
        model::Subnet::new(address, prefix).expect("a range")
    }));
    let parts = (resources(), port_range(), words(), held_ports, vec(saving(), 0..3));
    (parts, task_network, of(shortage()), of(any::<String>())).prop_map(
        |((capacity, ports, attributes, held_ports, saving), task_network, shortage, not_ready)| {
            MachineReport {
                capacity,
                ports,
                task_network,
                attributes,
                held_ports,
                saving,
                shortage,
                not_ready,
                volumes: Vec::new(),
            }
        },
    )
}

pub(crate) fn shortage() -> impl Strategy<Value = Shortage> {
    let state = select(&[ShortageState::Persists, ShortageState::Eased][..]);
    (select(&Dimension::ALL[..]), state)
        .prop_map(|(dimension, state)| Shortage { dimension, state })
}

fn saving() -> impl Strategy<Value = Saving> {
    let given_up = any::<String>().prop_map(|reason| SaverOutcome::GivenUp { reason });
    let outcome = of(prop_oneof![Just(SaverOutcome::Saved), given_up]);
    let bytes = (0..=i64::MAX.unsigned_abs()).prop_map(Bytes);
    (instance(), bytes, any::<u32>(), any::<u64>(), outcome).prop_map(
        |(instance, bytes, attempts, until, outcome)| Saving {
            instance,
            bytes,
            attempts,
            until: Time(until),
            outcome,
        },
    )
}

fn port_range() -> impl Strategy<Value = PortRange> {
    any::<(u16, u16)>().prop_map(|(first, last)| PortRange { first, last })
}

pub(crate) fn held_ports() -> impl Strategy<Value = HeldPorts> {
    (port_range(), any::<String>()).prop_map(|(ports, by)| HeldPorts { ports, by })
}

fn selection() -> impl Strategy<Value = TaskSelection> {
    let ranges = vec(any::<(u32, u32)>().prop_map(|(a, b)| (TaskIndex(a), TaskIndex(b))), 0..3);
    prop_oneof![Just(TaskSelection::All), ranges.prop_map(TaskSelection::Some)]
}

fn stamp() -> impl Strategy<Value = Stamp> {
    any::<(u64, u64, u64, u64)>().prop_map(|(counter, random, term, index)| Stamp {
        restore_epoch: RestoreEpoch { counter, random },
        term: Term(term),
        index: LogIndex(index),
    })
}

/// A task as sent to a machine: everything except its constraints.
fn told() -> impl Strategy<Value = TaskSpec> {
    job::any_task().prop_map(|task| TaskSpec { constraints: Vec::new(), ..task })
}

pub(crate) fn order() -> impl Strategy<Value = Order> {
    let ports = vec((name::<PortName>(), any::<u16>()), 0..3);
    let names = (name(), name(), name());
    let ids = (instance(), of(instance()));
    let desired = (ids, names, priority(), appclass(), any::<u32>(), told(), ports).prop_map(
        |((instance, alloc), (cell, user, job), priority, appclass, tasks, spec, ports)| Desired {
            address: None,
            volumes: Vec::new(),
            reads_again: 0,
            max_runtime: None,
            instance,
            alloc,
            cell,
            user,
            job,
            priority,
            appclass,
            tasks,
            spec: Arc::new(spec),
            ports,
        },
    );
    let names = (name(), name(), name());
    let alloc = (instance(), names, priority(), resources()).prop_map(
        |(instance, (cell, user, name), priority, limit)| DesiredAlloc {
            address: None,
            appclass: Appclass::LatencySensitive,
            instance,
            cell,
            user,
            name,
            priority,
            limit,
            saver: None,
        },
    );
    let reasons = select(&NoticeReason::ALL[..]);
    let stop = (instance(), reasons, any::<String>(), of(any::<u64>().prop_map(Span))).prop_map(
        |(instance, reason, cause, notice_max)| Stop { instance, reason, cause, notice_max },
    );
    let settled = (vec(instance(), 0..3), btree_map(instance(), name(), 0..3));
    let bytes = || quantity().prop_map(Bytes);
    let logs = (any_span(), bytes(), of(bytes()));
    let logs = of(logs.prop_map(|(keep, max, machine)| LogSettings { keep, max, machine }));
    let stamps = (stamp(), of(stamp()));
    let path = || Just("/srv/data".parse().expect("a path"));
    let volume = (name(), path());
    let volume = volume.prop_map(|(volume, path)| poll::VolumeDirectory { volume, path });
    let tasks = (vec(desired, 0..3), vec(volume, 0..3));
    (stamps, vec(alloc, 0..3), tasks, vec(stop, 0..3), settled, logs).prop_map(
        |((stamp, overrules), allocs, (tasks, volumes), stops, (settled, saver_ends), logs)| {
            Order {
                stamp,
                overrules,
                allocs,
                tasks,
                stops,
                settled,
                saver_ends: Arc::new(saver_ends),
                volumes,
                logs,
            }
        },
    )
}

/// The encodable range: spans are limited by their microseconds, and bytes are signed.
pub(crate) fn usage() -> impl Strategy<Value = FinalUsage> {
    let peak = of((0..=i64::MAX.unsigned_abs()).prop_map(Bytes));
    (of(any::<u64>().prop_map(Span)), peak, of(select(&NoticeDelivery::ALL[..])))
        .prop_map(|(cpu_time, memory_peak, notice)| FinalUsage { cpu_time, memory_peak, notice })
}

fn measured() -> impl Strategy<Value = Measured> {
    let bytes = || of((0..=i64::MAX.unsigned_abs()).prop_map(Bytes));
    let share = || of((0..=1_000_u64).prop_map(Permille::at_most_whole));
    let amounts = (milli_cores(), bytes(), bytes(), bytes(), bytes(), bytes(), bytes());
    (amounts, (share(), share(), share(), share())).prop_map(
        |(
            (cpu, memory, memory_peak, page_cache, memory_assigned, disk, disk_rate),
            (throttled, cpu_pressure, memory_pressure, io_pressure),
        )| Measured {
            cpu,
            memory,
            memory_peak,
            page_cache,
            memory_assigned,
            disk,
            disk_rate,
            throttled,
            cpu_pressure,
            memory_pressure,
            io_pressure,
        },
    )
}

fn milli_cores() -> impl Strategy<Value = Option<MilliCores>> {
    of((0..=i64::MAX.unsigned_abs()).prop_map(MilliCores))
}

fn usage_subject() -> impl Strategy<Value = UsageSubject> {
    prop_oneof![
        instance().prop_map(UsageSubject::Instance),
        Just(UsageSubject::Machine),
        Just(UsageSubject::System),
    ]
}

fn usage_window() -> impl Strategy<Value = UsageWindow> {
    let cpu = of(vec((0..=i64::MAX.unsigned_abs()).prop_map(MilliCores), 20).prop_map(|all| {
        CpuDistribution {
            percentiles: std::array::from_fn(|index| all[index]),
            tail: std::array::from_fn(|index| all[11 + index]),
        }
    }));
    let times = any::<(u64, u64, u32)>();
    let counters = any::<(Option<u32>, Option<u32>)>();
    (usage_subject(), times, measured(), measured(), milli_cores(), cpu, counters).prop_map(
        |(subject, (start, length, samples), average, maximum, random_cpu, cpu, counters)| {
            UsageWindow {
                subject,
                start: Time(start),
                length: Span(length),
                samples,
                average,
                maximum,
                random_cpu,
                cpu,
                cycles_per_instruction: counters.0,
                memory_accesses_per_instruction: counters.1,
            }
        },
    )
}

/// What a Borglet sends besides its report.
pub(crate) fn all_usage() -> impl Strategy<Value = Usage> {
    let sample = (usage_subject(), any::<u64>(), measured())
        .prop_map(|(subject, at, measured)| UsageSample { subject, at: Time(at), measured });
    (vec(sample, 0..3), vec(usage_window(), 0..3), any::<u64>())
        .prop_map(|(samples, windows, cursor)| Usage { samples, windows, cursor })
}

/// Where the time of a start went. Drawing it would shift all that is drawn after it.
pub(crate) fn latency(of: InstanceId) -> StartLatency {
    let drawn = u64::from(of.generation.0 ^ of.index.0);
    let known = StartPart::ALL.into_iter().filter(|part| drawn >> (*part as usize) & 1 == 1);
    known.fold(StartLatency::UNKNOWN, |latency, part| latency.with(part, Span(drawn << 12)))
}

pub(crate) fn report() -> impl Strategy<Value = Report> {
    let status = prop_oneof![
        Just(TaskStatus::Starting),
        of(any::<bool>()).prop_map(|healthy| TaskStatus::Running { healthy }),
        Just(TaskStatus::Stopping),
        Just(TaskStatus::Unready),
        (end(), usage()).prop_map(|(end, usage)| TaskStatus::Ended(end, usage)),
    ];
    let task = (instance(), status, ".{0,9}").prop_map(|(instance, status, check)| TaskReport {
        latency: latency(instance),
        instance,
        status,
        check,
    });
    (stamp(), machine_report().prop_map(Arc::new), vec(task, 0..3))
        .prop_map(|(stamp, machine, tasks)| Report { stamp, machine, tasks })
}
