//! The files of an image: in a directory, or in an archive.
//!
//! An archive is never unpacked. Of a plain one an index is made, and files are read where they
//! are. A compressed one is read twice: once for its small files, and once for its layers in the
//! order in which they are in it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};

use super::decompress::Decompressed;
use super::error::{ArchiveError, ImportError};
use super::limits::{Decompression, ImportBudget, LimitError};
use super::tar::{ArchivedFile, ArchivedLink, BUFFER_BYTES, Skip, scan};

/// How long a manifest, an index or a configuration is at most, in bytes.
const MAX_JSON_BYTES: u64 = 4 * 1024 * 1024;
/// How many files and links an archive of images has at most.
const MAX_MEMBERS: usize = 100_000;
/// How long the names and links of an archive of images are at most, together and in bytes: they are kept in memory.
const MAX_INDEX_BYTES: usize = 32 * 1024 * 1024;
/// How long all small files of a compressed archive are at most, in bytes: they are kept in memory.
const MAX_KEPT_BYTES: u64 = 64 * 1024 * 1024;
/// How many links there are at most from one name to its file.
const MAX_LINKS: usize = 8;

/// The files of an image by their path.
pub(super) struct ImageFiles {
    path: PathBuf,
    files: FilesForm,
}

enum FilesForm {
    Directory(OwnedFd),
    Archive { file: File, index: FileIndex },
    Compressed { file: File, index: FileIndex, kept: BTreeMap<String, Vec<u8>> },
}

/// Where the files of an archive are.
#[derive(Default)]
struct FileIndex {
    places: BTreeMap<String, FileLocation>,
    /// The length of all names and links, also of those that were replaced.
    bytes: usize,
}

enum FileLocation {
    File { offset: u64, bytes: u64 },
    Link(String),
}

/// What is done with a file: its name and its contents.
pub(super) type Each<'a> =
    &'a mut dyn FnMut(&str, &mut (dyn Read + Send)) -> Result<(), ImportError>;

impl ImageFiles {
    /// Opens a directory or an archive.
    pub(super) fn open(path: &Path, budget: &ImportBudget) -> Result<Self, ImportError> {
        let at = |action| {
            move |source: io::Error| ImportError::Io { action, path: path.to_owned(), source }
        };
        // Before it is opened: to open a pipe takes until somebody writes to it.
        let seen = path.metadata().map_err(at("open"))?;
        if !seen.is_dir() && !seen.is_file() {
            let why = "it is neither a directory nor a file".to_owned();
            return Err(ImportError::NotAnImage { path: path.to_owned(), why });
        }
        let file = File::open(path).map_err(at("open"))?;
        let seen = file.metadata().map_err(at("inspect"))?;
        if seen.is_dir() {
            return Ok(Self { path: path.to_owned(), files: FilesForm::Directory(file.into()) });
        }
        let mut index = FileIndex::default();
        let buffered = BufReader::with_capacity(BUFFER_BYTES, &file);
        let stream = Decompressed::new(buffered).map_err(at("read"))?;
        let files = if let Decompressed::None(buffered) = stream {
            let mut add = |found: ArchivedFile, _: &mut (dyn Read + Send)| add(&mut index, &found);
            // A file below its length is an error here, and not when it is read.
            scan(SeekingReader { reader: buffered, bytes: seen.len() }, &mut add)
                .map_err(|failed| failed.of(path))?;
            FilesForm::Archive { file, index }
        } else {
            let kept = read_small(stream, &mut index, budget).map_err(|failed| failed.of(path))?;
            FilesForm::Compressed { file, index, kept }
        };
        Ok(Self { path: path.to_owned(), files })
    }

    /// Whether files can only be read in their order.
    pub(super) fn is_sequential(&self) -> bool {
        matches!(self.files, FilesForm::Compressed { .. })
    }

    /// Whether there is a file.
    pub(super) fn has(&self, name: &str) -> bool {
        match &self.files {
            FilesForm::Directory(root) => open_below(root, name).is_ok(),
            FilesForm::Archive { index, .. } | FilesForm::Compressed { index, .. } => {
                find(index, name).is_some()
            }
        }
    }

    /// The contents of a small file.
    pub(super) fn small(&self, name: &str) -> Result<Vec<u8>, ImportError> {
        let missing = || ImportError::Missing { name: name.to_owned() };
        let mut bytes = Vec::new();
        match &self.files {
            FilesForm::Compressed { index, kept, .. } => {
                let (real, (_, length)) = find(index, name).ok_or_else(missing)?;
                if length > MAX_JSON_BYTES {
                    return Err(self.too_long(name, length));
                }
                // What is small and not kept is no JSON, as if it were not there.
                bytes.clone_from(kept.get(real).ok_or_else(missing)?);
            }
            FilesForm::Directory(_) | FilesForm::Archive { .. } => {
                let (mut contents, length) = self.open_file(name)?;
                if length > MAX_JSON_BYTES {
                    return Err(self.too_long(name, length));
                }
                contents.read_to_end(&mut bytes).map_err(self.failed("read"))?;
            }
        }
        Ok(bytes)
    }

