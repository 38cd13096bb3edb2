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

use model::Bytes;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

use super::ImportError;
use super::decompress::Decompressed;
use crate::layer::{BUFFER_BYTES, LayerError, Link, Skip, Visited, scan};
use crate::limits::{Budget, Decompression, LimitError};

/// The maximum length of a manifest, an index or a configuration in bytes.
pub(super) const JSON_BYTES_MAX: u64 = 4 << 20;

/// The maximum number of files and links in an archive.
const MEMBERS_MAX: usize = 100_000;

/// The maximum length of all small files of a compressed archive in bytes.
const KEPT_BYTES_MAX: u64 = 64 << 20;

/// The maximum number of links from one name to its file.
const LINKS_MAX: usize = 8;

/// The files of an image by their path.
pub(super) struct Store {
    path: PathBuf,
    files: Form,
}

enum Form {
    Directory(OwnedFd),
    Archive { file: File, index: Index },
    Compressed { file: File, index: Index, kept: BTreeMap<String, Vec<u8>> },
}

type Index = BTreeMap<String, Location>;

enum Location {
    File { offset: u64, bytes: u64 },
    Link(String),
}

/// What is done with a file: its name and its contents.
pub(super) type Each<'a> =
    &'a mut dyn FnMut(&str, &mut (dyn Read + Send)) -> Result<(), ImportError>;

impl Store {
    /// Opens a directory or an archive.
    pub(super) fn open(path: &Path, budget: &Budget) -> Result<Self, ImportError> {
        let at = |action| {
            move |source: io::Error| ImportError::Io { action, path: path.to_owned(), source }
        };
        let file = File::open(path).map_err(at("open"))?;
        let seen = file.metadata().map_err(at("inspect"))?;
        if seen.is_dir() {
            return Ok(Self { path: path.to_owned(), files: Form::Directory(file.into()) });
        }
        if !seen.is_file() {
            let why = "it is neither a directory nor a file".to_owned();
            return Err(ImportError::NotAnImage { path: path.to_owned(), why });
        }
        let mut index = Index::new();
        let buffered = BufReader::with_capacity(BUFFER_BYTES, &file);
        let stream = Decompressed::new(buffered).map_err(at("read"))?;
        let files = if let Decompressed::None(buffered) = stream {
            let mut add = |found: Visited, _: &mut (dyn Read + Send)| add(&mut index, &found);
            // A file below its length is an error here, and not when it is read.
            scan(Seeking { reader: buffered, bytes: seen.len() }, &mut add)
                .map_err(|failed| failed.of(path))?;
            Form::Archive { file, index }
        } else {
            let kept = read_small(stream, &mut index, budget).map_err(|failed| failed.of(path))?;
            Form::Compressed { file, index, kept }
        };
        Ok(Self { path: path.to_owned(), files })
    }

    /// Whether files can only be read in their order.
    pub(super) fn is_sequential(&self) -> bool {
        matches!(self.files, Form::Compressed { .. })
    }

    /// Whether there is a file.
    pub(super) fn has(&self, name: &str) -> bool {
        match &self.files {
            Form::Directory(root) => open_below(root, name).is_ok(),
            Form::Archive { index, .. } | Form::Compressed { index, .. } => {
                find(index, name).is_some()
            }
        }
    }

