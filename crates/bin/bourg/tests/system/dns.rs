//! DNS over the names of a cell: at a replica by `dig`, and inside tasks by their own resolver.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::cell::{Cell, Role};
use crate::eventually::until;
use crate::pages::{self, Of};
use crate::processes;
use crate::tools::needs;

/// The address of a cell's DNS, from what `bourg dev` prints.
pub(crate) fn address(cell: &Cell) -> (String, String) {
    let said = cell.said();
    let line =
        said.lines().find(|line| line.starts_with("cell ")).unwrap_or_else(|| panic!("{said}"));
    let (_, address) = line.rsplit_once("DNS ").unwrap_or_else(|| panic!("{line}"));
    let (host, port) = address.trim().rsplit_once(':').expect("a port");
    (host.to_owned(), port.to_owned())
}

fn web(cell: &Cell) {
    cell.write(
        "web.bcl",
        "local borg = import 'borg.libsonnet';
         borg.service('web', tasks=2, cmd=['bourg', 'example-server', '--port', borg.port('http')])
           { cpu: 0.1, ram: '64 MiB' }",
    );
    cell.ok("bourg run web.bcl");
}

#[test]
fn dig_finds_tasks_jobs_ports_and_the_master_at_a_replica() {
    needs("dig", "bind9-dnsutils");
    let cell = Cell::start();
    web(&cell);
    let (host, port) = address(&cell);
    let dig = |rest: &str| cell.ok(&format!("dig +tries=2 +time=5 @{host} -p {port} {rest}"));
    let zone = "dev.borg.";
    assert_eq!(dig(&format!("+short 0.web.root.{zone}")), "127.0.0.1\n");
    // Both tasks are at one address, which is one record.
    assert_eq!(dig(&format!("+short WEB.Root.{zone}")), "127.0.0.1\n");
    assert_eq!(dig(&format!("+short master.{zone}")), "127.0.0.1\n");
    let ports: Vec<String> =
        cell.ok("bourg bns get web -o ports.0.port").lines().map(str::to_owned).collect();
    let mut srv: Vec<String> = dig(&format!("+short SRV _http._tcp.web.root.{zone}"))
        .lines()
        .map(|line| line.split_whitespace().skip(2).collect::<Vec<_>>().join(" "))
        .collect();
    srv.sort();
    let mut expected: Vec<String> =
        (0..).zip(&ports).map(|(index, port)| format!("{port} {index}.web.root.{zone}")).collect();
    expected.sort();
    assert_eq!(srv, expected);
    let said = dig(&format!("9.web.root.{zone}"));
    assert!(said.contains("status: NXDOMAIN") && said.contains("SOA"), "{said}");
    let said = dig(&format!("+tcp TXT web.root.{zone}"));
    assert!(said.contains("status: NOERROR") && said.contains("ANSWER: 0"), "{said}");
    assert!(dig("example.com.").contains("status: REFUSED"));
    assert!(dig(&format!("AXFR {zone}")).contains("Transfer failed"));
    let reverse = dig("+short -x 127.0.0.1");
    assert!(reverse.contains(&format!("1.web.root.{zone}")), "{reverse}");
    // It follows the tasks.
    cell.ok("bourg kill web/1");
    let served = || dig(&format!("+short SRV _http._tcp.web.root.{zone}")).lines().count();
    until("only one is left", || served() == 1);
    cell.ok("bourg kill web");
    until("the name is gone", || dig(&format!("web.root.{zone}")).contains("NXDOMAIN"));
}