    /// Reads the contents of a file, unless files can only be read in their order.
    pub(super) fn with(&self, name: &str, each: Each<'_>) -> Result<(), ImportError> {
        let (mut contents, _) = self.open_file(name)?;
        each(name, &mut contents)
    }

    /// Reads the contents of several files of a compressed archive, in their order. The names are
    /// real ones.
    pub(super) fn with_all(
        &self,
        names: &[&str],
        budget: &ImportBudget,
        each: Each<'_>,
    ) -> Result<(), ImportError> {
        let FilesForm::Compressed { file, .. } = &self.files else { return Ok(()) };
        let mut file = file;
        file.seek(SeekFrom::Start(0)).map_err(self.failed("read"))?;
        let buffered = BufReader::with_capacity(BUFFER_BYTES, file);
        let stream = Decompressed::new(buffered).map_err(self.failed("read"))?;
        let mut visit = |found: ArchivedFile, contents: &mut (dyn Read + Send)| match str::from_utf8(
            found.path.as_bytes(),
        ) {
            Ok(name) if names.contains(&name) => each(name, contents).map_err(FilesError::Import),
            _ => Ok(()),
        };
        let stream = LimitedReader { inner: stream, limit: budget.decompressed() };
        scan(BufReader::with_capacity(BUFFER_BYTES, stream), &mut visit)
            .map_err(|failed| failed.of(&self.path))
    }

    /// The real name of a file, behind links.
    pub(super) fn real_name<'a>(&'a self, name: &'a str) -> &'a str {
        match &self.files {
            FilesForm::Directory(_) => name,
            FilesForm::Archive { index, .. } | FilesForm::Compressed { index, .. } => {
                find(index, name).map_or(name, |(name, _)| name)
            }
        }
    }

    /// The path of the directory or archive.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn failed(&self, action: &'static str) -> impl Fn(io::Error) -> ImportError + use<'_> {
        move |source| ImportError::Io { action, path: self.path.clone(), source }
    }

    fn too_long(&self, name: &str, bytes: u64) -> ImportError {
        ImportError::TooLong { name: name.to_owned(), bytes, max: MAX_JSON_BYTES }
    }

    /// The contents of a file and their length.
    fn open_file(&self, name: &str) -> Result<(io::Take<File>, u64), ImportError> {
        let missing = || ImportError::Missing { name: name.to_owned() };
        match &self.files {
            FilesForm::Directory(root) => {
                let file = match open_below(root, name) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing()),
                    file => file.map_err(|source| ImportError::Io {
                        action: "open",
                        path: self.path.join(name),
                        source,
                    })?,
                };
                let seen = file.metadata().map_err(self.failed("inspect"))?;
                if !seen.is_file() {
                    return Err(missing());
                }
                Ok((file.take(seen.len()), seen.len()))
            }
            FilesForm::Archive { file, index } => {
                let (_, (offset, bytes)) = find(index, name).ok_or_else(missing)?;
                // Both have one position, and this is the only one who reads.
                let mut file = file.try_clone().map_err(self.failed("read"))?;
                file.seek(SeekFrom::Start(offset)).map_err(self.failed("read"))?;
                Ok((file.take(bytes), bytes))
            }
            FilesForm::Compressed { .. } => Err(missing()),
        }
    }
}

/// Opens a file of a layout. Links within the layout are followed.
fn open_below(root: &OwnedFd, name: &str) -> io::Result<File> {
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let how = OpenHow::new().flags(flags).resolve(resolve);
    Ok(openat2(root.as_fd(), name, how)?.into())
}

/// Why an archive could not be read: it, or one of its files.
enum FilesError {
    Archive(ArchiveError),
    Import(ImportError),
}

impl From<ArchiveError> for FilesError {
    fn from(error: ArchiveError) -> Self {
        Self::Archive(error)
    }
}

impl FilesError {
    fn of(self, path: &Path) -> ImportError {
        match self {
            Self::Import(error) => error,
            Self::Archive(source) => ImportError::Archive { path: path.to_owned(), source },
        }
    }
}

