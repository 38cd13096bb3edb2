//! A service whose tasks are updated, drained and moved while clients find it by name all the time.

use crate::cell::Cell;
use crate::eventually::until;
use crate::tools::needs;

/// The Python in a task's jail.
const PYTHON: &str = "/usr/bin/python3";

/// A server that answers for two seconds after it was told to stop, as long as resolvers may have its
/// address from a moment before.
const SERVES: &str = "
import http.server, signal, socketserver, threading, time
class Page(http.server.BaseHTTPRequestHandler):
  def do_GET(self):
    self.send_response(200)
    self.send_header('Content-Length', '2')
    self.end_headers()
    self.wfile.write(b'ok')
  def log_message(self, *_): pass
class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
  daemon_threads = True
  request_queue_size = 128
server = Server(('', 80), Page)
def stops(*_):
  threading.Thread(target=lambda: (time.sleep(2), server.shutdown())).start()
signal.signal(signal.SIGTERM, stops)
server.serve_forever()
";

/// A new connection every 5 ms, to what the resolver of the C library says each time. It prints how many
/// there were, how many names were not found, and how many connections failed.
const CONNECTS: &str = "
import http.client, socket, time
connections, unknown, dead, said = 0, 0, 0, 0
while True:
  connections += 1
  try:
    address = socket.getaddrinfo('web', 80, socket.AF_INET, socket.SOCK_STREAM)[0][4][0]
    try:
      asked = http.client.HTTPConnection(address, 80, timeout=2)
      asked.request('GET', '/')
      assert asked.getresponse().read() == b'ok'
      asked.close()
    except Exception as error:
      dead += 1
      print(address, repr(error), flush=True)
  except OSError as error:
    unknown += 1
    print(repr(error), flush=True)
  if time.time() - said > 0.2:
    said = time.time()
    print('connections', connections, 'unknown', unknown, 'dead', dead, flush=True)
  time.sleep(0.005)
";

/// What the client printed last: connections, names not found, failed connections.
fn counted(cell: &Cell) -> [u64; 3] {
    let said = cell.types("bourg logs client/0").stdout;
    let last = said.lines().rfind(|line| line.starts_with("connections ")).unwrap_or_default();
    let numbers: Vec<u64> = last.split(' ').filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().unwrap_or_default()
}

#[test]
fn a_service_that_is_updated_drained_and_moved_is_always_found() {
    needs(PYTHON, "python3");
    let cell = Cell::start_with(&["--machines", "3"]);
    let web = |version: u32| {
        cell.write(
            "web.bcl",
            format!(
                "(import 'borg.libsonnet').service('web', tasks=4, cmd=['{PYTHON}', '-c', {SERVES:?}]) {{
                   cpu: 0.05, ram: '48 MiB', network: 'own', ports: {{ http: 80 }},
                   notice: '10s', env: {{ VERSION: '{version}' }},
                   healthCheck: {{ tcp: 'http', interval: '1s' }},
                   update: {{ healthyFor: '1s', wait: '0s', batch: 1 }},
                   disruptions: {{ atOnce: 2 }} }}"
            ),
        );
    };
    web(1);
    cell.ok("bourg run web.bcl");
    cell.write(
        "client.bcl",
        format!(
            "(import 'borg.libsonnet').service('client', cmd=['{PYTHON}', '-c', {CONNECTS:?}])
             {{ cpu: 0.05, ram: '48 MiB', network: 'own' }}"
        ),
    );
    cell.ok("bourg run client.bcl");
    until("it has connected", || counted(&cell)[0] > 100);

    web(2);
    cell.ok("bourg update web.bcl");
    let names = cell.ok("bourg machines -o name");
    // The client stays where it is.
    let stays = cell.ok("bourg status client -o tasks.0.machine");
    for machine in names.lines().filter(|name| *name != stays.trim()) {
        cell.ok(&format!("bourg drain {machine} && bourg undrain {machine}"));
    }
    web(3);
    cell.ok("bourg update web.bcl");

    let before = counted(&cell)[0];
    until("it goes on", || counted(&cell)[0] > before + 100);
    let [connections, unknown, dead] = counted(&cell);
    let log = || cell.types("bourg logs client/0").stdout;
    assert_eq!(unknown, 0, "of {connections}: {}", log());
    assert!(dead * 1_000 < connections, "{dead} of {connections}: {}", log());
}
