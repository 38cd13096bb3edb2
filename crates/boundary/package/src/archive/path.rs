//! Paths of entries, in the order in which trees have them.

use std::cmp::Ordering;
use std::fmt;

use thiserror::Error;

use crate::tree::{MAX_COMPONENT_BYTES, MAX_PATH_BYTES, printable};

/// The path of an entry below the root of its package: relative, of components that are neither
/// empty nor `.` or `..`, without a NUL byte, and of bounded length. It is never empty.
///
/// The order is that of the components, so what is below a path follows it directly.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct EntryPath(Box<[u8]>);

/// Some bytes are no path of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{path}' is not a path in a package: {why}")]
pub struct PathError {
    /// The bytes, escaped and not longer than a line.
    pub path: String,
    /// What is wrong with them.
    pub why: &'static str,
}

impl EntryPath {
    /// Checks the bytes of a path.
    pub(super) fn new(bytes: &[u8]) -> Result<Self, PathError> {
        match Self::fault(bytes) {
            None => Ok(Self(bytes.into())),
            Some(why) => Err(PathError { path: printable(bytes), why }),
        }
    }

    fn fault(bytes: &[u8]) -> Option<&'static str> {
        if bytes.len() > MAX_PATH_BYTES {
            return Some("it is longer than 4,096 bytes");
        }
        if bytes.contains(&0) {
            return Some("it has a NUL byte");
        }
        bytes.split(|byte| *byte == b'/').find_map(|name| match name {
            b"" => Some("it has an empty component, or begins or ends with '/'"),
            b"." => Some("it has a component '.'"),
            b".." => Some("it has a component '..', which could lead out of the package"),
            _ if name.len() > MAX_COMPONENT_BYTES => {
                Some("it has a component of more than 255 bytes")
            }
            _ => None,
        })
    }

    /// The bytes.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0.into_vec()
    }

    /// The path of the directory above, or `None` at the top.
    pub(super) fn parent(&self) -> Option<&[u8]> {
        let slash = self.0.iter().rposition(|byte| *byte == b'/')?;
        Some(&self.0[..slash])
    }

    /// The last component.
    pub(super) fn name(&self) -> &[u8] {
        self.0.rsplit(|byte| *byte == b'/').next().unwrap_or(&self.0)
    }

    /// Whether `other` is below this path.
    pub(super) fn is_above(&self, other: &[u8]) -> bool {
        other.strip_prefix(self.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
    }
}

impl Ord for EntryPath {
    fn cmp(&self, other: &Self) -> Ordering {
        in_order(&self.0, &other.0)
    }
}

impl PartialOrd for EntryPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The order of two paths.
pub(super) fn in_order(one: &[u8], other: &[u8]) -> Ordering {
    // The only byte that no path has is in front of all others, and ends a component.
    let separated = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
    let differs = one.iter().zip(other).position(|(one, other)| one != other);
    let from = differs.unwrap_or_else(|| one.len().min(other.len()));
    one[from..].iter().map(separated).cmp(other[from..].iter().map(separated))
}

/// Escaped, and not longer than a line.
impl fmt::Display for EntryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.0))
    }
}

/// The displayed form.
impl fmt::Debug for EntryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{self}'")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_and_bounded() {
        let name = |length| "n".repeat(length);
        let long = format!("{}/{}", vec![name(254); 16].join("/"), name(16));
        assert_eq!(long.len(), 4_096);
        for good in ["a", "a/b", "...", ".a/b.", "ä\u{7f}", &name(255), &long] {
            let path = EntryPath::new(good.as_bytes()).unwrap();
            assert_eq!(path.as_bytes(), good.as_bytes());
        }
        let (wide, longer) = (name(256), format!("{long}n"));
        for bad in ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a\0", &wide, &longer]
        {
            let error = EntryPath::new(bad.as_bytes()).unwrap_err();
            assert!(error.to_string().contains("is not a path in a package: it "), "{error}");
        }
    }

    #[test]
    fn a_path_has_a_parent_and_a_name() {
        for (path, parent, name) in
            [("a", None, "a"), ("a/b", Some("a"), "b"), ("a/b/c", Some("a/b"), "c")]
        {
            let path = EntryPath::new(path.as_bytes()).unwrap();
            assert_eq!((path.parent(), path.name()), (parent.map(str::as_bytes), name.as_bytes()));
        }
        let a = EntryPath::new(b"a").unwrap();
        assert!(a.is_above(b"a/b") && !a.is_above(b"a") && !a.is_above(b"ab/c"));
    }

    #[test]
    fn what_is_below_a_path_follows_it() {
        let mut paths = ["a", "a/b", "a/b/c", "a/b.c", "a.b", "a0", "b"];
        let sorted = paths;
        paths.reverse();
        paths.sort_by(|one, other| in_order(one.as_bytes(), other.as_bytes()));
        assert_eq!(paths, sorted);
    }
}
