//! The machines of a dev cell: how many there are, what each of them has of this host, and the flags
//! of its Borglet.
//!
//! The first machine has the name of the host and the directory `borglet`; the others have a number
//! after both. A machine that is alone has the whole host; several share it evenly.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use anyhow::Context;
use borgletd::{Uids, can_run_task_networks};
use model::{Bytes, MachineName, MilliCores, Resources, Subnet, UserName};

use super::ports::{self, Reserved};

/// The maximum number of machines.
const MACHINES_MAX: u8 = 16;
/// The least that a machine has: enough for a task of the examples.
const CPU_MIN: MilliCores = MilliCores(100);
const RAM_MIN: Bytes = Bytes(128 << 20);
/// The directory and the process of the first machine.
const BORGLET: &str = "borglet";
/// The characters of the host's name that a numbered machine keeps, to leave room for the number.
const HOST_CHARACTERS: usize = 60;

/// A machine of the cell. Its ports are reserved until this value, its Borglet and its tasks are gone.
pub(super) struct DevMachine {
    pub(super) name: MachineName,
    /// The name of its Borglet's process, directory and address.
    pub(super) borglet: String,
    /// What it has of the host; `None` if it is alone.
    pub(super) share: Option<HostShare>,
    ports: Reserved,
    /// The addresses for tasks with a network of their own, if this host can have such tasks.
    task_network: Option<Subnet>,
}

/// A machine's part of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostShare {
    pub(super) resources: Resources,
    uids: Uids,
}

/// Parses the number of machines.
pub(super) fn machines(text: &str) -> Result<u8, String> {
    let number = text.parse::<u8>().ok().filter(|number| (1..=MACHINES_MAX).contains(number));
    number.ok_or_else(|| {
        format!("'{}' is not a number of machines from 1 to {MACHINES_MAX}", text.escape_debug())
    })
}

/// Plans the machines of a cell and reserves their ports: those that it has, and new ones up to the
/// requested number. Creates nothing in the directory.
pub(super) fn plan(
    directory: Option<&Path>,
    requested: Option<u8>,
) -> anyhow::Result<Vec<DevMachine>> {
    let there = directory.map(there).transpose()?.unwrap_or_default();
    let host = host_name();
    let numbers = numbers(&there, requested).map_err(|surplus| {
        let (shown, count) = (directory.unwrap_or(Path::new("")).display(), there.len() + 1);
        let (name, borglet) = (name(&host, surplus), borglet(surplus));
        anyhow::anyhow!(
            "{shown} has a cell of {count} machines: start it with --machines {count} or more, or \
             without this flag. To have fewer: bourg machine drain {name}, bourg machine remove \
             {name}, stop the cell, and remove {shown}/{borglet}"
        )
    })?;
    let shares = match numbers.len() {
        1 => vec![None],
        several => {
            let data = directory.map_or_else(std::env::temp_dir, Path::to_owned);
            let exists = data.ancestors().find(|place| place.is_dir());
            let host = borgletd::of_host(exists.unwrap_or(Path::new("/")))?;
            let shares = shares(&host, Uids::default(), several).map_err(anyhow::Error::msg)?;
            shares.into_iter().map(Some).collect()
        }
    };
    let mut planned = Vec::new();
    for (number, share) in numbers.into_iter().zip(shares) {
        let (name, borglet) = (name(&host, number), borglet(number));
        let ports = ports::reserve()?;
        let task_network = ports.task_network().filter(|range| can_run_task_networks(*range));
        planned.push(DevMachine { name, borglet, share, ports, task_network });
    }
    Ok(planned)
}

impl DevMachine {
    /// Its Borglet's data directory in that of the cell.
    pub(super) fn directory(&self, cell: &Path) -> PathBuf {
        cell.join(&self.borglet)
    }

    /// The lock that reserves its ports.
    pub(super) fn ports_lock(&self) -> anyhow::Result<OwnedFd> {
        self.ports.lock()
    }

    /// The flags of its Borglet.
    pub(super) fn flags(&self, cell: &Path, masters: &[String]) -> Vec<String> {
        let directory = self.directory(cell).to_string_lossy().into_owned();
        let mut flags = vec![("dir", directory), ("ports", self.ports.range.to_string())];
        flags.extend(self.task_network.map(|range| ("task-network", range.to_string())));
        if let Some(HostShare { resources: Resources { cpu, ram, disk, disk_rate }, uids }) =
            &self.share
        {
            flags.extend([
                ("cpu", format!("{}m", cpu.0)),
                ("ram", ram.0.to_string()),
                ("disk", disk.0.to_string()),
                ("disk-rate", disk_rate.0.to_string()),
                ("uids", uids.to_string()),
            ]);
        }
        flags.extend(masters.iter().map(|master| ("master", master.clone())));
        let flags = flags.into_iter().flat_map(|(flag, value)| [format!("--{flag}"), value]);
        flags.chain(["--stop-tasks".to_owned()]).collect()
    }
}

