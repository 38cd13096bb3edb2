//! Reads and writes one record atomically.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{RecordError, VERSION};
use crate::FileError;
use crate::error::At;

/// The disk space reserved for a record: more than the records need that it is used for.
const RESERVED_BYTES: u16 = 4096;

/// Whether a record must survive a power loss once it is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Durable {
    Yes,
    /// The record means nothing after a reboot anyway.
    No,
}

#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    version: u32,
    #[serde(flatten)]
    record: T,
}

#[derive(Deserialize)]
struct VersionOnly {
    version: u32,
}

pub(super) fn read<T: DeserializeOwned>(
    path: &Path,
    max_bytes: u64,
) -> Result<Option<T>, RecordError> {
    let file = match File::open(path).at("open", path) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut content = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut content).at("read", path)?;
    if content.len() as u64 > max_bytes {
        return Err(RecordError::TooLarge { path: path.to_owned(), max_bytes });
    }
    let damaged = |why| RecordError::Damaged { path: path.to_owned(), why };
    let VersionOnly { version } = serde_json::from_slice(&content).map_err(damaged)?;
    if version > VERSION {
        return Err(RecordError::TooNew { path: path.to_owned(), version });
    }
    let versioned: Versioned<T> = serde_json::from_slice(&content).map_err(damaged)?;
    Ok(Some(versioned.record))
}

/// Reserves disk space for a record that is written later and must not fail on a full disk.
pub(super) fn reserve(dir: &Path, name: &str) -> Result<(), FileError> {
    crate::disk::reserve(&temporary(dir, name), RESERVED_BYTES).map(drop)
}

/// The file that is renamed to the final name when it is complete.
fn temporary(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!(".{name}.new"))
}

/// The environment may contain secrets, so only root may read the file.
fn open(temporary: &Path) -> Result<File, FileError> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false).mode(0o600);
    options.open(temporary).at("create", temporary)
}

pub(super) fn write<T: Serialize>(
    dir: &Path,
    name: &str,
    record: &T,
    durable: Durable,
) -> Result<(), RecordError> {
    let path = dir.join(name);
    let temporary = temporary(dir, name);
    let damaged = |why| RecordError::Damaged { path: path.clone(), why };
    let mut content =
        serde_json::to_vec_pretty(&Versioned { version: VERSION, record }).map_err(damaged)?;
    content.push(b'\n');
    let mut file = open(&temporary)?;
    file.write_all(&content).at("write", &temporary)?;
    // Not earlier: its blocks were reserved for this.
    file.set_len(content.len() as u64).at("write", &temporary)?;
    fs::rename(&temporary, &path).at("rename to", &path)?;
    if durable == Durable::Yes {
        // After the rename, so that a journal needs one commit for both. Nothing was there before that
        // an incomplete file could replace.
        file.sync_all().at("sync", &path)?;
        File::open(dir).and_then(|dir| dir.sync_all()).at("sync", dir)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Exit, ExitReason, Running};
    use super::*;

    fn running() -> Running {
        Running {
            init_pid: 12,
            init_start_ticks: 34,
            boot_id: "b".to_owned(),
            started_at_unix_us: 56,
        }
    }

    #[test]
    fn an_operator_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let exit = Exit {
            reason: ExitReason::OutOfMemory { limit_bytes: 1024, peak_bytes: 1000 },
            ended_at_unix_us: 1,
            cpu_ns: Some(2),
            memory_peak_bytes: Some(1000),
        };
        exit.write(dir.path()).unwrap();
        expect_test::expect![[r#"
            {
              "version": 1,
              "reason": {
                "kind": "out_of_memory",
                "limit_bytes": 1024,
                "peak_bytes": 1000
              },
              "ended_at_unix_us": 1,
              "cpu_ns": 2,
              "memory_peak_bytes": 1000
            }
        "#]]
        .assert_eq(&fs::read_to_string(dir.path().join("exit.json")).unwrap());
        assert_eq!(Exit::read(dir.path()).unwrap(), Some(exit));
        assert_eq!(Running::read(dir.path()).unwrap(), None);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn an_unknown_or_damaged_record_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("running.json");
        let read_of = |content: &str| {
            fs::write(&path, content).unwrap();
            Running::read(dir.path()).unwrap_err().to_string()
        };
        assert!(read_of("").contains("is damaged"));
        assert!(read_of("{\"version\":1}").contains("missing field"));
        assert!(read_of("{\"version\":2}").contains("has version 2"));
        assert!(read_of(&"x".repeat(70_000)).contains("is larger than 65536 bytes"));
    }

    #[test]
    fn damage_is_reported_without_control_characters() {
        let dir = tempfile::tempdir().unwrap();
        for (content, told) in [
            // Found by fuzzing: the DEL character, which JSON may contain unescaped.
            (
                "{\"version\":1,\"reason\":{\"kind\":\"\x7f\"},\"ended_at_unix_us\":1}",
                "unknown variant `\\u{7f}`, expected one of `exited`",
            ),
            ("{\"version\":\"\\u001b[2J\"}", "invalid type: string \"\\u{1b}[2J\", expected u32"),
            (
                "{\"version\":\"\u{9b}2J\\n\"}",
                "invalid type: string \"\\u{9b}2J\\n\", expected u32",
            ),
        ] {
            fs::write(dir.path().join("exit.json"), content).unwrap();
            let error = with_sources(&Exit::read(dir.path()).unwrap_err());
            assert!(error.contains(told), "{error:?}");
            assert!(!error.contains(char::is_control), "{error:?}");
        }
    }

    /// An error's text with those of its sources, as it is logged.
    fn with_sources(error: &dyn std::error::Error) -> String {
        let sources = std::iter::successors(error.source(), |error| error.source());
        let texts = sources.map(|source| format!(": {source}"));
        format!("{error}{}", texts.collect::<String>())
    }

    proptest::proptest! {
        #[test]
        fn garbage_in_a_record_never_panics(
            cut in 0usize..200, at in 0usize..200, byte: u8, garbage: Vec<u8>,
        ) {
            let dir = tempfile::tempdir().unwrap();
            running().write(dir.path()).unwrap();
            let path = dir.path().join("running.json");
            let mut content = fs::read(&path).unwrap();
            if let Some(place) = content.get_mut(at) { *place = byte; }
            content.truncate(content.len() - cut.min(content.len()));
            content.extend(garbage);
            fs::write(&path, content).unwrap();
            let _either = Running::read(dir.path());
        }
    }
}
