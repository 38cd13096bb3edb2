//! Tasks that call the API of their cell: with a certificate of their own, with their user's rights
//! on own jobs, and only while they run.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use api::v1;
use rpc::Credentials;
use rpc::service::enrolment_client::EnrolmentClient;
use tonic::{Code, Status};

use crate::borglets::Machine;
use crate::cell::{Cell, Role};
use crate::eventually::{eventually, until};
use crate::pages::Of;
use crate::security::{issued, refused, to, wait};

/// A job of one task that runs a script.
fn job(name: &str, more: &str, script: &str) -> String {
    format!(
        "{{ name: '{name}', cmd: ['sh', '-c', |||\n{}|||], cpu: 0.2, ram: '512 MiB', {more}\n\
         priority: 'free', restart: {{ failures: 0 }} }}",
        script.lines().map(|line| format!("  {line}\n")).collect::<String>()
    )
}

/// The client directories on a cell's own machine.
fn clients(cell: &Cell) -> PathBuf {
    PathBuf::from("/dev/shm").join(cell.cgroup().replace('/', "-"))
}

/// The client directory of a job's only task, from outside.
#[track_caller]
fn client(cell: &Cell, job: &str) -> PathBuf {
    let pid = eventually("it runs", || cell.tasks(job).into_values().next());
    clients(cell).join(cell.instance_of(pid))
}

/// Copies a task's client directory from its machine, because the task's own is removed at its end.
#[track_caller]
fn steal(cell: &Cell, job: &str, to: &str) {
    let from = client(cell, job);
    cell.ok(&format!("cp -r {} {to} && chmod 600 {to}/user.key", from.display()));
}

#[test]
fn a_task_calls_its_cell_as_itself_with_its_users_rights() {
    let cell = Cell::start();
    cell.ok("bourg user add ana");
    cell.write("others.bcl", job("others", "", "sleep 1d"));
    cell.ok("bourg --cell ./ana run others.bcl");
    let script = "stat -c '%a %u' $BOURG_CELL/user.key; id -u
        touch $BOURG_CELL/new || echo it is not written to
        bourg status -o json
        bourg cell -o user
        echo \"{name: 'child', cmd: ['sleep', '1d'], cpu: 0.1, ram: '64 MiB', priority: 'free'}\" > child.bcl
        bourg run child.bcl && echo child runs
        bourg machine drain $(bourg machines -o name); echo drain $?
        bourg quota grant ana production cpu=1 ram=1MiB; echo quota $?
        bourg capability grant ana drain-machines; echo capability $?
        bourg user add eve; echo user $?
        bourg machine token m9; echo token $?
        bourg kill ana/others; echo others $?
        bourg logs ana/others; echo logs $?
        echo \"{name: 'raw', cmd: ['true'], kernelFeatures: ['net-raw']}\" > raw.bcl
        bourg run raw.bcl; echo raw $?
        bourg events > events && echo events
        echo $((40 + 2)) answers; sleep 1d";
    cell.write("asks.bcl", job("asks", "api: true,", script));
    let before = refused(&cell, Of::Master, "wrong_role");
    cell.ok("bourg run asks.bcl");
    let logs = || cell.types("bourg logs asks/0 --stream stdout").stdout;
    until("it has asked all", || logs().contains("42 answers"));
    let said = logs();
    let uid = said.lines().nth(1).expect("its user id");
    assert!(said.starts_with(&format!("400 {uid}\n")), "{said}");
    for expected in [
        "it is not written to",
        "\"asks\"",
        "\nroot\n",
        "child runs",
        "drain 3",
        "quota 3",
        "capability 3",
        "user 3",
        "token 3",
        "others 3",
        "logs 3",
        "raw 3",
        "\nevents\n",
    ] {
        assert!(said.contains(expected), "{expected} is not in\n{said}");
    }
    let complaints = cell.ok("bourg logs asks/0 --stream stderr");
    for why in [
        "/asks/0 may not do that: a task may read its cell",
        "a task of root may do nothing with ana/others",
        "a task of root may not submit a job with kernelFeatures",
    ] {
        assert!(complaints.contains(why), "{why} is not in\n{complaints}");
    }
    assert!(refused(&cell, Of::Master, "wrong_role") >= before + 8);
    cell.is_healthy("child");
    assert_eq!(cell.tasks("others").len(), 1);
    assert_eq!(cell.ok("bourg machines -o state").trim(), "up");

    let key = client(&cell, "asks").join("user.key");
    let found = fs::metadata(&key).expect("its key");
    assert_eq!((found.permissions().mode() & 0o777, found.uid().to_string()), (0o400, uid.into()));
    let above = fs::metadata(clients(&cell)).expect("a directory").permissions().mode();
    assert_eq!(above & 0o777, 0o700);
    let others = cell.tasks("others")[&0];
    let others = clients(&cell).join(cell.instance_of(others));
    assert!(!others.exists(), "whoever does not want it has none");
}

