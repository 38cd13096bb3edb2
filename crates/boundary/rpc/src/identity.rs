//! Identities of processes and people, as text and in certificates.
//!
//! | identity | text | in the certificate of cell `cc` |
//! |---|---|---|
//! | a replica of the Borgmaster | `master` | `borg://cc/master` |
//! | the Borglet of a machine | `borglet/<machine>` | `borg://cc/borglet/<machine>` |
//! | a scheduler | `scheduler/<name>` | … |
//! | a store of packages | `packages/<name>` | … |
//! | a user | `user/<name>` | … |
//! | a task | `task/<user>/<job>/<index>` | … |
//! | the holder of a machine's join token | `join/borglet/<machine>` | … |
//! | the holder of a replica's join token | `join/master/<id>` | … |
//!
//! The URI is the identity; names in it are percent-encoded. A certificate also contains two host
//! names, which are never resolved, so that a TLS client can specify the expected server:
//! `<role>.<cell>.borg`, and `<hash of the identity>.<role>.<cell>.borg` for exactly one identity.
//! The hash is needed because names of machines and users may be longer than a DNS label and
//! contain other characters.

use std::fmt;
use std::str::FromStr;

pub use crate::error::BadIdentity;
use crate::{Error, Result};

/// The maximum length of a name within an identity, in bytes.
pub const MAX_NAME_BYTES: usize = 200;

const SCHEME: &str = "borg://";
const MAX_CELL_BYTES: usize = 40;

/// The kind of process or person of an [`Identity`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// A replica of the Borgmaster.
    Master,
    /// The agent of a machine.
    Borglet,
    /// A scheduler.
    Scheduler,
    /// A store of packages.
    Packages,
    /// A person, or a program acting for one.
    User,
    /// A task of a job.
    Task,
    /// A machine or replica that joins the cell.
    Joining,
}

impl Role {
    /// The word for the role in identities and in host names.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Master => "master",
            Self::Borglet => "borglet",
            Self::Scheduler => "scheduler",
            Self::Packages => "packages",
            Self::User => "user",
            Self::Task => "task",
            Self::Joining => "join",
        }
    }

    /// Whether processes of this role listen, so that servers may use its certificate.
    #[must_use]
    pub fn serves(self) -> bool {
        match self {
            Self::Master | Self::Borglet | Self::Scheduler | Self::Packages => true,
            Self::User | Self::Task | Self::Joining => false,
        }
    }
}

/// The identity of a process or person within a cell. Authorization is separate.
///
/// A name has 1 to [`MAX_NAME_BYTES`] bytes, no `/` and no control characters. A hand-built value
/// may violate this; no certificate is issued for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Identity {
    /// Any replica of the cell's Borgmaster.
    Master,
    /// The Borglet of the machine of this name.
    Borglet(String),
    /// The scheduler of this name.
    Scheduler(String),
    /// The store of packages of this name.
    Packages(String),
    /// The user of this name.
    User(String),
    /// A task.
    Task {
        /// The owner of its job.
        user: String,
        /// Its job.
        job: String,
        /// The index of the task, from 0.
        index: u32,
    },
    /// The holder of a join token, which can only ask to join.
    Joining(Joining),
}

/// What a join token is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Joining {
    /// The Borglet of the machine of this name.
    Machine(String),
    /// The replica of the Borgmaster with this id.
    Replica(u64),
}

impl Identity {
    /// The role of the identity.
    #[must_use]
    pub fn role(&self) -> Role {
        match self {
            Self::Master => Role::Master,
            Self::Borglet(_) => Role::Borglet,
            Self::Scheduler(_) => Role::Scheduler,
            Self::Packages(_) => Role::Packages,
            Self::User(_) => Role::User,
            Self::Task { .. } => Role::Task,
            Self::Joining(_) => Role::Joining,
        }
    }

    /// Checks that the names are valid and parse back as the same identity.
    ///
    /// # Errors
    /// [`BadIdentity`] with the reason.
    pub fn check(&self) -> Result<(), BadIdentity> {
        let check = |name: &str| match name_fault(name) {
            None => Ok(()),
            Some(why) => Err(BadIdentity { text: self.to_string(), why }),
        };
        match self {
            Self::Master | Self::Joining(Joining::Replica(_)) => Ok(()),
            Self::Borglet(name)
            | Self::Scheduler(name)
            | Self::Packages(name)
            | Self::User(name)
            | Self::Joining(Joining::Machine(name)) => check(name),
            Self::Task { user, job, .. } => check(user).and_then(|()| check(job)),
        }
    }

    /// The URI of the identity in a certificate of `cell`.
    #[must_use]
    pub fn uri(&self, cell: &str) -> String {
        let segments = self.to_string();
        let encoded: Vec<_> = segments.split('/').map(percent_encode).collect();
        format!("{SCHEME}{cell}/{}", encoded.join("/"))
    }

