//! A task's environment: docs/tasks.md, compared with what tasks see.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use crate::cell::Cell;
use crate::tools::needs;

const PAGE: &str = include_str!("../../../../../docs/tasks.md");

/// The rows of the table below a heading, cell by cell, without code marks.
fn table(heading: &str) -> Vec<Vec<String>> {
    let section = PAGE.split(&format!("\n## {heading}\n")).nth(1).expect("the heading is there");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    let cells = |row: &str| {
        let cells = row.trim_matches('|').split(" | ").map(|cell| cell.trim().replace('`', ""));
        cells.collect()
    };
    rows.map(cells).collect()
}

/// Runs a script to its end, and returns its output.
#[track_caller]
fn output(cell: &Cell, name: &str, script: &str, fields: &str) -> String {
    cell.write("script.sh", script);
    ran(cell, name, "['sh', '-c', importstr 'script.sh']", fields)
}

/// Runs a program to its end, and returns its output.
#[track_caller]
fn ran(cell: &Cell, name: &str, cmd: &str, fields: &str) -> String {
    let text = format!(
        "(import 'borg.libsonnet').batch('{name}', cmd={cmd})
           {{ ram: '16 MiB', restart: {{ failures: 0 }} }} + {{ {fields} }}"
    );
    cell.write(&format!("{name}.bcl"), text);
    cell.ok(&format!("bourg run --wait {name}.bcl"));
    cell.ok(&format!("bourg logs {name}/0"))
}

/// Lines of `name=value`.
fn values(output: &str) -> BTreeMap<&str, &str> {
    output.lines().filter_map(|line| line.split_once('=')).collect()
}

/// A cell with an alloc set.
fn cell() -> Cell {
    let cell = Cell::start();
    let room = "(import 'borg.libsonnet').allocSet('room') { cpu: 0.3, ram: '128 MiB' }";
    cell.write("room.bcl", room);
    cell.ok("bourg run room.bcl");
    cell
}

#[test]
fn the_variables_of_a_task_are_those_of_the_page() {
    let cell = cell();
    let rows = table("Environment");
    let listed = |places: &[&str], ports: &[&str]| -> BTreeSet<String> {
        let rows = rows.iter().filter(|row| places.contains(&row[2].as_str()));
        let names = rows.flat_map(|row| match row[0].as_str() {
            "PORT_<NAME>" => ports.iter().map(|port| format!("PORT_{port}")).collect(),
            name => vec![name.to_owned()],
        });
        names.collect()
    };
    let places: BTreeSet<&str> = rows.iter().map(|row| row[2].as_str()).collect();
    let all = ["always", "with ports", "with exactly one port", "in an alloc", "with api: true"];
    assert_eq!(places, all.into());
    let mut seen = BTreeMap::new();
    for (name, fields, places, ports) in [
        ("plain", "", &all[..1], &[][..]),
        ("one", "ports: ['http']", &all[..3], &["HTTP"]),
        ("two", "ports: ['http', 'the-admin']", &all[..2], &["HTTP", "THE_ADMIN"]),
        ("inside", "allocSet: 'room', priority: 200", &[all[0], all[3]], &[]),
        ("asks", "api: true", &[all[0], all[4]], &[]),
    ] {
        let said = ran(&cell, name, "['env']", fields);
        let names: BTreeSet<String> = values(&said).keys().map(|name| (*name).to_owned()).collect();
        assert_eq!(names, listed(places, ports), "{name}: {said}");
        seen.insert(name, said);
    }
    let plain = values(&seen["plain"]);
    for (name, value) in
        [("BORG_TASKS", "1"), ("BORG_CPU", "0.1"), ("BORG_RAM", "16777216"), ("BORG_DISK", "0")]
    {
        assert_eq!(plain[name], value, "{name}");
    }
    for (name, value) in [
        ("BORG_CELL", "dev"),
        ("BORG_USER", "root"),
        ("BORG_JOB", "plain"),
        ("BORG_TASK", "0"),
        ("HOME", "/home/task"),
        ("USER", "task"),
        ("HOSTNAME", "plain-0"),
    ] {
        assert_eq!(plain[name], value, "{name}");
    }
    assert_eq!(values(&seen["one"])["PORT"], values(&seen["one"])["PORT_HTTP"]);
    let inside = values(&seen["inside"]);
    assert_eq!([inside["BORG_ALLOC_DIR"], inside["BORG_ALLOC"]], ["/alloc", "0"]);
    assert_eq!(inside["BORG_ALLOC_SET"], "root/room");
    assert_eq!(values(&seen["asks"])["BOURG_CELL"], "/run/bourg/cell");
    // Those of the job take precedence.
    let said = output(
        &cell,
        "own",
        "echo home=$HOME job=$BORG_JOB",
        "env: { HOME: '/tmp', BORG_JOB: 'x' }",
    );
    assert_eq!(said, "home=/tmp job=x\n");
}

