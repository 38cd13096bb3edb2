//! Where the processes of a cell answer that is kept in a directory: the same at every start, as its
//! users' client directories name it.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use anyhow::Context;
use client::{CELL_FILE, CellFile};
use store::DataDirectory;

use super::replicas::MASTER;

/// What is kept: an address for each process, by its name.
const FILE: &str = "addresses.toml";
/// Ports for those that are new: none that the kernel gives to outgoing connections, of which one
/// could have it at the next start, and none that tasks get.
const PORTS: std::ops::Range<u16> = 10_000..20_000;
const NONE_FREE: &str = "no port between 10000 and 19999 is free";
/// How many of them are tried.
const TRIES: u16 = 1_000;

/// The addresses of a cell's processes.
#[derive(Debug)]
pub(super) struct Addresses {
    /// None for a cell that is not kept.
    directory: Option<PathBuf>,
    kept: BTreeMap<String, SocketAddr>,
}

impl Addresses {
    /// Those of a cell in a directory, or of one that is not kept.
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

    /// A socket where a process has always answered, or anywhere if it is new.
    pub(super) fn listen(&mut self, process: &str) -> anyhow::Result<TcpListener> {
        let Some(directory) = &self.directory else {
            return Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?);
        };
        let Some(address) = self.kept.get(process) else { return self.listen_anew(process) };
        match TcpListener::bind(address) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                // By this very cell?
                if let Err(locked @ store::Error::Locked { .. }) =
                    DataDirectory::open(directory.join("master"))
                {
                    return Err(locked.into());
                }
                let (port, file) = (address.port(), directory.join(FILE));
                anyhow::bail!(
                    "{address}, where the {process} of this cell answers, is taken by another program: stop \
                     that (ss -ltnp 'sport = :{port}' shows it), or remove the line of the {process} from {} \
                     for another address, which every user's cell.toml has to name then",
                    file.display()
                )
            }
            bound => bound.with_context(|| format!("cannot listen on {address}")),
        }
    }

    /// The same for a process that nobody knows by its address: it gets another where that is taken.
    pub(super) fn listen_somewhere(&mut self, process: &str) -> anyhow::Result<TcpListener> {
        let kept = self.kept.get(process).and_then(|address| TcpListener::bind(address).ok());
        match kept {
            Some(listener) => Ok(listener),
            None if self.directory.is_none() => self.listen(process),
            None => self.listen_anew(process),
        }
    }

    /// A socket for a master that has no number yet: where one answered that is not here any more, or
    /// anywhere.
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
            None => free().context(NONE_FREE),
        }
    }

    /// Keeps where a process answers.
    pub(super) fn keep_as(&mut self, process: String, address: &str) -> anyhow::Result<()> {
        self.kept.insert(process, address.parse()?);
        self.keep()
    }

    fn listen_anew(&mut self, process: &str) -> anyhow::Result<TcpListener> {
        let listener = free().context(NONE_FREE)?;
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

/// Where the masters of a cell answered that an earlier release has kept: as its own user's client
/// directory says, in the order of their numbers.
fn of_before(directory: &Path) -> BTreeMap<String, SocketAddr> {
    let text = std::fs::read_to_string(directory.join("client").join(CELL_FILE));
    let file: Option<CellFile> = text.ok().and_then(|text| toml::from_str(&text).ok());
    let masters = file.map(|file| file.masters).unwrap_or_default();
    let named = (1..).map(|id| super::replicas::process_name(model::ReplicaId(id)));
    let all = named.zip(masters).map(|(name, address)| Some((name, address.parse().ok()?)));
    all.collect::<Option<_>>().unwrap_or_default()
}

/// A socket on a port that is free, and on another one than other cells that are made now.
fn free() -> Option<TcpListener> {
    let ports = u64::from(PORTS.end - PORTS.start);
    let first = RandomState::new().hash_one(std::process::id()) % ports;
    let port = |offset: u16| {
        let place = (first + u64::from(offset)) % ports;
        PORTS.start + u16::try_from(place).unwrap_or_default()
    };
    (0..TRIES).find_map(|offset| TcpListener::bind((Ipv4Addr::LOCALHOST, port(offset))).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(listener: &TcpListener) -> u16 {
        listener.local_addr().expect("an address").port()
    }

    #[test]
    fn a_process_answers_where_it_did_and_another_one_gets_its_place_nowhere() {
        let place = tempfile::tempdir().expect("a directory");
        let addresses = || Addresses::of(Some(place.path())).expect("they can be read");
        let first = addresses().listen("master").expect("a port");
        let (kept, borglet) = (port(&first), addresses().listen_somewhere("borglet"));
        let borglet = borglet.expect("a port");
        assert!(PORTS.contains(&kept) && kept != port(&borglet));

        let refused = addresses().listen("master").expect_err("it is taken").to_string();
        assert!(refused.contains(&format!(
            "127.0.0.1:{kept}, where the master of this cell answers, is taken"
        )));
        let other = addresses().listen_somewhere("borglet").expect("another port");
        assert_ne!(port(&other), port(&borglet));
        let moved = port(&other);
        drop((first, borglet, other));
        assert_eq!(port(&addresses().listen("master").expect("its port")), kept);
        assert_eq!(port(&addresses().listen_somewhere("borglet").expect("its port")), moved);

        // As the refusal says.
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
