//! The contents of a cell's checkpoint file. The file format with its checksums belongs to the
//! crate `store`, the image's encoding to `formats`.
//!
//! | kind | what |
//! |---|---|
//! | 1 | a piece of the cell's image; the pieces in their order are the whole |
//! | 2 | the origin, a `CheckpointOrigin`; absent where the cell was never restored by hand |

#[cfg(test)]
mod kept;

use std::path::Path;

use anyhow::{Context, bail, ensure};
use cell::{Cell, Image};
use formats::v1;
use model::{LogIndex, RestoreEpoch, Term, Time};
use prost::Message as _;
use store::DataDirectory;
use store::checkpoint::{CheckpointReader, CheckpointWriter};
use store::log::{Log, RecordKind, RecordRef};

/// The kind of a section with a chunk of the image.
const IMAGE_SECTION: u32 = 1;
/// The kind of the section with the origin.
const ORIGIN_SECTION: u32 = 2;
/// The size of a chunk of an image.
const PIECE_BYTES: usize = 1 << 20;

/// What a checkpoint records besides the cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The term of the last operation.
    pub term: Term,
    /// Which restoration the cell continues from.
    pub restore_epoch: RestoreEpoch,
}

/// A checkpoint being written, chunk by chunk. Dropped before it is finished, it leaves nothing
/// behind.
#[derive(Debug)]
pub struct Writing(CheckpointWriter);

impl Writing {
    /// Starts a checkpoint in a directory, with the name under which a master finds it there.
    fn begin_in(directory: &Path, at: (LogIndex, Time), origin: Origin) -> store::Result<Self> {
        let (index, time) = at;
        let writer = CheckpointWriter::create_at(directory, index.0, origin.term.0, time.0)?;
        Self(writer).with(origin)
    }

    /// Starts a checkpoint in a file, which it replaces when it is finished.
    pub fn begin_as(file: &Path, at: (LogIndex, Time), origin: Origin) -> store::Result<Self> {
        let (index, time) = at;
        let writer = CheckpointWriter::create_as(file, index.0, origin.term.0, time.0)?;
        Self(writer).with(origin)
    }

    fn with(mut self, origin: Origin) -> store::Result<Self> {
        let RestoreEpoch { counter, random } = origin.restore_epoch;
        if origin.restore_epoch != RestoreEpoch::NEVER {
            let section = v1::CheckpointOrigin { restore_epoch: counter, restore_random: random };
            self.0.section(ORIGIN_SECTION, &section.encode_to_vec())?;
        }
        Ok(self)
    }

    /// Appends the next chunk of the image.
    pub fn piece(&mut self, bytes: &[u8]) -> store::Result<()> {
        self.0.section(IMAGE_SECTION, bytes)
    }

    /// Appends a whole image and finishes the checkpoint.
    fn image(mut self, image: &Image) -> store::Result<()> {
        pieces(image, |piece| self.piece(piece))?;
        self.finish()
    }

    /// Makes the checkpoint durable and renames it into place.
    pub fn finish(self) -> store::Result<()> {
        self.0.finish().map(|_| ())
    }
}

/// Writes the checkpoint of an image into a directory, where a master finds it.
pub fn write_in(directory: &Path, image: &Image, origin: Origin) -> anyhow::Result<()> {
    let at = (image.index, image.time);
    Ok(Writing::begin_in(directory, at, origin)?.image(image)?)
}

/// Writes the checkpoint of an image to a file, replacing it.
pub fn write_as(file: &Path, image: &Image, origin: Origin) -> anyhow::Result<()> {
    let at = (image.index, image.time);
    Ok(Writing::begin_as(file, at, origin)?.image(image)?)
}

/// Writes what a master needs to continue from an image: the image as a checkpoint, and a log that
/// starts after it, so that nobody mistakes the log for a complete one.
pub fn begin_anew(
    data: &DataDirectory,
    log: &mut Log,
    image: &Image,
    origin: Origin,
) -> anyhow::Result<()> {
    write_in(&data.checkpoints(), image, origin)?;
    let (kind, term, index) = (RecordKind::Restart, origin.term.0, image.index.0);
    log.append(&[RecordRef { kind, term, index, level: 0, payload: &[] }])?;
    Ok(log.sync()?)
}

/// Encodes an image in chunks of a bounded size. Stops at the first error of `out`.
pub fn pieces<E>(image: &Image, mut out: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    let mut done = Ok(());
    let mut piece = Vec::with_capacity(PIECE_BYTES);
    formats::image::write_image(image, &mut |mut part| {
        while done.is_ok() && !part.is_empty() {
            let (fits, rest) = part.split_at(part.len().min(PIECE_BYTES - piece.len()));
            piece.extend_from_slice(fits);
            part = rest;
            if piece.len() == PIECE_BYTES {
                done = out(&piece);
                piece.clear();
            }
        }
    });
    done?;
    if piece.is_empty() { Ok(()) } else { out(&piece) }
}

