//! What manifests and trees refer to.

use api::v1;
use model::Digest;

/// What a manifest says about its package.
#[derive(Debug)]
pub(crate) struct Contents {
    /// What it refers to.
    pub(crate) references: Vec<Reference>,
    /// The size of all files, in bytes.
    pub(crate) bytes_unpacked: u64,
    /// The number of files, directories and links.
    pub(crate) entries: u64,
    pub(crate) kind: v1::PackageKind,
    pub(crate) architectures: Vec<String>,
}

/// A piece of a package.
#[derive(Debug)]
pub(crate) enum Reference {
    /// A tree, which refers to others.
    Tree(Digest),
    /// A chunk, with its length in bytes.
    Chunk(Digest, u32),
}

/// Reads a manifest.
pub(crate) fn manifest(bytes: &[u8]) -> Result<Contents, String> {
    let references = tree(bytes.strip_prefix(b"manifest\n").ok_or("it begins differently")?)?;
    let (entries, kind) = (references.len() as u64, v1::PackageKind::Files);
    Ok(Contents { references, bytes_unpacked: 0, entries, kind, architectures: Vec::new() })
}

/// Reads a tree.
pub(crate) fn tree(bytes: &[u8]) -> Result<Vec<Reference>, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let digest = |text: &str| text.parse::<Digest>().map_err(|error| error.to_string());
    text.lines()
        .map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
            ["tree", hash] => Ok(Reference::Tree(digest(hash)?)),
            ["chunk", hash, length] => {
                Ok(Reference::Chunk(digest(hash)?, length.parse().map_err(|_| "a bad length")?))
            }
            _ => Err("a bad line".to_owned()),
        })
        .collect()
}