#[test]
fn a_tasks_certificate_ends_with_its_task() {
    let cell = Cell::start();
    cell.write("asks.bcl", job("asks", "api: true,", "sleep 1d"));
    cell.ok("bourg run asks.bcl");
    steal(&cell, "asks", "stolen");
    assert_eq!(cell.ok("bourg --cell ./stolen status -o name"), "root/asks\n");
    let follower = cell.start("bourg", &["--cell", "./stolen", "events", "--follow"]);
    until("it follows", || follower.stdout().contains("root/asks"));
    let directory = client(&cell, "asks");
    cell.ok("bourg kill asks");
    let why = "is on no machine, or is no longer";
    let ended = follower.ends();
    assert!(ended.code == 3 && ended.stderr.contains(why), "{}", ended.stderr);
    let said = cell.fails(3, "bourg --cell ./stolen status");
    assert!(said.contains(why), "{said}");
    assert!(refused(&cell, Of::Master, "ended") > 0);
    until("its key is gone", || !directory.exists());
    // Another incarnation with the same name is different.
    cell.ok("bourg run asks.bcl");
    cell.fails(3, "bourg --cell ./stolen status");
    steal(&cell, "asks", "again");
    cell.ok("bourg --cell ./again status");
}

#[test]
fn a_tasks_certificate_falls_with_its_users() {
    let cell = Cell::start();
    cell.ok("bourg user add ana");
    cell.write("asks.bcl", job("asks", "api: true,", "sleep 1d"));
    cell.ok("bourg --cell ./ana run asks.bcl");
    steal(&cell, "asks", "stolen");
    cell.ok("bourg --cell ./stolen status");
    cell.ok("bourg user revoke ana");
    let said = cell.fails(3, "bourg --cell ./stolen status");
    assert!(said.contains("the certificates that ana had were revoked"), "{said}");
    assert!(refused(&cell, Of::Master, "revoked") > 0);
    cell.ok("bourg user add ana --dir again");
    cell.fails(3, "bourg --cell ./stolen status");
    assert_eq!(cell.tasks("asks").len(), 1, "what they run runs on");
}

#[test]
fn a_task_is_heard_by_every_replica_and_refused_by_every_one() {
    let cell = Cell::start_with(&["--replicas", "3"]);
    // The first master that a task knows follows, and forwards changes.
    cell.ok("bourg master transfer 3");
    let script = "for i in 1 2 3; do
          echo \"{name: 'child-$i', cmd: ['sleep', '1d'], cpu: 0.1, ram: '64 MiB', priority: 'free'}\" > $i
          bourg run $i && bourg --consistent status child-$i -o name
        done
        bourg kill child-1 && echo $((40 + 2)) answers; sleep 1d";
    cell.write("asks.bcl", job("asks", "api: true,", script));
    cell.ok("bourg run asks.bcl");
    steal(&cell, "asks", "stolen");
    let logs = || cell.types("bourg logs asks/0").stdout;
    until("it has asked all", || logs().contains("42 answers"));
    for child in ["child-1", "child-2", "child-3"] {
        assert!(logs().contains(&format!("root/{child}\n")), "{}", logs());
    }
    cell.ok("bourg kill asks");
    let text = cell.ok("cat stolen/cell.toml");
    let masters = text.split('"').filter(|word| word.contains(':')).map(str::to_owned);
    let masters: Vec<String> = masters.collect();
    assert_eq!(masters.len(), 3, "{text}");
    for master in masters {
        cell.write("stolen/cell.toml", format!("cell = \"dev\"\nmasters = [\"{master}\"]\n"));
        until("it has heard of the end", || {
            cell.types("bourg --cell ./stolen status").stderr.contains("is on no machine")
        });
    }
}

#[test]
fn a_tasks_certificate_renews_itself_while_it_runs() {
    let cell = Cell::start_with(&["--certificate-validity", "6s"]);
    let script = "while bourg cell -o user; do sleep 0.2; done; echo it ended";
    cell.write("asks.bcl", job("asks", "api: true,", script));
    cell.ok("bourg run asks.bcl");
    let directory = client(&cell, "asks");
    let read = || Credentials::read(&directory, "user").expect("its certificate");
    let (first, pid) = (read(), cell.tasks("asks"));
    let renewed = |than: &Credentials| {
        let than = than.serial().to_vec();
        until("it has another certificate", || read().serial() != than);
        read()
    };
    let second = renewed(&first);
    assert_eq!(second.key_pem(), first.key_pem(), "only the certificate is another");
    // Also after another Borglet has adopted it.
    cell.kill(Role::Borglet);
    let third = renewed(&second);
    renewed(&third);
    assert!(!cell.ok("bourg logs asks/0 --stream stdout").contains("it ended"));
    assert_eq!(cell.tasks("asks"), pid);
}

