//! Keeps the addresses of the processes of a persistent dev cell: the same at every start, since
//! the client directories of users contain them.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use anyhow::Context;
use client::{CELL_FILE, CellFile};
use store::DataDirectory;

use super::names::{MASTER, process_name};

/// The file that maps process names to addresses.
const FILE: &str = "addresses.toml";
/// The range for new ports: outside the kernel's ephemeral range, from which an outgoing connection
/// could take the port before the next start, and outside the range for tasks.
const PORTS: std::ops::Range<u16> = 10_000..20_000;
/// How many of them to try.
const TRIES: u16 = 1_000;

/// The addresses of a cell's processes.
#[derive(Debug)]
pub(super) struct Addresses {
    /// `None` for a temporary cell.
    directory: Option<PathBuf>,
    kept: BTreeMap<String, SocketAddr>,
}

impl Addresses {
    /// Reads the addresses of a cell in a directory; empty for a temporary cell.
    pub(super) fn of(directory: Option<&Path>) -> anyhow::Result<Self> {
        let Some(directory) = directory else {
            return Ok(Self { directory: None, kept: BTreeMap::new() });
        };
        let file = directory.join(FILE);
        let kept = match std::fs::read_to_string(&file) {
            Ok(text) => {
                toml::from_str(&text).with_context(|| format!("{} is damaged", file.display()))?
            }
            Err(error) if error.kind() == ErrorKind::NotFound => of_before(directory),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", file.display()));
            }
        };
        let addresses = Self { directory: Some(directory.to_owned()), kept };
        addresses.keep()?;
        Ok(addresses)
    }

    /// Listens on the recorded address of a process, or on a new one if it has none.
    pub(super) fn listen(&mut self, process: &str) -> anyhow::Result<TcpListener> {
        let Some(directory) = &self.directory else {
            return Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?);
        };
        let Some(address) = self.kept.get(process) else { return self.listen_anew(process) };
        match TcpListener::bind(address) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                // Check whether this cell itself holds the port.
                if let Err(locked @ store::Error::Locked { .. }) =
                    DataDirectory::open(directory.join("master"))
                {
                    return Err(locked.into());
                }
                let (port, file) = (address.port(), directory.join(FILE));
                anyhow::bail!(
                    "{address}, the address of the {process} of this cell, is taken by another program: stop \
                     it (ss -ltnp 'sport = :{port}' shows it), or remove the line of the {process} from {} \
                     to choose another address, which every user's cell.toml must then name",
                    file.display()
                )
            }
            bound => bound.with_context(|| format!("cannot listen on {address}")),
        }
    }

    /// Like `listen`, for a process that clients do not address: falls back to a new address if the
    /// recorded one is taken.
    pub(super) fn listen_somewhere(&mut self, process: &str) -> anyhow::Result<TcpListener> {
        let kept = self.kept.get(process).and_then(|address| TcpListener::bind(address).ok());
        match kept {
            Some(listener) => Ok(listener),
            None if self.directory.is_none() => self.listen(process),
            None => self.listen_anew(process),
        }
    }

    /// Listens for a master without an id yet: on the recorded address of a master whose directory
    /// is gone, or on a new one.
    pub(super) fn listen_instead(
        &mut self,
        is_here: impl Fn(&str) -> bool,
    ) -> anyhow::Result<TcpListener> {
        if self.directory.is_none() {
            return Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?);
        }
        let gone = |name: &&String| name.starts_with(MASTER) && !is_here(name);
        let gone = self.kept.keys().find(gone).cloned();
        let address = gone.and_then(|name| self.kept.remove(&name));
        match address.and_then(|address| TcpListener::bind(address).ok()) {
            Some(listener) => Ok(listener),
            None => free(),
        }
    }

    /// Records the address of a process.
    pub(super) fn keep_as(&mut self, process: String, address: &str) -> anyhow::Result<()> {
        self.kept.insert(process, address.parse()?);
        self.keep()
    }

    fn listen_anew(&mut self, process: &str) -> anyhow::Result<TcpListener> {
        let listener = free()?;
        self.kept.insert(process.to_owned(), listener.local_addr()?);
        self.keep()?;
        Ok(listener)
    }

    fn keep(&self) -> anyhow::Result<()> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let (file, new) = (directory.join(FILE), directory.join(format!(".{FILE}.new")));
        let text = toml::to_string(&self.kept)?;
        let written = process::joining::replace(&file, &new, &text);
        written.with_context(|| format!("cannot write {}", file.display()))
    }
}

/// The addresses of the masters of a cell that an earlier release created, in the order of their
/// ids, from the client directory of the cell's own user.
fn of_before(directory: &Path) -> BTreeMap<String, SocketAddr> {
    let text = std::fs::read_to_string(directory.join("client").join(CELL_FILE));
    let file: Option<CellFile> = text.ok().and_then(|text| toml::from_str(&text).ok());
    let masters = file.map(|file| file.masters).unwrap_or_default();
    let named = (1..).map(|id| process_name(model::ReplicaId(id)));
    let all = named.zip(masters).map(|(name, address)| Some((name, address.parse().ok()?)));
    all.collect::<Option<_>>().unwrap_or_default()
}

