//! Checks whether a user id is in use on this machine, before a task gets it.
//!
//! Only existing users are found: running processes, and the accounts in the machine's own files.
//! An account created later may have the id of a task; a range of ids is reserved to avoid that.

use std::fmt;
use std::fs;
use std::path::Path;

use crate::sys;

/// The current user of an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A running process.
    Process,
    /// A user's account.
    User(String),
    /// A group.
    Group(String),
}

/// A holder of `id` as its user or group id; `None` if there is none.
///
/// Running processes are checked by their real user id. If the machine does not provide the
/// information, the id counts as free.
#[must_use]
pub fn holder(id: u32) -> Option<Holder> {
    if sys::has_process_of(id).unwrap_or(false) {
        return Some(Holder::Process);
    }
    let user = entry(Path::new("/etc/passwd"), id).map(Holder::User);
    user.or_else(|| entry(Path::new("/etc/group"), id).map(Holder::Group))
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process => f.write_str("a running process"),
            Self::User(name) => write!(f, "user {}", name.escape_debug()),
            Self::Group(name) => write!(f, "group {}", name.escape_debug()),
        }
    }
}

/// The name on the line of passwd(5) or group(5) that has `id` in its third field.
fn entry(path: &Path, id: u32) -> Option<String> {
    let content = fs::read(path).ok()?;
    let content = String::from_utf8_lossy(&content);
    let mut lines = content.lines().map(|line| line.split(':'));
    lines.find_map(|mut fields| {
        let name = fields.next()?;
        let has_it = fields.nth(1)?.parse() == Ok(id);
        has_it.then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_and_accounts_have_their_ids() {
        let own = nix::unistd::getuid().as_raw();
        assert_eq!(holder(own), Some(Holder::Process));
        let file = tempfile::NamedTempFile::new().unwrap();
        let text =
            "# a remark\nroot:x:0:0:root:/root:/bin/sh\nana:x:1000:1000::/home/ana:\nbad\n+:::\n";
        fs::write(&file, text).unwrap();
        let found = [0, 1000, 7].map(|id| entry(file.path(), id));
        assert_eq!(found, [Some("root".to_owned()), Some("ana".to_owned()), None]);
        assert_eq!(entry(Path::new("/no/such/file"), 0), None);
        assert_eq!(Holder::User("a\nb".to_owned()).to_string(), "user a\\nb");
    }
}
