//! A cell with quota, corrupted; and decisions that quota did not allow.

use model::{Bytes, Capability, Grant, GrantId};
use spec::limits::{BYTES_MAX, CPU_MILLI_MAX};

use super::*;
use crate::bounds::TIME_MAX;
use crate::{Applied, DecisionChecker, GrantQuota, SetCapability};

const GRANT: GrantId = GrantId(1);
const MID: GrantId = GrantId(2);

fn request(sequence: u64, mutation: Mutation) -> Op {
    Op::Request { id: RequestId { session: SessionId(1), sequence }, by: user("ana"), mutation }
}

fn grant(whose: &str, band: Band, cpu: u64, until: Option<u64>) -> Mutation {
    let amount = resources(cpu, 256 << 20);
    let until = until.map(|seconds| Time(seconds * 1_000_000));
    Mutation::GrantQuota(GrantQuota { user: user(whose), band, amount, from: None, until })
}

fn submit(name: &str, cpu: u64) -> Mutation {
    let mut task = TaskSpec::of(vec!["server".to_owned()]);
    task.limit.cpu = MilliCores(cpu);
    let name = JobName::new(name).expect("a name");
    Mutation::Submit(Arc::new(JobSpec::of(name, Band::Production.usual(), 1, task)))
}

/// Submits the valid cell's job again, with as many resources as are granted.
fn submit_again() -> Mutation {
    let job = valid_cell();
    let mut spec = JobSpec::clone(&job.job(JOB).expect("the job").spec);
    spec.task.limit.cpu = MilliCores(150);
    Mutation::Submit(Arc::new(spec))
}

/// The valid cell, whose job takes 0.3 of the 0.5 cores that ana is granted for production; bob has
/// the mid band for 10 seconds, and may drain machines.
fn with_quota() -> Cell {
    let mut cell = valid_cell();
    let drains = Capability::DrainMachines;
    for op in [
        Op::MeterQuota,
        request(3, grant("ana", Band::Production, 500, None)),
        request(4, grant("bob", Band::Mid, 1_500, Some(10))),
        request(
            5,
            Mutation::SetCapability(SetCapability {
                user: user("bob"),
                capability: drains,
                granted: true,
            }),
        ),
    ] {
        cell.apply(Time::ZERO, &op);
    }
    assert_eq!(cell.check(), []);
    assert!(cell.quota.metering.on && cell.quota.grants.len() == 2 && cell.capabilities.len() == 1);
    cell
}

/// Changes a grant and updates its user's index.
fn change(cell: &mut Cell, id: GrantId, change: fn(&mut Grant)) {
    let grant = cell.quota.grants.get_mut(&id).expect("granted");
    change(Arc::make_mut(grant));
}

/// Stores copies of a grant under other ids.
fn copies(cell: &mut Cell, count: u64, whose: fn(u64) -> UserName) {
    let grant = Grant::clone(&cell.quota.grants[&GRANT]);
    for number in 0..count {
        let id = GrantId(cell.quota.last_grant.0 + 1);
        cell.quota.last_grant = id;
        cell.quota.keep(Arc::new(Grant { id, user: whose(number), ..grant.clone() }));
    }
}

#[test]
fn every_corruption_of_quota_is_named() {
    type Corrupt = fn(&mut Cell);
    let cases: &[(Corrupt, &[&str])] = &[
        (
            |cell| {
                let more = resources(1, 0).into();
                cell.quota.charge(&user("ana"), Band::Production, more);
            },
            &["ana is charged 0.301 cores, 192 MiB in production, by the tasks 0.3 cores, 192 MiB"],
        ),
        (
            |cell| cell.quota.charged.clear(),
            &["ana is charged 0 cores, 0 B in production, by the tasks 0.3 cores, 192 MiB"],
        ),
        (
            |cell| cell.quota.charge(&user("bob"), Band::Mid, resources(1, 0).into()),
            &["bob is charged 0.001 cores, 0 B in mid, by the tasks 0 cores, 0 B"],
        ),
        (
            |cell| {
                cell.quota.of_users.remove(&(user("ana"), Band::Production, GRANT));
            },
            &["grant 1 is not in its user's index", "the cell: 1 grants by user stored, 2 counted"],
        ),
        (
            |cell| {
                cell.quota.of_users.insert((user("eve"), Band::Mid, GRANT));
            },
            &["the cell: 3 grants by user stored, 2 counted"],
        ),
        (
            |cell| change(cell, GRANT, |grant| grant.id = MID),
            &[
                "grant 2 is greater than the last id assigned (2), or stored under another id",
                "grant 2 is not in its user's index",
            ],
        ),
        (
            |cell| change(cell, GRANT, |grant| grant.user = user("eve")),
            &["grant 1 is not in its user's index"],
        ),
        (
            |cell| change(cell, GRANT, |grant| grant.band = Band::Monitoring),
            &["grant 1 is not in its user's index"],
        ),
        (
            |cell| {
                let free = Grant { band: Band::Free, ..Grant::clone(&cell.quota.grants[&GRANT]) };
                cell.quota.drop_grant(GRANT);
                cell.quota.keep(Arc::new(free));
            },
            &["grant 1 is in the free band"],
        ),
        (
            |cell| change(cell, GRANT, |grant| grant.amount = Resources::default()),
            &["grant 1 has no amount"],
        ),
        (
            |cell| {
                change(cell, GRANT, |grant| grant.amount.cpu = MilliCores(CPU_MILLI_MAX + 1));
            },
            &["grant 1 exceeds the maximum of a grant"],
        ),
        (
            |cell| {
                change(cell, GRANT, |grant| grant.amount.disk_rate = Bytes(BYTES_MAX + 1));
            },
            &["grant 1 exceeds the maximum of a grant"],
        ),
        (
            |cell| change(cell, MID, |grant| grant.from = Time(10_000_000)),
            &["grant 2 ends before it begins"],
        ),
        (
            |cell| change(cell, GRANT, |grant| grant.from = Time(TIME_MAX.0 + 1)),
            &["grant 1 begins or ends after the year 9999"],
        ),
        (
            |cell| change(cell, MID, |grant| grant.until = Some(Time(TIME_MAX.0 + 1))),
            &["grant 2 begins or ends after the year 9999"],
        ),
        (
            |cell| cell.quota.last_grant = GRANT,
            &["grant 2 is greater than the last id assigned (1), or stored under another id"],
        ),
        (
            |cell| copies(cell, 1_000, |_| user("ana")),
            &["1001 grants of a user, the maximum is 1000"],
        ),
        (
            |cell| copies(cell, 99_999, |number| user(&format!("u{}", number / 1_000))),
            &["100001 grants, the maximum is 100000"],
        ),
        (
            |cell| cell.quota.metering.mid_percent = 0,
            &["mid is granted up to 0 %, which is not in 1 to 10000 %"],
        ),
        (
            |cell| cell.quota.metering.best_effort_batch_percent = 10_001,
            &["best-effort-batch is granted up to 10001 %, which is not in 1 to 10000 %"],
        ),
        (
            |cell| {
                cell.capabilities.insert(user("eve"), imbl::OrdSet::new());
            },
            &["eve is listed with no capability"],
        ),
        (
            |cell| {
                let held = cell.capabilities[&user("bob")].clone();
                for number in 0..10_000 {
                    cell.capabilities.insert(user(&format!("u{number}")), held.clone());
                }
            },
            &["10001 users with capabilities, the maximum is 10000"],
        ),
    ];
    for (corrupt, expected) in cases {
        let mut cell = with_quota();
        corrupt(&mut cell);
        let says: Vec<String> = cell.check().iter().map(ToString::to_string).collect();
        assert_eq!(says, *expected);
    }
}

