//! The page of a cell from answers that were made up.

use std::io::Write as _;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;
use crate::pages::bands::BANDS;

const NOW: u64 = 1_800_000_000_000_000;
const DAY: u64 = 86_400_000_000;

fn resources(cpu_milli: i64, gib: i64) -> v1::Resources {
    v1::Resources { cpu_milli, ram_bytes: gib << 30, disk_bytes: gib << 32, disk_rate_bytes: 0 }
}

fn measured(cpu_milli: i64, gib: i64) -> v1::Measured {
    v1::Measured {
        cpu_milli: Some(cpu_milli),
        memory_bytes: Some(gib << 30),
        disk_bytes: Some(gib << 31),
        ..v1::Measured::default()
    }
}

fn total(scale: i64) -> v1::UsageTotal {
    v1::UsageTotal {
        running: 9,
        measured: 9,
        limit: Some(resources(4_000 * scale, 16 * scale)),
        reservation: Some(resources(2_500 * scale, 10 * scale)),
        used: Some(measured(1_250 * scale, 6 * scale)),
    }
}

fn machine(number: u64, rack: Option<u64>) -> v1::MachineStatus {
    let rack = rack.map(|rack| ("rack".to_owned(), format!("r{rack}")));
    v1::MachineStatus {
        id: number,
        name: format!("m{number}"),
        state: v1::MachineState::Up.into(),
        capacity: Some(resources(16_000, 64)),
        taken: Some(resources(8_000, 32)),
        attributes: rack.into_iter().collect(),
        certificate_expires: NOW + 20 * DAY,
        polled_by: 1 + number % 5,
        tasks: 11,
        ..v1::MachineStatus::default()
    }
}

fn machine_used(number: u64, state: v1::MachineState) -> v1::MachineUsage {
    let scale = i64::try_from(number * 7_919 % 97).expect("small");
    v1::MachineUsage {
        id: number,
        name: format!("m{number}"),
        state: state.into(),
        capacity: Some(resources(16_000, 64)),
        at: NOW,
        used: Some(measured(160 * scale, scale * 64 / 97)),
        tasks: Some(v1::UsageTotal { running: 11, ..total(1) }),
        ..v1::MachineUsage::default()
    }
}

fn cell_used(scale: i64) -> v1::CellUsage {
    let bands = BANDS
        .map(|(band, _)| v1::cell_usage::Band { band: band.into(), total: Some(total(scale)) });
    v1::CellUsage {
        capacity: Some(resources(16_000 * scale, 64 * scale)),
        used: Some(measured(7_000 * scale, 32 * scale)),
        system: Some(measured(700 * scale, 2 * scale)),
        tasks: Some(total(5 * scale)),
        bands: bands.to_vec(),
        pending: 3,
        ..v1::CellUsage::default()
    }
}

fn sample(minute: u64) -> v1::CellSample {
    let wave = i64::try_from(minute * 37 % 91).expect("small");
    let both =
        |cpu, gib: i64| Some(v1::CpuMemory { cpu_milli: Some(cpu), memory_bytes: Some(gib << 30) });
    let band = |(band, _): (v1::Band, _)| v1::cell_sample::Band {
        band: band.into(),
        running: 9,
        measured: 9,
        limit: both(40_000, 160),
        reservation: both(25_000 + 100 * wave, 100 + wave),
        used: both(12_000 + 130 * wave, 50 + wave),
    };
    v1::CellSample {
        time: NOW - DAY / 4 + minute * 60_000_000,
        machines_up: 9,
        capacity: both(300_000, 1_200),
        used: both(90_000 + 700 * wave, 400 + 5 * wave),
        pending: u32::try_from(wave).expect("small"),
        bands: BANDS.map(band).to_vec(),
        evictions: Some(v1::EvictionCounts {
            preempted: u32::from(minute.is_multiple_of(9)),
            ..v1::EvictionCounts::default()
        }),
        missing: Vec::new(),
        work: Some(v1::MasterWork {
            polls: 108,
            polls_failed: minute % 2,
            proposals: 4,
            accepted: 31,
            rejected: 2,
        }),
    }
}

