//! Goes through an archive that has no layer, but the files of an image.

use std::io::Read;

use super::LayerError;
use super::read::{Skip, TarReader, clean, has_contents};
use crate::tree::EntryPath;

/// A member of an archive of images.
pub(crate) struct Visited {
    pub(crate) path: EntryPath,
    /// The target if it is a link, relative to the directory of the path or to the root.
    pub(crate) link: Option<Link>,
    /// Where its contents are in the archive.
    pub(crate) offset: u64,
    /// Their length.
    pub(crate) bytes: u64,
}

/// Where a link leads.
pub(crate) enum Link {
    /// From the directory of the link.
    Symbolic(Vec<u8>),
    /// From the root of the archive.
    Hard(Vec<u8>),
}

/// Visits the files and links of an archive with their contents, of which `visit` reads as much as
/// it wants.
pub(crate) fn scan<S: Skip + Send, E: From<LayerError>>(
    archive: S,
    visit: &mut dyn FnMut(Visited, &mut (dyn Read + Send)) -> Result<(), E>,
) -> Result<(), E> {
    let mut reader = TarReader::new(archive);
    while let Some(raw) = reader.next()? {
        let kind = raw.header.kind();
        let bytes = if has_contents(kind) { raw.size } else { 0 };
        let link = match kind {
            b'0' | b'7' | 0 => None,
            b'1' => Some(Link::Hard(raw.link)),
            b'2' => Some(Link::Symbolic(raw.link)),
            _ => {
                reader.skip(bytes)?;
                continue;
            }
        };
        let Some(path) = clean(&raw.name).map_err(LayerError::from)? else {
            reader.skip(bytes)?;
            continue;
        };
        let found = Visited { path, link, offset: reader.offset, bytes };
        let mut contents = reader.archive.by_ref().take(bytes);
        visit(found, &mut contents)?;
        let left = contents.limit();
        reader.offset += bytes - left;
        reader.skip_exactly(left)?;
        reader.skip_padding(bytes)?;
    }
    Ok(())
}