#[test]
fn a_machine_gets_certificates_for_its_own_tasks_that_want_one() {
    let cell = Cell::start();
    cell.write("asks.bcl", job("asks", "api: true,", "sleep 1d"));
    cell.write("mute.bcl", job("mute", "", "sleep 1d"));
    cell.ok("bourg run asks.bcl && bourg run mute.bcl");
    let instance = |job: &str| {
        let pid = eventually("it runs", || cell.tasks(job).into_values().next());
        let id: model::InstanceId = cell.instance_of(pid).parse().expect("an instance");
        Some(id.into())
    };
    let (asks, mute) = (instance("asks"), instance("mute"));
    let machine = format!("borglet/{}", cell.ok("bourg machines -o name").trim());
    let nobody = "99-0-1".parse::<model::InstanceId>().expect("an instance");
    let good = rpc::NewKey::generate().and_then(|key| key.request_pem()).expect("a key");
    let ask = |who: &str, signing_request: &str, instance: Option<v1::InstanceId>| {
        let channel = || to(&cell, Of::Master, issued(&cell, who));
        let signing_request = signing_request.to_owned();
        wait(async {
            let asked = v1::CertifyTaskRequest { signing_request, instance };
            let answer = EnrolmentClient::new(channel()).certify_task(asked).await;
            answer.map(|answer| answer.into_inner().certificate)
        })
    };
    let denied = |said: Result<String, Status>, code: Code, cause: &str, why: &str| {
        let status = said.expect_err(why);
        assert_eq!(status.code(), code, "{why}: {status}");
        assert!(status.message().contains(why), "{status}");
        if !cause.is_empty() {
            assert!(refused(&cell, Of::Master, cause) > 0, "{cause}");
        }
    };
    assert!(ask(&machine, &good, asks).expect("its own").contains("BEGIN CERTIFICATE"));
    let no = Code::PermissionDenied;
    denied(ask("borglet/m9", &good, asks), no, "wrong_identity", "is not on machine m9");
    denied(ask(&machine, &good, mute), no, "wrong_role", "does not say api: true");
    denied(ask(&machine, &good, Some(nobody.into())), no, "ended", "is on no machine");
    let task = ["task", "root", "asks", "0"].join("/");
    for who in ["user/root", &task, "scheduler/main", "master", "join/borglet/m2"] {
        denied(ask(who, &good, asks), no, "wrong_role", "");
    }
    let bad = Code::InvalidArgument;
    denied(ask(&machine, &good, None), bad, "", "no instance is given");
    denied(ask(&machine, "nonsense", asks), bad, "", "");
    denied(ask(&machine, &"x".repeat(10_000), asks), bad, "", "characters");
    denied(
        ask(&machine, &"x".repeat(20_000), asks),
        Code::OutOfRange,
        "",
        "message length too large",
    );
    // A certificate that no master has issued, made by somebody with the authority's key.
    cell.ok("mkdir forged && cp cell/client/cell.toml forged");
    let forged = issued(&cell, &task);
    forged.write(cell.path("forged"), "user").expect("it can be written");
    let said = cell.fails(3, "bourg --cell ./forged status");
    assert!(said.contains("it was not issued by a master"), "{said}");
}

#[test]
fn a_machine_without_given_masters_learns_them_from_polls() {
    let cell = Cell::start();
    cell.ok("bourg machine drain $(bourg machines -o name)");
    let machine = Machine::start(&cell, "m1");
    cell.write("asks.bcl", job("asks", "api: true,", "sleep 1d"));
    cell.ok("bourg run asks.bcl");
    assert_eq!(machine.tasks("asks").len(), 1);
    cell.ok("bourg kill asks");
    drop(machine);
    let token = cell.ok("bourg machine token m2");
    let machine = Machine::join(&cell, "m2", token.trim());
    cell.ok("bourg run asks.bcl");
    assert_eq!(machine.tasks("asks").len(), 1);
}

#[test]
fn a_description_says_it_with_a_word_of_its_own() {
    let cell = Cell::start();
    for (more, why) in [
        ("api: 'yes',", "true or false"),
        ("api: true, allocs: { users: [] },", "api"),
        ("apis: true,", "the nearest is 'api'"),
    ] {
        cell.write("bad.bcl", job("bad", more, "sleep 1d"));
        let said = cell.fails(2, "bourg run bad.bcl");
        assert!(said.to_lowercase().contains(why), "{said}");
    }
}
