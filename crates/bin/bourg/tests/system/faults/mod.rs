//! Real replicas under faults: processes on virtual hosts that fail one after the other, while
//! clients keep running. Nothing acknowledged is lost, reads are correct, and tasks are not
//! affected.
//!
//! - [`network`]: hosts and cuts between them
//! - [`volume`]: disks that are full, slow, stuck, damaged, or lose unsynced data
//! - [`world`]: the cell on them
//! - [`plan`] and [`nemesis`]: the faults, and their execution
//! - [`clients`] and [`bystanders`]: the clients
//! - [`names`]: readers of names that move between replicas
//! - [`starts`]: how often tasks were started
//! - [`history`]: checks of the clients' answers
//! - [`report`]: the report
//! - [`scenes`]: single scenarios of bugs that were found

mod bystanders;
mod clients;
mod history;
mod names;
mod nemesis;
mod network;
mod plan;
mod report;
mod scenes;
mod starts;
pub(crate) mod volume;
mod world;

use std::time::Duration;

use clients::Shared;
use nemesis::Tasks;
use plan::Kind;
use report::Report;
use world::World;

use crate::eventually::until;
use crate::random::Random;

/// The default duration of faults.
const SECONDS: u64 = 60;
/// The maximum time without an acknowledgement, on any machine.
const PAUSE_MAX: Duration = Duration::from_secs(20);
/// The number of clients that change and read jobs.
const PEOPLE: u32 = 4;

/// A number from the environment.
fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(usual)
}

#[test]
fn real_replicas_stand_faults_and_nothing_acknowledged_is_lost() {
    let seconds = number("BOURG_FAULTS_SECONDS", SECONDS);
    let replicas = number("BOURG_FAULTS_REPLICAS", 3).clamp(3, 5);
    stand(replicas, 1, Duration::from_secs(seconds), Kind::ALL.len());
}

#[test]
fn five_real_replicas_tolerate_the_same_faults() {
    stand(5, 2, Duration::from_secs(SECONDS / 2), 1);
}

/// This many replicas withstand faults for this time, and at least this many faults: each kind
/// occurs before any is repeated.
#[track_caller]
fn stand(replicas: u64, seed: u64, time: Duration, least: usize) {
    let seed = number("BOURG_TEST_SEED", seed);
    println!("BOURG_TEST_SEED={seed}");
    let mut random = Random::of(seed);
    let mut world = World::start(usize::try_from(replicas).expect("few"));
    let mut tasks = Tasks::start(&world);
    let shared = Shared::new(world.user(), world.places.clone());
    let mut people = vec![
        clients::start(&shared, bystanders::probe),
        clients::start(&shared, bystanders::grower),
    ];
    for _ in 0..PEOPLE {
        let random = random.fork();
        people.push(clients::start(&shared, move |shared| clients::people(shared, random)));
    }
    let resizes = random.fork();
    people.push(clients::start(&shared, move |shared| names::resizer(shared, resizes)));
    let (one, other) = (random.fork(), random.fork());
    let readers = [one, other]
        .map(|random| clients::start(&shared, move |shared| names::reader(shared, random)));
    let judge = clients::start(&shared, clients::judge);
    let runner = clients::start(&shared, bystanders::runner);
    let compare = clients::start(&shared, bystanders::compare);

    let mut episodes = Vec::new();
    let only = std::env::var("BOURG_FAULTS_ONLY").unwrap_or_default();
    let faults = plan::faults(random).filter(|fault| format!("{:?}", fault.kind).contains(&only));
    for fault in faults {
        std::thread::sleep(fault.rest);
        if shared.began.elapsed() > time && episodes.len() >= least {
            break;
        }
        episodes.push(nemesis::play(&mut world, &shared, &fault));
        tasks.look(&world, &shared);
    }
    shared.stop();
    people.into_iter().for_each(|client| client.join().expect("a client does not panic"));
    let seconds = shared.began.elapsed().as_secs();
    world.has_voters(world.size);
    until("every job that was acknowledged has run", || runner.is_finished());
    until("the replicas agree", || bystanders::agree(&shared, world.replicas.keys().copied()));
    shared.is_over();
    until("every job is judged", || judge.is_finished());
    for client in readers.into_iter().chain([judge, runner, compare]) {
        client.join().expect("a client does not panic");
    }
    tasks.look(&world, &shared);
    let started = tasks.were_started(&shared);
    for said in &world.ended {
        shared.is_wrong(said.clone());
    }
    let pause = report::longest_pause(&shared.state().probes);
    if pause > PAUSE_MAX {
        shared.is_wrong(format!("nothing was acknowledged for {} s", pause.as_secs()));
    }
    let report = Report::new(seed, seconds, &episodes, started, &shared);
    println!("{report}");
    if let Some(path) = std::env::var_os("BOURG_FAULTS_REPORT") {
        std::fs::write(path, report.to_string()).expect("the report can be written");
    }
    let wrong = &shared.state().wrong;
    assert!(wrong.is_empty(), "{} are wrong, the first: {}", wrong.len(), wrong[0]);
}
