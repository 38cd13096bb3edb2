//! `bourg dev --machines`: a cell with several machines on one host.

use std::collections::{BTreeMap, BTreeSet};

use linux::machine::MachineResources;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::cell::Cell;
use crate::eventually::{eventually, until};
use crate::processes;
use crate::terminal::Terminal;

/// A service with at most so many tasks on one machine.
fn service(tasks: u32, per_machine: u32) -> String {
    format!(
        "local borg = import 'borg.libsonnet';
         borg.service('web', tasks={tasks}, cmd=['bourg', 'example-server', '--port', borg.port('http')]) {{
           cpu: 0.05, ram: '32 MiB', maxPerMachine: {{ tasks: {per_machine}, hard: true }},
         }}"
    )
}

/// The directory of a machine's Borglet in that of the cell.
fn borglet(number: usize) -> String {
    if number == 1 { "borglet".to_owned() } else { format!("borglet-{number}") }
}

/// The cgroup of the tasks of a machine.
fn cgroup(cell: &Cell, number: usize) -> String {
    linux::cgroup::parent_name(&cell.directory().join(borglet(number)))
}

/// The pid of a machine's Borglet, from the file that the supervisor keeps.
fn pid(cell: &Cell, number: usize) -> Option<i32> {
    let file = cell.directory().join(format!("run/{}.pid", borglet(number)));
    let pid: i32 = std::fs::read_to_string(file).ok()?.trim().parse().ok()?;
    let directory = cell.directory().join(borglet(number)).display().to_string();
    let command = processes::command(pid);
    command.contains(&directory).then_some(pid)
}

/// The tasks of the service on each of the first machines: pid by index.
fn tasks(cell: &Cell, machines: usize) -> Vec<BTreeMap<u32, i32>> {
    (1..=machines).map(|number| processes::tasks(&cgroup(cell, number), "web")).collect()
}

fn counts(cell: &Cell, machines: usize) -> Vec<usize> {
    tasks(cell, machines).iter().map(BTreeMap::len).collect()
}

fn machines(cell: &Cell) -> Vec<Value> {
    let json = cell.ok("bourg machines -o json");
    let listed: Value = serde_json::from_str(&json).expect("this is JSON");
    listed.as_array().expect("a list").clone()
}

fn names(cell: &Cell) -> Vec<String> {
    cell.ok("bourg machines -o name").lines().map(str::to_owned).collect()
}

#[track_caller]
fn nothing_is_left(cell: &Cell, machines: usize) {
    for number in 1..=machines {
        let cgroup = cgroup(cell, number);
        let left = processes::left(&cgroup, &cell.directory().join(borglet(number)));
        assert!(left.is_empty(), "left running by machine {number}: {left:?}");
        let cgroups = processes::cgroups(&cgroup);
        assert!(cgroups.is_empty(), "left behind by machine {number}: {cgroups:?}");
    }
}

#[test]
fn three_machines_share_the_host_and_run_a_service_together() {
    let cell = Cell::start_with(&["--machines", "3"]);
    let said = cell.said();
    assert!(said.contains("1 master, 1 scheduler, 3 machines ("), "{said}");
    let names = names(&cell);
    let first = &names[0];
    assert_eq!(names, [first.clone(), format!("{first}-2"), format!("{first}-3")]);
    for (number, name) in (1..).zip(&names) {
        let pid = pid(&cell, number).expect("its Borglet runs");
        let line = said.lines().find(|line| line.starts_with(&format!("machine {name}  ")));
        let line = line.unwrap_or_else(|| panic!("{name} is not in\n{said}"));
        assert!(line.contains(" cores, ") && line.ends_with(&format!(", pid {pid}")), "{line}");
    }

    let host =
        MachineResources::discover(cell.directory(), linux::Isolation::Jail).expect("this host");
    let listed = machines(&cell);
    let sum = |field: &str| {
        let amount = |machine: &Value| {
            let amount = &machine["capacity"][field];
            let text = amount.as_str().and_then(|text| text.parse().ok());
            amount.as_u64().or(text).unwrap_or_else(|| panic!("no {field} in {machine:#}"))
        };
        listed.iter().map(amount).sum::<u64>()
    };
    assert_eq!((sum("cpuMilli"), sum("ramBytes")), (host.cpu_milli, host.memory_bytes));
    assert!(sum("diskBytes") <= host.disk_bytes, "they share a disk");
    let ranges: BTreeSet<_> =
        listed.iter().map(|machine| machine["report"]["firstPort"].to_string()).collect();
    assert_eq!(ranges.len(), 3, "{ranges:?}");

    cell.write("web.bcl", service(3, 1));
    cell.ok("bourg run web.bcl");
    assert_eq!(counts(&cell, 3), [1, 1, 1]);
    let of_machines = tasks(&cell, 3);
    let uids: Vec<u32> = of_machines
        .iter()
        .flat_map(|tasks| tasks.values().map(|pid| processes::uid(*pid)))
        .collect();
    // The ranges begin at 0, 3,333 and 6,666.
    let slice = |uid: &u32| ((uid - 200_000) * 3 + 2) / 10_000;
    let slices: Vec<u32> = uids.iter().map(slice).collect();
    assert_eq!(slices, [0, 1, 2], "each in the range of its machine: {uids:?}");
    // A fourth task has no place.
    cell.write("more.bcl", service(4, 1).replace("'web'", "'more'"));
    let said = cell.fails(4, "bourg run more.bcl --timeout 3s");
    assert!(said.contains("of 3 machines"), "{said}");
    cell.ok("bourg kill more web");
}