fn replica(id: u64, answers: bool) -> v1::ReplicaStatus {
    v1::ReplicaStatus {
        id,
        address: format!("10.0.0.{id}:7070"),
        member: v1::MemberState::Voter.into(),
        progress: Some(v1::ReplicaProgress { replica: id, answers, index: 90 + id }),
        ..v1::ReplicaStatus::default()
    }
}

/// The answers before they are facts: a healthy cell.
struct Answers {
    status: v1::CellStatusResponse,
    machines: Vec<v1::MachineStatus>,
    used: Option<v1::UsageResponse>,
    jobs: Vec<v1::JobUsage>,
    whys: Vec<v1::WhyResponse>,
    history: Vec<v1::CellSample>,
    replicas: Option<v1::ReplicasResponse>,
    quota: v1::QuotaResponse,
    users: v1::UsersResponse,
}

impl Answers {
    fn healthy(machines: u64, racks: u64) -> Self {
        let up = v1::MachineState::Up;
        let used: Vec<v1::MachineUsage> =
            (1..=machines).map(|number| machine_used(number, up)).collect();
        let count = u32::try_from(machines).expect("few");
        Self {
            status: v1::CellStatusResponse {
                name: "cc".to_owned(),
                index: 88_412,
                time: NOW,
                machines: count,
                machines_up: count,
                tasks: 144_000,
                jobs: 9_000,
                schedulers: 1,
                term: 7,
                ..v1::CellStatusResponse::default()
            },
            machines: (1..=machines).map(|number| machine(number, Some(number % racks))).collect(),
            used: Some(v1::UsageResponse {
                cell: Some(cell_used(i64::from(count))),
                machines: used,
                ..v1::UsageResponse::default()
            }),
            jobs: Vec::new(),
            whys: Vec::new(),
            history: (0..360).map(sample).collect(),
            replicas: Some(v1::ReplicasResponse {
                replicas: (1..=5).map(|id| replica(id, true)).collect(),
                leader: 2,
                answers: 1,
                term: 7,
                ..v1::ReplicasResponse::default()
            }),
            quota: v1::QuotaResponse::default(),
            users: v1::UsersResponse::default(),
        }
    }

    fn facts(self, address: &str) -> Facts {
        let address = Address::read(address).expect("an address");
        let Place::Cell(query) = &address.place else { panic!("{address:?}") };
        let view = View::read(query, address.at.is_some()).expect("a view");
        let machines = Arc::new(v1::MachinesResponse {
            machines: self.machines,
            ..v1::MachinesResponse::default()
        });
        let history = v1::UsageResponse { history: self.history, ..v1::UsageResponse::default() };
        Facts {
            address,
            view,
            now: Time(NOW),
            status: Arc::new(self.status),
            fleet: Arc::new(Fleet::new(machines, self.used.map(Arc::new), None)),
            waiting: Some(waiting_now(&self.jobs)),
            whys: Some(Arc::new(self.whys)),
            history: Some(Arc::new(history)),
            replicas: self.replicas.map(Arc::new),
            quota: Some(Arc::new(self.quota)),
            users: Some(Arc::new(self.users)),
        }
    }
}

/// What a reader sees of markup.
fn text(html: &str) -> String {
    let mut text = String::new();
    let mut is_tag = false;
    for character in html.chars() {
        match character {
            '<' => is_tag = true,
            '>' => is_tag = false,
            other if !is_tag => text.push(other),
            _ => {}
        }
    }
    text
}

