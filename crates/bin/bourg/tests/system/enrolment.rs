//! Machines join with tokens, renew their certificates, and are revoked.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::Signal;
use rpc::{Authority, Credentials, Identity, Validity};

use crate::borglets::Machine;
use crate::cell::{Cell, Role};
use crate::eventually::until;
use crate::pages::{Of, metrics, value};
use crate::processes;
use crate::security::refused;
use crate::terminal::Terminal;

const HOUR: Duration = Duration::from_secs(3_600);

/// The level of the state machine that cells reach.
pub(crate) const LEVEL: &str = "1";

const JOB: &str = "(import 'borg.libsonnet').service('hello', tasks=1, cmd=['sleep', '1d'])
    { cpu: 0.1, ram: '64 MiB', priority: 'free' }";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

/// `bourg machine token`: its output, which is only the token.
fn token(cell: &Cell, name: &str) -> String {
    let printed = cell.ok(&format!("bourg machine token {name}"));
    let token = printed.strip_suffix('\n').expect("a line").to_owned();
    assert!(token.starts_with("bourg-join-1") && !token.contains(char::is_whitespace), "{printed}");
    token
}

/// Stops using the only machine that a dev cell has by itself.
fn only_others(cell: &Cell) {
    cell.ok("bourg machine drain $(bourg machines -o name)");
}

/// A certificate with less than a third of its time left.
fn due(cell: &Cell, identity: &Identity) -> Credentials {
    let authority = Authority::open(cell.path("cell/master/tls")).expect("the cell's authority");
    let now = SystemTime::now();
    let validity = Validity { from: now - 40 * HOUR, until: now + HOUR };
    authority.issue(identity, validity).expect("a certificate")
}

fn serial(directory: &Path) -> Vec<u8> {
    Credentials::read(directory, "borglet").expect("a certificate").serial().to_vec()
}

#[test]
fn a_machine_joins_with_a_token_and_needs_none_again() {
    let cell = Cell::start();
    only_others(&cell);
    let token = token(&cell, "m1");
    let mut machine = Machine::join(&cell, "m1", &token);
    cell.write("hello.bcl", JOB);
    cell.ok("bourg run hello.bcl");
    assert_eq!(machine.tasks("hello").len(), 1, "it runs there");

    let file = |name: &str| machine.directory().join(name);
    let modes = ["borglet.key", "borglet.pem"].map(|name| mode(&file(name)));
    assert_eq!(modes, [0o600, 0o644]);
    assert!(!file("joining.key").exists(), "the key is the certificate's by now");
    let text = cell.ok("bourg machine show m1");
    // Tasks of other cells on this machine may use ports of its range, which changes the columns'
    // width.
    let words: Vec<_> = text.split_whitespace().collect();
    assert!(words.join(" ").contains(" certificate until "), "{text}");
    let events = cell.ok("bourg events --all");
    for expected in ["ISSUE_TOKEN", "ENROL"] {
        assert!(events.contains(expected), "{expected} is not in\n{events}");
    }

    let (before, kept) = (machine.tasks("hello"), serial(machine.directory()));
    machine.signal(Signal::SIGKILL);
    machine.is_gone();
    machine.start_again();
    until("it is adopted", || machine.borglet().stderr().contains("this machine has"));
    machine.is("up");
    // Also if it is still given the token, either itself or a file that no longer exists.
    for given in [token.as_str(), "@/nowhere/token"] {
        machine.signal(Signal::SIGKILL);
        machine.is_gone();
        machine.start_with(&["--join", given]);
        until("it has its certificate", || machine.borglet().stderr().contains("this machine has"));
    }
    assert_eq!(serial(machine.directory()), kept, "it is the same certificate");
    assert_eq!(machine.tasks("hello"), before, "no task has noticed");
}