#[test]
fn tasks_leave_a_drained_machine_and_survive_a_killed_borglet() {
    let mut cell = Cell::start_with(&["--machines", "3"]);
    let names = names(&cell);
    cell.write("web.bcl", service(3, 2));
    cell.ok("bourg run web.bcl");
    assert_eq!(counts(&cell, 3), [1, 1, 1], "they are spread");

    let before = tasks(&cell, 3);
    let dead = pid(&cell, 2).expect("its Borglet runs");
    processes::signal(dead, Signal::SIGKILL);
    until("it is said", || {
        cell.dev().stderr().contains("the borglet-2 ended (signal: 9 (SIGKILL))")
    });
    eventually("another runs", || pid(&cell, 2).filter(|now| *now != dead));
    assert_eq!(tasks(&cell, 3), before);

    let planned = cell.ok(&format!("bourg drain {} --plan", names[1]));
    assert_eq!(planned, "1 task moves, 0 wait\n");
    let said = cell.types(&format!("bourg drain {}", names[1])).stderr;
    let begins = format!("simulated first: {planned}{}: draining, 1 task leaves\n", names[1]);
    assert!(said.starts_with(&begins), "{said}");
    assert!(said.ends_with(&format!("{}: empty, safe to power off\n", names[1])), "{said}");
    cell.is_healthy("web");
    let counts = counts(&cell, 3);
    assert!(counts == [2, 0, 1] || counts == [1, 0, 2], "{counts:?}");
    let after = tasks(&cell, 3);
    for number in [0, 2] {
        let stay = before[number].iter().all(|(task, pid)| after[number].get(task) == Some(pid));
        assert!(stay, "{before:?} {after:?}");
    }
    cell.ok(&format!("bourg machine undrain {}", names[1]));
    cell.stop();
    nothing_is_left(&cell, 3);
}

#[test]
fn a_kept_cell_has_the_machines_of_before_and_grows() {
    let mut cell = Cell::start_with(&["--machines", "3"]);
    let before = names(&cell);
    cell.write("web.bcl", service(3, 1));
    cell.ok("bourg run web.bcl");
    cell.stop();
    nothing_is_left(&cell, 3);

    for fewer in ["1", "2"] {
        let said = cell.fails(1, &format!("bourg dev --dir cell --machines {fewer} -- true"));
        assert!(
            said.contains("cell has a cell of 3 machines: start it with --machines 3"),
            "{said}"
        );
        let advice = format!("bourg machine remove {}, stop the cell, and remove ", before[2]);
        assert!(said.contains(&advice) && said.contains("cell/borglet-3"), "{said}");
    }
    // As many as before, without saying so.
    cell.start_again(&[]);
    assert!(cell.said().contains("3 machines ("), "{}", cell.said());
    assert_eq!(names(&cell), before);
    cell.is_healthy("web");
    assert_eq!(counts(&cell, 3), [1, 1, 1]);
    // All of it dies, and the tasks with it.
    processes::signal(cell.dev().pid(), Signal::SIGKILL);
    let cgroups: Vec<String> = (1..=3).map(|number| cgroup(&cell, number)).collect();
    until("all is gone", || {
        cgroups.iter().all(|cgroup| {
            processes::left(cgroup, cell.directory()).is_empty()
                && processes::cgroups(cgroup).is_empty()
        })
    });
    assert_eq!(cell.stop_by(Signal::SIGKILL).code, 128 + 9);

    cell.start_again(&["--machines", "4"]);
    let now = names(&cell);
    assert_eq!(now, [&before[..], &[format!("{}-4", before[0])]].concat());
    cell.is_healthy("web");
    assert_eq!(counts(&cell, 4).iter().sum::<usize>(), 3);
    // The advice is good.
    let last = &now[3];
    cell.ok(&format!("bourg machine drain {last} && bourg machine remove {last}"));
    cell.stop();
    nothing_is_left(&cell, 4);
    std::fs::remove_dir_all(cell.path("cell/borglet-4")).expect("it can be removed");
    cell.start_again(&["--machines", "3"]);
    assert_eq!(names(&cell), before);
    cell.is_healthy("web");
}

#[test]
fn a_number_of_machines_that_cannot_be_is_refused_before_anything_starts() {
    let terminal = Terminal::new();
    for bad in ["0", "17", "-1", "three", "''", "2.5"] {
        let said = terminal.fails(2, &format!("bourg dev --dir cell --machines={bad} -- true"));
        assert!(said.contains("is not a number of machines from 1 to 16"), "{said}");
    }
    terminal.write("meminfo", "MemTotal:        300000 kB\nMemFree: 1 kB\n");
    let over = "unshare --mount sh -c 'mount --bind meminfo /proc/meminfo && exec bourg dev --dir cell \
                --machines 3 -- true'";
    let said = terminal.fails(1, over);
    let says = "3 machines are too many for this host, which has ";
    assert!(said.contains(says) && said.contains("use --machines 2 at most"), "{said}");
    assert!(!terminal.path("cell").exists(), "nothing is started");

    // The flags of a Borglet.
    for (flags, code, says) in [
        ("--cpu 100000", 1, "--cpu is 100000 cores, but this machine has "),
        ("--ram 1PiB", 1, "--ram is 1 PiB, but this machine has "),
        ("--ram 0", 1, "--ram is 0: tasks need some of "),
        ("--uids 0-100", 2, "user ids below 1000 are not for tasks"),
        ("--uids many", 2, "'many' is not a range of user ids such as 200000-209999"),
    ] {
        terminal.ok("mkdir -p alone && touch alone/log");
        let said = terminal.fails(code, &format!("bourg borglet --dir alone {flags}"));
        assert!(said.contains(says), "{flags}: {said}");
    }
}
