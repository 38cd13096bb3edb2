//! The values of a job's `env` are visible to its owner and to users who may administer it. All
//! others see only the names, in every description that the master sends.

use std::fs;

use api::v1;
use client::MasterClient;
use rpc::Credentials;
use serde_json::{Value, json};
use tonic::Code;

use crate::cell::Cell;
use crate::eventually::until;
use crate::pages::Of;
use crate::security::{to, wait};

/// Two values, of the job and of one of its tasks.
const SECRETS: [&str; 2] = ["hunter2", "swordfish"];

/// ana, whose job has these values; ben, who has no rights on it; cho, who has a capability.
fn cell(arguments: &[&str]) -> Cell {
    let cell = Cell::start_with(arguments);
    for user in ["ana", "ben", "cho"] {
        cell.ok(&format!("bourg user add {user}"));
    }
    cell.ok("bourg capability grant cho administer-jobs");
    let job = format!(
        "{{ name: 'keys', tasks: 2, cmd: ['sleep', '1d'], cpu: 0.1, ram: '16 MiB', priority: 'free',
           labels: {{ team: 'search' }}, env: {{ API_KEY: '{}', MODE: 'fast' }},
           overrides: {{ '1': {{ env: {{ SHARD_KEY: '{}' }} }} }} }}",
        SECRETS[0], SECRETS[1]
    );
    cell.write("keys.bcl", job);
    cell.ok("bourg --cell ./ana run keys.bcl --detach");
    cell
}

fn shows(text: &str) -> bool {
    SECRETS.iter().any(|secret| text.contains(secret))
}

/// The job's description as shown to a user by a replica.
#[track_caller]
fn description(cell: &Cell, user: &str, more: &str) -> Value {
    let line = format!("bourg --cell {user} --consistent status ana/keys -o json {more}");
    let jobs: Value = serde_json::from_str(&cell.ok(&line)).expect("it is JSON");
    jobs[0]["spec"].clone()
}

/// With all values.
#[track_caller]
fn is_shown(cell: &Cell, user: &str, more: &str) {
    let shown = description(cell, user, more);
    assert_eq!(shown["env"], json!({ "API_KEY": SECRETS[0], "MODE": "fast" }), "{user}");
    assert_eq!(shown["overrides"]["1"]["env"], json!({ "SHARD_KEY": SECRETS[1] }), "{user}");
    assert!(!shown.to_string().contains("hiddenEnv"), "{user}: {shown}");
}

/// With only the names.
#[track_caller]
fn is_hidden(cell: &Cell, user: &str, more: &str) {
    let shown = description(cell, user, more);
    assert!(!shows(&shown.to_string()), "{user}: {shown}");
    assert_eq!(shown["hiddenEnv"], json!(["API_KEY", "MODE"]), "{user}");
    assert_eq!(shown["overrides"]["1"]["hiddenEnv"], json!(["SHARD_KEY"]), "{user}");
    assert!(shown.get("env").is_none(), "{user}: {shown}");
}

/// A client directory that knows one replica only.
fn only(cell: &Cell, user: &str, replica: usize) -> String {
    let name = format!("./{user}-{replica}");
    cell.ok(&format!("cp -r {user} {name}"));
    let file = cell.path(&name).join("cell.toml");
    let known = fs::read_to_string(&file).expect("it is there");
    let masters = known.split('"').filter(|text| text.starts_with("127.0.0.1:"));
    let address = masters.collect::<Vec<_>>()[replica - 1];
    let text = format!("cell = \"dev\"\nmasters = [\"{address}\"]\nlearn = false\n");
    fs::write(file, text).expect("it can be written");
    name
}

#[test]
fn every_replica_shows_env_values_to_owner_and_administrators_only() {
    let cell = cell(&["--replicas", "3"]);
    cell.ok("cp -r cell/client root");
    let index = cell.ok("bourg --consistent cell -o index");
    let then = format!("--at {}", index.trim());
    for replica in 1..=3 {
        for (user, more) in [("ana", ""), ("root", ""), ("cho", ""), ("ana", &then), ("cho", &then)]
        {
            is_shown(&cell, &only(&cell, user, replica), more);
            cell.ok(&format!("rm -r {user}-{replica}"));
        }
        let ben = only(&cell, "ben", replica);
        for more in ["", &then] {
            is_hidden(&cell, &ben, more);
        }
    }
}