/// The numbers of the machines after the first that have a directory with a certificate.
fn there(directory: &Path) -> anyhow::Result<BTreeSet<u8>> {
    let numbered = (2..=MACHINES_MAX).map(|number| {
        let certificate = directory.join(borglet(number)).join("borglet.pem");
        let is_there = certificate.try_exists();
        let is_there =
            is_there.with_context(|| format!("cannot look for {}", certificate.display()))?;
        Ok(is_there.then_some(number))
    });
    numbered.filter_map(Result::transpose).collect()
}

/// The numbers of all machines, from those that exist after the first; the last existing one if
/// fewer are requested.
fn numbers(there: &BTreeSet<u8>, requested: Option<u8>) -> Result<BTreeSet<u8>, u8> {
    let mut numbers = there.clone();
    numbers.insert(1);
    let requested = requested.map_or(numbers.len(), usize::from);
    if let (Some(last), true) = (there.last(), requested < numbers.len()) {
        return Err(*last);
    }
    for number in 1..=MACHINES_MAX {
        if numbers.len() < requested {
            numbers.insert(number);
        }
    }
    Ok(numbers)
}

/// Divides a host evenly. The sum of all parts is the host.
fn shares(host: &Resources, uids: Uids, parts: usize) -> Result<Vec<HostShare>, String> {
    let Resources { cpu, ram, disk, disk_rate } = host;
    let most = (cpu.0 / CPU_MIN.0).min(ram.0 / RAM_MIN.0).clamp(1, MACHINES_MAX.into());
    let count = parts as u64;
    if count > most {
        return Err(format!(
            "{parts} machines are too many for this host, which has {cpu} and {ram}: each needs \
             {CPU_MIN} and {RAM_MIN}, so use --machines {most} at most"
        ));
    }
    let ids = u64::from(uids.last - uids.first) + 1;
    let id = |part: u64| uids.first + u32::try_from(up_to(ids, part, count)).unwrap_or(u32::MAX);
    let share = |part: u64| {
        let of = |all: u64| up_to(all, part + 1, count) - up_to(all, part, count);
        let resources = Resources {
            cpu: MilliCores(of(cpu.0)),
            ram: Bytes(of(ram.0)),
            disk: Bytes(of(disk.0)),
            disk_rate: Bytes(of(disk_rate.0)),
        };
        HostShare { resources, uids: Uids { first: id(part), last: id(part + 1) - 1 } }
    };
    Ok((0..count).map(share).collect())
}

/// The size of the first `part` of `parts` parts of an amount.
fn up_to(all: u64, part: u64, parts: u64) -> u64 {
    let size = u128::from(all) * u128::from(part) / u128::from(parts);
    u64::try_from(size).unwrap_or(all)
}

fn borglet(number: u8) -> String {
    match number {
        1 => BORGLET.to_owned(),
        number => format!("{BORGLET}-{number}"),
    }
}

/// The name of a machine on this host.
fn name(host: &MachineName, number: u8) -> MachineName {
    if number == 1 {
        return host.clone();
    }
    let kept: String = host.as_str().chars().take(HOST_CHARACTERS).collect();
    let name = format!("{}-{number}", kept.trim_end_matches('-'));
    MachineName::new(name.as_str()).unwrap_or_else(|_| unreachable!("a label and a number"))
}