    /// The contents of a small file.
    pub(super) fn small(&self, name: &str) -> Result<Vec<u8>, ImportError> {
        let missing = || ImportError::Missing { name: name.to_owned() };
        let mut bytes = Vec::new();
        match &self.files {
            Form::Compressed { index, kept, .. } => {
                let (real, (_, length)) = find(index, name).ok_or_else(missing)?;
                if length > JSON_BYTES_MAX {
                    return Err(self.too_long(name, length));
                }
                // What is small and not kept is no JSON, as if it were not there.
                bytes.clone_from(kept.get(real).ok_or_else(missing)?);
            }
            Form::Directory(_) | Form::Archive { .. } => {
                let (mut contents, length) = self.open_file(name)?;
                if length > JSON_BYTES_MAX {
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
        budget: &Budget,
        each: Each<'_>,
    ) -> Result<(), ImportError> {
        let Form::Compressed { file, .. } = &self.files else { return Ok(()) };
        let mut file = file;
        file.seek(SeekFrom::Start(0)).map_err(self.failed("read"))?;
        let buffered = BufReader::with_capacity(BUFFER_BYTES, file);
        let stream = Decompressed::new(buffered).map_err(self.failed("read"))?;
        let mut visit = |found: Visited, contents: &mut (dyn Read + Send)| match str::from_utf8(
            found.path.as_bytes(),
        ) {
            Ok(name) if names.contains(&name) => each(name, contents).map_err(Failed::Import),
            _ => Ok(()),
        };
        let stream = Limited { inner: stream, limit: budget.decompressed() };
        scan(BufReader::with_capacity(BUFFER_BYTES, stream), &mut visit)
            .map_err(|failed| failed.of(&self.path))
    }

    /// The real name of a file, behind links.
    pub(super) fn real_name<'a>(&'a self, name: &'a str) -> &'a str {
        match &self.files {
            Form::Directory(_) => name,
            Form::Archive { index, .. } | Form::Compressed { index, .. } => {
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
        let max = Bytes(JSON_BYTES_MAX);
        ImportError::TooLong { name: name.to_owned(), bytes: Bytes(bytes), max }
    }

    /// The contents of a file and their length.
    fn open_file(&self, name: &str) -> Result<(io::Take<File>, u64), ImportError> {
        let missing = || ImportError::Missing { name: name.to_owned() };
        match &self.files {
            Form::Directory(root) => {
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
            Form::Archive { file, index } => {
                let (_, (offset, bytes)) = find(index, name).ok_or_else(missing)?;
                // Both have one position, and this is the only one who reads.
                let mut file = file.try_clone().map_err(self.failed("read"))?;
                file.seek(SeekFrom::Start(offset)).map_err(self.failed("read"))?;
                Ok((file.take(bytes), bytes))
            }
            Form::Compressed { .. } => Err(missing()),
        }
    }
}

/// Opens a file of a layout. Links within the layout are followed.
fn open_below(root: &OwnedFd, name: &str) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(root.as_fd(), name, flags, Mode::empty(), resolve)?.into())
}

/// Why an archive could not be read: it, or one of its files.
enum Failed {
    Archive(LayerError),
    Import(ImportError),
}

impl From<LayerError> for Failed {
    fn from(error: LayerError) -> Self {
        Self::Archive(error)
    }
}

impl Failed {
    fn of(self, path: &Path) -> ImportError {
        match self {
            Self::Import(error) => error,
            Self::Archive(source) => ImportError::Archive { path: path.to_owned(), source },
        }
    }
}

/// Adds a file or a link to an index.
fn add(index: &mut Index, found: &Visited) -> Result<(), Failed> {
    if index.len() == MEMBERS_MAX {
        let why = "it has more than 100,000 files, the maximum of an archive of images".to_owned();
        return Err(LayerError::Tar { offset: found.offset, why }.into());
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let place = match &found.link {
        None => Location::File { offset: found.offset, bytes: found.bytes },
        Some(Link::Hard(target)) => Location::Link(joined("", &text(target))),
        Some(Link::Symbolic(target)) => {
            let parent = text(found.path.parent().unwrap_or_default());
            Location::Link(joined(&parent, &text(target)))
        }
    };
    index.insert(text(found.path.as_bytes()), place);
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
fn find<'a>(index: &'a Index, name: &str) -> Option<(&'a str, (u64, u64))> {
    let (mut name, mut place) = index.get_key_value(name)?;
    for _ in 0..LINKS_MAX {
        match place {
            Location::File { offset, bytes } => return Some((name, (*offset, *bytes))),
            Location::Link(target) => (name, place) = index.get_key_value(target)?,
        }
    }
    None
}

/// Makes the index of a compressed archive, and keeps what can be JSON.
fn read_small(
    stream: Decompressed<BufReader<&File>>,
    index: &mut Index,
    budget: &Budget,
) -> Result<BTreeMap<String, Vec<u8>>, Failed> {
    let stream = Limited { inner: stream, limit: budget.decompressed() };
    let (mut kept, mut kept_bytes) = (BTreeMap::new(), 0);
    let mut visit = |found: Visited, contents: &mut (dyn Read + Send)| -> Result<(), Failed> {
        add(index, &found)?;
        let read = |source| LayerError::Read { offset: found.offset, source };
        let mut bytes = vec![0; usize::from(found.bytes > 0)];
        contents.read_exact(&mut bytes).map_err(read)?;
        if found.bytes > JSON_BYTES_MAX || !matches!(bytes[..], [b'{' | b'[']) {
            return Ok(());
        }
        kept_bytes += found.bytes;
        if kept_bytes > KEPT_BYTES_MAX {
            let why = "it has more than 64 MiB of small files, the maximum of a compressed \
                       archive: decompress it first"
                .to_owned();
            return Err(LayerError::Tar { offset: found.offset, why }.into());
        }
        contents.read_to_end(&mut bytes).map_err(read)?;
        kept.insert(String::from_utf8_lossy(found.path.as_bytes()).into_owned(), bytes);
        Ok(())
    };
    scan(BufReader::with_capacity(BUFFER_BYTES, stream), &mut visit)?;
    Ok(kept)
}

/// A plain archive, of which the contents of files are not read.
struct Seeking<'a> {
    reader: BufReader<&'a File>,
    bytes: u64,
}

impl Read for Seeking<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.reader.read(into)
    }
}

impl Skip for Seeking<'_> {
    fn skip(&mut self, bytes: u64) -> io::Result<u64> {
        let position = self.reader.stream_position()?;
        let bytes = bytes.min(self.bytes.saturating_sub(position));
        // A file is not longer than this.
        self.reader.seek_relative(i64::try_from(bytes).unwrap_or(i64::MAX))?;
        Ok(bytes)
    }
}

impl<R: Read> Skip for BufReader<Limited<R>> {}

/// Ends with an error after the maximum.
pub(super) struct Limited<R> {
    pub(super) inner: R,
    pub(super) limit: Decompression,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        let Decompression { left, max } = &mut self.limit;
        let exceeded = || io::Error::other(LimitError::Decompressed { max: *max });
        left.0 = left.0.checked_sub(read as u64).ok_or_else(exceeded)?;
        Ok(read)
    }
}