/// What the check reports after a mutation if the cell was corrupted when it was decided.
fn check_after(mutation: &Mutation, corrupt: fn(&mut Cell)) -> Vec<String> {
    let mut cell = with_quota();
    let mut watch = DecisionChecker::from(&cell);
    let applied: Applied = cell.apply(Time::ZERO, &request(6, mutation.clone()));
    assert!(!applied.events.is_empty(), "{applied:?}");
    assert_eq!(watch.clone().after(&cell, &applied), []);
    corrupt(&mut cell);
    watch.after(&cell, &applied).iter().map(ToString::to_string).collect()
}

#[test]
fn every_decision_against_quota_is_named() {
    type Corrupt = fn(&mut Cell);
    let granted = |band, cpu| grant("eve", band, cpu, None);
    let cases: &[(Mutation, Corrupt, &[&str])] = &[
        (
            submit("api", 200),
            |cell| drop(cell.quota.drop_grant(GRANT)),
            &[
                "job 2 was admitted with 0.5 cores, 256 MiB of ana charged in production, and 0 cores, 0 B granted",
            ],
        ),
        (
            submit("api", 200),
            |cell| change(cell, GRANT, |grant| grant.amount.cpu = MilliCores(499)),
            &[
                "job 2 was admitted with 0.5 cores, 256 MiB of ana charged in production, and 0.499 cores, 256 MiB granted",
            ],
        ),
        (
            submit_again(),
            |cell| change(cell, GRANT, |grant| grant.until = Some(Time::ZERO)),
            &[
                "job 1 was admitted with 0.45 cores, 192 MiB of ana charged in production, and 0 cores, 0 B granted",
            ],
        ),
        // Production and monitoring count together.
        (
            granted(Band::Production, 500),
            |cell| Arc::make_mut(&mut machine(cell).report).capacity.cpu = MilliCores(999),
            &[
                "with grant 3 in production, 1 core, 512 MiB are granted at 0 s, of at most 0.999 cores, 1 GiB",
            ],
        ),
        (
            granted(Band::Monitoring, 500),
            |cell| {
                change(cell, GRANT, |grant| {
                    (grant.from, grant.amount.cpu) = (Time(5_000_000), MilliCores(501));
                });
            },
            &[
                "with grant 3 in monitoring, 1.001 cores, 512 MiB are granted at 5 s, of at most 1 core, 1 GiB",
            ],
        ),
        (
            grant("eve", Band::Monitoring, 500, Some(5)),
            |cell| {
                change(cell, GRANT, |grant| {
                    (grant.from, grant.amount.cpu) = (Time(5_000_000), MilliCores(501));
                });
            },
            &[],
        ),
        (
            granted(Band::Mid, 500),
            |cell| cell.quota.metering.mid_percent = 199,
            &[
                "with grant 3 in mid, 2 cores, 512 MiB are granted at 0 s, of at most 1.99 cores, 1.9 GiB",
            ],
        ),
        (
            granted(Band::BestEffortBatch, 4_000),
            |cell| cell.quota.metering.best_effort_batch_percent = 399,
            &[
                "with grant 3 in best-effort-batch, 4 cores, 256 MiB are granted at 0 s, of at most 3.99 cores, 3.9 GiB",
            ],
        ),
        (
            granted(Band::Production, 500),
            |cell| {
                cell.quota.metering.mid_percent = 1;
                cell.quota.metering.best_effort_batch_percent = 1;
            },
            &[],
        ),
    ];
    for (mutation, corrupt, expected) in cases {
        assert_eq!(check_after(mutation, *corrupt), *expected, "{mutation:?}");
    }
}
