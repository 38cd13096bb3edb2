//! Goes through an archive that has no layer, but the files of an image.

use std::io::Read;

use super::read::{Skip, TarReader, clean, has_contents};
use crate::archive::error::ArchiveError;
use crate::archive::path::EntryPath;

/// A member of an archive of images.
pub(in crate::archive) struct ArchivedFile {
    pub(in crate::archive) path: EntryPath,
    /// The target if it is a link, relative to the directory of the path or to the root.
    pub(in crate::archive) link: Option<ArchivedLink>,
    /// Where its content are in the archive.
    pub(in crate::archive) offset: u64,
    /// Their length.
    pub(in crate::archive) bytes: u64,
}

/// Where a link leads.
pub(in crate::archive) enum ArchivedLink {
    /// From the directory of the link.
    Symbolic(Vec<u8>),
    /// From the root of the archive.
    Hard(Vec<u8>),
}

/// Visits the files and links of an archive with their content, of which `visit` reads as much as
/// it wants.
pub(in crate::archive) fn scan<S: Skip + Send, E: From<ArchiveError>>(
    archive: S,
    visit: &mut dyn FnMut(ArchivedFile, &mut (dyn Read + Send)) -> Result<(), E>,
) -> Result<(), E> {
    let mut reader = TarReader::new(archive);
    while let Some(raw) = reader.next()? {
        let kind = raw.header.kind();
        let bytes = if has_contents(kind) { raw.size } else { 0 };
        let link = match kind {
            b'0' | b'7' | 0 => None,
            b'1' => Some(ArchivedLink::Hard(raw.link)),
            b'2' => Some(ArchivedLink::Symbolic(raw.link)),
            _ => {
                reader.skip(bytes)?;
                continue;
            }
        };
        let Some(path) = clean(&raw.name).map_err(ArchiveError::from)? else {
            reader.skip(bytes)?;
            continue;
        };
        let found = ArchivedFile { path, link, offset: reader.offset, bytes };
        let mut content = reader.archive.by_ref().take(bytes);
        visit(found, &mut content)?;
        let left = content.limit();
        reader.offset += bytes - left;
        reader.skip_exactly(left)?;
        reader.skip_padding(bytes)?;
    }
    Ok(())
}