#[test]
fn a_machine_killed_between_join_steps_joins_with_the_same_key() {
    let cell = Cell::start();
    let token = token(&cell, "m1");
    cell.write("token", format!("{token}\n"));
    let given = format!("@{}", cell.path("token").display());
    let mut machine = Machine::join(&cell, "m1", &given);
    let kept = serial(machine.directory());
    // As if it had ended before it stored the certificate: only the key exists.
    machine.signal(Signal::SIGKILL);
    machine.is_gone();
    let file = |name: &str| machine.directory().join(name);
    fs::rename(file("borglet.key"), file("joining.key")).expect("the key is there");
    for name in ["borglet.pem", "borglet.ca.pem", "joined.toml"] {
        fs::remove_file(file(name)).expect("it is there");
    }
    machine.start_with(&["--join", &given]);
    until("it joined again", || {
        machine.borglet().stderr().contains("joined cell dev as borglet/m1")
    });
    assert_eq!(serial(machine.directory()), kept, "the same key is answered again");
    machine.is("up");
    let events = cell.ok("bourg events --all");
    assert_eq!(events.matches("ENROL").count(), 1, "{events}");
}

#[test]
fn a_token_is_good_once_and_for_its_machine() {
    let cell = Cell::start();
    let token = token(&cell, "m1");
    let _machine = Machine::join(&cell, "m1", &token);
    let said = cell.fails(
        1,
        &format!("echo {token} | bourg borglet --dir thief --listen 127.0.0.1:0 --join -"),
    );
    assert!(
        said.contains("the join token for machine m1 was already used with another key"),
        "{said}"
    );
    let refused = "bourg_requests_refused_total{cause=\"used_token\",band=\"none\"}";
    assert_eq!(value(&metrics(&cell, Of::Master), refused), Some(1.0));
    until("it is in the log", || {
        cell.said().contains("with a join token that another key has used")
    });
    let said = cell.fails(1, "bourg borglet --dir empty --listen 127.0.0.1:0");
    assert!(said.contains("this machine has not joined a cell yet"), "{said}");
    let said = cell.fails(2, "bourg borglet --dir empty --listen 127.0.0.1:0 --join nonsense");
    assert!(said.contains("not a join token"), "{said}");
    // Only administrators issue them.
    cell.ok("bourg user add eve");
    let said = cell.fails(3, "bourg --cell ./eve machine token m2");
    assert!(said.contains("eve may not issue a join token for machine m2"), "{said}");
    let said = cell.fails(3, "bourg --cell ./eve machine revoke m1");
    assert!(said.contains("eve may not revoke machine m1"), "{said}");
    let said = cell.fails(2, "bourg machine token m2 --for 1s");
    assert!(said.contains("a join token can be valid for 1 m to 7 d, not for 1 s"), "{said}");
}

#[test]
fn one_token_admits_many_machines_until_it_is_spent_or_revoked() {
    let cell = Cell::start();
    let token = token(&cell, "rack --uses 2");
    let join = |name: &'static str| {
        let mut machine = Machine::in_its_directory(&cell, name);
        machine.start_with(&["--join", &token, "--name", name]);
        machine.is("up");
        machine
    };
    let joins = |flags: &str| {
        let stranger = "bourg borglet --dir stranger --listen 127.0.0.1:0";
        cell.fails(1, &format!("rm -rf stranger; echo {token} | {stranger} --join - {flags}"))
    };
    let first = join("rack-1");
    let said = joins("");
    assert!(said.contains("give the name of this one with --name"), "{said}");
    let said = joins("--name rock-1");
    assert!(said.contains("begin with it, not for rock-1"), "{said}");
    let said = joins("--name rack-1");
    assert!(said.contains("was already used with another key"), "{said}");
    let _second = join("rack-2");
    let said = joins("--name rack-3");
    assert!(said.contains("has admitted 2 machines, as many as it may"), "{said}");
    let listed = cell.ok("bourg machine tokens");
    assert!(listed.contains("rack*") && listed.contains("2 of 2"), "{listed}");
    assert!(cell.ok("bourg machine tokens -o wide").contains("rack-1 rack-2"));
    cell.ok("bourg machine revoke rack");
    assert!(!cell.ok("bourg machine tokens").contains("rack*"));
    let said = joins("--name rack-3");
    assert!(said.contains("is unknown"), "{said}");
    first.is("up");
    cell.ok("bourg user add eve");
    let said = cell.fails(3, "bourg --cell ./eve machine tokens");
    assert!(said.contains("eve may not see join tokens"), "{said}");
}

