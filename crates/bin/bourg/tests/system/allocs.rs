//! Alloc sets: reserved room that jobs of several users share.

use std::fs;

use rpc::{Authority, Identity};

use crate::access::client_directory;
use crate::cell::{Cell, Role};
use crate::eventually::until;
use crate::http;

/// An alloc set of two allocs for root and ben.
const ROOM: &str = "local borg = import 'borg.libsonnet';
    borg.allocSet('room', allocs=2, users=['ben']) { cpu: 0.3, ram: '160 MiB' }";

/// A web server in each alloc, which writes its log into the alloc's directory.
const WEB: &str = "local borg = import 'borg.libsonnet';
    borg.service('web', tasks=2, cmd=['sh', '-c',
      'rm -f /alloc/web.log; exec bourg example-server --port ' + borg.port('http') + ' > /alloc/web.log 2>&1'])
    { allocSet: 'room', cpu: 0.1, ram: '64 MiB' }";

/// A log saver in each alloc, which prints what the web server writes.
const SAVER: &str = "local borg = import 'borg.libsonnet';
    borg.service('saver', tasks=2, cmd=['sh', '-c',
      'until test -e /alloc/web.log; do sleep 0.05; done; exec tail -n +1 -F /alloc/web.log'])
    { allocSet: 'root/room', cpu: 0.05, ram: '32 MiB' }";

fn begun() -> Cell {
    let cell = Cell::start();
    let authority = Authority::open(cell.path("cell/master/tls")).expect("the cell's authority");
    for user in ["ben", "eve"] {
        client_directory(&cell, user, &authority, &Identity::User(user.to_owned()));
    }
    for (file, text) in [("room.bcl", ROOM), ("web.bcl", WEB), ("saver.bcl", SAVER)] {
        cell.write(file, text);
    }
    cell
}

#[test]
fn a_log_saver_of_another_user_runs_beside_a_web_server() {
    let cell = begun();
    let said = cell.ok("bourg run room.bcl 2>&1");
    assert!(said.contains("alloc set  root/room   2 allocs  production(200)"), "{said}");
    assert_eq!(cell.ok("bourg status room -o counts.healthy"), "2\n", "empty rooms are in place");
    assert!(cell.ok("bourg status room").contains("no job runs in it"));

    cell.ok("bourg run web.bcl");
    cell.ok("bourg --cell ./ben run saver.bcl");
    let web = cell.is_healthy("web");
    let port = &web["tasks"][0]["ports"][0]["port"];
    http::get(&format!("127.0.0.1:{port}"), "/who-goes-there").expect("it answers");
    until("the log saver has read what the web server wrote", || {
        cell.ok("bourg --cell ./ben logs saver/0").contains("/who-goes-there")
    });
    assert!(!cell.ok("bourg --cell ./ben logs saver/1").contains("/who-goes-there"));

    // In both directions.
    let room = cell.ok("bourg status room");
    for words in [
        "2 of 2 allocs in place",
        "0.15 cores, 96 MiB of 0.3 cores, 160 MiB",
        "root/web/0 ben/saver/0",
        "root/web/1 ben/saver/1",
        "jobs in it: root/web, ben/saver",
    ] {
        assert!(room.contains(words), "{words}: {room}");
    }
    assert!(cell.ok("bourg status ben/saver").contains("  in root/room  2 of 2 healthy"));
    assert_eq!(
        cell.ok("bourg status ben/saver -o json | grep -c '\"alloc\": \"root/room/'"),
        "2\n"
    );
    let machine = cell.ok("bourg machines -o taken.cpuMilli");
    assert_eq!(machine, "600\n", "the machine counts the allocs and not what is in them");

    let said = cell.fails(2, "bourg logs room");
    assert!(said.contains("root/room is an alloc set, which runs nothing itself"), "{said}");

    // Users without access to it.
    cell.write("miner.bcl", SAVER.replace("saver", "miner"));
    let said = cell.fails(3, "bourg --cell ./eve run miner.bcl");
    assert!(said.contains("eve may not submit jobs into root/room"), "{said}");
    cell.fails(3, "bourg --cell ./ben kill root/room");
    cell.fails(3, "bourg --cell ./ben kill root/web");
}

#[test]
fn an_alloc_is_what_its_tasks_have_and_its_end_is_theirs() {
    let cell = begun();
    cell.ok("bourg run room.bcl && bourg run web.bcl && bourg --cell ./ben run saver.bcl");
    cell.write("more.bcl", SAVER.replace("'saver'", "'more'").replace("cpu: 0.05", "cpu: 0.2"));
    cell.fails(4, "bourg --cell ./ben run more.bcl --timeout 1s");
    let said = cell.ok("bourg --cell ./ben why more");
    assert!(said.contains("of 2 allocs of root/room  2 lack CPU"), "{said}");
    assert!(
        said.contains("smallest change that starts one now: cpu 0.2 cores → 0.15 cores"),
        "{said}"
    );
    // More resources, in place.
    cell.write("room.bcl", ROOM.replace("cpu: 0.3", "cpu: 0.4"));
    cell.ok("bourg run room.bcl");
    cell.is_healthy("ben/more");
    cell.write("room.bcl", ROOM);
    let said = cell.fails(3, "bourg run room.bcl");
    let small =
        "alloc root/room/0 would have 0.3 cores of CPU, and the tasks in it take 0.35 cores";
    assert!(said.contains(small), "{said}");

    cell.ok("bourg kill room");
    for job in ["root/web", "ben/saver", "ben/more"] {
        let job = cell.job(job, "is killed", |job| job["state"] == "killed");
        assert_eq!(job["reason"], "the alloc set root/room in which it ran ended");
    }
    cell.job("room", "is killed", |job| job["state"] == "killed");
    assert_eq!(cell.ok("bourg machines -o tasks"), "0\n");
    until("no directory of an alloc is left", || {
        let allocs = fs::read_dir(cell.path("cell/borglet/allocs"));
        allocs.is_ok_and(|allocs| allocs.count() == 0)
    });
}

#[test]
fn tasks_in_allocs_run_on_without_a_borglet_and_without_a_master() {
    let cell = begun();
    cell.ok("bourg run room.bcl && bourg run web.bcl && bourg --cell ./ben run saver.bcl");
    let (web, saver) = (cell.tasks("web"), cell.tasks("ben/saver"));
    cell.kill(Role::Borglet);
    cell.kill(Role::Master);
    until("all is as before", || {
        cell.types("bourg status room -o counts.healthy").stdout == "2\n"
            && cell.tasks("web") == web
            && cell.tasks("ben/saver") == saver
    });
    // A task that ends is restarted in the same alloc, whose resources nobody else got.
    cell.ok(&format!("kill -9 {}", web[&1]));
    let again = cell.job("web", "runs again", |job| {
        job["tasks"][1]["generation"] == 2 && job["tasks"][1]["health"] == "HEALTHY"
    });
    assert_eq!(again["tasks"][1]["alloc"], "root/room/1");
    let log = cell.ok("bourg --cell ./ben logs saver/1");
    assert!(!log.is_empty(), "its files outlive a task");
}
