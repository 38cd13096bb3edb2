//! `bourg port-forward`: connections here come out inside a task.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use nix::sys::signal::Signal;

use crate::cell::Cell;
use crate::eventually::{eventually, until};
use crate::http;
use crate::processes;
use crate::terminal::Background;

/// A server of files that listens at the loopback device of a network of its own: nothing but a process in
/// the task reaches it. Beside it one that says how much it was sent, when that has ended.
const SERVERS: &str = "local borg = import 'borg.libsonnet';
    local counter = |||
      import socket, sys
      server = socket.create_server(('', int(sys.argv[1])))
      while True:
        connection, _ = server.accept()
        length = 0
        while piece := connection.recv(65536):
          length += len(piece)
        connection.sendall(b'%d bytes' % length)
        connection.close()
    |||;
    [borg.service('files', cmd=['python3', '-m', 'http.server', '--bind', '127.0.0.1', borg.port('http')])
     { cpu: 0.3, ram: '256 MiB', network: 'own', ports: { http: 80 }, healthCheck: null },
     borg.service('counter', cmd=['python3', '-c', counter, borg.port('in')])
     { cpu: 0.2, ram: '256 MiB', ports: ['in'], healthCheck: null }]";

fn start() -> Cell {
    let cell = Cell::start();
    cell.write("servers.bcl", SERVERS);
    cell.ok("bourg run servers.bcl");
    cell
}

/// Forwards, and returns the ports here.
fn forward(cell: &Cell, words: &[&str]) -> (Background, Vec<u16>) {
    let mut all = vec!["port-forward"];
    all.extend(words);
    let running = cell.start("bourg", &all);
    let pairs = words.iter().filter(|word| word.contains(':')).count();
    let ports = eventually("it forwards", || {
        let said = running.stdout();
        let lines = said.lines().filter_map(|line| line.strip_prefix("forwarding 127.0.0.1:"));
        let ports = lines.map(|line| line.split(' ').next().and_then(|port| port.parse().ok()));
        let ports: Vec<u16> = ports.collect::<Option<_>>()?;
        (ports.len() == pairs).then_some(ports)
    });
    (running, ports)
}

#[test]
fn connections_come_out_in_the_task_whole_and_many_at_once() {
    let cell = start();
    until("the server listens", || {
        cell.types("bourg exec files/0 -- curl -fsS http://127.0.0.1:80/").code == 0
    });
    cell.ok("bourg exec files/0 -- sh -c 'echo hello > page; head -c 20000003 /dev/urandom > big'");
    let (mut files, ports) = forward(&cell, &["files/0", ":http", ":80"]);
    for port in &ports {
        let page = http::get(&format!("127.0.0.1:{port}"), "/page").expect("it answers");
        assert!(page.ends_with("hello\n"), "{page}");
    }
    let port = ports[0];
    let digest = |text: String| text.split(' ').next().unwrap_or_default().to_owned();
    let there = digest(cell.ok("bourg exec files/0 -- sha256sum big"));
    let here = digest(cell.ok(&format!("curl -fsS http://127.0.0.1:{port}/big | sha256sum")));
    assert_eq!(here, there);

    // All are open before the first asks.
    let mut open: Vec<TcpStream> =
        (0..50).map(|_| TcpStream::connect(("127.0.0.1", port)).expect("it is accepted")).collect();
    for connection in open.iter_mut().rev() {
        connection.write_all(b"GET /page HTTP/1.0\r\n\r\n").expect("it is open");
    }
    for mut connection in open {
        let mut page = String::new();
        connection.read_to_string(&mut page).expect("an answer");
        assert!(page.ends_with("hello\n"), "{page}");
    }

    // Both ends are events, with the port.
    let events = cell.ok("bourg events files");
    assert!(events.contains("EXEC") && events.contains("forward-connections"), "{events}");
    processes::signal(files.pid(), Signal::SIGINT);
    until("Ctrl-C ends it", || files.code() == Some(0));
    until("the end is an event", || cell.ok("bourg events files").contains("EXEC_END"));
}

#[test]
fn each_direction_of_a_forwarded_connection_ends_by_itself() {
    let cell = start();
    let (_running, ports) = forward(&cell, &["counter", ":in"]);
    let bytes = vec![b'x'; 3_000_001];
    let answer = eventually("the server listens", || {
        let mut connection = TcpStream::connect(("127.0.0.1", ports[0])).ok()?;
        connection.write_all(&bytes).ok()?;
        connection.shutdown(Shutdown::Write).ok()?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).ok()?;
        Some(answer)
    });
    assert_eq!(answer, "3000001 bytes");
    // A port at which nobody listens breaks the connection off, and says so.
    let (closed, ports) = forward(&cell, &["counter", ":9"]);
    let mut connection = TcpStream::connect(("127.0.0.1", ports[0])).expect("it is accepted here");
    let mut nothing = Vec::new();
    let _reset = connection.read_to_end(&mut nothing);
    assert!(nothing.is_empty());
    until("it says why", || closed.stderr().contains("broken off: Connection refused"));
}

#[test]
fn who_may_forward_is_who_may_run_commands() {
    let cell = start();
    cell.ok("bourg user add ben");
    let said = cell.fails(3, "bourg --cell ben port-forward root/files/0 :http");
    assert!(said.contains("ben may not run commands in tasks of root/files"), "{said}");
    cell.ok("bourg capability grant ben exec-tasks");
    let (_running, ports) = forward(&cell, &["--cell", "ben", "root/files/0", ":http"]);
    eventually("the server listens", || http::get(&format!("127.0.0.1:{}", ports[0]), "/").ok());
    for (line, code, says) in [
        ("bourg port-forward files/0 :nope", 2, "its ports are http"),
        ("bourg port-forward counter/0 80:", 2, "80:"),
        ("bourg port-forward files/7 :http", 2, "there is no task files/7"),
        ("bourg port-forward nowhere/0 :http", 2, "nowhere"),
    ] {
        let said = cell.fails(code, line);
        assert!(said.contains(says), "{line}: {said}");
    }
    let taken = format!("bourg port-forward files/0 {}:http", ports[0]);
    let said = cell.fails(1, &taken);
    assert!(said.contains("cannot listen at 127.0.0.1:"), "{said}");
    assert!(said.contains(":http takes a free port"), "{said}");
}

#[test]
fn a_forwarding_follows_its_task_to_the_next_incarnation() {
    let cell = start();
    let (mut running, ports) = forward(&cell, &["files/0", ":http"]);
    let address = format!("127.0.0.1:{}", ports[0]);
    eventually("the server listens", || http::get(&address, "/").ok());
    let before = cell.tasks("files")[&0];
    processes::signal(before, Signal::SIGKILL);
    until("it connects again", || running.stderr().contains("connecting again"));
    until("its next incarnation answers", || http::get(&address, "/").is_ok());
    assert_ne!(cell.tasks("files")[&0], before);
    cell.ok("bourg kill files");
    until("it ends with the job", || running.code() == Some(1));
    assert!(running.stderr().contains("files/0 has been killed"), "{}", running.stderr());
}
