//! A checkpoint file all the way to its cell, as `bourg checkpoint verify` reads one: its sections,
//! the image in them, the cell, its check. Any bytes are refused with a text that harms no terminal,
//! or give a cell; and one that contradicts itself nowhere is saved and read again with the same
//! state.

use std::path::Path;

use crate::{Scratch, arbitrary_from, assert_harmless};
use arbitrary::Arbitrary;
use cell::Cell;
use formats::image::{read_image, state_hash, write_image};
use prost::Message as _;
use store::checkpoint::{CheckpointReader, CheckpointWriter};

/// The kind of a section with a piece of the image, and of that with the origin.
const IMAGE: u32 = 1;
const ORIGIN: u32 = 2;

/// What is read.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Script<'a> {
    /// A file of these bytes.
    File(&'a [u8]),
    /// A file that is whole, with an origin and an image of these bytes, in pieces of that size.
    Whole { origin: &'a [u8], piece: u8, image: &'a [u8] },
}

pub(crate) fn run(bytes: &[u8]) {
    if let Some(script) = arbitrary_from(bytes) {
        check(script);
    }
}

fn check(script: Script<'_>) {
    let scratch = Scratch::new();
    let file = scratch.path().join("cell");
    match script {
        Script::File(bytes) => scratch.write("cell", bytes),
        Script::Whole { origin, piece, image } => {
            write(&file, 1, origin, image.chunks(usize::from(piece).max(1)));
        }
    }
    let cell = match read(&file) {
        Ok(cell) => cell,
        Err(why) => return assert_harmless(&why),
    };
    let violations = cell.check();
    violations.iter().for_each(|violation| assert_harmless(&violation.to_string()));
    if !violations.is_empty() {
        return;
    }
    let mut pieces = Vec::new();
    write_image(&cell.image(), &mut |piece| pieces.push(piece.to_vec()));
    write(&file, cell.index().0, &[], pieces.iter().map(Vec::as_slice));
    let again = read(&file).expect("what was saved is read");
    assert_eq!(state_hash(&again), state_hash(&cell));
    assert_eq!(again.check(), []);
}

fn write<'a>(file: &Path, index: u64, origin: &[u8], pieces: impl Iterator<Item = &'a [u8]>) {
    let writer = CheckpointWriter::create_as(file, index, 1, 0);
    let mut writer = writer.expect("there is room");
    writer.section(ORIGIN, origin).expect("it is small");
    for piece in pieces {
        writer.section(IMAGE, piece).expect("it is small");
    }
    writer.finish().expect("there is room");
}

fn read(file: &Path) -> Result<Cell, String> {
    let (mut image, mut origin) = (Vec::new(), Vec::new());
    let mut reader = CheckpointReader::open(file).map_err(|error| error.to_string())?;
    let read = reader.for_each(|kind, section| -> store::Result<()> {
        match kind {
            ORIGIN => origin.extend_from_slice(section),
            _ => image.extend_from_slice(section),
        }
        Ok(())
    });
    read.map_err(|error| error.to_string())?;
    let origin = formats::v1::CheckpointOrigin::decode(origin.as_slice());
    origin.map_err(|error| error.to_string())?;
    let image = read_image(&image).map_err(|error| error.to_string())?;
    Cell::from_image(image).map_err(|error| error.to_string())
}
