//! The first thing that a newcomer does: `bourg dev examples/hello.bcl`, and a look around.

use serde_json::Value;

use crate::cell::Cell;
use crate::eventually::until;
use crate::http;

fn hello() -> Cell {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/hello.bcl");
    Cell::start_with(&[examples])
}

#[test]
fn tasks_of_hello_are_healthy_and_answer_at_the_printed_addresses() {
    let mut cell = hello();
    let said = cell.dev().stdout();
    let addresses: Vec<(&str, &str)> =
        said.lines().map(|line| line.split_once(" → ").expect("NAME → ADDRESS")).collect();
    assert_eq!(addresses.len(), 3, "{said}");
    for (index, (name, address)) in addresses.iter().enumerate() {
        assert_eq!(*name, format!("{index}.hello.root.dev.borg"));
        let answer = http::get(address, "/").expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.ends_with(&format!("hello from root/hello/{index}\n")), "{answer}");
        let healthz = http::get(address, "/healthz").expect("an answer");
        assert!(healthz.ends_with("ok\n"), "{healthz}");
        let metrics = http::get(address, "/metrics").expect("an answer");
        assert!(metrics.contains("\nexample_requests_total "), "{metrics}");
    }
    let talk = cell.dev().stderr();
    for word in ["cell dev ", "job  root/hello   3 tasks", "healthy 3", "next: bourg logs -f hello"]
    {
        assert!(talk.contains(word), "{word} is not in\n{talk}");
    }
    cell.stop();
    for (_, address) in addresses {
        assert!(http::get(address, "/").is_err(), "{address} still answers");
    }
}

#[test]
fn the_state_of_hello_is_shown_in_every_format() {
    let cell = hello();
    assert_eq!(cell.ok("bourg status -o name"), "root/hello\n");
    assert_eq!(cell.ok("bourg status -o state"), "running\n");
    assert_eq!(cell.ok("bourg status -o counts.healthy"), "3\n");
    assert_eq!(cell.ok("bourg status -o counts.pending"), "0\n");
    let table = cell.ok("bourg status");
    assert!(table.starts_with("JOB         STATE    PRIORITY"), "{table}");
    assert!(table.contains("root/hello  running  production(200)  3 "), "{table}");
    let tasks = cell.ok("bourg status hello");
    assert!(tasks.contains("root/hello  running  production(200)  3 of 3 healthy"), "{tasks}");
    assert_eq!(tasks.matches("healthy  ").count(), 4, "{tasks}");
    assert_eq!(cell.ok("bourg status root/hello/1 | grep -c '^[0-9]'").trim(), "1");
    assert!(cell.ok("bourg status hello -o wide").contains("GENERATION"));

    let json: Value =
        serde_json::from_str(&cell.ok("bourg status hello -o json")).expect("this is JSON");
    let yaml: Value =
        serde_yaml_ng::from_str(&cell.ok("bourg status hello -o yaml")).expect("this is YAML");
    assert_eq!(json, yaml);
    assert_eq!(json[0]["spec"]["name"], "hello");
    assert_eq!(json[0]["tasks"][2]["index"], 2);
    assert_eq!(json[0]["tasks"][0]["index"], 0);
    assert_eq!(json[0]["counts"]["pending"], 0);
    assert_eq!(json[0]["tasks"][2]["ports"][0]["name"], "http");

    let name = cell.ok("bourg machines -o name");
    let machines = cell.ok("bourg machines");
    assert!(machines.lines().nth(1).is_some_and(|row| row.starts_with(name.trim())), "{machines}");
    assert_eq!(cell.ok("bourg machines -o tasks"), "3\n");
    assert_eq!(cell.ok("bourg machines -o state"), "up\n");
    assert!(cell.ok("bourg machines -o wide").contains("ATTRIBUTES"));

    assert_eq!(cell.ok("bourg cell -o name"), "dev\n");
    assert_eq!(cell.ok("bourg cell -o user"), "root\n");
    assert_eq!(cell.ok("bourg cell -o stateHash").trim().len(), 64);
    assert!(cell.ok("bourg cell").contains("machines      1 of 1 up"));
    let said = cell.fails(2, "bourg cell -o staetHash");
    assert!(said.contains("no field 'staetHash' here; the fields are"), "{said}");
}

#[test]
fn logs_of_hello_are_read_by_task_and_followed() {
    let cell = hello();
    for index in 0..3 {
        let said = format!("hello/{index}  listening on port ");
        until("what a task says is kept", || cell.ok("bourg logs hello").contains(&said));
    }
    let first = |line: &str| cell.ok(line).lines().next().unwrap_or_default().to_owned();
    assert!(first("bourg logs hello/0").starts_with("listening on port "));
    assert!(first("bourg logs root/hello/1-2").starts_with("hello/"));
    assert_eq!(cell.ok("bourg logs hello/0 --tail 1").lines().count(), 1);
    assert_eq!(cell.ok("bourg logs hello -n 1 --stream stdout").lines().count(), 3);
    assert_eq!(cell.ok("bourg logs hello --stream stderr"), "");
    assert_eq!(first("bourg logs hello/0 --since 1h"), first("bourg logs hello/0"));
    until("time passes", || cell.ok("bourg logs hello/0 --since 100ms").lines().count() <= 1);

    let mut followed = cell.start("bourg", &["logs", "-f", "hello"]);
    until("what a task writes is seen", || followed.stdout().contains("hello/0  listening"));
    assert_eq!(followed.code(), None, "it goes on as long as the tasks run");
    cell.ok("bourg kill hello");
    let followed = followed.ends();
    assert_eq!((followed.code, followed.stderr.as_str()), (0, ""));
    assert_eq!(followed.stdout.matches("  stopping after ").count(), 3, "{}", followed.stdout);
    let after = cell.ok("bourg logs hello");
    assert_eq!(after.matches("  stopping after ").count(), 3, "they are kept");
}
