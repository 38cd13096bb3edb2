//! What a person types instead of writing a file: parameters, several files, commands and scripts as jobs.

use crate::cell::Cell;
use crate::terminal::Terminal;

/// A file that is a function of two parameters.
const REGIONAL: &str = "local borg = import 'borg.libsonnet';
function(region, tasks=1) borg.batch('web-' + region, tasks=std.parseInt('' + tasks), cmd=['true'])
  { ram: '16 MiB', labels: { app: 'shop' } }";

#[test]
fn parameters_are_given_to_files_that_are_functions() {
    let terminal = Terminal::new();
    terminal.write("web.bcl", REGIONAL);
    terminal.write("eu.json", "{ \"region\": \"eu\", \"tasks\": 3 }");
    let names = |flags: &str| {
        let said = terminal.ok(&format!("bourg eval web.bcl {flags}"));
        let jobs: serde_json::Value = serde_json::from_str(&said).expect("JSON");
        let job = jobs.get(0).unwrap_or(&jobs);
        format!("{} {}", job["name"], job["tasks"])
    };
    assert_eq!(names("--var region=us"), "\"web-us\" 1");
    assert_eq!(names("--var-file eu.json"), "\"web-eu\" 3");
    assert_eq!(names("--var-file eu.json --var region=asia"), "\"web-asia\" 3");
}

#[test]
fn wrong_parameters_are_told_with_those_that_the_file_has() {
    let terminal = Terminal::new();
    terminal.write("web.bcl", REGIONAL);
    terminal.write("plain.bcl", "{ name: 'plain', cmd: ['true'] }");
    terminal.write("list.json", "[1]");
    terminal.write("broken.json", "{");
    for (line, said) in [
        ("web.bcl", "'region' of it has no value; its parameters are region, tasks (optional)"),
        ("web.bcl --var regoin=eu", "the file has no parameter 'regoin'"),
        ("plain.bcl --var region=eu", "the file takes no parameters"),
        ("web.bcl --var-file list.json", "must evaluate to an object"),
        ("web.bcl --var-file broken.json", "broken.json:1:"),
        ("web.bcl --var-file missing.json", "cannot read missing.json"),
        ("web.bcl --var region", "write NAME=VALUE"),
        ("web.bcl --var 'a b=1'", "cannot be the name of a parameter"),
    ] {
        let error = terminal.fails(2, &format!("bourg eval {line}"));
        assert!(error.contains(said), "{line}: {error}");
    }
}

#[test]
fn files_of_other_systems_and_bad_scripts_are_told_what_to_write() {
    let terminal = Terminal::new();
    for (name, text, said) in [
        ("pod.yaml", "apiVersion: v1\nkind: Pod\n", "is a file of Kubernetes"),
        ("compose.yaml", "services:\n  web:\n    image: nginx\n", "is a file of Docker Compose"),
        ("web.nomad", "job \"web\" {\n}\n", "is a file of Nomad"),
        (
            "slurm.sh",
            "#!/bin/sh\n#SBATCH --mem=1G\ntrue\n",
            "lines below the first one:\n#BOURG ram=1GiB",
        ),
        ("bad.sh", "#!/bin/sh\n#BOURG cpus=1\n", "bad.sh:2: 'cpus' is no word of a job"),
        ("late.sh", "#!/bin/sh\ntrue\n#BOURG cpu=1\n", "late.sh:3: #BOURG lines come before"),
        ("page.awk", "#!/usr/bin/awk -f\n", "is no interpreter"),
    ] {
        terminal.write(name, text);
        let error = terminal.fails(2, &format!("bourg run {name}"));
        assert!(error.contains(said), "{name}: {error}");
    }
    terminal.write("plain.bcl", "{ name: 'plain', cmd: ['true'] }");
    for (line, said) in [
        ("bourg run", "neither a file nor a command"),
        ("bourg run plain.bcl --cpu 1", "--cpu goes with a command after --"),
        ("bourg run --cpu 1 -- '/bin/No Name'", "give one with --name"),
        ("bourg run --cpu much -- true", "is not a number of cores"),
        ("bourg run plain.bcl --prune app=shop < /dev/null", "there is no terminal to ask at"),
        ("bourg run - - < plain.bcl", "give it once"),
        ("mkdir -p none; bourg run none", "has no files *.bcl"),
        (
            "cp plain.bcl again.bcl; bourg run plain.bcl again.bcl",
            "is defined in plain.bcl and in again.bcl",
        ),
    ] {
        let error = terminal.fails(2, line);
        assert!(error.contains(said), "{line}: {error}");
    }
}

