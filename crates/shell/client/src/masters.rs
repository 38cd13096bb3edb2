//! The addresses of a cell's masters: those that a client directory was given, and those that the
//! masters themselves report. The latter are kept beside the former, so that the directory stays
//! usable after all masters that it was given are gone.

use std::path::{Path, PathBuf};

use rpc::transport::check_address;
use serde::{Deserialize, Serialize};

use crate::{CELL_FILE, CellFile};

/// The file with the addresses that the masters reported last, in a client directory.
const LEARNED_FILE: &str = "masters.toml";
/// The maximum number of reported addresses that are kept, for each client directory; further ones
/// are ignored.
const LEARNED_MAX: usize = 32;

/// The content of [`LEARNED_FILE`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Learned {
    /// The addresses that the cell file listed at that time. If it lists others now, someone has
    /// changed it, and what was learned before does not count.
    given: Vec<String>,
    /// The addresses of the masters.
    masters: Vec<String>,
}

/// The addresses of the masters of one cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Masters {
    /// From the cell file: never forgotten.
    given: Vec<String>,
    /// As reported by the masters; empty before they have.
    learned: Vec<String>,
    /// Whether to learn others than the given ones.
    learns: bool,
}

impl Masters {
    /// The addresses in a client directory with this cell file.
    pub(crate) fn read(directory: &Path, file: &CellFile) -> Self {
        let text = std::fs::read_to_string(directory.join(LEARNED_FILE)).ok();
        let learned: Option<Learned> = text.and_then(|text| toml::from_str(&text).ok());
        let learned = learned.filter(|learned| file.learn && learned.given == file.masters);
        let mut learned = learned.unwrap_or_default().masters;
        learned.retain(|address| check_address(address).is_ok());
        Self { given: file.masters.clone(), learned, learns: file.learn }
    }

    /// Whether to ask masters for the addresses of all.
    pub(crate) fn learns(&self) -> bool {
        self.learns
    }

    /// The addresses in the order in which to try them: those that were given and are current come
    /// first, and those that were given and seem to be gone come last.
    pub(crate) fn in_order(&self) -> Vec<String> {
        let gone = self.given.iter().filter(|address| !self.learned.contains(address));
        self.current()
            .into_iter()
            .chain(gone.filter(|_| !self.learned.is_empty()).cloned())
            .collect()
    }

    /// The addresses that another client directory should list.
    pub(crate) fn current(&self) -> Vec<String> {
        if self.learned.is_empty() {
            return self.given.clone();
        }
        let first = self.given.iter().filter(|address| self.learned.contains(address));
        let others = self.learned.iter().filter(|address| !self.given.contains(address));
        first.chain(others).cloned().collect()
    }

    /// Takes over the addresses that the master at `answered` reported. Returns whether they are new.
    ///
    /// An address that answers is kept even if it is not reported, such as that of a tunnel.
    pub(crate) fn learn(&mut self, told: &str, answered: &str) -> bool {
        let told = told.split(',').filter(|address| check_address(address).is_ok());
        let mut told: Vec<String> = told.take(LEARNED_MAX).map(str::to_owned).collect();
        if told.is_empty() || !self.learns {
            return false;
        }
        if !told.iter().any(|address| address == answered) {
            told.insert(0, answered.to_owned());
        }
        let is_new = told != self.learned;
        self.learned = told;
        is_new
    }

