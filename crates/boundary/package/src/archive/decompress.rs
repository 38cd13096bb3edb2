//! Decompresses by content: the media type of a layer may be wrong, and old archives have none.

use std::io::{self, BufRead, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// How bytes are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Gzip,
    Zstd,
}

/// Formats that are known and not supported.
const UNSUPPORTED: [(&[u8], &str); 3] =
    [(b"BZh", "bzip2"), (b"\xfd7zXZ\0", "xz"), (b"\x04\x22\x4d\x18", "lz4")];
/// The number of bytes that tell the format.
const MAGIC_BYTES: usize = 6;

impl Compression {
    /// The compression of what begins with these bytes.
    pub(super) fn of(start: &[u8]) -> io::Result<Self> {
        if let Some((_, name)) = UNSUPPORTED.iter().find(|(magic, _)| start.starts_with(magic)) {
            let why = format!("it is compressed with {name}: use gzip, zstd or no compression");
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        Ok(match start {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            _ => Self::None,
        })
    }
}

/// A reader of decompressed bytes.
pub(super) enum Decompressed<R> {
    None(R),
    Gzip(Box<MultiGzDecoder<R>>),
    Zstd(Box<ZstdReader<R>>),
}

impl<R: BufRead> Decompressed<R> {
    /// Reads what `inner` has, decompressed.
    pub(super) fn new(mut inner: R) -> io::Result<Self> {
        let start = inner.fill_buf()?;
        Ok(match Compression::of(&start[..start.len().min(MAGIC_BYTES)])? {
            Compression::None => Self::None(inner),
            Compression::Gzip => Self::Gzip(Box::new(MultiGzDecoder::new(inner))),
            Compression::Zstd => Self::Zstd(Box::new(ZstdReader::new(inner))),
        })
    }

    pub(super) fn is_compressed(&self) -> bool {
        !matches!(self, Self::None(_))
    }
}

impl<R: BufRead> Read for Decompressed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::None(inner) => inner.read(into),
            Self::Gzip(decoder) => decoder.read(into),
            Self::Zstd(decoder) => decoder.read(into),
        }
    }
}

/// Decodes the frames of zstd one after the other, and skips those that are no data.
pub(super) struct ZstdReader<R> {
    inner: R,
    decoder: FrameDecoder,
    within: bool,
}

impl<R: BufRead> ZstdReader<R> {
    fn new(inner: R) -> Self {
        Self { inner, decoder: FrameDecoder::new(), within: false }
    }

    /// Goes to the next frame with data, or returns false at the end.
    fn next_frame(&mut self) -> io::Result<bool> {
        loop {
            if self.inner.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.decoder.init(&mut self.inner) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let mut skipped = self.inner.by_ref().take(u64::from(length));
                    if io::copy(&mut skipped, &mut io::sink())? < u64::from(length) {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            }
        }
    }
}

impl<R: BufRead> Read for ZstdReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.within {
                if !self.next_frame()? {
                    return Ok(0);
                }
                self.within = true;
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(&mut self.inner, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            }
            let read = self.decoder.read(into)?;
            if read > 0 || into.is_empty() {
                return Ok(read);
            }
            self.within = false;
        }
    }
}
