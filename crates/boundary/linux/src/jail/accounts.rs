//! The users and groups of an image: the user that it runs as, and its `/etc/passwd` and `/etc/group` with
//! the task in the place of that user.

use std::io;

use super::place::Base;

/// Where an image lists its users and its groups.
pub(super) const PASSWD: &str = "etc/passwd";
pub(super) const GROUP: &str = "etc/group";
/// The maximum size of each of these files of an image, in bytes.
pub(super) const ACCOUNTS_BYTES_MAX: u64 = 1 << 20;
/// The fields of a line.
const NAME: usize = 0;
const ID: usize = 2;
const GROUP_OF_USER: usize = 3;

/// The user and the group that an image runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ImageUser {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// An image's user is not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AccountError {
    #[error(
        "the user of the image is `{}`, but its /etc/passwd has no such name: name another user, or give \
         a number",
        .user.escape_debug()
    )]
    UnknownUser { user: String },
    #[error(
        "the user of the image is `{}`, but its /etc/group has no such group: name another one, or give \
         a number",
        .user.escape_debug()
    )]
    UnknownGroup { user: String },
    #[error("cannot read /{file} of the image: {source}")]
    Unreadable { file: &'static str, source: io::Error },
}

impl ImageUser {
    /// Whom an image means by `user`; `open` opens its root, if that must be read.
    pub(super) fn find<E: From<AccountError>>(
        user: &str,
        open: impl FnOnce() -> Result<Base, E>,
    ) -> Result<Self, E> {
        let (name, group) =
            user.split_once(':').map_or((user, None), |(name, group)| (name, Some(group)));
        let (uid, gid) = (number(name), group.and_then(number));
        match (uid, gid) {
            _ if user.is_empty() => return Ok(Self { uid: 0, gid: 0 }),
            (Some(uid), Some(gid)) => return Ok(Self { uid, gid }),
            _ => {}
        }
        let base = open()?;
        let user = || user.to_owned();
        let users = read(&base, PASSWD)?;
        let line = users.split(|byte| *byte == b'\n').find(|line| match uid {
            Some(uid) => id(line, ID) == Some(uid),
            None => field(line, NAME) == Some(name.as_bytes()) && id(line, ID).is_some(),
        });
        let uid = uid
            .or_else(|| id(line?, ID))
            .ok_or_else(|| AccountError::UnknownUser { user: user() })?;
        let gid = match group {
            Some(group) if gid.is_none() => {
                let groups = read(&base, GROUP)?;
                let mut lines = groups.split(|byte| *byte == b'\n');
                let line = lines.find(|line| field(line, NAME) == Some(group.as_bytes()));
                let gid = line.and_then(|line| id(line, ID));
                gid.ok_or_else(|| AccountError::UnknownGroup { user: user() })?
            }
            Some(_) => gid.unwrap_or(0),
            None => line.and_then(|line| id(line, GROUP_OF_USER)).unwrap_or(0),
        };
        Ok(Self { uid, gid })
    }

    /// The image's `/etc/passwd` with the task as this user.
    pub(super) fn passwd(self, content: &[u8], uid: u32, gid: u32) -> Vec<u8> {
        let line = format!("task:x:{uid}:{gid}:task:/home/task:/bin/sh");
        replaced(content, self.uid, &[(ID, uid), (GROUP_OF_USER, gid)], &line)
    }

    /// The image's `/etc/group` with the task's group as this user's.
    pub(super) fn group(self, content: &[u8], gid: u32) -> Vec<u8> {
        replaced(content, self.gid, &[(ID, gid)], &format!("task:x:{gid}:"))
    }
}

/// An id, if it is written as a number.
fn number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|id| digits && *id != u32::MAX)
}

fn field(line: &[u8], index: usize) -> Option<&[u8]> {
    line.split(|byte| *byte == b':').nth(index)
}

fn id(line: &[u8], index: usize) -> Option<u32> {
    number(std::str::from_utf8(field(line, index)?).ok()?)
}