    /// Records the reported addresses in the client directory. Several processes may do so at once:
    /// each replaces the whole file.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub(crate) fn write(&self, directory: &Path, unique: u64) -> std::io::Result<()> {
        let learned = Learned { given: self.given.clone(), masters: self.learned.clone() };
        let text = toml::to_string(&learned).map_err(std::io::Error::other)?;
        let new = directory.join(format!("{LEARNED_FILE}.{unique:016x}.tmp"));
        let written = std::fs::write(&new, text)
            .and_then(|()| std::fs::rename(&new, directory.join(LEARNED_FILE)));
        if written.is_err() {
            let _absent = std::fs::remove_file(&new);
        }
        written
    }

    /// The files that list the addresses.
    pub(crate) fn files(&self, directory: &Path) -> Vec<PathBuf> {
        let learned = (!self.learned.is_empty()).then(|| directory.join(LEARNED_FILE));
        std::iter::once(directory.join(CELL_FILE)).chain(learned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        text.split(',').filter(|address| !address.is_empty()).map(str::to_owned).collect()
    }

    fn file(given: &str) -> CellFile {
        CellFile::new("cc".to_owned(), list(given))
    }

    #[test]
    fn given_and_current_masters_come_first_and_given_ones_are_kept() {
        for (given, answered, told, order, current) in [
            ("a:1", "a:1", "a:1,b:1,c:1", "a:1,b:1,c:1", "a:1,b:1,c:1"),
            // The one nearest to the user stays first.
            ("b:1", "b:1", "a:1,b:1,c:1", "b:1,a:1,c:1", "b:1,a:1,c:1"),
            // One that was given is removed, or has not started yet.
            ("a:1", "b:1", "b:1,c:1", "b:1,c:1,a:1", "b:1,c:1"),
            ("a:1,b:1,c:1", "a:1", "a:1", "a:1,b:1,c:1", "a:1"),
            // One that answers is kept although no master reports it.
            ("tunnel:1", "tunnel:1", "a:1,b:1", "tunnel:1,a:1,b:1", "tunnel:1,a:1,b:1"),
            // What is no address is ignored.
            ("a:1", "a:1", "", "a:1", "a:1"),
            ("a:1", "a:1", "no port,a:1,user@b:1", "a:1", "a:1"),
        ] {
            let directory = tempfile::tempdir().expect("a directory");
            let mut masters = Masters::read(directory.path(), &file(given));
            assert_eq!(masters.in_order(), list(given));
            masters.learn(told, answered);
            assert_eq!(masters.in_order(), list(order), "{given} {told}");
            assert_eq!(masters.current(), list(current), "{given} {told}");
            assert!(!masters.learn(told, answered), "it is known");
        }
    }

    #[test]
    fn learned_masters_count_until_the_cell_file_changes_or_forbids_them() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut masters = Masters::read(directory.path(), &file("a:1"));
        assert!(masters.learn("a:1,b:1", "a:1"));
        masters.write(directory.path(), 7).expect("there is room");
        assert_eq!(Masters::read(directory.path(), &file("a:1")), masters);
        assert_eq!(Masters::read(directory.path(), &file("c:1")).in_order(), ["c:1"]);
        let mut alone = Masters::read(directory.path(), &CellFile { learn: false, ..file("a:1") });
        assert_eq!(alone.in_order(), ["a:1"]);
        assert!(!alone.learn("a:1,b:1", "a:1"));
        assert_eq!(alone.in_order(), ["a:1"]);
        for damaged in ["", "no toml", "given = ['a:1']", "given = ['a:1']\nmasters = ['no port']"]
        {
            std::fs::write(directory.path().join(LEARNED_FILE), damaged).expect("there is room");
            let read = Masters::read(directory.path(), &file("a:1"));
            assert_eq!(read.in_order(), ["a:1"], "{damaged}");
        }
    }

    #[test]
    fn many_addresses_are_cut() {
        let told: Vec<String> = (1..=100).map(|port| format!("a:{port}")).collect();
        let directory = tempfile::tempdir().expect("a directory");
        let mut masters = Masters::read(directory.path(), &file("a:1"));
        assert!(masters.learn(&told.join(","), "a:1"));
        assert_eq!(masters.in_order().len(), LEARNED_MAX);
    }

    #[test]
    fn a_directory_that_several_write_is_whole_at_any_time() {
        let directory = tempfile::tempdir().expect("a directory");
        let (place, given) = (directory.path(), file("a:1"));
        std::thread::scope(|scope| {
            for writer in 0..4_u64 {
                let mut masters = Masters::read(place, &given);
                scope.spawn(move || {
                    for round in 0..50 {
                        masters.learn(&format!("a:1,b{writer}:{}", round + 1), "a:1");
                        masters.write(place, writer << 32 | round).expect("there is room");
                        let text = std::fs::read_to_string(place.join(LEARNED_FILE));
                        let text = text.expect("it is there");
                        let read: Learned = toml::from_str(&text).expect("it is whole");
                        assert_eq!(read.masters.len(), 2);
                    }
                });
            }
        });
        assert_eq!(
            std::fs::read_dir(place).expect("a directory").count(),
            1,
            "nothing is left over"
        );
    }
}