#[test]
fn a_line_and_a_script_are_jobs() {
    let cell = Cell::start();
    let ended =
        cell.types("bourg run --name one --cpu 0.1 --ram 16MiB --wait -- sh -c 'echo $((6 * 7))'");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(cell.ok("bourg logs one/0"), "42\n");
    cell.write(
        "sum.sh",
        "#!/bin/sh\n#BOURG cpu=0.1 ram=16MiB tasks=2\n\nX=\"it's $1\"\necho \"${X}\"\n",
    );
    let ended = cell.types("bourg run sum.sh --wait -- 7");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(cell.ok("bourg logs sum/1"), "it's 7\n");
    // What it prints is the same job.
    cell.ok("bourg run sum.sh --print -- 7 > sum.bcl");
    let said = cell.ok("bourg plan sum.bcl --exit-code; echo $?");
    assert!(said.ends_with("2\n"), "a dead job is submitted again: {said}");
    cell.ok("bourg run --name stays --service --cpu 0.1 --ram 16MiB -- sleep 1000");
    cell.ok(
        "bourg run --name stays --service --cpu 0.1 --ram 16MiB --print -- sleep 1000 > stays.bcl",
    );
    cell.ok("bourg plan stays.bcl --exit-code");
    cell.fails(1, "bourg plan missing.bcl --exit-code");
    cell.ok("bourg wait stays --for running --timeout 1m");
    cell.ok("bourg wait one sum --for finished --timeout 1m");
    cell.fails(1, "bourg wait stays --for dead --timeout 1s");
    cell.fails(2, "bourg wait nobody");
    assert_eq!(
        cell.ok("bourg exec stays echo -n hi"),
        "hi",
        "flags after the task are the command's"
    );
    cell.ok("bourg kill stays --detach && bourg wait stays --for dead --timeout 1m");
}

#[test]
fn only_labelled_jobs_that_no_file_describes_are_pruned() {
    let cell = Cell::start();
    let job = |name: &str, app: &str| {
        format!(
            "(import 'borg.libsonnet').service('{name}', cmd=['sleep', '1000'])
               {{ cpu: 0.1, ram: '16 MiB', labels: {{ app: '{app}' }} }}"
        )
    };
    cell.ok("mkdir shop");
    cell.write("shop/a.bcl", job("front", "shop"));
    cell.write("shop/b.bcl", job("back", "shop"));
    cell.write("blog.bcl", job("blog", "blog"));
    cell.ok("bourg run shop blog.bcl");
    cell.ok("rm shop/b.bcl");
    let said = cell.ok("bourg plan shop --prune app=shop");
    assert!(said.contains("- root/back  killed by --prune"), "{said}");
    assert!(!said.contains("blog"), "{said}");
    assert_eq!(cell.ok("bourg status -o name").lines().count(), 3, "nothing has changed");
    cell.ok("bourg run shop --prune app=shop --yes");
    cell.job("back", "is killed", |job| job["state"] == "killed");
    let left = cell.ok("bourg status -o name");
    assert!(left.contains("front") && left.contains("blog"), "{left}");
}