/// Adds a file or a link to an index.
fn add(index: &mut FileIndex, found: &ArchivedFile) -> Result<(), FilesError> {
    if index.places.len() == MAX_MEMBERS {
        let why = "it has more than 100,000 files, the maximum of an archive of images".to_owned();
        return Err(ArchiveError::Tar { offset: found.offset, why }.into());
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let place = match &found.link {
        None => FileLocation::File { offset: found.offset, bytes: found.bytes },
        Some(ArchivedLink::Hard(target)) => FileLocation::Link(joined("", &text(target))),
        Some(ArchivedLink::Symbolic(target)) => {
            let parent = text(found.path.parent().unwrap_or_default());
            FileLocation::Link(joined(&parent, &text(target)))
        }
    };
    let name = text(found.path.as_bytes());
    let link = match &place {
        FileLocation::File { .. } => 0,
        FileLocation::Link(target) => target.len(),
    };
    index.bytes = index.bytes.saturating_add(name.len()).saturating_add(link);
    if index.bytes > MAX_INDEX_BYTES {
        let why = "its names and links are longer than 32 MiB, the maximum of an archive of images";
        return Err(ArchiveError::Tar { offset: found.offset, why: why.to_owned() }.into());
    }
    index.places.insert(name, place);
    Ok(())
}

/// A relative path from a directory, without `.` and `..`. Nothing is above the root.
fn joined(directory: &str, path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in directory.split('/').chain(path.split('/')) {
        match name {
            "" | "." => {}
            ".." => _ = names.pop(),
            _ => names.push(name),
        }
    }
    names.join("/")
}

/// The file that a name leads to: its name, offset and length.
fn find<'a>(index: &'a FileIndex, name: &str) -> Option<(&'a str, (u64, u64))> {
    let (mut name, mut place) = index.places.get_key_value(name)?;
    for _ in 0..MAX_LINKS {
        match place {
            FileLocation::File { offset, bytes } => return Some((name, (*offset, *bytes))),
            FileLocation::Link(target) => (name, place) = index.places.get_key_value(target)?,
        }
    }
    None
}

/// Makes the index of a compressed archive, and keeps what can be JSON.
fn read_small(
    stream: Decompressed<BufReader<&File>>,
    index: &mut FileIndex,
    budget: &ImportBudget,
) -> Result<BTreeMap<String, Vec<u8>>, FilesError> {
    let stream = LimitedReader { inner: stream, limit: budget.decompressed() };
    let (mut kept, mut kept_bytes) = (BTreeMap::new(), 0);
    let mut visit =
        |found: ArchivedFile, contents: &mut (dyn Read + Send)| -> Result<(), FilesError> {
            add(index, &found)?;
            let read = |source| ArchiveError::Read { offset: found.offset, source };
            let mut bytes = vec![0; usize::from(found.bytes > 0)];
            contents.read_exact(&mut bytes).map_err(read)?;
            if found.bytes > MAX_JSON_BYTES || !matches!(bytes[..], [b'{' | b'[']) {
                return Ok(());
            }
            kept_bytes += found.bytes;
            if kept_bytes > MAX_KEPT_BYTES {
                let why = "it has more than 64 MiB of small files, the maximum of a compressed \
                       archive: decompress it first"
                    .to_owned();
                return Err(ArchiveError::Tar { offset: found.offset, why }.into());
            }
            contents.read_to_end(&mut bytes).map_err(read)?;
            kept.insert(String::from_utf8_lossy(found.path.as_bytes()).into_owned(), bytes);
            Ok(())
        };
    scan(BufReader::with_capacity(BUFFER_BYTES, stream), &mut visit)?;
    Ok(kept)
}

/// A plain archive, of which the contents of files are not read.
struct SeekingReader<'a> {
    reader: BufReader<&'a File>,
    bytes: u64,
}

impl Read for SeekingReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.reader.read(into)
    }
}

impl Skip for SeekingReader<'_> {
    fn skip(&mut self, bytes: u64) -> io::Result<u64> {
        let position = self.reader.stream_position()?;
        let bytes = bytes.min(self.bytes.saturating_sub(position));
        // A file is not longer than this.
        self.reader.seek_relative(i64::try_from(bytes).unwrap_or(i64::MAX))?;
        Ok(bytes)
    }
}

impl<R: Read> Skip for BufReader<LimitedReader<R>> {}

/// Ends with an error after the maximum.
pub(super) struct LimitedReader<R> {
    pub(super) inner: R,
    pub(super) limit: Decompression,
}

impl<R: Read> Read for LimitedReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        let Decompression { left, limit } = &mut self.limit;
        let exceeded = || io::Error::other(LimitError::Decompressed { limit: *limit });
        *left = left.checked_sub(read as u64).ok_or_else(exceeded)?;
        Ok(read)
    }
}