/// A Java and a Node runtime take their memory from the task's limit, not from the machine's, and the
/// references say the same.
#[test]
fn runtimes_size_themselves_by_their_task() {
    needs("java", "openjdk-17-jre-headless");
    needs("node", "nodejs");
    let cell = Cell::start();
    let fields = "ram: '256 MiB', cpu: 0.5, cpuSlack: false, tasks: 2";
    let java = "java -XX:+PrintFlagsFinal -version 2>&1 | grep -E 'MaxHeapSize|ParallelGCThreads'
        echo tasks=$BORG_TASKS cpu=$1 $BORG_CPU ram=$2 $BORG_RAM";
    cell.write("java.sh", java);
    let cmd = "['sh', '-c', importstr 'java.sh', 'sh', '${task.cpu}', '${task.ram}']";
    let said = ran(&cell, "java", cmd, fields);
    let flag = |name: &str| {
        let line = said.lines().find(|line| line.contains(&format!(" {name} ")));
        let value = line.and_then(|line| line.split('=').nth(1)?.split_whitespace().next());
        value.and_then(|value| value.parse::<u64>().ok())
    };
    // About half of so small a memory, and one processor.
    let heap = flag("MaxHeapSize");
    assert!(heap.is_some_and(|heap| (100 << 20..=128 << 20).contains(&heap)), "{said}");
    assert_eq!(flag("ParallelGCThreads"), Some(0), "{said}");
    let limits = "tasks=2 cpu=0.5 0.5 ram=268435456 268435456";
    assert!(said.lines().any(|line| line == limits), "{said}");
    let node = "console.log('limit=' + process.constrainedMemory())";
    let said = ran(&cell, "node", &format!("['node', '-e', \"{node}\"]"), fields);
    assert_eq!(values(&said)["limit"], (256 << 20).to_string());
}

#[test]
fn the_directories_of_a_task_are_those_of_the_page() {
    let cell = cell();
    let rows = table("Directories");
    let paths: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    let script = format!(
        "echo cwd=$PWD
         for d in {}; do
           test -d $d || continue
           if (echo x > $d/written) 2> /dev/null; then echo $d=yes; else echo $d=no; fi
         done
         echo all=$(ls /)
         echo devices=$(ls /dev | grep -v '^fd$\\|^std\\|^shm$')
         echo var=$(ls /var)
         for d in /home/task /tmp /dev/shm; do
           printf '#!/bin/sh\\necho runs' > $d/program; chmod +x $d/program
           echo run.$d=$($d/program 2> /dev/null)
         done",
        paths.join(" ")
    );
    for (name, fields) in [("free", ""), ("inside", "allocSet: 'room', priority: 200")] {
        let said = output(&cell, name, &script, fields);
        let seen = values(&said);
        assert_eq!(seen["cwd"], "/home/task");
        for row in &rows {
            let expected = (row[0] != "/alloc" || name == "inside").then_some(row[2].as_str());
            assert_eq!(seen.get(row[0].as_str()).copied(), expected, "{name}: {}", row[0]);
        }
        // What may be missing on a machine is not in the table.
        let more = ["sbin", "lib32", "lib64", "home"];
        let first = |path: &str| path.split('/').nth(1).unwrap_or_default().to_owned();
        let known: BTreeSet<String> =
            paths.iter().map(|path| first(path)).chain(more.map(str::to_owned)).collect();
        let there: BTreeSet<String> = seen["all"].split(' ').map(str::to_owned).collect();
        assert!(there.is_subset(&known), "{there:?}");
        assert_eq!(there.contains("alloc"), name == "inside");
        assert_eq!(seen["devices"], "full null ptmx pts random tty urandom zero");
        assert_eq!(seen["var"], "tmp", "{said}");
        assert_eq!(
            [seen["run./home/task"], seen["run./tmp"], seen["run./dev/shm"]],
            ["runs", "runs", ""]
        );
    }
}