#[test]
fn tasks_find_each_other_by_name_also_while_no_master_answers() {
    needs("dig", "bind9-dnsutils");
    let cell = Cell::start();
    web(&cell);
    cell.write("idle.bcl", "(import 'borg.libsonnet').service('idle', cmd=['sleep', '100000'])");
    cell.ok("bourg run idle.bcl");
    let inside = |line: &str| cell.types(&format!("bourg exec idle/0 -- {line}"));
    let conf = inside("cat /etc/resolv.conf").stdout;
    assert!(conf.contains("search root.dev.borg dev.borg"), "{conf}");
    let server = conf.lines().find_map(|line| line.strip_prefix("nameserver ")).expect("one");
    assert!(server.starts_with("127.0.53."), "{conf}");
    // glibc's resolver, with the search domains.
    for name in ["web", "web.root", "0.web.root", "1.web.root.dev.borg"] {
        let found = inside(&format!("getent ahostsv4 {name}"));
        assert!(found.stdout.starts_with("127.0.0.1"), "{name}: {} {}", found.stdout, found.stderr);
    }
    assert_ne!(inside("getent ahostsv4 nobody.root").code, 0);
    let port = cell.ok("bourg bns get web/0 -o ports.0.port");
    let said = inside(&format!("curl -fsS http://0.web.root:{}/", port.trim()));
    assert!(said.stdout.contains("web/0"), "{} {}", said.stdout, said.stderr);
    // A change is seen.
    let dig = |name: &str| {
        let line = format!("dig +tries=1 +time=5 +short @{server} {name}.dev.borg.");
        cell.ok(&line).lines().count()
    };
    assert_eq!(dig("SRV _http._tcp.web.root"), 2);
    cell.ok("bourg kill web/1");
    until("one is left", || dig("SRV _http._tcp.web.root") == 1);

    // Without a master the last answer is given, and the metric says so.
    let master = cell.pid(Role::Master).expect("it runs");
    processes::signal(master, Signal::SIGSTOP);
    let begun = Instant::now();
    until("an answer would have been asked again", || {
        assert_eq!(dig("SRV _http._tcp.web.root"), 1);
        begun.elapsed() > Duration::from_secs(7)
    });
    processes::signal(master, Signal::SIGCONT);
    until("the metrics say so", || {
        let metrics = pages::metrics(&cell, Of::Borglet);
        pages::value(&metrics, "bourg_dns_stale_replies_total") > Some(0.0)
    });
}

/// The Python in a task's jail.
const PYTHON: &str = "/usr/bin/python3";

/// The first lines of the programs: a socket connected to the task's resolver, and a request.
const ASKS: &str = "
import socket, time
conf = open('/etc/resolv.conf').read().split()
server = conf[conf.index('nameserver') + 1]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect((server, 53))
labels = b''.join(bytes([len(label)]) + label for label in (b'master', b'dev', b'borg', b''))
request = bytes([0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]) + labels + bytes([0, 1, 0, 1])
";

/// Asks as often as it can, and says how many requests were refused. Most are responses, which a
/// server drops, so that the flood is larger.
const FLOODS: &str = "
s.setblocking(False)
response = request[:2] + bytes([0x80]) + request[3:]
refused, seen, said = 0, 0, time.time()
while True:
  for number in range(200):
    try: s.send(request if number == 0 else response)
    except OSError: pass
  try:
    while True:
      reply = s.recv(512)
      seen += 1
      refused += reply[3] & 15 == 5
  except OSError: pass
  if time.time() - said > 0.2:
    said = time.time()
    print('seen', seen, 'refused', refused, flush=True)
";

/// Asks 60 times, and ends with what came of it. A datagram can be lost in the flood, and is sent
/// again.
const ASKS_SLOWLY: &str = "
s.settimeout(0.2)
codes, lost = [], 0
while len(codes) < 60 and lost < 200:
  s.send(request)
  try: codes.append(s.recv(512)[3] & 15)
  except OSError: lost += 1
  time.sleep(0.01)
print('answered', codes.count(0), 'refused', codes.count(5), 'lost', lost, flush=True)
";

#[test]
fn a_task_that_floods_is_refused_and_another_is_answered_meanwhile() {
    needs(PYTHON, "python3");
    let cell = Cell::start();
    let run = |name: &str, program: &str, wait: &str| {
        let program = format!("{ASKS}{program}");
        cell.write(
            &format!("{name}.bcl"),
            format!(
                "(import 'borg.libsonnet').batch('{name}', cmd=['{PYTHON}', '-c', {program:?}])"
            ),
        );
        cell.ok(&format!("bourg run {wait} {name}.bcl"));
    };
    run("floods", FLOODS, "--detach");
    let refused = || {
        let said = cell.types("bourg logs floods/0").stdout;
        let last = said.lines().rfind(|line| line.starts_with("seen "));
        last.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    until("it is refused", || refused() > 0);
    let before = refused();
    run("asks", ASKS_SLOWLY, "--wait");
    let said = cell.ok("bourg logs asks/0");
    assert!(said.starts_with("answered 60 refused 0 "), "{said}");
    until("the flood was refused meanwhile", || refused() > before);
    let metrics = pages::metrics(&cell, Of::Borglet);
    assert!(
        pages::value(&metrics, "bourg_dns_rejected_total{cause=\"rate\"}") > Some(0.0),
        "{metrics}"
    );
}