    /// The host name that is unique to this identity.
    pub(crate) fn host_name(&self, cell: &str) -> String {
        let hash = blake3::hash(self.to_string().as_bytes()).to_hex();
        // 128 bits make collisions infeasible and fit into a label.
        format!("{}.{}", &hash[..32], role_host_name(self.role(), cell))
    }

    /// Parses a URI into cell and identity.
    pub(crate) fn from_uri(uri: &str) -> Result<(String, Self), BadIdentity> {
        let bad = |why| BadIdentity { text: uri.to_owned(), why };
        let (cell, path) = uri
            .strip_prefix(SCHEME)
            .and_then(|rest| rest.split_once('/'))
            .ok_or_else(|| bad("its URI is not borg://CELL/IDENTITY"))?;
        let mut segments = Vec::new();
        for segment in path.split('/') {
            let decoded =
                percent_decode(segment).ok_or_else(|| bad("its URI is incorrectly encoded"))?;
            segments.push(decoded);
        }
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let identity = Self::from_segments(&segments).map_err(bad)?;
        if identity.uri(cell) != uri {
            return Err(bad("its URI is not in canonical form"));
        }
        Ok((cell.to_owned(), identity))
    }

    fn from_segments(segments: &[&str]) -> Result<Self, &'static str> {
        for segment in segments {
            if let Some(fault) = name_fault(segment) {
                return Err(fault);
            }
        }
        match segments {
            ["master"] => Ok(Self::Master),
            ["borglet", machine] => Ok(Self::Borglet((*machine).to_owned())),
            ["scheduler", name] => Ok(Self::Scheduler((*name).to_owned())),
            ["packages", name] => Ok(Self::Packages((*name).to_owned())),
            ["user", name] => Ok(Self::User((*name).to_owned())),
            ["task", user, job, index] => {
                let number = plain_number(index)
                    .and_then(|number| u32::try_from(number).ok())
                    .ok_or("the index of the task is not a plain number")?;
                Ok(Self::Task { user: (*user).into(), job: (*job).into(), index: number })
            }
            ["join", "borglet", machine] => {
                Ok(Self::Joining(Joining::Machine((*machine).to_owned())))
            }
            ["join", "master", id] => {
                let id = plain_number(id).ok_or("the id of the replica is not a plain number")?;
                Ok(Self::Joining(Joining::Replica(id)))
            }
            ["master" | "borglet" | "scheduler" | "packages" | "user" | "task" | "join", ..] => {
                Err("it has too few or too many parts")
            }
            _ => Err("no such role"),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = self.role().as_str();
        match self {
            Self::Master => f.write_str(role),
            Self::Borglet(name)
            | Self::Scheduler(name)
            | Self::Packages(name)
            | Self::User(name) => write!(f, "{role}/{name}"),
            Self::Task { user, job, index } => write!(f, "{role}/{user}/{job}/{index}"),
            Self::Joining(Joining::Machine(name)) => write!(f, "{role}/borglet/{name}"),
            Self::Joining(Joining::Replica(id)) => write!(f, "{role}/master/{id}"),
        }
    }
}

impl FromStr for Identity {
    type Err = BadIdentity;

    fn from_str(text: &str) -> Result<Self, BadIdentity> {
        let segments: Vec<_> = text.split('/').collect();
        Self::from_segments(&segments).map_err(|why| BadIdentity { text: text.to_owned(), why })
    }
}

/// The server that a client expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// Any server of this role: for example any replica of the master.
    Role(Role),
    /// Exactly this server: for example the Borglet of one machine.
    Identity(Identity),
}

impl Expect {
    /// The host name that the server's certificate must contain.
    pub(crate) fn host_name(&self, cell: &str) -> String {
        match self {
            Self::Role(role) => role_host_name(*role, cell),
            Self::Identity(identity) => identity.host_name(cell),
        }
    }
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Role(role) => write!(f, "a {}", role.as_str()),
            Self::Identity(identity) => identity.fmt(f),
        }
    }
}

/// The host name in all certificates of a role.
pub(crate) fn role_host_name(role: Role, cell: &str) -> String {
    format!("{}.{cell}.borg", role.as_str())
}

/// Rejects a cell name that is not a valid label of a host name.
pub(crate) fn check_cell(cell: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let valid = !cell.is_empty()
        && cell.len() <= MAX_CELL_BYTES
        && cell.chars().all(allowed)
        && !cell.starts_with('-')
        && !cell.ends_with('-');
    if valid { Ok(()) } else { Err(Error::BadCell { cell: cell.to_owned() }) }
}

/// Parses a number in canonical form, without `+7` or `007`, so that names are unique.
fn plain_number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number: &u64| number.to_string() == text)
}

fn name_fault(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("a part of it is empty")
    } else if name.len() > MAX_NAME_BYTES {
        Some("a part of it is longer than 200 bytes")
    } else if name.contains('/') {
        Some("a name in it contains a /")
    } else if name.chars().any(char::is_control) {
        Some("a part of it contains a control character")
    } else {
        None
    }
}

