//! New connections to a service of defaults, without end, while it is updated, undone, drained and
//! resized: none fails.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use crate::cell::Cell;
use crate::eventually::{PATIENCE, until};
use crate::http;
use crate::services::proxy;

/// The pause of a client between two requests.
const PAUSE: Duration = Duration::from_millis(5);

/// How a client makes its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    /// Each on a connection of its own.
    New,
    /// On one connection as long as the server keeps it. One that the server has closed meanwhile is
    /// replaced, as HTTP clients do.
    KeepAlive,
}

/// Reads a response on a connection that goes on; whether it says 200.
fn response(reader: &mut BufReader<TcpStream>) -> io::Result<bool> {
    let (mut status, mut length) = (String::new(), 0);
    if reader.read_line(&mut status)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(bytes) = line.strip_prefix("content-length:") {
            length = bytes.trim().parse().map_err(io::Error::other)?;
        }
    }
    reader.read_exact(&mut vec![0; length])?;
    Ok(status.starts_with("HTTP/1.1 200 "))
}

/// A request on a connection that stays open, which may be there already.
fn ask(address: &str, open: &mut Option<BufReader<TcpStream>>) -> io::Result<bool> {
    let once = |reader: &mut BufReader<TcpStream>| {
        write!(reader.get_mut(), "GET / HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
        response(reader)
    };
    if let Some(answered) = open.as_mut().map(once) {
        match answered {
            Ok(well) => return Ok(well),
            Err(_) => *open = None,
        }
    }
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    once(open.insert(BufReader::new(stream)))
}

/// Clients that ask all the time.
struct Load {
    answered: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    fn start(address: &str, clients: &[Client]) -> Self {
        let (answered, over) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let client = |client: &Client| {
            let (client, address) = (*client, address.to_owned());
            let (answered, over) = (Arc::clone(&answered), Arc::clone(&over));
            std::thread::spawn(move || {
                let (mut failed, mut open) = (Vec::new(), None);
                while !over.load(Ordering::Relaxed) {
                    let said = match client {
                        Client::New => {
                            http::get(&address, "/").map(|it| it.starts_with("HTTP/1.1 200 "))
                        }
                        Client::KeepAlive => ask(&address, &mut open),
                    };
                    match said {
                        Ok(true) => drop(answered.fetch_add(1, Ordering::Relaxed)),
                        said => failed.push(format!("{client:?}: {said:?}")),
                    }
                    std::thread::sleep(PAUSE);
                }
                failed
            })
        };
        let clients = clients.iter().map(client).collect();
        Self { answered, over, clients }
    }

    /// Types a command that succeeds, under load.
    #[track_caller]
    fn through(&self, cell: &Cell, line: &str) {
        let before = self.answered.load(Ordering::Relaxed);
        cell.ok(line);
        until(line, || self.answered.load(Ordering::Relaxed) > before + 20);
    }

    /// Ends it: the number of requests that were answered, and those that were not.
    fn ends(self) -> (usize, Vec<String>) {
        self.over.store(true, Ordering::Relaxed);
        let failed = self.clients.into_iter().flat_map(|client| client.join().expect("no panic"));
        (self.answered.load(Ordering::Relaxed), failed.collect())
    }
}

#[test]
fn no_new_connection_fails_while_a_default_service_is_changed_and_moved() {
    let cell = Cell::start_with(&["--machines", "2"]);
    cell.write(
        "web.bcl",
        "local borg = import 'borg.libsonnet';
         borg.service('web', tasks=2, cmd=['bourg', 'example-server', '--quiet', '--port', borg.port('http')])
           { labels: { app: 'web' }, cpu: 0.1, ram: '64 MiB' }",
    );
    cell.write("next.bcl", "(import 'web.bcl') + { env: { MODE: 'new' } }");
    cell.ok("bourg run web.bcl");
    cell.ok("bourg service set front --port http -l app=web");
    let (_running, address, _) = proxy(&cell, "front", &[]);
    let load = Load::start(&address, &[Client::New, Client::New, Client::KeepAlive]);

    load.through(&cell, "bourg update next.bcl --healthy-for 1s");
    let versions = |version: u64| {
        let status = cell.is_healthy("web");
        let tasks = status["tasks"].as_array().cloned().unwrap_or_default();
        assert!(tasks.iter().all(|task| task["version"] == version), "{status:#}");
    };
    versions(2);
    let events = cell.ok("bourg events web/2");
    assert!(events.contains("START"), "a further task was started first: {events}");
    load.through(&cell, "bourg update undo web");
    versions(1);
    let machine = cell.ok("bourg machines -o name").lines().next().expect("a machine").to_owned();
    load.through(&cell, &format!("bourg drain {machine} --reason 'new memory'"));
    load.through(&cell, &format!("bourg undrain {machine}"));
    load.through(&cell, "bourg resize web 3");
    load.through(&cell, "bourg resize web 2");
    cell.job("web", "has two tasks", |job| {
        job["tasks"].as_array().map(Vec::len) == Some(2) && job["counts"]["healthy"] == 2
    });
    let (answered, failed) = load.ends();
    assert_eq!(failed, Vec::<String>::new(), "of {answered}");
    assert!(answered > 1_000, "only {answered}");
}

/// A check that fails once, and one that fails for good.
#[test]
fn one_failed_check_removes_no_task_and_proxies_use_unhealthy_ones() {
    let cell = Cell::start();
    // The check fails as often as a file says.
    cell.write(
        "web.bcl",
        "local borg = import 'borg.libsonnet';
         local check = 'read n < fails && test \"$n\" -gt 0 || exit 0; echo $((n - 1)) > fails; exit 1';
         borg.service('web', cmd=['bourg', 'example-server', '--quiet', '--port', borg.port('http')]) {
           labels: { app: 'web' }, cpu: 0.1, ram: '64 MiB',
           healthCheck: { exec: ['sh', '-c', check], interval: '100ms', failures: 1000 },
         }",
    );
    cell.ok("bourg run web.bcl");
    cell.ok("bourg service set front --port http -l app=web");
    let (_running, address, _) = proxy(&cell, "front", &[]);
    let fails = |times: u32| {
        cell.ok(&format!("bourg exec web/0 -- sh -c 'echo {times} > new && mv new fails'"));
    };
    let left = || cell.ok("bourg exec web/0 -- cat fails").trim().to_owned();
    fails(2);
    until("the checks have failed", || left() == "0");
    let events = || cell.ok("bourg events web -o json").matches("\"healthy\":false").count();
    assert_eq!(events(), 0, "two failures in a row are not three");
    fails(100_000);
    cell.job("web", "is unhealthy", |job| job["tasks"][0]["health"] == "UNHEALTHY");
    let said = http::get(&address, "/").expect("an unhealthy task is better than none");
    assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    fails(0);
    cell.job("web", "is healthy again", |job: &Value| job["tasks"][0]["health"] == "HEALTHY");
}

/// What a server does to a connection is what its client sees through the proxy.
#[test]
fn a_reset_by_a_server_is_a_reset_at_the_client() {
    crate::tools::needs("/usr/bin/python3", "python3");
    let cell = Cell::start();
    let server = "
import os, socket, struct
listener = socket.create_server(('0.0.0.0', int(os.environ['PORT'])))
while True:
    peer, _ = listener.accept()
    said = peer.recv(100)
    if said == b'reset':
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    elif said:
        peer.sendall(said)
    peer.close()
";
    cell.write(
        "web.bcl",
        format!(
            "(import 'borg.libsonnet').service('web', cmd=['/usr/bin/python3', '-c', {}]) {{
               ports: ['http'], healthCheck: {{ tcp: 'http' }}, labels: {{ app: 'web' }}, ram: '64 MiB',
             }}",
            Value::from(server)
        ),
    );
    cell.ok("bourg run web.bcl");
    cell.ok("bourg service set front --port http -l app=web");
    let (_running, address, _) = proxy(&cell, "front", &[]);
    let said = |what: &str| {
        let mut stream = TcpStream::connect(&address).expect("accepted");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.write_all(what.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map(|_| answer).map_err(|error| error.kind())
    };
    assert_eq!(said("end"), Ok("end".to_owned()));
    assert_eq!(said("reset"), Err(io::ErrorKind::ConnectionReset));
}