#[test]
fn a_revoked_machine_is_not_talked_to_until_it_has_another_certificate() {
    let cell = Cell::start_with(&["--poll-interval", "200ms", "--missed-polls", "2"]);
    let first = token(&cell, "m1");
    let mut machine = Machine::join(&cell, "m1", &first);
    let said = cell.types("bourg machine revoke m1");
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(
        said.stderr.contains("m1: its certificates and tokens are rejected"),
        "{}",
        said.stderr
    );
    until("the operator is told why", || {
        let text = cell.ok("bourg machine show m1");
        text.contains("its certificate was revoked")
            && text.contains("by root; accepted: none since")
    });
    until("its tasks are taken", || cell.ok("bourg machine show m1 -o state") != "up\n");
    assert!(cell.ok("bourg machines").contains(", revoked"));
    let refused = "bourg_requests_refused_total{cause=\"revoked\",band=\"none\"}";
    assert!(value(&metrics(&cell, Of::Master), refused) > Some(0.0));
    let events = cell.ok("bourg events --all");
    assert!(events.contains("REVOKE_MACHINE"), "{events}");

    // The old token is invalid, a new one works.
    machine.signal(Signal::SIGTERM);
    machine.is_gone();
    fs::remove_file(machine.directory().join("joined.toml")).expect("it had joined");
    let directory = machine.directory().display();
    let said = cell
        .fails(1, &format!("bourg borglet --dir {directory} --listen 127.0.0.1:0 --join {first}"));
    assert!(said.contains("is unknown: it has expired"), "{said}");
    machine.start_with(&["--join", &token(&cell, "m1")]);
    machine.is("up");
    let text = cell.ok("bourg machine show m1");
    assert!(text.contains("accepted: those issued since"), "{text}");
    let said = cell.types("bourg machine revoke m11").stderr;
    assert!(said.contains("machine m11 did not exist. Did you mean m1?"), "{said}");
}

#[test]
fn a_machines_certificate_renews_itself_and_nothing_breaks_off() {
    let cell = Cell::start();
    only_others(&cell);
    let mut machine = Machine::join(&cell, "m1", &token(&cell, "m1"));
    cell.write("hello.bcl", JOB);
    cell.ok("bourg run hello.bcl");
    let tasks = machine.tasks("hello");
    machine.signal(Signal::SIGKILL);
    machine.is_gone();
    let due = due(&cell, &Identity::Borglet("m1".to_owned()));
    due.write(machine.directory(), "borglet").expect("it can be written");
    let old = serial(machine.directory());
    machine.start_again();
    let pid = machine.borglet().pid();
    until("it has another certificate", || serial(machine.directory()) != old);
    machine.is("up");
    assert_eq!((machine.borglet().pid(), machine.tasks("hello")), (pid, tasks));
    let renewed = Credentials::read(machine.directory(), "borglet").expect("a certificate");
    assert!(renewed.expires() > SystemTime::now() + 29 * 24 * HOUR);
    assert!(cell.ok("bourg events --all").contains("RENEW"));
}

