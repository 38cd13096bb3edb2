//! The systemd units: what systemd itself reports about them, and a cell whose processes are
//! started by their command lines and report their state to a service manager.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use rpc::{Authority, Credentials, Identity, Validity};

use crate::eventually::{PATIENCE, eventually, until};
use crate::processes;
use crate::terminal::{Background, Terminal};
use crate::tools::needs;

const ROLES: [&str; 3] = ["master", "scheduler", "borglet"];

fn packaged(file: &str) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../packaging/systemd");
    std::fs::read_to_string(directory.join(file)).expect(file)
}

fn unit(role: &str) -> String {
    packaged(&format!("bourg-{role}.service"))
}

#[test]
fn systemd_has_nothing_to_say_about_the_units() {
    needs("systemd-analyze", "systemd");
    let terminal = Terminal::new();
    for role in ROLES {
        let name = format!("bourg-{role}.service");
        // The path at which the program will be installed.
        terminal.write(&name, unit(role).replace("/usr/bin/bourg", env!("CARGO_BIN_EXE_bourg")));
        let said = terminal.types(&format!("systemd-analyze verify --man=no \"$PWD/{name}\" 2>&1"));
        assert_eq!((said.code, said.stdout.as_str()), (0, ""), "{name}");
    }
    // The drop-in for DNS at port 53.
    std::fs::create_dir(terminal.path("bourg-master.service.d")).expect("a directory");
    terminal.write("bourg-master.service.d/dns.conf", packaged("bourg-master-dns.conf"));
    let verify = "systemd-analyze verify --man=no \"$PWD/bourg-master.service\" 2>&1";
    let said = terminal.types(verify);
    assert_eq!((said.code, said.stdout.as_str()), (0, ""), "bourg-master-dns.conf");
    for name in ["bourg-backup.service", "bourg-backup.timer"] {
        terminal.write(name, packaged(name).replace("/usr/bin/bourg", env!("CARGO_BIN_EXE_bourg")));
    }
    let said = terminal.types("systemd-analyze verify --man=no \"$PWD/bourg-backup.timer\" 2>&1");
    assert_eq!((said.code, said.stdout.as_str()), (0, ""), "bourg-backup.timer");
    // An exposure of 9.6 of 10 if nothing is restricted, as for the Borglet.
    for role in ["master", "scheduler", "backup"] {
        terminal.ok(&format!(
            "systemd-analyze security --offline=true --threshold=20 \"$PWD/bourg-{role}.service\""
        ));
    }
}

#[test]
fn units_restart_what_ends_and_leave_tasks_alone() {
    let has = |role: &str, line: &str| unit(role).lines().any(|is| is == line);
    for role in ROLES {
        for line in ["Type=notify", "Restart=always", "StartLimitIntervalSec=0"] {
            assert!(has(role, line), "{role} has no {line}");
        }
    }
    assert!(has("borglet", "KillMode=process") && has("borglet", "Delegate=yes"));
    // Restrictions of a Borglet would also restrict its tasks.
    for taken in ["Protect", "Private", "SystemCall", "Restrict", "NoNewPrivileges", "User="] {
        assert!(!unit("borglet").lines().any(|line| line.starts_with(taken)), "{taken}");
    }
}

/// The words of a unit's command, with the values of its variables. These are the variables of the
/// example settings, and no others.
fn command(role: &str, values: &[(&str, &str)]) -> Vec<String> {
    let unit = unit(role);
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/"));
    let line = line.expect("the unit starts bourg");
    let values: BTreeMap<&str, &str> = values.iter().copied().collect();
    let example = packaged(&format!("{role}.conf"));
    let example = example.lines().filter(|line| !line.starts_with('#'));
    let set: BTreeSet<&str> = example.filter_map(|line| Some(line.split_once('=')?.0)).collect();
    let given: BTreeSet<&str> =
        values.keys().copied().filter(|n| *n != "STATE_DIRECTORY").collect();
    assert_eq!(set, given, "what {role}.conf sets, and what {role} is started with");
    let mut words = Vec::new();
    for word in line.split(' ') {
        match word.strip_prefix("${").and_then(|name| name.strip_suffix('}')) {
            Some(name) => words.push(values[name].to_owned()),
            None => match word.strip_prefix('$') {
                Some(name) => words.extend(values[name].split_whitespace().map(str::to_owned)),
                None => words.push(word.to_owned()),
            },
        }
    }
    words
}

