//! The HTTP pages of a master and of a Borglet, read by curl over mTLS.

use crate::cell::Cell;
use crate::eventually::eventually;
use crate::terminal::Terminal;
use crate::tools::needs;

/// The process that serves the pages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Of {
    Master,
    Borglet,
}

impl Of {
    /// The host name in its certificate.
    pub(crate) fn server_name(self) -> &'static str {
        match self {
            Self::Master => "master.dev.borg",
            Self::Borglet => "borglet.dev.borg",
        }
    }

    /// Its address.
    pub(crate) fn address(self, cell: &Cell) -> String {
        match self {
            Self::Master => {
                let file = std::fs::read_to_string(cell.directory().join("client/cell.toml"));
                let file = file.expect("a cell has a client directory");
                file.split('"').nth(3).expect("it names a master").to_owned()
            }
            Self::Borglet => {
                let all = cell.ok("bourg machines -o json");
                let all: serde_json::Value = serde_json::from_str(&all).expect("JSON");
                all[0]["address"].as_str().expect("a machine has an address").to_owned()
            }
        }
    }
}

/// A page as read by the user of a client directory: its status and its text.
#[track_caller]
pub(crate) fn page_as(client: &str, cell: &Cell, of: Of, path: &str) -> (u16, String) {
    asked(client, cell, of, path, "")
}

/// An empty gRPC call: the HTTP status, and the headers and the rest.
#[track_caller]
pub(crate) fn call(cell: &Cell, of: Of, path: &str) -> (u16, String) {
    let empty = r"--http2 --include --header 'content-type: application/grpc' --data ''";
    asked(&client(cell), cell, of, path, empty)
}

#[track_caller]
fn asked(client: &str, cell: &Cell, of: Of, path: &str, how: &str) -> (u16, String) {
    needs("curl", "curl");
    let (address, name) = (of.address(cell), of.server_name());
    let line = format!(
        "curl --silent --show-error --cacert {client}/user.ca.pem --cert {client}/user.pem --key \
         {client}/user.key --connect-to ::{address} --write-out '\\n%{{http_code}}' {how} \
         'https://{name}{path}'"
    );
    split(&cell.ok(&line))
}

fn client(cell: &Cell) -> String {
    cell.directory().join("client").to_string_lossy().into_owned()
}

fn split(said: &str) -> (u16, String) {
    let (text, status) = said.rsplit_once('\n').expect("a status behind the text");
    (status.parse().expect("a status"), text.to_owned())
}

/// A page as read by the user of the cell.
#[track_caller]
pub(crate) fn page(cell: &Cell, of: Of, path: &str) -> (u16, String) {
    page_as(&client(cell), cell, of, path)
}

/// The answer of the master to JSON that the user of the cell posts.
#[track_caller]
pub(crate) fn post(cell: &Cell, path: &str, body: &str) -> (u16, String) {
    cell.write("body.json", body);
    let how = "--header 'content-type: application/json' --data @body.json";
    asked(&client(cell), cell, Of::Master, path, how)
}

/// The metrics.
#[track_caller]
pub(crate) fn metrics(cell: &Cell, of: Of) -> String {
    let (status, text) = page(cell, of, "/metrics");
    assert_eq!(status, 200, "{text}");
    text
}

/// A value of the metrics; `None` if it is missing.
pub(crate) fn value(metrics: &str, name: &str) -> Option<f64> {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map(|value| value.parse().expect("a value is a number"))
}

/// Waits until a value of the metrics meets a condition.
#[track_caller]
pub(crate) fn value_is(cell: &Cell, of: Of, name: &str, expected: f64) {
    eventually(&format!("{name} is {expected}"), || {
        let is = value(&metrics(cell, of), name)?;
        ((is - expected).abs() < 1e-9).then_some(())
    });
}

/// The output of a command that succeeds, with a file on its standard input.
#[track_caller]
pub(crate) fn fed(terminal: &Terminal, line: &str, input: &str) -> String {
    terminal.write("input", input);
    terminal.ok(&format!("{line} < input"))
}