#[test]
fn a_masters_certificate_renews_itself_and_no_stream_breaks_off() {
    let cell = Cell::start_with(&["--log", "info", "--certificate-validity", "4s"]);
    cell.write("hello.bcl", JOB);
    let mut follower = cell.start("bourg", &["events", "--follow"]);
    until("the master has another certificate, twice", || {
        cell.said().matches("renewed its own certificate").count() >= 2
    });
    // Followers of the master kept their connections, and new ones are accepted.
    cell.ok("bourg run hello.bcl");
    until("it follows still", || follower.stdout().contains("root/hello"));
    assert_eq!(follower.code(), None);
    assert_eq!(cell.ok("bourg cell -o schedulers"), "1\n");
}

#[test]
fn replicas_go_on_when_the_certificates_that_they_began_with_have_expired() {
    let cell =
        Cell::start_with(&["--replicas", "3", "--log", "info", "--certificate-validity", "4s"]);
    // When each has renewed three times, the first certificates have expired.
    until("they have renewed them nine times together", || {
        cell.said().matches("renewed its own certificate").count() >= 9
    });
    cell.write("hello.bcl", JOB);
    cell.ok("bourg run hello.bcl");
    cell.kill(Role::Master);
    cell.write("again.bcl", JOB.replace("hello", "again"));
    cell.ok("bourg run again.bcl");
}

#[test]
fn a_schedulers_certificate_renews_itself() {
    let cell = Cell::start();
    let directory = cell.directory().join("scheduler");
    let serial = || {
        let read = Credentials::read(&directory, "scheduler").expect("a certificate");
        read.serial().to_vec()
    };
    let scheduler = Identity::Scheduler("main".to_owned());
    due(&cell, &scheduler).write(&directory, "scheduler").expect("it can be written");
    let old = serial();
    cell.kill(Role::Scheduler);
    until("it has another certificate", || serial() != old);
    cell.write("hello.bcl", JOB);
    cell.ok("bourg run hello.bcl");
}

#[test]
fn a_scheduler_outlives_the_certificate_that_it_connected_with() {
    let cell = Cell::start();
    let directory = cell.directory().join("scheduler");
    let validity = Validity::lasting(Duration::from_secs(9));
    let authority = Authority::open(cell.path("cell/master/tls")).expect("the cell's authority");
    let first = authority.issue(&Identity::Scheduler("main".to_owned()), validity);
    let first = first.expect("a certificate");
    first.write(&directory, "scheduler").expect("it can be written");
    cell.kill(Role::Scheduler);
    until("it has another certificate", || {
        let read = Credentials::read(&directory, "scheduler").expect("a certificate");
        read.serial() != first.serial()
    });
    until("the first one has expired", || SystemTime::now() > first.expires());
    cell.write("hello.bcl", JOB);
    cell.ok("bourg run hello.bcl");
    until("it has proposed with the first one", || refused(&cell, Of::Master, "expired") > 0);
    until("it runs", || cell.ok("bourg status -o state") == "running\n");
    assert_eq!(cell.ok("bourg cell -o schedulers"), "1\n");
}

/// An unused address: at a loopback address of this process only.
pub(crate) fn free_address() -> String {
    static NEXT: AtomicU16 = AtomicU16::new(7_800);
    // A process id has 22 bits at most.
    let [_, a, b, c] = std::process::id().to_be_bytes();
    format!("127.{}.{b}.{c}:{}", 128 | a, NEXT.fetch_add(1, Ordering::Relaxed))
}