/// A process as started by a service manager.
struct Service {
    process: Background,
    manager: UnixDatagram,
}

impl Service {
    fn start(terminal: &Terminal, role: &str, values: &[(&str, &str)]) -> Self {
        let socket = terminal.path(&format!("{role}.notify"));
        let manager = UnixDatagram::bind(&socket).expect("a socket");
        manager.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let variable = format!("NOTIFY_SOCKET={}", socket.display());
        let words = command(role, values);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let process = terminal.start("env", &[&[variable.as_str()], &words[..]].concat());
        Self { process, manager }
    }

    #[track_caller]
    fn tells(&self, state: &str) {
        let mut text = [0; 256];
        let bytes = self.manager.recv(&mut text);
        let bytes = bytes.unwrap_or_else(|error| panic!("{error}: {}", self.process.stderr()));
        assert_eq!(String::from_utf8_lossy(&text[..bytes]), format!("{state}\n"));
    }

    /// Its address.
    #[track_caller]
    fn address(&self) -> String {
        eventually("it listens", || {
            let said = self.process.stderr();
            Some(said.split_once("listening on ")?.1.lines().next()?.trim().to_owned())
        })
    }

    #[track_caller]
    fn stops(self) {
        processes::signal(self.process.pid(), Signal::SIGTERM);
        self.tells("STOPPING=1");
        let ended = self.process.ends();
        assert_eq!(ended.code, 0, "{}", ended.stderr);
    }
}

/// The credentials of an identity of a cell bootstrapped by a master.
fn issued(master: &Path, identity: &Identity) -> Credentials {
    let authority = Authority::open(master.join("tls")).expect("the cell's authority");
    let validity = Validity::lasting(Duration::from_secs(3_600));
    authority.issue(identity, validity).expect("a certificate")
}

#[test]
fn a_cell_started_by_its_units_notifies_readiness_and_stopping() {
    let terminal = Terminal::new();
    let [master_dir, scheduler_dir, borglet_dir, client] =
        ["master", "scheduler", "borglet", "client"].map(|name| terminal.path(name));
    for directory in [&scheduler_dir, &borglet_dir, &client] {
        std::fs::create_dir(directory).expect("a directory");
    }
    let text = |path: &PathBuf| path.to_string_lossy().into_owned();
    let (state, listen) = (text(&master_dir), ("LISTEN", "127.0.0.1:0"));
    let values =
        [("STATE_DIRECTORY", state.as_str()), ("CELL", "cc"), ("ADMINISTRATOR", "root"), listen];
    let flags = ("FLAGS", "--missed-polls 4 --history-age 1d");
    let master = Service::start(&terminal, "master", &[&values[..], &[flags]].concat());
    master.tells("READY=1");
    let address = master.address();

    let user = issued(&master_dir, &Identity::User("root".to_owned()));
    user.write(&client, "user").expect("it can be written");
    terminal.write("client/cell.toml", format!("cell = \"cc\"\nmasters = [\"{address}\"]\n"));
    let scheduler = issued(&master_dir, &Identity::Scheduler("main".to_owned()));
    scheduler.write(&scheduler_dir, "scheduler").expect("it can be written");
    let state = text(&scheduler_dir);
    let values = [("STATE_DIRECTORY", state.as_str()), ("MASTER", &address), ("FLAGS", "")];
    let scheduler = Service::start(&terminal, "scheduler", &values);
    scheduler.tells("READY=1");
    let borglet = issued(&master_dir, &Identity::Borglet("m1".to_owned()));
    borglet.write(&borglet_dir, "borglet").expect("it can be written");
    let state = text(&borglet_dir);
    let flags = ("FLAGS", "--stop-tasks");
    let borglet =
        Service::start(&terminal, "borglet", &[("STATE_DIRECTORY", &state), listen, flags]);
    borglet.tells("READY=1");

    terminal.ok(&format!("bourg --cell client machine add m1 {}", borglet.address()));
    until("the machine is up", || {
        terminal.types("bourg --cell client machine show m1 -o state").stdout == "up\n"
    });
    assert_eq!(terminal.ok("bourg --cell client cell -o schedulers"), "1\n");
    for service in [scheduler, borglet, master] {
        service.stops();
    }
}
