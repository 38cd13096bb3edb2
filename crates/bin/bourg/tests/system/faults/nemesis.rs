//! Injects faults and repairs them.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

use super::clients::Shared;
use super::network::Host;
use super::plan::{Fault, Kind};
use super::starts::{Starts, counted};
use super::world::World;
use crate::eventually::until;
use crate::random::Random;

/// How long it takes to fill the room of a log.
const GROWS: Duration = Duration::from_secs(5);

/// The messages of a replica whose directory is a copy, and of one whose records are missing.
const COPIED: &str = "it was copied or restored from a copy";
const LOST: &str = "it lost acknowledged records";

/// An executed fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Episode {
    pub(crate) kind: Kind,
    pub(crate) from: Duration,
    /// When it was repaired.
    pub(crate) to: Duration,
}

/// Injects a fault, and repairs it.
#[track_caller]
pub(crate) fn play(world: &mut World, shared: &Shared, fault: &Fault) -> Episode {
    let whom = choose(world, fault);
    let from = shared.began.elapsed();
    eprintln!("{:>7.1} s: {} (on {whom})", from.as_secs_f64(), fault.kind.says());
    let hold = || sleep(fault.hold);
    match fault.kind {
        Kind::Kill => {
            world.kills(whom);
            hold();
        }
        Kind::Stop => {
            let ended = world.stops(whom);
            if ended.code != 0 {
                shared.is_wrong(format!("a replica that was stopped says: {}", ended.stderr));
            }
            hold();
        }
        Kind::Freeze => {
            world.freezes(whom, true);
            hold();
            world.freezes(whom, false);
        }
        Kind::FreezeMajority => {
            let others = all(world).into_iter().filter(|host| *host != whom);
            let others: Vec<Host> = others.take(world.size / 2 + 1).collect();
            others.iter().for_each(|host| world.freezes(*host, true));
            hold();
            others.iter().for_each(|host| world.freezes(*host, false));
        }
        Kind::Cut | Kind::CutSending | Kind::CutHearing | Kind::Isolate => {
            let mut from = all(world);
            if fault.kind == Kind::Isolate {
                from.extend(World::others());
            }
            let (sends, hears) = (fault.kind != Kind::CutHearing, fault.kind != Kind::CutSending);
            world.cuts(whom, &from, sends, hears);
            hold();
            world.network.heal();
        }
        Kind::DiskFull => {
            world.replica(whom).volume.fill();
            // The preallocated room of the log is used up first.
            shared.grow(true);
            sleep(fault.hold + GROWS);
            shared.grow(false);
            world.replica(whom).volume.works();
        }
        Kind::DiskSlow | Kind::DiskStuck => {
            let volume = &mut world.replica(whom).volume;
            if fault.kind == Kind::DiskSlow {
                volume.slows();
            } else {
                volume.sticks();
            }
            hold();
            world.replica(whom).volume.works();
        }
        Kind::DiskCorrupt => replaces_a_corrupt_one(world, shared, whom),
        Kind::Emptied => {
            world.kills(whom);
            world.empties(whom);
            is_refused(
                world,
                shared,
                whom,
                &["by data directory", "has data directory", "was emptied", LOST],
            );
        }
        Kind::Copied => {
            world.kills(whom);
            world.copies_another(whom);
            is_refused(world, shared, whom, &[COPIED]);
        }
        Kind::PutBack => {
            world.replica(whom).volume.keeps_a_copy();
            hold();
            world.kills(whom);
            world.replica(whom).volume.puts_the_copy_back();
            is_refused(world, shared, whom, &[COPIED]);
        }
        Kind::DiskPutBack => {
            world.kills(whom);
            world.replica(whom).volume.keeps_a_copy();
            world.starts(whom);
            hold();
            world.kills(whom);
            // Its acknowledged records would be lost with it if too few others have them.
            world.others_have_all(whom);
            world.replica(whom).volume.is_put_back();
            // It continues with the others' records, or it exits because they know of newer ones.
            world.starts(whom);
            if let Some(said) = world.goes_on_or_says_why(whom) {
                if !said.contains(LOST) {
                    shared.is_wrong(format!("with an older disk a replica says only: {said}"));
                }
                world.remove(whom);
                world.add(whom);
                world.has_voters(world.size);
            }
        }
        Kind::PowerOfOne => {
            world.loses_power(&[whom]);
            hold();
        }
        Kind::PowerOfAll => {
            let hosts = shuffled(all(world), &fault.random);
            world.loses_power(&hosts);
            for host in hosts {
                world.starts(host);
                sleep(fault.hold / 8);
            }
        }
        Kind::Replace => replaces_one(world, fault, whom),
        Kind::Transfer => {
            let id = world.replicas[&whom].id;
            let told = world.types(&format!("bourg master transfer {id}"));
            shared.count("master transfer", if told.code == 0 { "it leads" } else { "refused" });
        }
        Kind::KillScheduler => world.kills_scheduler(),
        Kind::KillBorglet => world.kills_borglet(fault.whom % 2),
    }
    world.keeps_running();
    Episode { kind: fault.kind, from, to: shared.began.elapsed() }
}