#[test]
fn a_replica_joins_with_a_token_from_an_empty_directory() {
    let cell = Cell::start();
    let address = free_address();
    cell.write("replaced", cell.ok(&format!("bourg master add {address} --for 30m")));
    let said = cell.fails(2, "bourg master token 2 --for 8d");
    assert!(said.contains("valid for 1 m to 7 d"), "{said}");
    let printed = cell.ok("bourg master token 2 --for 10m");
    assert!(printed.starts_with("bourg-join-1") && printed.lines().count() == 1, "{printed}");
    cell.write("token", &printed);
    let said = cell.fails(1, "bourg master --dir early --listen 127.0.0.1:0 --join @replaced");
    assert!(said.contains("token"), "{said}");
    let start = |more: &[&str]| {
        let directory = cell.path("second").to_string_lossy().into_owned();
        let flags = ["master", "--dir", &directory, "--listen", &address];
        cell.start("bourg", &[&flags[..], more].concat())
    };
    let votes = || {
        let replicas = cell.types("bourg master list -o json").stdout;
        let replicas: serde_json::Value = serde_json::from_str(&replicas).unwrap_or_default();
        let second = &replicas[1];
        second["member"] == "voter" && second["progress"]["answers"] == true
    };
    let second = start(&["--join", "@token"]);
    until("it votes", votes);
    let file = |name: &str| cell.path("second").join(name);
    assert_eq!(mode(&file("tls/ca.key")), 0o600);
    assert!(!file("joining.key").exists());
    let events = cell.ok("bourg events --all");
    for expected in ["ISSUE_TOKEN", "REPLICA_JOINED"] {
        assert!(events.contains(expected), "{expected} is not in\n{events}");
    }

    // Nobody else gets the authority with it, and there is no other token.
    let said = cell.fails(1, "bourg master --dir third --listen 127.0.0.1:0 --join @token");
    assert!(said.contains("the join token for replica 2 was already used"), "{said}");
    assert!(!cell.path("third/tls/ca.key").exists());
    let said = cell.fails(2, "bourg master token 2");
    assert!(said.contains("replica 2 has joined already"), "{said}");
    // And nobody bootstraps a cell by mistake.
    for (flags, why) in [
        ("--join @nowhere", "--join gives no join token"),
        // Like a unit whose token file is missing.
        ("--name cc --administrator ana --join @nowhere", "--join gives no join token"),
        ("", "belongs to no cell"),
    ] {
        let line = format!("bourg master --dir fourth --listen 127.0.0.1:0 {flags}");
        let said = cell.fails(1, &line);
        assert!(said.contains(why), "{said}");
    }

    // After a restart it needs no token, and ignores a given one.
    processes::signal(second.pid(), Signal::SIGKILL);
    second.ends();
    for flags in [&[][..], &["--join", "@token"]] {
        let mut second = start(flags);
        until("it is back", || {
            assert_eq!(second.code(), None, "{}", second.stderr());
            second.stderr().contains("replica ") && votes()
        });
        cell.write("hello.bcl", JOB);
        cell.ok("bourg run hello.bcl");
        processes::signal(second.pid(), Signal::SIGTERM);
        assert_eq!(second.ends().code, 0);
    }
    let _last = start(&[]);
    until("it is back", votes);
    cell.ok("bourg master remove 2");
    until("one goes on alone", || !cell.ok("bourg master list").contains("leaving"));
}

/// The commands of a user who has machines and this program, and nothing else.
#[test]
fn a_cell_is_founded_and_grows_by_commands_alone() {
    let terminal = Terminal::new();
    let address = free_address();
    let everywhere = address.replace("127.0.0.1", "0.0.0.0");
    let flags = ["--dir", "m", "--name", "cc", "--administrator", "ana", "--listen", &everywhere];
    let reached = ["--address", &address];
    let master = terminal.start("bourg", &[&["master"], &flags[..], &reached].concat());
    until("the cell is bootstrapped", || terminal.path("m/tls/ca.pem").exists());
    let certify = |whom: &str, to: &str| {
        let line = format!("bourg master certify {whom} --dir m --to {to} --master {address}");
        let ended = terminal.types(&line);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
    };
    certify("user/ana", "ana");
    certify("scheduler/main", "s");
    let said = terminal.fails(2, "bourg master certify borglet/m1 --dir m --to m1");
    assert!(said.contains("next: to enroll it: bourg machine token m1"), "{said}");
    let flags = ["scheduler", "--credentials", "s", "--master", &address];
    let scheduler = terminal.start("bourg", &flags);
    let bourg = |line: &str| terminal.ok(&format!("bourg --cell ana {line}"));
    until("it is at the level of its build", || bourg("cell -o level").trim() == LEVEL);
    until("it says where it is", || bourg("master list").contains(&address));
    terminal.write("token", bourg("machine token m1"));
    let flags = ["--dir", "m1", "--listen", "127.0.0.1:0", "--join", "@token", "--stop-tasks"];
    let borglet = terminal.start("bourg", &[&["borglet"], &flags[..]].concat());
    until("the machine is up", || {
        terminal.types("bourg --cell ana machine show m1 -o state").stdout == "up\n"
    });
    terminal.write("hello.bcl", JOB);
    bourg("run hello.bcl");
    for process in [borglet, scheduler, master] {
        processes::signal(process.pid(), Signal::SIGTERM);
        let ended = process.ends();
        assert_eq!(ended.code, 0, "{}", ended.stderr);
    }
}

