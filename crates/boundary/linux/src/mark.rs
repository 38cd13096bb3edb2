//! The mark of a directory: a short text that tasks can neither change nor take away.
//!
//! It is an extended attribute. In a jail no task can change those of the kind `trusted`, and none copies
//! them. Without root there are only attributes of the directory's owner, which are no protection against
//! the task itself.

use std::io;
use std::path::Path;

use rustix::fs::{StatVfsMountFlags, XattrFlags, getxattr, setxattr, statvfs};

use crate::Isolation;

/// Maximum length of a mark, in bytes: longer ones are none of ours.
const LENGTH: usize = 1024;

/// What can be known of the mark of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkText {
    /// It has none.
    None,
    /// It has this one; in place of what is no text, or too long, an empty one.
    Is(String),
    /// Its file system has no attributes.
    NoSuchAttributes,
}

fn attribute(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::Jail => "trusted.bourg.volume",
        Isolation::Rootless => "user.bourg.volume",
    }
}

/// Reads the mark of a directory.
///
/// # Errors
/// If it cannot be read.
pub fn read(directory: &Path, isolation: Isolation) -> io::Result<MarkText> {
    let mut text = [0; LENGTH];
    match getxattr(directory, attribute(isolation), &mut text) {
        Ok(length) => {
            let text = text.get(..length).unwrap_or_default();
            Ok(MarkText::Is(String::from_utf8(text.to_vec()).unwrap_or_default()))
        }
        Err(rustix::io::Errno::NODATA) => Ok(MarkText::None),
        Err(rustix::io::Errno::RANGE) => Ok(MarkText::Is(String::new())),
        Err(rustix::io::Errno::OPNOTSUPP) => Ok(MarkText::NoSuchAttributes),
        Err(error) => Err(error.into()),
    }
}

/// Writes the mark of a directory.
///
/// # Errors
/// If it cannot be written.
pub fn write(directory: &Path, isolation: Isolation, text: &str) -> io::Result<()> {
    Ok(setxattr(directory, attribute(isolation), text.as_bytes(), XattrFlags::empty())?)
}

/// Whether the file system of a directory is mounted read-only.
///
/// # Errors
/// If it cannot be found out.
pub fn is_read_only(directory: &Path) -> io::Result<bool> {
    Ok(statvfs(directory)?.f_flag.contains(StatVfsMountFlags::RDONLY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_stays_with_its_directory() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("data");
        std::fs::create_dir(&directory).unwrap();
        assert_eq!(read(&directory, Isolation::Jail).unwrap(), MarkText::None);
        write(&directory, Isolation::Jail, "one").unwrap();
        write(&directory, Isolation::Jail, "two").unwrap();
        assert_eq!(read(&directory, Isolation::Jail).unwrap(), MarkText::Is("two".to_owned()));
        let moved = place.path().join("moved");
        std::fs::rename(&directory, &moved).unwrap();
        assert_eq!(read(&moved, Isolation::Jail).unwrap(), MarkText::Is("two".to_owned()));
        write(&moved, Isolation::Jail, &"x".repeat(2_000)).unwrap();
        assert_eq!(read(&moved, Isolation::Jail).unwrap(), MarkText::Is(String::new()));
        assert!(read(&directory, Isolation::Jail).is_err());
        assert!(!is_read_only(&moved).unwrap() && is_read_only(&directory).is_err());
    }
}