#[test]
fn no_answer_to_others_has_a_value_of_env() {
    let cell = cell(&[]);
    let index = cell.ok("bourg cell -o index");
    let index = index.trim();
    for line in [
        "status",
        "status -a -o json",
        "status ana/keys -o yaml",
        "status ana/keys -o wide",
        "status ana/keys -o spec",
        "status -l team=search -o json",
        "why ana/keys -o json",
        "events ana/keys -o json",
        "events --all -o json",
        "machines -o json",
        "cell -o json",
        "quota show -o json",
    ] {
        for at in [String::new(), format!(" --at {index}")] {
            if !at.is_empty() && (line.starts_with("events") || line.starts_with("quota")) {
                continue;
            }
            let said = cell.types(&format!("bourg --cell ./ben {line}{at}"));
            assert_eq!(said.code, 0, "{line}{at}: {}", said.stderr);
            assert!(!shows(&(said.stdout + &said.stderr)), "{line}{at}");
        }
    }
    let names = cell.ok("bourg --cell ./ben status ana/keys -o spec.env");
    let why = "hidden: its owner, administrators and users with the capability administer-jobs see \
               the values";
    assert_eq!(names, format!("API_KEY, MODE ({why})\n"));
    let own = cell.ok("bourg --cell ./ben status ana/keys -o spec.overrides.1.env");
    assert_eq!(own, format!("SHARD_KEY ({why})\n"));
    let said = cell.fails(3, "bourg --cell ./ben status ana/keys -o spec.env.API_KEY");
    assert!(said.contains("-o spec.env.API_KEY: the value is hidden: its owner, admini"), "{said}");
    assert_eq!(cell.ok("bourg --cell ./ana status keys -o spec.env.API_KEY"), "hunter2\n");
    // Labels still match other users' jobs.
    let found = cell.ok("bourg --cell ./ben events -l team=search");
    assert!(found.contains("ana/keys"), "{found}");
    cell.fails(3, "bourg --cell ./ben checkpoint save all");

    let (status, watched) = wait(async {
        let ben = Credentials::read(cell.path("ben"), "user").expect("a certificate");
        let mut client = MasterClient::over(to(&cell, Of::Master, ben));
        let status = client.jobs.status(v1::StatusRequest::default()).await.expect("an answer");
        let job = Some(v1::JobAddress { user: "ana".to_owned(), job: "keys".to_owned() });
        let watch =
            client.jobs.watch(v1::WatchJobRequest { job, index: 0 }).await.expect("a stream");
        let watched = watch.into_inner().message().await.expect("it is sent");
        (status.into_inner(), watched.expect("the job as it is"))
    });
    for answer in [status, watched] {
        let spec = answer.jobs[0].spec.as_ref().expect("a description");
        assert_eq!(spec.hidden_env, ["API_KEY", "MODE"]);
        assert!(!shows(&format!("{answer:?}")), "{answer:?}");
    }
}

/// Past states hide what a user may not see now.
#[test]
fn a_capability_shows_env_values_of_any_moment_while_held() {
    let cell = cell(&[]);
    let index = cell.ok("bourg cell -o index");
    let then = format!("--at {}", index.trim());
    is_shown(&cell, "./cho", &then);
    cell.ok("bourg capability revoke cho administer-jobs");
    is_hidden(&cell, "./cho", "");
    is_hidden(&cell, "./cho", &then);
    is_hidden(&cell, "./ben", &then);
    cell.ok("bourg capability grant ben drain-machines");
    is_hidden(&cell, "./ben", "");
    cell.ok("bourg capability grant ben administer-jobs");
    is_shown(&cell, "./ben", "");
    is_shown(&cell, "./ben", &then);
}

/// A hidden description cannot be submitted: the job would start without its values.
#[test]
fn a_description_without_its_values_cannot_be_submitted() {
    let cell = cell(&[]);
    cell.ok("bourg --cell ./ben status ana/keys -o spec > copy.bcl");
    for command in ["run", "eval", "quota check"] {
        let said = cell.fails(2, &format!("bourg --cell ./ben {command} copy.bcl"));
        for place in [
            "copy.bcl:",
            "hiddenEnv: replaces env in a description shown to a user who may not see its values",
        ] {
            assert!(said.contains(place), "{command}: {said}");
        }
    }
    let refused = wait(async {
        let ben = Credentials::read(cell.path("ben"), "user").expect("a certificate");
        let mut client = MasterClient::over(to(&cell, Of::Master, ben));
        let status = client.jobs.status(v1::StatusRequest::default()).await.expect("an answer");
        let spec = status.into_inner().jobs[0].spec.clone();
        let session = client.cell.open_session(v1::OpenSessionRequest {}).await.expect("a session");
        let session = session.into_inner().session;
        let id = Some(v1::RequestId { session, sequence: 1 });
        client.jobs.submit(v1::SubmitRequest { id, spec }).await.expect_err("it lacks its values")
    });
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    assert!(refused.message().starts_with("hiddenEnv: "), "{refused}");
    assert_eq!(cell.ok("bourg status -o name"), "ana/keys\n");
    // The description shown to its owner can be submitted, and is the same job.
    cell.ok("bourg --cell ./ana status keys -o spec > copy.bcl");
    let said = cell.types("bourg --cell ./ana run copy.bcl --detach");
    assert!(said.code == 0 && said.stderr.contains("unchanged"), "{}{}", said.stdout, said.stderr);
}

/// A task does not have its user's capabilities.
#[test]
fn an_administrators_task_sees_values_of_its_users_own_jobs_only() {
    let cell = cell(&[]);
    let script = "bourg status ana/keys root/asks -o json; echo $((40 + 2)) answers; sleep 1d";
    let job = format!(
        "{{ name: 'asks', cmd: ['sh', '-c', '{script}'], cpu: 0.2, ram: '512 MiB', api: true,
           priority: 'free', env: {{ OWN: 'mellon' }} }}"
    );
    cell.write("asks.bcl", job);
    cell.ok("bourg run asks.bcl");
    let logs = || cell.types("bourg logs asks --stream stdout").stdout;
    until("it has asked", || logs().contains("42 answers"));
    let said = logs();
    assert!(said.contains("mellon") && said.contains("\"hiddenEnv\""), "{said}");
    assert!(!shows(&said), "{said}");
}