#[test]
fn a_replica_killed_at_any_join_step_finally_joins() {
    let cell = Cell::start();
    let address = free_address();
    cell.write("token", cell.ok(&format!("bourg master add {address}")));
    let flags = ["master", "--dir", "second", "--listen", &address, "--join", "@token"];
    for step in ["joining.key", "replica.toml", "tls/ca.key", "tls/ca.pem", "joined.toml"] {
        let mut second = cell.start("bourg", &flags);
        until(step, || {
            assert_eq!(second.code(), None, "{}", second.stderr());
            // The key may have appeared and disappeared between two checks: then it has joined.
            [step, "joined.toml"].iter().any(|file| cell.path("second").join(file).exists())
        });
        processes::signal(second.pid(), Signal::SIGKILL);
        second.ends();
    }
    let _second = cell.start("bourg", &flags);
    until("it votes", || {
        let line = cell.types("bourg master list").stdout;
        line.lines().any(|line| line.starts_with("2 ") && line.contains("follows  nothing"))
    });
    let events = cell.ok("bourg events --all");
    assert_eq!(events.matches("REPLICA_JOINED").count(), 1, "{events}");
    cell.ok("bourg master remove 2");
    until("one goes on alone", || !cell.ok("bourg master list").contains("leaving"));
}

#[test]
fn a_machine_joins_through_any_replica_and_is_revoked_for_all() {
    let cell =
        Cell::start_with(&["--replicas", "3", "--poll-interval", "200ms", "--missed-polls", "2"]);
    // The first master that a token names follows.
    cell.ok("bourg master transfer 3");
    let _machine = Machine::join(&cell, "m1", &token(&cell, "m1"));
    let given = token(&cell, "m1");
    let line = format!("bourg borglet --dir m1 --listen 127.0.0.1:0 --join {given}");
    cell.ok("bourg machine revoke m1");
    until("nobody talks to it", || cell.ok("bourg machine show m1 -o state") != "up\n");
    let said = cell.fails(1, &line);
    assert!(said.contains("is unknown: it has expired"), "{said}");
}

/// A Borglet that is stopped keeps its connections open, so each poll ends by its deadline alone.
#[test]
fn a_stopped_borglet_is_unreachable_after_the_missed_polls() {
    let cell = Cell::start_with(&["--poll-interval", "1s", "--missed-polls", "3"]);
    let machine = Machine::join(&cell, "m1", &token(&cell, "m1"));
    let stopped = Instant::now();
    machine.signal(Signal::SIGSTOP);
    // It is marked down at once then: its tasks may run elsewhere.
    until("m1 is not up", || cell.types("bourg machine show m1 -o state").stdout.trim() != "up");
    let took = stopped.elapsed();
    machine.signal(Signal::SIGCONT);
    println!("a stopped Borglet was unreachable after {took:?}");
    // The poll that it held, with its patience of two seconds, and two more of two seconds each.
    assert!(took < Duration::from_secs(10), "{took:?}");
    machine.is("up");
}