fn host_name() -> MachineName {
    let host = nix::unistd::gethostname().ok();
    let host = host.as_deref().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
    let short = host.split('.').next().unwrap_or_default();
    let near = UserName::nearest(short);
    let name = if short.is_empty() { "machine" } else { near.as_str() };
    MachineName::new(name).unwrap_or_else(|_| unreachable!("a label is a machine's name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_keeps_its_machines_and_gets_the_lowest_free_numbers() {
        for (there, requested, expected) in [
            (&[][..], None, Ok(&[1][..])),
            (&[], Some(1), Ok(&[1])),
            (&[], Some(3), Ok(&[1, 2, 3])),
            (&[2, 3], None, Ok(&[1, 2, 3])),
            (&[2, 3], Some(3), Ok(&[1, 2, 3])),
            (&[2, 3], Some(5), Ok(&[1, 2, 3, 4, 5])),
            (&[3], None, Ok(&[1, 3])),
            (&[3], Some(3), Ok(&[1, 2, 3])),
            (&[2, 16], Some(4), Ok(&[1, 2, 3, 16])),
            (&[2, 3], Some(2), Err(3)),
            (&[2, 3], Some(1), Err(3)),
        ] {
            let found = numbers(&there.iter().copied().collect(), requested);
            let expected = expected.map(|all| all.iter().copied().collect());
            assert_eq!(found, expected, "{there:?} {requested:?}");
        }
        let all = numbers(&BTreeSet::new(), Some(MACHINES_MAX)).expect("that many");
        assert_eq!(all.len(), usize::from(MACHINES_MAX));
    }

    #[test]
    fn a_host_is_divided_evenly_and_completely() {
        let host = |cpu, ram| Resources {
            cpu: MilliCores(cpu),
            ram: Bytes(ram),
            disk: Bytes(1_000_000_007),
            disk_rate: Bytes(200 << 20),
        };
        let table = [(2_000, 24_105 << 20), (7_001, (16 << 30) + 5), (64_000, u64::MAX)];
        for (cpu, ram) in table {
            let host = host(cpu, ram);
            for parts in 1..=usize::from(MACHINES_MAX) {
                let shares = shares(&host, Uids::default(), parts).expect("it is large enough");
                assert_eq!(shares.len(), parts);
                let amounts: [fn(&Resources) -> u64; 4] =
                    [|all| all.cpu.0, |all| all.ram.0, |all| all.disk.0, |all| all.disk_rate.0];
                for amount in amounts {
                    let parts = shares.iter().map(|share| amount(&share.resources));
                    let (least, most) = (parts.clone().min(), parts.clone().max());
                    assert_eq!(parts.sum::<u64>(), amount(&host));
                    assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1));
                }
                let (first, last) = (Uids::default().first, Uids::default().last);
                assert_eq!((shares[0].uids.first, shares[parts - 1].uids.last), (first, last));
                for pair in shares.windows(2) {
                    assert_eq!(pair[0].uids.last + 1, pair[1].uids.first, "no id is in two ranges");
                }
                assert!(shares.iter().all(|share| share.uids.last - share.uids.first > 600));
            }
        }
        let three = shares(&host(2_000, 3 << 30), Uids::default(), 3).expect("they fit");
        let cpus: Vec<_> = three.iter().map(|share| share.resources.cpu.0).collect();
        assert_eq!(cpus, [666, 667, 667]);
    }

    #[test]
    fn a_host_that_is_too_small_says_how_many_fit() {
        for (cpu, ram, parts, says) in [
            (
                500,
                16 << 30,
                6,
                "0.5 cores and 16 GiB: each needs 0.1 cores and 128 MiB, so use --machines 5",
            ),
            (
                8_000,
                300 << 20,
                3,
                "8 cores and 300 MiB: each needs 0.1 cores and 128 MiB, so use --machines 2",
            ),
            (50, 64 << 20, 2, "--machines 1 at most"),
        ] {
            let host = Resources { cpu: MilliCores(cpu), ram: Bytes(ram), ..Resources::default() };
            let said = shares(&host, Uids::default(), parts).expect_err("it is too small");
            assert!(said.starts_with(&format!("{parts} machines are too many")), "{said}");
            assert!(said.contains(says), "{said}");
        }
    }

    #[test]
    fn a_number_of_machines_is_a_number_from_1_to_16() {
        assert_eq!((machines("1"), machines("16")), (Ok(1), Ok(16)));
        for bad in ["0", "17", "-1", "1.5", "three", "", "256", "99999999999999999999"] {
            let said = machines(bad).expect_err(bad);
            assert_eq!(said, format!("'{bad}' is not a number of machines from 1 to 16"));
        }
    }

    #[test]
    fn names_stay_names_with_a_number() {
        let host = MachineName::new("vm").expect("a name");
        assert_eq!(
            [1, 2, 16].map(|number| name(&host, number).to_string()),
            ["vm", "vm-2", "vm-16"]
        );
        let long = MachineName::new(format!("{}-{}", "x".repeat(59), "yyy").as_str());
        let long = long.expect("a name");
        assert_eq!(name(&long, 16).as_str(), format!("{}-16", "x".repeat(59)));
        assert_eq!([1, 2].map(borglet), ["borglet", "borglet-2"]);
    }

    #[test]
    fn only_directories_with_a_certificate_are_machines() {
        let place = tempfile::tempdir().expect("a directory");
        for name in ["borglet", "borglet-2", "borglet-4", "borglet-x", "borglet-17"] {
            std::fs::create_dir(place.path().join(name)).expect("a directory");
        }
        for name in ["borglet", "borglet-4", "borglet-x", "borglet-17"] {
            std::fs::write(place.path().join(name).join("borglet.pem"), "").expect("a file");
        }
        assert_eq!(there(place.path()).expect("it can be read"), [4].into());
        let said = plan(Some(place.path()), Some(1)).err().expect("there are two").to_string();
        assert!(said.contains("has a cell of 2 machines: start it with --machines 2"), "{said}");
        assert!(said.contains("/borglet-4"), "{said}");
    }
}
