//! Paths of entries.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The maximum length of a path in bytes. Linux takes 4,096 with the final zero.
pub const PATH_BYTES_MAX: usize = 4_095;

/// The maximum length of a component in bytes: that of Linux' file systems.
pub const NAME_BYTES_MAX: usize = 255;

/// The path of an entry below the root of its package: relative, of components that are neither
/// empty nor `.` or `..`, without a zero byte, and of bounded length. It is never empty.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryPath(Box<[u8]>);

/// The bytes are not a path of an entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is not a path in a package: {why}", Printed(.path))]
pub struct PathError {
    /// The bytes, possibly only the first of them.
    pub path: Vec<u8>,
    /// What is wrong with them.
    pub why: &'static str,
}

impl EntryPath {
    /// Checks the bytes of a path.
    ///
    /// # Errors
    /// The rule that they break.
    pub fn new(bytes: &[u8]) -> Result<Self, PathError> {
        match Self::fault(bytes) {
            None => Ok(Self(bytes.into())),
            Some(why) => {
                let path = bytes[..bytes.len().min(PATH_BYTES_MAX)].to_vec();
                Err(PathError { path, why })
            }
        }
    }

    fn fault(bytes: &[u8]) -> Option<&'static str> {
        if bytes.len() > PATH_BYTES_MAX {
            return Some("it is longer than 4,095 bytes");
        }
        if bytes.contains(&0) {
            return Some("it has a zero byte");
        }
        bytes.split(|byte| *byte == b'/').find_map(|name| match name {
            b"" => Some("it has an empty component, or begins or ends with '/'"),
            b"." => Some("it has a component '.'"),
            b".." => Some("it has a component '..', which could lead out of the package"),
            _ if name.len() > NAME_BYTES_MAX => Some("it has a component of more than 255 bytes"),
            _ => None,
        })
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path for the standard library, still relative.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// The path of the directory above, or `None` at the top.
    #[must_use]
    pub fn parent(&self) -> Option<&[u8]> {
        let slash = self.0.iter().rposition(|byte| *byte == b'/')?;
        Some(&self.0[..slash])
    }

    /// The last component.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.0.rsplit(|byte| *byte == b'/').next().unwrap_or(&self.0)
    }

    /// Whether `other` is below this path.
    #[must_use]
    pub fn is_above(&self, other: &[u8]) -> bool {
        other.strip_prefix(self.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
    }
}

/// Displayed as text, with control characters and bytes that are not UTF-8 escaped.
impl fmt::Display for EntryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Printed(&self.0), f)
    }
}

/// The displayed form.
impl fmt::Debug for EntryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{self}'")
    }
}

/// Prints bytes of a path in an error: escaped, and at most [`Printed::BYTES_MAX`] of them.
pub(crate) struct Printed<'a>(pub(crate) &'a [u8]);

impl Printed<'_> {
    /// The maximum number of bytes of a path that an error shows.
    const BYTES_MAX: usize = 400;
}

impl fmt::Display for Printed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.0[..self.0.len().min(Self::BYTES_MAX)].utf8_chunks() {
            for char in part.valid().chars() {
                match char.is_control() {
                    true => write!(f, "{}", char.escape_default())?,
                    false => write!(f, "{char}")?,
                }
            }
            part.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
        }
        f.write_str(if self.0.len() > Self::BYTES_MAX { "…" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_and_bounded() {
        let name = |length| "n".repeat(length);
        let long = format!("{}/{}", vec![name(254); 16].join("/"), name(15));
        assert_eq!(long.len(), 4_095);
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
        assert_eq!(EntryPath::new(b"a\xff\n'").unwrap().to_string(), "a\\xff\\n'");
    }
}
