//! References to where the tasks of other jobs are: `${bns.ana/db.host}`.

use std::fmt;
use std::str::FromStr;

use model::{PortName, TaskIndex, UserName};

use crate::JobReference;

/// Where a task of a job is, or where all of them are, as a text of a description asks for it:
/// `bns.db/3.port.http`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameReference {
    /// The job.
    pub job: JobReference,
    /// Its task; without one, those that serve.
    pub task: Option<TaskIndex>,
    /// What of it.
    pub field: NameField,
}

/// What a text says of a task of another job. A port without a name is the only one of that job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NameField {
    /// The host: `10.0.0.7`.
    Host,
    /// The number of a port: `31000`.
    Port(Option<PortName>),
    /// Host and port: `10.0.0.7:31000`.
    Address(Option<PortName>),
    /// Hosts and ports of all tasks that serve, by index, with commas between: `10.0.0.7:31000,10.0.0.8:31000`.
    Addresses(Option<PortName>),
}

impl NameReference {
    /// What references to names begin with.
    pub const WORD: &'static str = "bns";

    /// The owner of the job, if it is named in a description of this user.
    #[must_use]
    pub fn owner<'a>(&'a self, user: &'a UserName) -> &'a UserName {
        self.job.user.as_ref().unwrap_or(user)
    }

    /// The port that it asks for by name.
    #[must_use]
    pub fn port(&self) -> Option<&PortName> {
        match &self.field {
            NameField::Host => None,
            NameField::Port(port) | NameField::Address(port) | NameField::Addresses(port) => {
                port.as_ref()
            }
        }
    }

    /// The longest value that it can have, in bytes.
    #[must_use]
    pub fn value_bytes_max(&self) -> usize {
        const HOST: usize = 255;
        const PORT: usize = 5;
        match self.field {
            NameField::Host => HOST,
            NameField::Port(_) => PORT,
            NameField::Address(_) => HOST + 1 + PORT,
            NameField::Addresses(_) => crate::limits::ADDRESSES_BYTES_MAX,
        }
    }
}

/// The text is none after `bns.`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAName;

impl FromStr for NameReference {
    type Err = NotAName;

    /// Reads what is between the braces.
    fn from_str(text: &str) -> Result<Self, NotAName> {
        let text = text.strip_prefix(Self::WORD).and_then(|rest| rest.strip_prefix('.'));
        let (place, field) = text.and_then(|text| text.split_once('.')).ok_or(NotAName)?;
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let (job, task) = match place.rsplit_once('/') {
            Some((job, last)) if job.contains('/') || is_number(last) => {
                let index = Some(last).filter(|last| is_number(last));
                let index = index.and_then(|last| last.parse().ok());
                (job, Some(TaskIndex(index.ok_or(NotAName)?)))
            }
            _ => (place, None),
        };
        let job = job.parse().map_err(|_| NotAName)?;
        let (word, port) = match field.split_once('.') {
            Some((word, port)) => (word, Some(PortName::new(port).map_err(|_| NotAName)?)),
            None => (field, None),
        };
        let field = match word {
            "host" if port.is_none() => NameField::Host,
            "port" => NameField::Port(port),
            "address" => NameField::Address(port),
            "addresses" if task.is_none() => NameField::Addresses(port),
            _ => return Err(NotAName),
        };
        Ok(Self { job, task, field })
    }
}

impl fmt::Display for NameReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", Self::WORD, self.job)?;
        if let Some(task) = self.task {
            write!(f, "/{task}")?;
        }
        f.write_str(match self.field {
            NameField::Host => ".host",
            NameField::Port(_) => ".port",
            NameField::Address(_) => ".address",
            NameField::Addresses(_) => ".addresses",
        })?;
        match self.port() {
            Some(port) => write!(f, ".{port}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for text in [
            "bns.db.host",
            "bns.ana/db.port",
            "bns.ana/db/3.port.http",
            "bns.db/0.address",
            "bns.ana/db.addresses.http",
        ] {
            let read: Result<NameReference, _> = text.parse();
            assert_eq!(read.map(|read| read.to_string()), Ok(text.to_owned()));
        }
        for text in [
            "bns",
            "bns.db",
            "bns.db.hosts",
            "bns.db.host.http",
            "bns.DB.host",
            "bns./db.host",
            "bns.ana/db/x.host",
            "bns.ana/db/-1.host",
            "bns.db/3.addresses",
            "bns.db.port.",
            "bns.db.port.HTTP",
            "bns.db.port.a.b",
            "bns.db/99999999999.host",
            "dns.db.host",
        ] {
            assert_eq!(text.parse::<NameReference>(), Err(NotAName), "{text}");
        }
    }

    #[test]
    fn a_number_after_one_slash_is_an_index() {
        let read: NameReference = "bns.db/3.host".parse().expect("a name");
        assert_eq!((read.job.user, read.task), (None, Some(TaskIndex(3))));
        let read: NameReference = "bns.ana/db.host".parse().expect("a name");
        assert_eq!((read.job.user.is_some(), read.task), (true, None));
    }
}
