//! Checkpoint files: any bytes are refused or read, one that was written is read as it was, and one
//! that was damaged never gives anything else.

use std::fs;
use std::path::Path;

use crate::{Fault, Scratch, arbitrary_from, assert_harmless};
use arbitrary::Arbitrary;
use store::checkpoint::{self, CheckpointReader, CheckpointWriter};

/// What is read.
#[derive(Arbitrary, Debug)]
enum Script<'a> {
    /// A file of these bytes.
    Raw(&'a [u8]),
    /// A checkpoint, and what happened to its file.
    Written {
        index: u64,
        term: u64,
        sections: Vec<(u32, &'a [u8])>,
        faults: [Option<Fault>; 3],
        extra: &'a [u8],
    },
}

/// The sections of a checkpoint: kind and payload.
type Sections = Vec<(u32, Vec<u8>)>;

pub(crate) fn run(bytes: &[u8]) {
    if let Some(script) = arbitrary_from(bytes) {
        check(script);
    }
}

fn check(script: Script<'_>) {
    let scratch = Scratch::new();
    let (index, term, sections, faults, extra) = match script {
        Script::Raw(bytes) => {
            scratch.write("raw", bytes);
            let _ = read(&scratch.path().join("raw"));
            return;
        }
        Script::Written { index, term, sections, faults, extra } => {
            (index, term, sections, faults, extra)
        }
    };
    let mut writer = CheckpointWriter::create(scratch.path(), index, term).expect("there is room");
    for (kind, payload) in &sections {
        writer.section(*kind, payload).expect("it is small");
    }
    let path = writer.finish().expect("there is room").path;
    let whole = fs::read(&path).expect("it was written");
    let mut bytes = whole.clone();
    bytes.extend_from_slice(extra);
    faults.into_iter().flatten().for_each(|fault| fault.damage(&mut bytes, 0));
    fs::write(&path, &bytes).expect("it can be written");

    match read(&path) {
        Some((found, found_index, found_term)) => {
            let wrote = sections.iter().map(|(kind, payload)| (*kind, payload.to_vec()));
            assert_eq!(found, wrote.collect::<Sections>());
            assert_eq!((found_index, found_term), (index, term));
        }
        None => assert_ne!(bytes, whole, "a whole checkpoint is refused"),
    }
}

/// What is in a checkpoint; nothing where it is refused. Its import must agree.
fn read(path: &Path) -> Option<(Sections, u64, u64)> {
    let read = CheckpointReader::open(path).and_then(|mut reader| {
        let mut sections = Sections::new();
        reader.for_each(|kind, payload| -> store::Result<()> {
            sections.push((kind, payload.to_vec()));
            Ok(())
        })?;
        assert_eq!(sections.len() as u64, reader.sections());
        Ok((sections, reader.index(), reader.term()))
    });
    let elsewhere = Scratch::new();
    let bytes = fs::read(path).expect("it is there");
    let imported = checkpoint::import(elsewhere.path(), &mut &bytes[..]);
    assert_eq!(imported.is_ok(), read.is_ok(), "{imported:?}");
    assert_eq!(
        checkpoint::list(elsewhere.path()).expect("it is there").len(),
        imported.iter().len()
    );
    read.map_err(|error| assert_harmless(&error.to_string())).ok()
}