/// Reads the image in a checkpoint and verifies all checksums. Relations between the image's
/// objects are checked by [`Cell::from_image`].
///
/// # Errors
/// When the file is not a complete checkpoint that this program understands.
pub fn read_image(file: &Path) -> anyhow::Result<(Image, Origin)> {
    let found =
        std::fs::metadata(file).with_context(|| format!("cannot read {}", file.display()))?;
    ensure!(found.is_file(), "{} is not a file", file.display());
    let mut reader = CheckpointReader::open(file)?;
    let (mut bytes, mut restore_epoch) = (Vec::new(), RestoreEpoch::NEVER);
    reader.for_each(|kind, section| {
        match kind {
            IMAGE_SECTION => bytes.extend_from_slice(section),
            ORIGIN_SECTION => {
                let said = v1::CheckpointOrigin::decode(section)?;
                let (counter, random) = (said.restore_epoch, said.restore_random);
                restore_epoch = RestoreEpoch { counter, random };
            }
            other => bail!(
                "{} has a section of kind {other}, which this program does not know: use a newer \
                 bourg",
                file.display()
            ),
        }
        Ok(())
    })?;
    let image = formats::image::read_image(&bytes);
    let image = image.with_context(|| format!("the cell in {} cannot be read", file.display()))?;
    let stated = (reader.index(), reader.time_us().unwrap_or(image.time.0));
    ensure!(
        stated == (image.index.0, image.time.0),
        "{} states index {} and time {} but contains a cell of index {} and time {}: it is \
         inconsistent, so use another checkpoint",
        file.display(),
        stated.0,
        stated.1,
        image.index,
        image.time.0
    );
    Ok((image, Origin { term: Term(reader.term()), restore_epoch }))
}

/// Reads the cell in a checkpoint. Its consistency is not checked: use [`Cell::check`].
///
/// # Errors
/// When the file is not a complete checkpoint of a cell that this program understands.
pub fn read(file: &Path) -> anyhow::Result<(Cell, Origin)> {
    let (image, origin) = read_image(file)?;
    let cell = Cell::from_image(image);
    Ok((cell.with_context(|| format!("{} contains no valid cell", file.display()))?, origin))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::fs;

    use super::*;

    fn image() -> Image {
        kept::every_kind_of_thing(cell::LEVEL).image()
    }

    #[test]
    fn a_written_checkpoint_is_read_back_with_its_epoch() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let file = place.path().join("cell");
        for restore_epoch in [RestoreEpoch::NEVER, RestoreEpoch { counter: 3, random: 9 }] {
            let origin = Origin { term: Term(7), restore_epoch };
            write_as(&file, &image(), origin).expect("there is room");
            let (cell, found) = read(&file).expect("a checkpoint");
            assert_eq!(found, origin);
            assert!(cell.image() == image());
        }
        let names = fs::read_dir(place.path()).expect("a directory");
        assert_eq!(names.count(), 1, "nothing unfinished is left");
    }

    #[test]
    fn pieces_are_bounded_and_together_the_image() {
        let image = image();
        let mut whole = Vec::new();
        formats::image::write_image(&image, &mut |part| whole.extend_from_slice(part));
        let mut together = Vec::new();
        let Ok(()) = pieces(&image, |piece| {
            assert!(piece.len() <= PIECE_BYTES);
            together.extend_from_slice(piece);
            Ok::<(), Infallible>(())
        });
        assert!(together == whole);
        let mut taken = 0;
        let refused = pieces(&image, |_| {
            taken += 1;
            Err("no room")
        });
        assert_eq!((refused, taken), (Err("no room"), 1));
    }

    #[test]
    fn a_checkpoint_with_unknown_content_is_refused() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let file = place.path().join("cell");
        let write = |index, kind| {
            let mut writer = CheckpointWriter::create_as(&file, index, 1, 0).expect("room");
            let mut bytes = Vec::new();
            formats::image::write_image(&image(), &mut |part| bytes.extend_from_slice(part));
            writer.section(IMAGE_SECTION, &bytes).expect("room");
            writer.section(kind, &[]).expect("room");
            writer.finish().expect("room");
            read(&file).map(|_| ()).map_err(|error| format!("{error:#}"))
        };
        let index = image().index.0;
        assert_eq!(write(index, IMAGE_SECTION), Ok(()));
        let said = write(index, 3).expect_err("an unknown section");
        assert!(said.contains("section of kind 3") && said.contains("newer bourg"), "{said}");
        let said = write(index + 1, IMAGE_SECTION).expect_err("another index");
        assert!(said.contains("inconsistent"), "{said}");
        let said = read(place.path()).expect_err("a directory").to_string();
        assert!(said.ends_with("is not a file"), "{said}");
    }
}
