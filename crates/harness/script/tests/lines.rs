//! What lines stand for, and what is wrong with bad ones.

use std::collections::BTreeSet;

use cell::{Cell, Mutation, Op, Outcome};
use expect_test::expect;
use model::{MachineId, Time};
use script::{LANGUAGE, Script, ScriptError, Step, commands, machine_report, request};

/// A cell with one machine and two jobs, of which one runs there.
fn begun() -> Script {
    let mut script = Script::default();
    for line in [
        "at 1",
        "bootstrap cc root",
        "machine m1 ports=31000-31001",
        "submit ana/web 2",
        "submit bob/db 1",
        "assign 1-0-1 m1",
    ] {
        script.command(line).expect(line);
    }
    script
}

/// A line for each command.
const LINES: &[&str] = &[
    "submit ana/api 1 cpu=10 ports=http,admin cmd=\"run for=20\" check=http",
    "kill ana/web/1",
    "forget-job ana/web",
    "add m2 m2:1",
    "update ana/web/0-1 3 cpu=20 batch=2 expected=1",
    "resize ana/web 3",
    "restart ana/web/0 batch=2",
    "limits ana/web 50 64 expected=1 ram 96 MiB → 64 MiB",
    "move 1-0-1 m2 for 2-0-1",
    "control pause ana/web 1",
    "drain m1 by=60 force bad disk",
    "undrain m1",
    "end-saver m1 1-0-1",
    "remove m1 force",
    "say m1 rack=r1 ssd",
    "platform p 1.5",
    "notice-max 60",
    "logs keep=60 machine=5",
    "backed-up 1",
    "reclaim aggressive",
    "pack best-fit",
    "resume",
    "certify ana 1 for=60",
    "revoke-user ana",
    "grant ana production cpu=100 ram=64 disk=10 from=1 until=9",
    "revoke 1",
    "oversell mid 150",
    "meter on",
    "queue on skipped half-life=60 assumed=60",
    "weight ana cpu=2000 ram=1 disk=1000000 disk-rate=7",
    "allow-to ana administer-jobs",
    "forbid ana administer-jobs",
    "use administer-jobs 1",
    "exec 1-0-1 sh -c date",
    "exec-ended 1-0-1 2 7 sh -c date",
    "add-replica h2:1",
    "remove-replica 2",
    "token m2 1 for=60",
    "tokens 3 rack 1 for=60",
    "revoke-machine m1",
    "replica-token 2 1",
    "lock-session lease=30",
    "renew-lock 1",
    "close-lock 1",
    "write /ana/a text expected=1 if=/ana/l:exclusive:1 session=1",
    "delete /ana/a expected=1 if=/ana/l:shared:1",
    "lock /ana/l 1 shared",
    "unlock /ana/l 1",
    "service ana/web http app=web,!canary bob eve",
    "delete-service ana/web",
    "package ana/app@1 7 100 bob",
    "delete-package ana/app@1",
    "secret ana/tls 1 100",
    "delete-secret ana/tls",
    "reseal-secret ana/tls 1 1 2 100",
    "volume m1 data /srv/data ssd=yes shared=all",
    "remove-volume m1 data force",
    "release-volume m1 data",
    "accept-volume m1 data",
    "at 9",
    "bootstrap cc root",
    "machine m3 address=h3:1 cpu=2000 ram=2048 ports=none is=rack:r1 held=22-22:sshd",
    "describe m1",
    "assign began=3 1-1-1 m1 31000,31001 in 2-0-1 evicting 1-0-1; 2-0-1 m1",
    "reserve 1-0-1 cpu=50 ram=10 sample=7",
    "started 1-0-1 fetch=20 start=2",
    "health 1-0-1 bad HTTP 503 on m1",
    "unready 1-0-1 no answer on m1",
    "not-ready 1-0-1 HTTP 503 on m1",
    "ended 1-0-1 not-started no such file using 1500 10 on m1",
    "unreachable m1",
    "silent m1",
    "back m1",
    "stop 1 1",
    "allow",
    "forget 1 2",
    "level 1",
    "metered",
    "queueing",
    "enable 7=3 8=1",
    "step 1 2 change=0 passed=1 skip=2 fail=1-0-1 finish close",
    "evict m1 1-0-1 1-1-1",
    "relieve m1 1-0-1",
    "expire m1",
    "replace 1",
    "unreplace 1",
    "read-secrets m1 1-0-1",
    "add-outputs m1 1-0-1 ana/words@1-0-1 1 5",
    "tell-inputs 1",
    "expire-locks 1 2",
    "nothing",
    "member 1 learner",
    "replica 1 in 7 has 1 h1:1",
    "enrol 1 7 m1:1 2 for=60",
    "enrol-as rack-1 1 7 r1:1 2",
    "renew m1 2 3",
    "join 2 1 7",
    "open ana times 3",
    "crowd 2",
    "request 1#7-8 as ana kill web",
];