fn all(world: &World) -> Vec<Host> {
    world.replicas.keys().copied().collect()
}

fn choose(world: &World, fault: &Fault) -> Host {
    let hosts = all(world);
    let any = hosts[fault.whom % hosts.len()];
    if fault.leader { world.leader().unwrap_or(any) } else { any }
}

fn shuffled(mut hosts: Vec<Host>, random: &Random) -> Vec<Host> {
    let mut random = random.clone();
    hosts.sort_by_cached_key(|_| random.below(1 << 20));
    hosts
}

/// A replica whose log is damaged reports it, and is replaced by one with an empty disk.
#[track_caller]
fn replaces_a_corrupt_one(world: &mut World, shared: &Shared, host: Host) {
    world.kills(host);
    world.replica(host).volume.corrupt();
    world.starts(host);
    let said = world.says_why(host);
    if !said.contains("the log is damaged at ") {
        shared.is_wrong(format!("with a damaged log a replica says only: {said}"));
    }
    world.remove(host);
    world.add(host);
    world.has_voters(world.size);
}

/// A replica whose directory must not be used reports it, and is replaced by one with an empty
/// disk.
#[track_caller]
fn is_refused(world: &mut World, shared: &Shared, host: Host, whys: &[&str]) {
    world.starts(host);
    let said = world.says_why(host);
    if !whys.iter().any(|why| said.contains(why)) {
        shared.is_wrong(format!("a replica is to be refused ({whys:?}), and says: {said}"));
    }
    world.remove(host);
    world.add(host);
    world.has_voters(world.size);
}

/// Adds a replica, kills another while it catches up, and then removes one.
#[track_caller]
fn replaces_one(world: &mut World, fault: &Fault, dies: Host) {
    let free = world.places.iter().copied().find(|host| !world.replicas.contains_key(host));
    let free = free.expect("there is a host more than replicas");
    let id = world.enlists(free);
    world.prepares(free, id);
    world.kills(dies);
    sleep(fault.hold / 2);
    world.keeps_running();
    world.has_voters(world.size + 1);
    let mut hosts = shuffled(all(world), &fault.random).into_iter();
    let leaves = hosts.find(|host| *host != free).expect("there are others");
    world.remove(leaves);
    world.has_voters(world.size);
}

/// The tasks on the machines, which must not be affected.
pub(crate) struct Tasks {
    steady: Vec<BTreeMap<u32, i32>>,
    starts: Starts,
}

const STEADY: u32 = 4;

impl Tasks {
    /// Starts long-running tasks.
    #[track_caller]
    pub(crate) fn start(world: &World) -> Self {
        let starts = Starts::listen();
        let cmd = serde_json::json!(counted("while :; do sleep 1; done"));
        world.write(
            "steady.bcl",
            &format!(
                "(import 'borg.libsonnet').batch('steady', tasks={STEADY}, cmd={cmd}) {{
                   priority: 'free', cpu: 0.01, ram: '16 MiB'
                 }}"
            ),
        );
        world.ok("bourg run --detach steady.bcl");
        let running = || -> Vec<BTreeMap<u32, i32>> {
            world.machines.iter().map(|machine| machine.tasks("steady")).collect()
        };
        until("its tasks run", || {
            running().iter().map(BTreeMap::len).sum::<usize>() == STEADY as usize
        });
        until("they have said so", || starts.so_far().len() == STEADY as usize);
        Self { steady: running(), starts }
    }

    /// Checks that the same tasks run on the machines.
    pub(crate) fn look(&mut self, world: &World, shared: &Shared) {
        for (number, machine) in world.machines.iter().enumerate() {
            let now = machine.tasks("steady");
            if now != self.steady[number] {
                let before = std::mem::replace(&mut self.steady[number], now.clone());
                shared.is_wrong(format!("on machine {number} {before:?} became {now:?}"));
            }
        }
    }

    /// At the end: every task that has finished, or is still running, was started once. Returns
    /// their number.
    pub(crate) fn were_started(self, shared: &Shared) -> usize {
        let started = self.starts.in_the_end();
        let steady = (0..STEADY).map(|index| format!("steady/{index}"));
        let mut missing: Vec<String> = shared.state().finished.drain(..).chain(steady).collect();
        missing.retain(|task| !started.contains_key(task));
        for task in missing {
            shared.is_wrong(format!("{task} was never started"));
        }
        for (task, times) in started.iter().filter(|(_, times)| **times > 1) {
            shared.is_wrong(format!("{task} was started {times} times"));
        }
        started.len()
    }
}
