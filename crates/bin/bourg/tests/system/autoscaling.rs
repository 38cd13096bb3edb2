//! Vertical autoscaling, from what the kernel measures to the limits of running tasks.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cell::Cell;
use crate::eventually::until;
use crate::terminal::Background;
use crate::tools::needs;

const PYTHON: &str = "/usr/bin/python3";

/// An autoscaler that looks every second, at windows of a second, and lowers after 3 s.
fn autoscaler(cell: &Cell, more: &[&str]) -> Background {
    let times = ["--interval", "1s", "--window", "1s", "--warm-up", "3s", "--lease", "5s"];
    let mut arguments = vec!["autoscaler"];
    arguments.extend(times);
    arguments.extend(more);
    cell.start(env!("CARGO_BIN_EXE_bourg"), &arguments)
}

fn ram(cell: &Cell, job: &str) -> u64 {
    let text = cell.ok(&format!("bourg status {job} -o spec.ramBytes"));
    text.trim().parse().expect("a number of bytes")
}

const MIB: u64 = 1 << 20;

#[test]
fn limits_follow_usage_without_a_restart_and_the_description_stays_the_users() {
    needs(PYTHON, "python3");
    let cell = Cell::start();
    let large = "local borg = import 'borg.libsonnet';
        borg.service('large', cmd=['sleep', '1000']) { cpu: 0.5, ram: '256 MiB',
          autoscale: { mode: 'constrained', min: { cpu: 0.05, ram: '24 MiB' },
                       max: { cpu: 0.5, ram: '512 MiB' } } }";
    cell.write("large.bcl", large);
    // It takes 110 MiB, and 20 MiB more after a signal.
    let program = "import signal, time\\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\\n\
                   a = bytearray(110 << 20)\\nsignal.sigwait([signal.SIGUSR1])\\n\
                   b = bytearray(20 << 20)\\nprint('grown', flush=True)\\ntime.sleep(1000)";
    cell.write(
        "grows.bcl",
        format!(
            "(import 'borg.libsonnet').service('grows', cmd=['{PYTHON}', '-c', \"{program}\"]) {{
               ram: '128 MiB', autoscale: 'full' }}"
        ),
    );
    cell.write(
        "off.bcl",
        "(import 'borg.libsonnet').service('off', cmd=['sleep', '1000'])
        { cpu: 0.5, ram: '256 MiB', autoscale: 'off' }",
    );
    for file in ["large.bcl", "grows.bcl", "off.bcl"] {
        cell.ok(&format!("bourg run {file}"));
    }
    let before = ["large", "grows", "off"].map(|job| cell.tasks(job));

    let mut first = autoscaler(&cell, &[]);
    until("memory is raised before it is used up", || ram(&cell, "grows") >= 140 * MIB);
    until("the task has it", || cell.ok("bourg update status grows -o state").trim() == "closed");
    let (_, pid) = cell.tasks("grows").pop_first().expect("it runs");
    kill(Pid::from_raw(pid), Signal::SIGUSR1).expect("it runs");
    until("it has more than its first limit", || cell.ok("bourg logs grows").contains("grown"));
    until("a large limit falls to the minimum", || ram(&cell, "large") == 24 * MIB);
    until("the task is done", || cell.ok("bourg update status large -o state").trim() == "closed");
    assert_eq!(ram(&cell, "off"), 256 * MIB);
    assert_eq!(["large", "grows", "off"].map(|job| cell.tasks(job)), before, "no task restarted");

    // The file of its user changes nothing, and says so.
    let says = cell.ok("bourg plan large.bcl");
    assert!(says.contains("no change") || says.contains("unchanged"), "{says}");
    cell.ok("bourg run large.bcl");
    assert_eq!(ram(&cell, "large"), 24 * MIB);
    let wide = cell.ok("bourg status large -o wide");
    assert!(wide.contains("limits 0.05 cores, 24 MiB, autoscaled (constrained"), "{wide}");
    assert!(wide.contains("the user's own: 0.5 cores, 256 MiB"), "{wide}");
    let events = cell.ok("bourg events large");
    assert!(events.contains("AUTOSCALE") && events.contains("ram 256 MiB → 24 MiB: "), "{events}");
    assert!(events.contains("peak-and-decay of") || events.contains("percentile of"), "{events}");

    // One of two acts, and the other takes over.
    let second = autoscaler(&cell, &[]);
    until("the second waits", || second.stderr().contains("another autoscaler holds"));
    kill(Pid::from_raw(first.pid()), Signal::SIGTERM).expect("it runs");
    until("the first has ended", || first.code() == Some(0));
    until("the second acts", || second.stdout().contains("/autoscaler"));

    // Without autoscaling the limit is the user's again.
    cell.write("large.bcl", large.replace("autoscale:", "autoscale:: 'off', unused::"));
    cell.ok("bourg run large.bcl");
    assert_eq!(ram(&cell, "large"), 256 * MIB);
}

#[test]
fn limits_of_others_need_the_capability_and_a_history_survives_a_restart() {
    let cell = Cell::start();
    cell.ok("bourg user add ben && bourg user add scaler");
    cell.write(
        "web.bcl",
        "(import 'borg.libsonnet').batch('web', cmd=['sleep', '1000'])
           { priority: 'free', cpu: 0.4, ram: '256 MiB', autoscale: 'full' }",
    );
    cell.ok("bourg --cell ./ben run web.bcl");
    let more = ["--all-users", "--history", "history", "--lower-every", "3s"];
    let scaler = |cell: &Cell| {
        let mut arguments = vec!["--cell", "./scaler"];
        arguments.extend(["autoscaler", "--interval", "1s", "--window", "1s", "--warm-up", "3s"]);
        arguments.extend(more);
        cell.start(env!("CARGO_BIN_EXE_bourg"), &arguments)
    };
    let mut first = scaler(&cell);
    until("it is rejected", || {
        let says = first.stderr();
        says.contains("rejected: scaler may not set the limits of ben/web")
            && says.contains("autoscale")
    });
    assert_eq!(ram(&cell, "ben/web"), 256 * MIB);
    kill(Pid::from_raw(first.pid()), Signal::SIGTERM).expect("it runs");
    until("it has ended", || first.code() == Some(0));
    cell.ok("bourg capability grant scaler autoscale");
    // The history of another job of this name, from before: the new limit needs no warm-up.
    cell.ok("bourg --cell ./ben kill web && bourg --cell ./ben run web.bcl");
    let second = scaler(&cell);
    until("the limit falls", || ram(&cell, "ben/web") < 64 * MIB);
    assert!(second.stdout().contains("ben/web: "), "{}", second.stdout());
    let events = cell.ok("bourg events ben/web");
    assert!(events.contains("USE_CAPABILITY") && events.contains("autoscale"), "{events}");
    // Nothing else is allowed with it.
    cell.fails(3, "bourg --cell ./scaler kill ben/web");
    cell.fails(3, "bourg --cell ./scaler resize ben/web 2");

    cell.write("history", "something else\n");
    let says = cell.fails(2, "bourg --cell ./scaler autoscaler --history history");
    assert!(says.contains("is damaged in line 1") && says.contains("move it away"), "{says}");
}