#[test]
fn every_command_has_a_line_and_every_mutation_a_command() {
    let first = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    let lines: Vec<_> = LINES.iter().map(|line| first(line)).collect();
    assert_eq!(lines, commands().map(first).collect::<Vec<_>>());
    for line in LINES {
        begun().command(line).expect(line);
    }
    let mutations = LINES.iter().filter_map(|line| request(line).ok());
    let made: BTreeSet<&str> = mutations.map(|request| request.mutation.name()).collect();
    assert_eq!(made, Mutation::NAMES.iter().copied().collect());
}

#[test]
fn a_bad_line_is_explained_and_changes_nothing() {
    let mut text = String::new();
    for line in [
        "dance",
        "submit ana/web",
        "submit web 1",
        "as bob submit ana/web 1",
        "submit ana/web many",
        "submit ana/web 4294967296",
        "submit Ana/web 1",
        "submit ana/my_web 1",
        "submit ana/web 1 cpu",
        "submit ana/web 1 cpu=1.5",
        "submit ana/web 1 ram=99999999999999999",
        "submit ana/web 1 color=red",
        "submit ana/web 1 ports=2000",
        "submit ana/web 1 priority=high",
        "submit ana/web 1 kernel=everything",
        "submit ana/web 1 big=1",
        "submit ana/web 1 estimation=maybe",
        "submit ana/web 1 cmd=\"sleep 60",
        "kill web",
        "kill ana/web/x",
        "kill a/b/c/d",
        "as",
        "as ana",
        "as ana assign 1-0-1 m1",
        "drain",
        "platform p fast",
        "certify ana one",
        "certify ana 1 60",
        "certify ana 1 for=60 now",
        "grant ana gold",
        "grant ana mid gpu=1",
        "meter maybe",
        "queue maybe",
        "queue on sometimes=1",
        "weight ana cpu=0",
        "weight ana gpu=1",
        "enable 7",
        "allow-to ana everything",
        "at noon",
        "machine m1 speed=9",
        "describe m9",
        "describe m1 ports=31000",
        "describe m1 held=22",
        "assign 1-0-1",
        "assign 1-0-1 m1 http",
        "assign 1-0 m1",
        "started",
        "started 1-0-1 on m9",
        "health 1-0-1 ill",
        "ended 1-0-1 badly",
        "ended 1-0-1 exit 256",
        "ended 1-0-1 exit 1 using 18446744073709551615 1",
        "member 1 leader",
        "join 2 1 256",
        "open ana times 10001",
        "request 1 as ana kill web",
        "request 1#9-1 as ana kill web",
        "request 1#0-18446744073709551615 as ana kill web",
        "request 1#1 as ana dance",
        "request 1#1 as ana",
    ] {
        let mut script = begun();
        let before = script.clone();
        let error = script.command(line).expect_err(line);
        assert_eq!((script.cell().image(), script.now()), (before.cell().image(), before.now()));
        text += &format!("> {line}\n{error}\n");
    }
    expect![[r#"
        > dance
        there is no command 'dance'
        > submit ana/web
        wrong arguments; usage: submit [OWNER/]JOB TASKS [JOB-OPTION]…
        > submit web 1
        'web' names no user: use USER/JOB, or 'as USER' before the command
        > as bob submit ana/web 1
        bob cannot submit a job of ana
        > submit ana/web many
        'many' is not a number up to 4294967295
        > submit ana/web 4294967296
        '4294967296' is not a number up to 4294967295
        > submit Ana/web 1
        'Ana' is not a user name: use lower-case letters, digits and inner hyphens, for example 'ana'
        > submit ana/my_web 1
        'my_web' is not a job name: use lower-case letters, digits and inner hyphens, for example 'my-web'
        > submit ana/web 1 cpu
        'cpu' is not KEY=VALUE
        > submit ana/web 1 cpu=1.5
        '1.5' is not a number of milli-cores
        > submit ana/web 1 ram=99999999999999999
        '99999999999999999' is not a number of MiB
        > submit ana/web 1 color=red
        there is no option 'color': use cpu, cores, cpu-slack, ram, big, ports, static-ports, network, cmd, image, packages, secrets, check, readiness, priority, label, parent, after, failures, delay, restart, metrics, keep-logs, max-logs, on, per-machine, per-switch, in, allocs, estimation, autoscale, api, memory-slack, kernel, at-once, per-hour, appclass, batch, healthy, within, wait, most, fail, close, notice, victim-notice, saver, volumes, on-change, file, everywhere, gang, running-at-once, max-runtime, expected-runtime, requeue, scheduler
        > submit ana/web 1 ports=2000
        2000 is too many: at most 1000
        > submit ana/web 1 priority=high
        'high' is not a priority: use a number from 0 to 450 or a band (free, best-effort-batch, mid, production, monitoring)
        > submit ana/web 1 kernel=everything
        'everything' is not a kernel feature: use one of ipc-lock, net-admin, net-bind-service, net-raw, perfmon, sys-nice, sys-ptrace
        > submit ana/web 1 big=1
        '1' is not INDEX:MILLI
        > submit ana/web 1 estimation=maybe
        'maybe' is not yes or no
        > submit ana/web 1 cmd="sleep 60
        a double quote is not closed
        > kill web
        'web' names no user: use USER/JOB, or 'as USER' before the command
        > kill ana/web/x
        'x' names no tasks: use an index (7), a range (0-4) or a list (0-4,7)
        > kill a/b/c/d
        'a/b/c/d' has too many components: an address is user/job, job, user/job/7 or user/job/0-4
        > as
        wrong arguments; usage: as USER REQUEST
        > as ana
        wrong arguments; usage: as USER REQUEST
        > as ana assign 1-0-1 m1
        'assign' is not a request of a user
        > drain
        wrong arguments; usage: drain MACHINE [by=SECONDS] [force] [REASON]
        > platform p fast
        'fast' is not a factor from 0.001 to 100, such as 1 or 1.25
        > certify ana one
        'one' is not a number
        > certify ana 1 60
        '60' is not for=SECONDS
        > certify ana 1 for=60 now
        wrong arguments; usage: certify USER SERIAL [for=SECONDS]
        > grant ana gold
        'gold' is not a priority: use a number from 0 to 450 or a band (free, best-effort-batch, mid, production, monitoring)
        > grant ana mid gpu=1
        there is no option 'gpu': use cpu, ram, disk, from, until
        > meter maybe
        'maybe' is not on or off
        > queue maybe
        'maybe' is not on or off
        > queue on sometimes=1
        there is no option 'sometimes': use half-life, assumed
        > weight ana cpu=0
        '0' is not a weight in thousandths
        > weight ana gpu=1
        there is no option 'gpu': use cpu, ram, disk, disk-rate
        > enable 7
        '7' is not KEY=VALUE
        > allow-to ana everything
        'everything' is not a capability: use one of administer-jobs, grant-quota, drain-machines, no-estimation, kernel-features, exec-tasks, autoscale, administer-cell, save-checkpoints, static-ports, move-tasks
        > at noon
        'noon' is not a number of seconds
        > machine m1 speed=9
        there is no option 'speed': use cpu, ram, ports, is, held, saving, network, short, not-ready, volume
        > describe m9
        there is no machine 'm9'
        > describe m1 ports=31000
        '31000' is not a range of ports such as 31000-31255
        > describe m1 held=22
        '22' is not FIRST-LAST:NAME
        > assign 1-0-1
        '1-0-1' is not INSTANCE MACHINE [at ADDRESS] [PORT,…]
        > assign 1-0-1 m1 http
        'http' is not a port
        > assign 1-0 m1
        '1-0' is not an instance such as 1-0-1
        > started
        wrong arguments; usage: started INSTANCE [fetch=SECONDS] [start=SECONDS] [on MACHINE]
        > started 1-0-1 on m9
        there is no machine 'm9'
        > health 1-0-1 ill
        'ill' is not good or bad
        > ended 1-0-1 badly
        'badly' is not the reason of an end, such as 'exit 0'
        > ended 1-0-1 exit 256
        '256' is not an exit code
        > ended 1-0-1 exit 1 using 18446744073709551615 1
        '18446744073709551615' is not a number of milliseconds
        > member 1 leader
        'leader' is not learner, voter or out
        > join 2 1 256
        '256' is not a key, which is a number up to 255
        > open ana times 10001
        10001 is too many: at most 10000
        > request 1 as ana kill web
        '1' is not SESSION#SEQUENCE or SESSION#FROM-TO
        > request 1#9-1 as ana kill web
        '1#9-1' is not SESSION#SEQUENCE or SESSION#FROM-TO
        > request 1#0-18446744073709551615 as ana kill web
        18446744073709551615 is too many: at most 10000
        > request 1#1 as ana dance
        there is no command 'dance'
        > request 1#1 as ana
        wrong arguments; usage: as USER REQUEST
    "#]].assert_eq(&text);
    let mut empty = Script::default();
    assert_eq!(empty.command("started 1-0-1"), Err(ScriptError::NoMachines));
}

#[test]
fn empty_lines_and_comments_do_nothing() {
    let mut script = begun();
    for line in ["", "   ", "# submit ana/api 1", "#"] {
        assert_eq!(script.command(line), Ok(Vec::new()), "{line}");
    }
}

#[test]
fn each_user_has_one_session() {
    let mut script = begun();
    let names = |steps: Vec<Step>| {
        let name = |step: &Step| match &step.op {
            Op::Request { id, by, .. } => format!("{by} {}#{}", id.session, id.sequence),
            Op::OpenSession { user } => format!("open {user}"),
            op => format!("{op:?}"),
        };
        steps.iter().map(name).collect::<Vec<_>>()
    };
    for (line, steps) in [
        ("as eve kill ana/web/0", vec!["open eve", "eve 4#1"]),
        ("as eve kill ana/web/0", vec!["eve 4#2"]),
        ("kill ana/web/0", vec!["ana 2#2"]),
        ("as bob submit own 1", vec!["bob 3#2"]),
        ("resume", vec!["root 1#2"]),
    ] {
        assert_eq!(
            script.command(line).map(names),
            Ok(steps.into_iter().map(str::to_owned).collect())
        );
    }
    // The request is the last step.
    let steps = Script::default().command("submit ana/web 1").expect("a line");
    let outcomes: Vec<_> = steps.into_iter().map(|step| step.applied.outcome).collect();
    assert!(matches!(outcomes[..], [Outcome::Request(Ok(_)), Outcome::Request(Err(_))]));
}

#[test]
fn every_option_that_an_error_lists_is_one() {
    for (line, count) in
        [("submit ana/api 1", 57), ("describe m1", 10), ("grant ana mid", 5), ("reserve 1-0-1", 4)]
    {
        let with = |option: &str| begun().command(&format!("{line} {option}="));
        let Err(ScriptError::NoSuchOption { options, .. }) = with("none") else { panic!("{line}") };
        assert_eq!(options.len(), count, "{line}");
        for option in options {
            let is = with(option);
            assert!(!matches!(is, Err(ScriptError::NoSuchOption { .. })), "{line} {option}");
            assert!(LANGUAGE.contains(&format!("{option}=")), "{option} is not documented");
        }
    }
}

#[test]
fn a_machine_is_added_once_and_described_each_time() {
    let mut script = begun();
    assert_eq!(script.command("machine m2 cpu=500").map(|steps| steps.len()), Ok(2));
    assert_eq!(script.command("machine m2 cpu=700").map(|steps| steps.len()), Ok(1));
    let machine = script.cell().machine_named(&"m2".parse().expect("a name")).expect("added");
    assert_eq!((&*machine.address, machine.report.capacity.cpu.0), ("m2:1", 700));
    assert_eq!(machine.report, machine_report(&["cpu=700"]).map(Into::into).expect("a report"));
}

#[test]
fn a_follower_of_the_steps_reaches_the_same_cell() {
    let mut script = Script::default();
    let mut follower = Cell::empty();
    for line in ["bootstrap cc root"].iter().chain(LINES) {
        for Step { at, op, applied } in script.command(line).unwrap_or_default() {
            assert_eq!(follower.apply(at, &op), applied, "{line}");
        }
    }
    assert_eq!(follower.image(), script.cell().image());
    // A script goes on from any cell, at its time.
    assert_eq!(Script::on(follower).now(), Time(9_000_000));
}

#[test]
fn an_observation_comes_from_where_the_task_is() {
    let mut script = begun();
    script.command("machine m2").expect("a line");
    script.command("submit ana/api 1").expect("a line");
    script.command("assign 3-0-1 m2").expect("a line");
    let mut from = |line: &str| match &script.command(line).expect(line)[..] {
        [Step { op: Op::Observe { machine, .. }, .. }] => *machine,
        steps => panic!("{steps:?}"),
    };
    assert_eq!(from("started 3-0-1"), MachineId(2));
    assert_eq!(from("started 1-0-1"), MachineId(1));
    assert_eq!(from("started 1-1-1"), MachineId(1));
    assert_eq!(from("started 1-0-1 on m2"), MachineId(2));
    let mut script = begun().with_unknown_machine(MachineId(99));
    let steps = script.command("silent m9").expect("an unknown machine");
    assert_eq!(steps[0].op, Op::MachineSilent { machine: MachineId(99) });
}