/// The lines, of which those of the id `own` get other numbers; if there are none, or if that is root's,
/// which stays, the line `added` follows.
fn replaced(content: &[u8], own: u32, numbers: &[(usize, u32)], added: &str) -> Vec<u8> {
    let mut is_there = false;
    let mut lines: Vec<Vec<u8>> = Vec::new();
    for line in content.split(|byte| *byte == b'\n') {
        if own == 0 || id(line, ID) != Some(own) {
            lines.push(line.to_vec());
            continue;
        }
        is_there = true;
        let mut fields: Vec<Vec<u8>> =
            line.split(|byte| *byte == b':').map(<[u8]>::to_vec).collect();
        for (index, number) in numbers {
            if let Some(field) = fields.get_mut(*index) {
                *field = number.to_string().into_bytes();
            }
        }
        lines.push(fields.join(&b':'));
    }
    if !is_there {
        if lines.last().is_some_and(Vec::is_empty) {
            lines.pop();
        }
        lines.extend([added.as_bytes().to_vec(), Vec::new()]);
    }
    lines.join(&b'\n')
}

fn read(base: &Base, file: &'static str) -> Result<Vec<u8>, AccountError> {
    let read = base.read(file, ACCOUNTS_BYTES_MAX);
    let read = read.map_err(|source| AccountError::Unreadable { file, source })?;
    Ok(read.map(|file| file.content).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const USERS: &str = "root:x:0:0:root:/root:/bin/sh\nnginx:x:101:102::/nonexistent:/bin/false\n\
                         bad:x:many:1\nother:x:33:33::/:\n";
    const GROUPS: &str = "root:x:0:\nnginx:x:102:\nwww:x:33:nginx\n";

    #[test]
    fn a_user_is_found_as_the_image_says_it() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("etc")).unwrap();
        fs::write(root.path().join(PASSWD), USERS).unwrap();
        fs::write(root.path().join(GROUP), GROUPS).unwrap();
        let find = |user: &str| {
            let open = || Base::open(root.path(), None).map_err(super::super::JailError::from);
            ImageUser::find(user, open).map(|user| (user.uid, user.gid))
        };
        let table = [
            ("", (0, 0)),
            ("root", (0, 0)),
            ("nginx", (101, 102)),
            ("101", (101, 102)),
            ("7", (7, 0)),
            ("7:8", (7, 8)),
            ("nginx:www", (101, 33)),
            ("101:www", (101, 33)),
            ("nginx:5", (101, 5)),
        ];
        for (user, expected) in table {
            assert_eq!(find(user).unwrap(), expected, "{user}");
        }
        let table = [
            ("nobody", "the user of the image is `nobody`, but its /etc/passwd has no such name"),
            ("bad", "the user of the image is `bad`, but its /etc/passwd has no such name"),
            (
                "nginx:nobody",
                "the user of the image is `nginx:nobody`, but its /etc/group has no such group",
            ),
            (
                "4294967295",
                "the user of the image is `4294967295`, but its /etc/passwd has no such",
            ),
        ];
        for (user, expected) in table {
            let said = find(user).unwrap_err().to_string();
            assert!(said.starts_with(expected), "{said}");
        }
    }

    #[test]
    fn the_task_takes_the_place_of_the_user() {
        let nginx = ImageUser { uid: 101, gid: 102 };
        let passwd = String::from_utf8(nginx.passwd(USERS.as_bytes(), 60_000, 60_001)).unwrap();
        let line = "nginx:x:60000:60001::/nonexistent:/bin/false\n";
        assert_eq!(passwd, USERS.replace("nginx:x:101:102::/nonexistent:/bin/false\n", line));
        let group = String::from_utf8(nginx.group(GROUPS.as_bytes(), 60_001)).unwrap();
        assert_eq!(group, GROUPS.replace("nginx:x:102:", "nginx:x:60001:"));
        let root = ImageUser { uid: 0, gid: 0 };
        let line = "task:x:60000:60001:task:/home/task:/bin/sh\n";
        for (content, before) in [("", ""), ("a", "a\n"), (USERS, USERS)] {
            let passwd = root.passwd(content.as_bytes(), 60_000, 60_001);
            assert_eq!(String::from_utf8(passwd).unwrap(), format!("{before}{line}"));
        }
        assert_eq!(root.group(b"root:x:0:\n", 60_001), b"root:x:0:\ntask:x:60001:\n");
        let unlisted = ImageUser { uid: 5, gid: 6 };
        assert_eq!(unlisted.group(b"root:x:0:\n", 60_001), b"root:x:0:\ntask:x:60001:\n");
    }
}