/// Listens on a free port, chosen at random to avoid those of other new cells.
fn free() -> anyhow::Result<TcpListener> {
    listen_at(Ipv4Addr::LOCALHOST)
}

fn listen_at(address: Ipv4Addr) -> anyhow::Result<TcpListener> {
    let ports = u64::from(PORTS.end - PORTS.start);
    let first = RandomState::new().hash_one(std::process::id()) % ports;
    let port = |offset: u16| {
        let place = (first + u64::from(offset)) % ports;
        PORTS.start + u16::try_from(place).unwrap_or_default()
    };
    for offset in 0..TRIES {
        match TcpListener::bind((address, port(offset))) {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            // No other port would do.
            Err(error) => {
                let hint = "is the loopback interface up? (ip link set lo up)";
                return Err(error).with_context(|| format!("cannot listen on {address}; {hint}"));
            }
        }
    }
    anyhow::bail!("{TRIES} ports between {} and {} are all taken", PORTS.start, PORTS.end - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(listener: &TcpListener) -> u16 {
        listener.local_addr().expect("an address").port()
    }

    #[test]
    fn a_foreign_address_is_not_reported_as_a_lack_of_ports() {
        let error = listen_at(Ipv4Addr::new(192, 0, 2, 1)).expect_err("it is for documentation");
        let said = format!("{error:#}");
        assert!(said.starts_with("cannot listen on 192.0.2.1; is the loopback interface up?"));
        assert!(said.contains("Cannot assign requested address"), "{said}");
    }

    #[test]
    fn a_process_keeps_its_address_and_others_never_get_it() {
        let place = tempfile::tempdir().expect("a directory");
        let addresses = || Addresses::of(Some(place.path())).expect("they can be read");
        let first = addresses().listen("master").expect("a port");
        let (kept, borglet) = (port(&first), addresses().listen_somewhere("borglet"));
        let borglet = borglet.expect("a port");
        assert!(PORTS.contains(&kept) && kept != port(&borglet));

        let refused = addresses().listen("master").expect_err("it is taken").to_string();
        assert!(refused.contains(&format!(
            "127.0.0.1:{kept}, the address of the master of this cell, is taken"
        )));
        let other = addresses().listen_somewhere("borglet").expect("another port");
        assert_ne!(port(&other), port(&borglet));
        let moved = port(&other);
        drop((first, borglet, other));
        assert_eq!(port(&addresses().listen("master").expect("its port")), kept);
        assert_eq!(port(&addresses().listen_somewhere("borglet").expect("its port")), moved);

        // Follow the advice of the error.
        let file = place.path().join(FILE);
        let text = std::fs::read_to_string(&file).expect("the file");
        let lines = text.lines().filter(|line| !line.starts_with("master"));
        std::fs::write(&file, lines.collect::<String>()).expect("it can be written");
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, kept)).expect("it is free");
        assert_ne!(port(&addresses().listen("master").expect("another")), port(&held));
    }

    #[test]
    fn a_master_that_takes_the_place_of_another_answers_there() {
        let place = tempfile::tempdir().expect("a directory");
        let addresses = || Addresses::of(Some(place.path())).expect("they can be read");
        let [first, second] =
            ["master", "master-2"].map(|name| port(&addresses().listen(name).expect("a port")));
        let mut kept = addresses();
        let here = |name: &str| name == "master";
        let [third, fourth] = [(); 2].map(|()| kept.listen_instead(here).expect("a port"));
        assert_eq!(port(&third), second);
        assert!(![first, second].contains(&port(&fourth)));
        for (name, listener) in [("master-3", third), ("master-4", fourth)] {
            let address = listener.local_addr().expect("an address").to_string();
            kept.keep_as(name.to_owned(), &address).expect("it can be kept");
        }
        let names: Vec<_> = addresses().kept.into_keys().collect();
        assert_eq!(names, ["master", "master-3", "master-4"]);
    }

    #[test]
    fn a_cell_of_an_earlier_release_stays_where_its_client_directory_says() {
        let place = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(place.path().join("client")).expect("a directory");
        let text = "cell = \"dev\"\nmasters = [\"127.0.0.1:10001\", \"127.0.0.1:10002\"]\n";
        std::fs::write(place.path().join("client").join(CELL_FILE), text).expect("a file");
        let kept = Addresses::of(Some(place.path())).expect("they can be read").kept;
        let port = |name: &str| kept.get(name).map(SocketAddr::port);
        assert_eq!(
            [port("master"), port("master-2"), port("borglet")],
            [Some(10_001), Some(10_002), None]
        );
        assert!(Addresses::of(None).expect("nothing to read").kept.is_empty());
    }
}