fn percent_encode(segment: &str) -> String {
    let mut encoded = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

fn percent_decode(segment: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(segment.len());
    let mut bytes = segment.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
            let (high, low) = (digit(bytes.next()?)?, digit(bytes.next()?)?);
            decoded.push(high << 4 | low);
        } else {
            decoded.push(byte);
        }
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn task(user: &str, job: &str, index: u32) -> Identity {
        Identity::Task { user: user.into(), job: job.into(), index }
    }

    #[test]
    fn identities_in_text_and_in_certificates() {
        let table = [
            (Identity::Master, "master", "borg://cc/master"),
            (
                Identity::Borglet("m-1.rack7".into()),
                "borglet/m-1.rack7",
                "borg://cc/borglet/m-1.rack7",
            ),
            (Identity::Scheduler("batch".into()), "scheduler/batch", "borg://cc/scheduler/batch"),
            (Identity::Packages("p1".into()), "packages/p1", "borg://cc/packages/p1"),
            (Identity::User("zoë r".into()), "user/zoë r", "borg://cc/user/zo%C3%AB%20r"),
            (Identity::User("100%".into()), "user/100%", "borg://cc/user/100%25"),
            (task("ubar", "jfoo", 50), "task/ubar/jfoo/50", "borg://cc/task/ubar/jfoo/50"),
            (
                Identity::Joining(Joining::Machine("m 1".into())),
                "join/borglet/m 1",
                "borg://cc/join/borglet/m%201",
            ),
            (Identity::Joining(Joining::Replica(2)), "join/master/2", "borg://cc/join/master/2"),
        ];
        for (identity, text, uri) in table {
            assert_eq!(identity.to_string(), text);
            assert_eq!(text.parse(), Ok(identity.clone()));
            assert_eq!(identity.uri("cc"), uri);
            assert_eq!(Identity::from_uri(uri), Ok(("cc".to_owned(), identity)));
        }
    }

    #[test]
    fn an_invalid_identity_is_refused() {
        let long = format!("user/{}", "x".repeat(201));
        for text in [
            "",
            "Master",
            "master/",
            "master/1",
            "borglet",
            "borglet/",
            "packages",
            "packages/a/b",
            "user/a/b",
            "task/u/j",
            "task/u/j/x",
            "task/u/j/+1",
            "task/u/j/01",
            "task/u/j/-1",
            "task/u/j/4294967296",
            "task//j/1",
            "join",
            "join/master",
            "join/master/m2",
            "join/master/02",
            "join/master/18446744073709551616",
            "join/borglet/",
            "join/user/ana",
            "root/x",
            "user/a\nb",
            &long,
        ] {
            assert!(text.parse::<Identity>().is_err(), "{text:?}");
        }
        for uri in [
            "borg://cc/user/a%2Fb",
            "borg://cc/user/%61",
            "borg://cc/user/a%2",
            "borg://cc",
            "borg://cc/user/zoë",
            "http://cc/master",
            "borg://cc/user/%ff",
        ] {
            assert!(Identity::from_uri(uri).is_err(), "{uri:?}");
        }
        assert!(Identity::User("a/b".into()).check().is_err());
        assert!(task("u", "", 1).check().is_err());
    }

    #[test]
    fn host_names_fit_into_labels_and_tell_identities_apart() {
        let long = Identity::Borglet("x".repeat(MAX_NAME_BYTES));
        let cell = "c".repeat(MAX_CELL_BYTES);
        let name = long.host_name(&cell);
        assert!(name.len() < 253 && name.split('.').all(|label| label.len() < 64), "{name}");
        let of = |text: &str| text.parse::<Identity>().unwrap().host_name("cc");
        assert_ne!(of("borglet/a"), of("borglet/b"));
        assert!(of("borglet/a").ends_with(".borglet.cc.borg"));
        assert_eq!(Expect::Role(Role::Master).host_name("cc"), "master.cc.borg");
    }

    #[test]
    fn cells_are_labels() {
        for cell in ["cc", "a", "prod-7"] {
            check_cell(cell).unwrap();
        }
        for cell in ["", "-a", "a-", "A", "a.b", "a b", "ü", &"x".repeat(41)] {
            assert!(check_cell(cell).is_err(), "{cell:?}");
        }
    }

    proptest! {
        #[test]
        fn a_parsed_identity_is_written_back_unchanged(text in "(user|borglet|task|join/borglet|x)/\\PC{0,20}(/\\PC{1,5}/[0-9]{1,3})?") {
            if let Ok(identity) = text.parse::<Identity>() {
                prop_assert_eq!(identity.to_string(), text);
                prop_assert_eq!(identity.check(), Ok(()));
                let uri = identity.uri("cc");
                prop_assert!(uri.is_ascii());
                prop_assert_eq!(Identity::from_uri(&uri), Ok(("cc".to_owned(), identity)));
            }
        }
    }
}