#[test]
fn a_large_cell_is_a_small_page_that_is_drawn_fast() {
    let mut answers = Answers::healthy(12_600, 315);
    let used = answers.used.as_mut().expect("it is known");
    for (number, machine) in used.machines.iter_mut().enumerate() {
        let state = match number % 211 {
            0 => v1::MachineState::Down,
            1 => v1::MachineState::Unreachable,
            2 => v1::MachineState::Draining,
            _ => v1::MachineState::Up,
        };
        machine.state = state.into();
    }
    answers.jobs = (0..20_000)
        .map(|number| v1::JobUsage {
            user: format!("user{}", number % 90),
            job: format!("job{number}"),
            band: v1::Band::Production.into(),
            pending: number % 3,
            ..v1::JobUsage::default()
        })
        .collect();
    let facts = answers.facts("/");
    let begun = Instant::now();
    let parts = draw(&facts);
    let took = begun.elapsed();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    for (id, _, html) in &parts {
        gzip.write_all(format!("<section id=\"part-{id}\">{html}</section>").as_bytes()).unwrap();
    }
    let size = gzip.finish().unwrap().len();
    println!("{} parts, {size} bytes compressed, drawn in {took:?}", parts.len());
    assert_eq!(parts.len(), 4 + 315 + 4);
    assert!(size < 150_000, "{size} bytes");
    // Not optimised, and beside other tests: far from what would be slow.
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn the_page_says_what_the_master_does_and_what_tasks_wait_for() {
    let mut answers = Answers::healthy(9, 3);
    answers.jobs = vec![v1::JobUsage {
        user: "ana".to_owned(),
        job: "big".to_owned(),
        pending: 2,
        ..v1::JobUsage::default()
    }];
    let lacks = |machines, reason: &str| v1::UnschedulableReason {
        machines,
        reason: reason.to_owned(),
        ..v1::UnschedulableReason::default()
    };
    let unschedulable_reasons = vec![lacks(8, "lacks RAM"), lacks(1, "is draining")];
    answers.whys = vec![v1::WhyResponse {
        user: "ana".to_owned(),
        job: "big".to_owned(),
        groups: vec![v1::PendingGroup { unschedulable_reasons, ..v1::PendingGroup::default() }],
        ..v1::WhyResponse::default()
    }];
    let parts = draw(&answers.facts("/"));
    let shown = |id: &str| {
        let found = parts.iter().find(|(part, _, _)| part == id).expect("it is on each page");
        text(&found.2)
    };
    let (master, pending) = (shown("master"), shown("pending"));
    let expected = "108 in 1 min: each machine every 5 s, 1 failed";
    assert!(master.contains(expected), "{master}");
    let expected = "4 with a proposal in 1 min: 31 assignments accepted, 2 rejected";
    assert!(master.contains(expected), "{master}");
    assert!(pending.contains("lack RAM") && pending.contains("are draining"), "{pending}");
}

#[test]
fn only_the_rack_of_a_machine_that_changed_is_drawn_differently() {
    let before = draw(&Answers::healthy(40, 4).facts("/"));
    let mut answers = Answers::healthy(40, 4);
    let used = answers.used.as_mut().expect("it is known");
    used.machines[5].used = Some(measured(15_900, 9));
    let after = draw(&answers.facts("/"));
    let changed: Vec<&str> = before
        .iter()
        .zip(&after)
        .filter(|(before, after)| before != after)
        .map(|(_, (id, _, _))| id.as_str())
        .collect();
    assert_eq!(changed, ["rack-r2"]);
}

#[test]
fn a_browser_learns_of_other_racks_by_a_part_that_it_has() {
    let part = |racks: u64| {
        let parts = draw(&Answers::healthy(40, racks).facts("/"));
        let found = parts.into_iter().find(|(id, _, _)| id == "machines");
        found.expect("it is on each page").2
    };
    assert_eq!(part(4), part(4));
    assert_ne!(part(4), part(5));
}

#[test]
fn each_part_is_drawn_of_any_cell() {
    let empty = || Answers {
        machines: Vec::new(),
        used: None,
        history: Vec::new(),
        replicas: None,
        status: v1::CellStatusResponse::default(),
        ..Answers::healthy(1, 1)
    };
    for address in ["/", "/?of=ram&by=limit", "/?of=disk&by=reservation&hours=24", "/?at=10m"] {
        for answers in [empty(), Answers::healthy(3, 1)] {
            for (id, _, html) in draw(&answers.facts(address)) {
                assert!(!html.contains("NaN") && !html.contains("inf\""), "{id}: {html}");
            }
        }
    }
    let past = Answers { used: None, replicas: None, ..Answers::healthy(3, 1) };
    let past = draw(&past.facts("/?at=10m"));
    let all: String = past.iter().map(|(_, _, html)| html.as_str()).collect();
    assert!(all.contains("href=\"/machines?labels=rack%3Dr0&amp;at=10m\""), "{all}");
    assert_eq!(all.matches("Of a past moment").count(), 3, "{all}");
}

#[test]
fn problems_of_the_cell_are_shown_in_words() {
    let state = |machine: usize, state: v1::MachineState| {
        move |answers: &mut Answers| {
            if let Some(used) = answers.used.as_mut() {
                used.machines[machine].state = state.into();
            }
        }
    };
    let breaker = |state: v1::ReschedulingState| {
        move |answers: &mut Answers| {
            answers.status.rescheduling = Some(v1::ReschedulingStatus {
                state: state.into(),
                since: NOW - 60_000_000,
                silent: 5,
                of: 9,
                by: "ana".to_owned(),
            });
        }
    };
    type Change = Box<dyn Fn(&mut Answers)>;
    let cases: Vec<(Change, &str)> = vec![
        (Box::new(|_| {}), "Nothing is wrong."),
        (Box::new(state(1, v1::MachineState::Down)), "m2 is down: the tasks were rescheduled."),
        (Box::new(state(2, v1::MachineState::Unreachable)), "m3 is unreachable: "),
        (
            Box::new(|answers| {
                let used = answers.used.as_mut().expect("it is known");
                used.machines.iter_mut().for_each(|one| one.state = v1::MachineState::Down.into());
            }),
            "m1, m2, m3 and 6 more are down",
        ),
        (Box::new(|answers| answers.machines[0].suspect = true), "m1 is suspect: "),
        (
            Box::new(|answers| {
                answers.machines[0].suspect = true;
                answers.machines[8].suspect = true;
            }),
            "m1 and m9 are suspect: ",
        ),
        (
            Box::new(|answers| answers.machines[4].drain_expired = NOW),
            "The drain of m5 ended at its deadline with tasks left.",
        ),
        (
            Box::new(|answers| answers.machines[4].not_reached_by = vec![3]),
            "Replica 3 of the master does not reach m5, which another replica reaches.",
        ),
        (
            Box::new(|answers| answers.machines[4].certificate_expires = NOW + 2 * DAY),
            "The certificate of m5 ends in 2 d: ",
        ),
        (
            Box::new(|answers| answers.machines[4].certificate_expires = NOW - DAY),
            "The certificate of m5 has ended or ends 1 d ago: ",
        ),
        (
            Box::new(breaker(v1::ReschedulingState::Stopped)),
            "Rescheduling was stopped 1 min ago: 5 of 9 machines were unreachable at once.",
        ),
        (Box::new(breaker(v1::ReschedulingState::Resumed)), "ana resumed rescheduling 1 min ago"),
        (Box::new(breaker(v1::ReschedulingState::Allowed)), "Nothing is wrong."),
        (
            Box::new(|answers| answers.status.violations = 2),
            "The state of the cell violates 2 invariants: ",
        ),
        (
            Box::new(|answers| {
                answers.status.problem_count = 1;
                answers.status.problems = vec![v1::Problem {
                    kind: v1::ProblemKind::Failing.into(),
                    user: "ana".to_owned(),
                    job: "web".to_owned(),
                    tasks: 3,
                    task: 2,
                    since: NOW - 60_000_000,
                    ..v1::Problem::default()
                }];
            }),
            "ana/web: 3 tasks of ana/web end again and again, ana/web/2 among them:",
        ),
        (
            Box::new(|answers| answers.status.problem_count = 7),
            "7 more problems of jobs and machines.",
        ),
        (
            Box::new(|answers| {
                answers.status.schedulers = 0;
                answers.replicas.as_mut().expect("it is known").replicas.truncate(1);
            }),
            "No scheduler follows the master: pending tasks stay pending.",
        ),
        (Box::new(|answers| answers.status.schedulers = 0), "Nothing is wrong."),
        (
            Box::new(|answers| {
                answers.status.schedulers = 0;
                answers.jobs = vec![v1::JobUsage { pending: 1, ..v1::JobUsage::default() }];
            }),
            "No scheduler follows the replica that answered, and tasks are pending",
        ),
        (
            Box::new(|answers| {
                answers.replicas.as_mut().expect("it is known").replicas[2] = replica(3, false);
            }),
            "Replica 3 of the master at 10.0.0.3:7070 does not answer.",
        ),
        (
            Box::new(|answers| answers.replicas.as_mut().expect("it is known").leader = 0),
            "The master has no leader: ",
        ),
        (Box::new(|answers| answers.replicas = None), "The replicas of the master are not known"),
        (Box::new(|answers| answers.used = None), "What the machines use is not known"),
        (
            Box::new(|answers| answers.used.as_mut().expect("it is known").missing = vec![2, 4]),
            "Usage is missing: replicas 2, 4 of the master did not say",
        ),
        (
            Box::new(|answers| {
                let certificate = |days: u64| v1::UserCertificate {
                    expires: NOW + days * DAY,
                    ..v1::UserCertificate::default()
                };
                let user = |name: &str, days: &[u64]| v1::UserStatus {
                    name: name.to_owned(),
                    certificates: days.iter().copied().map(certificate).collect(),
                    ..v1::UserStatus::default()
                };
                let gone = v1::UserStatus { shut_out: true, ..user("eve", &[1]) };
                answers.users.users = vec![user("ana", &[1, 30]), user("ben", &[3, 1]), gone];
            }),
            "The certificate of ben ends in 3 d. ",
        ),
        (
            Box::new(|answers| {
                answers.quota.bands = vec![v1::BandQuota {
                    band: v1::Band::Production.into(),
                    percent: 100,
                    oversold: Some(v1::Resources {
                        cpu_milli: 1_500,
                        ram_bytes: 1 << 30,
                        ..v1::Resources::default()
                    }),
                    ..v1::BandQuota::default()
                }];
            }),
            "Quota of the band production is oversold by 1.5 cores, 1 GiB of RAM: ",
        ),
        (
            Box::new(|answers| {
                let at = NOW - 3 * DAY;
                answers.status.problem_count = 1;
                answers.status.problems = vec![v1::Problem {
                    kind: v1::ProblemKind::BackupOld.into(),
                    since: at,
                    ..v1::Problem::default()
                }];
                answers.status.last_backup =
                    Some(v1::LastBackup { index: 7, at, by: "ana".to_owned() });
            }),
            "The last backup of the cell was saved 3 d ago by ana:",
        ),
        (
            Box::new(|answers| {
                answers.status.problem_count = 1;
                answers.status.problems = vec![v1::Problem {
                    kind: v1::ProblemKind::NoBackup.into(),
                    since: NOW - 2 * DAY,
                    ..v1::Problem::default()
                }];
            }),
            "No backup of the cell was ever saved, and jobs of production are in it:",
        ),
    ];
    for (change, expected) in cases {
        let mut answers = Answers::healthy(9, 3);
        change(&mut answers);
        let html = alerts::shown(&answers.facts("/")).into_string();
        let shown = text(&html);
        assert!(shown.contains(expected), "{expected}\n{shown}");
        let is_only_one =
            html.matches("<li").count() == usize::from(expected != "Nothing is wrong.");
        assert!(is_only_one, "{expected}\n{shown}");
    }
}

#[test]
fn names_of_others_are_text() {
    let mut answers = Answers::healthy(2, 1);
    let hostile = "<script>alert(1)</script>";
    answers.machines[0].name = hostile.to_owned();
    answers.machines[0].suspect = true;
    answers.machines[1].attributes.insert("rack".to_owned(), hostile.to_owned());
    answers.jobs = vec![v1::JobUsage {
        user: hostile.to_owned(),
        job: hostile.to_owned(),
        pending: 1,
        ..v1::JobUsage::default()
    }];
    for (id, _, html) in draw(&answers.facts("/")) {
        assert!(!html.contains("<script"), "{id}: {html}");
    }
}

#[test]
fn the_view_of_a_page_survives_an_address_round_trip() {
    let view = |of, by, hours| Some(View { of, by, hours });
    for (query, is_past, expected) in [
        ("", false, view(Of::Cpu, By::Usage, 6)),
        ("", true, view(Of::Cpu, By::Limit, 6)),
        ("of=ram&by=reservation&hours=24", false, view(Of::Ram, By::Reservation, 24)),
        ("of=ram&by=usage", true, view(Of::Ram, By::Limit, 6)),
        ("of=gpu", false, None),
        ("by=use", false, None),
        ("hours=7", false, None),
    ] {
        let read = View::read(&Query::parse(query), is_past).ok();
        assert_eq!(read, expected, "{query}");
        if let Some(view) = read {
            let Place::Cell(query) = view.place() else { panic!("{:?}", view.place()) };
            assert_eq!(View::read(&query, is_past).ok(), Some(view));
        }
    }
}