#[test]
fn a_task_that_keeps_failing_ends_the_wait_and_not_the_job() {
    let cell = Cell::start();
    cell.write(
        "crashes.bcl",
        "(import 'borg.libsonnet').service('crashes', cmd=['sh', '-c', 'echo oh; exit 3'])
           { cpu: 0.1, ram: '16 MiB' }",
    );
    let said = cell.fails(1, "bourg run crashes.bcl");
    assert!(said.contains("keeps failing: 3 failures"), "{said}");
    assert_eq!(said.matches("failed: exit code 3").count(), 3, "{said}");
    assert!(said.contains("  | oh\n"), "{said}");
    let state = cell.ok("bourg status crashes -o state");
    assert!(!state.contains("dead") && !state.contains("killed"), "{state}");
    let said = cell.fails(1, "bourg run crashes.bcl --keep-waiting --timeout 2s");
    assert!(!said.contains("keeps failing"), "{said}");
}

#[test]
fn a_task_that_ends_soon_after_its_start_is_not_called_healthy() {
    let cell = Cell::start();
    // For the cell the first is healthy after a second, and the second at once.
    for (name, service) in [("serves", "--service "), ("computes", "")] {
        let line = format!(
            "bourg run --name {name} {service}--cpu 0.1 --ram 16MiB -- sh -c 'sleep 1.5; echo no data; exit 3'"
        );
        let said = cell.fails(1, &line);
        assert_eq!(said.matches("failed: exit code 3; retrying").count(), 3, "{said}");
        assert!(said.contains(&format!("root/{name} keeps failing: 3 failures")), "{said}");
        assert!(said.contains("  | no data\n"), "{said}");
    }
    // One that goes on is healthy a little later.
    cell.ok("bourg run --name stays --cpu 0.1 --ram 16MiB -- sleep 100000");
}

#[test]
fn a_job_without_tasks_lives_on_until_it_is_resized_or_killed() {
    let cell = Cell::start();
    cell.ok("bourg run --name web --service --cpu 0.1 --ram 16MiB -- sleep 100000");
    cell.ok("bourg resize web 0");
    crate::eventually::until("its task is gone", || cell.tasks("web").is_empty());
    let said = cell.ok("bourg status web");
    assert!(said.starts_with("root/web  no tasks  production"), "{said}");
    let said = cell.types("bourg wait web --for dead --timeout 1s").stderr;
    assert!(
        said.contains(" root/web has no tasks, and lives on: bourg resize root/web 1 starts one"),
        "{said}"
    );
    assert_eq!(cell.types("bourg bns get web -o name").stdout, "");
    cell.ok("bourg update close web");
    let said = cell.fails(3, "bourg exec web/0 -- true");
    assert!(said.contains("root/web/0 does not run, it has ended"), "{said}");
    cell.ok("bourg wait web --for healthy --timeout 1m");
    cell.ok("bourg resize web 2");
    cell.is_healthy("web");
    cell.ok("bourg resize web 0");
    cell.ok("bourg kill web");
    cell.ok("bourg wait web --for dead --timeout 1m");
}

#[test]
fn several_jobs_of_a_file_are_told_apart_and_those_that_are_there_have_no_times() {
    let cell = Cell::start();
    cell.write(
        "two.bcl",
        "local borg = import 'borg.libsonnet';
         [borg.service(name, cmd=['sleep', '100000']) { cpu: 0.1, ram: '16 MiB' } for name in ['one', 'two']]",
    );
    let said = cell.types("bourg run two.bcl").stderr;
    for name in ["one", "two"] {
        assert!(said.contains(&format!(" root/{name}: admitted ")), "{said}");
    }
    let said = cell.types("bourg wait one").stderr;
    assert_eq!(said, " scheduled 1/1 · running 1/1 · healthy 1/1\n");
    // A reader that closes the pipe ends the command without a panic.
    let said = cell.ok("bourg run two.bcl 2>&1 | head -n 1; bourg kill one two 2>&1 | true");
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn the_last_lines_of_several_streams_are_in_order_of_time() {
    let cell = Cell::start();
    cell.ok("bourg run --name mixed --cpu 0.1 --ram 16MiB --wait -- sh -c \
         'for i in 1 2 3; do echo out $i; sleep 0.3; echo err $i >&2; sleep 0.3; done'");
    let expected = "out 2\nerr 2\nout 3\nerr 3\n";
    assert_eq!(cell.ok("bourg logs mixed/0 --since 1h --tail 2"), expected);
}
