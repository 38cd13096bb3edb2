//! Ports with static numbers, on the address of the host.

use crate::cell::Cell;
use crate::eventually::until;

/// Submits a service whose tasks have a static port.
fn run(cell: &Cell, name: &str, port: u16, tasks: u32) {
    cell.write(
        &format!("{name}.bcl"),
        format!(
            "local borg = import 'borg.libsonnet';
             borg.service('{name}', tasks={tasks}, cmd=['bourg', 'example-server', '--port', borg.port('http')])
             {{ ports: {{ http: {{ static: {port} }} }}, disruptions: {{ atOnce: {tasks} }} }}"
        ),
    );
    cell.ok(&format!("bourg run --detach {name}.bcl"));
}

#[test]
fn a_static_port_below_1024_has_one_owner_on_a_host_and_is_passed_on() {
    const PORT: u16 = 917;
    let cell = Cell::start_with(&["--machines", "2"]);
    run(&cell, "one", PORT, 1);
    let status = cell.is_healthy("one");
    assert_eq!(status["tasks"][0]["ports"][0]["port"], PORT);
    let curl = format!("curl -fsS http://127.0.0.1:{PORT}/");
    assert!(cell.ok(&curl).contains("one/0"));
    let srv = cell.ok("bourg bns get one -o ports.0.port");
    assert_eq!(srv.trim(), PORT.to_string());

    // The other machine of this cell has the same address: its first start finds that out.
    run(&cell, "two", PORT, 1);
    let why = || cell.types("bourg why two").stdout;
    until("both machines are known to have none", || {
        let why = why();
        why.contains(&format!("has port {PORT} taken by another task (root/one/0 on "))
            && why.contains(&format!("has port {PORT} taken by a program that is not its task ("))
    });
    assert!(cell.ok(&curl).contains("one/0"), "it was not disturbed");
    cell.ok("bourg kill one");
    cell.is_healthy("two");
    assert!(cell.ok(&curl).contains("two/0"));
}

#[test]
fn a_static_port_in_the_range_of_the_machines_is_rejected() {
    let cell = Cell::start();
    let first = cell.ok("bourg machines -o report.firstPort");
    let first = first.trim();
    cell.write(
        "web.bcl",
        format!(
            "(import 'borg.libsonnet').batch('web', cmd=['sleep', '1'])
             {{ ports: {{ http: {{ static: {first} }}, admin: {{}} }} }}"
        ),
    );
    let ended = cell.types("bourg run web.bcl");
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    let expected =
        format!("port http cannot have the static number {first}: the cell's machines give");
    assert!(ended.stderr.contains(&expected), "{}", ended.stderr);
}