#[test]
fn limits_and_identity_of_a_task_are_those_of_the_page() {
    let cell = Cell::start();
    let script = "echo ids=$(id -u) $(id -g) $(id -G) $(id -un)
                  echo files=$(ulimit -n) core=$(ulimit -c) umask=$(umask)
                  echo me=$$
                  echo capabilities=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
                  echo tmp=$(df -k /tmp | awk 'NR == 2 { print $2 }')
                  echo shm=$(df -k /dev/shm | awk 'NR == 2 { print $2 }')
                  echo stdin=$(readlink /proc/$$/fd/0)
                  mount -t tmpfs none /tmp 2> /dev/null || echo mounts=no";
    let said = output(&cell, "limits", script, "");
    let seen = values(&said);
    let ids: Vec<&str> = seen["ids"].split(' ').collect();
    let uid: u32 = ids[0].parse().expect("a number");
    assert!((200_000..=209_999).contains(&uid), "{said}");
    assert_eq!(ids[1..], [ids[0], ids[0], "task"], "{said}");
    let most: u64 = cell.ok("ulimit -Hn").trim().parse().expect("a number");
    assert_eq!(seen["files"], format!("{} core=0 umask=0022", most.min(65_536)));
    assert_eq!(seen["me"], "2");
    assert_eq!(seen["capabilities"], "0000000000000000");
    assert_eq!([seen["tmp"], seen["shm"]], ["16384", "16384"], "as much as its memory");
    assert_eq!([seen["stdin"], seen["mounts"]], ["/dev/null", "no"]);

    let limits = table("Limits");
    let names: Vec<&str> = limits.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(
        names,
        ["cpu", "ram", "processes", "/tmp, /dev/shm", "open files", "core dumps", "cmd, env"]
    );
    cell.write("forks.sh", "i=0; while [ $i -lt 9 ]; do sleep 5 & i=$((i + 1)); done; echo forked");
    let text = "(import 'borg.libsonnet').batch('forks', cmd=['sh', '-c', importstr 'forks.sh'])
                  { processes: 4, restart: { failures: 0 } }";
    cell.write("forks.bcl", text);
    cell.types("bourg run --wait forks.bcl");
    let said = cell.ok("bourg logs forks/0");
    assert!(said.contains("fork") && !said.contains("forked"), "{said}");
    let text = "(import 'borg.libsonnet').batch('long', cmd=['echo', std.repeat('x', 129 * 1024)])";
    cell.write("long.bcl", text);
    cell.fails(2, "bourg run long.bcl");
}

/// The solutions of the page that need nothing from the machine.
#[test]
fn a_program_comes_with_the_job_or_is_fetched_at_the_start() {
    needs("curl", "curl");
    let cell = Cell::start();
    // As it is printed there.
    let (_, section) = PAGE.split_once("\n## How to bring a program").expect("a section");
    let listed: Vec<&str> = section.split("```jsonnet\n").skip(1).collect();
    let listed: Vec<&str> = listed.iter().filter_map(|code| code.split("```").next()).collect();
    let [script, fetched] = listed.as_slice() else { panic!("{} programs", listed.len()) };
    cell.write("report.sh", "echo \"a report of $BORG_JOB\"\n");
    cell.write("report.bcl", script);
    cell.ok("bourg run --wait report.bcl");
    assert_eq!(cell.ok("bourg logs report/0"), "a report of report\n");

    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let serve = std::thread::spawn(move || {
        let (mut asks, _) = listener.accept().expect("somebody asks");
        let mut request = [0; 4_096];
        let _some = asks.read(&mut request).expect("a request");
        let program = "#!/bin/sh\necho fetched as $0 in $PWD\n";
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", program.len());
        asks.write_all((head + program).as_bytes()).expect("it listens");
    });
    cell.write("fetched.bcl", fetched.replace("files.example", &address.to_string()));
    cell.ok("bourg run --wait fetched.bcl");
    serve.join().expect("it is served");
    assert_eq!(cell.ok("bourg logs fetched/0"), "fetched as ./tool in /home/task\n");
}
