//! The zone of a cell, and the names in it.

use std::net::IpAddr;

use hickory_proto::rr::Name;
use model::{CellName, JobName, TaskIndex, UserName};
use thiserror::Error;

use crate::names::Owner;
use crate::question::{NamePart, Question, Target};

/// The name of the replicas below the zone.
const MASTER: &str = "master";

/// The longest domain, in characters. It leaves room for the names of tasks: a DNS name has at most
/// 255 bytes.
const DOMAIN_MAX: usize = 100;

/// The text is not a domain below which a zone can be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadDomain {
    /// It is too long.
    #[error("a domain has at most {DOMAIN_MAX} characters, this one has {length}")]
    TooLong {
        /// Its length in characters.
        length: usize,
    },
    /// One of its labels is not 1 to 63 letters, digits and inner hyphens.
    #[error(
        "'{}' is not a domain: its labels are 1 to 63 letters, digits and inner hyphens, \
         for example 'example.com'", .text.escape_debug()
    )]
    BadLabel {
        /// The text that was given.
        text: String,
    },
}

/// The zone of a cell: `CELL.borg.` or `CELL.borg.DOMAIN.`.
#[derive(Clone, Debug)]
pub struct Zone {
    origin: Name,
    master: Name,
    contact: Name,
    /// Lower case, from the root down.
    labels: Vec<Vec<u8>>,
}

impl Zone {
    /// The zone of a cell below a domain, or below the root without one.
    ///
    /// # Errors
    /// When the text is not a domain.
    pub fn new(cell: &CellName, domain: Option<&str>) -> Result<Self, BadDomain> {
        let mut labels = vec![cell.as_str().to_owned(), "borg".to_owned()];
        if let Some(text) = domain {
            let length = text.chars().count();
            if length > DOMAIN_MAX {
                return Err(BadDomain::TooLong { length });
            }
            let bad = || BadDomain::BadLabel { text: text.to_owned() };
            for label in text.strip_suffix('.').unwrap_or(text).split('.') {
                let label = label.to_ascii_lowercase();
                // The same rule as for a cell's name.
                let label = CellName::new(&label).map_err(|_| bad())?;
                labels.push(label.as_str().to_owned());
            }
        }
        let bad = |_| BadDomain::BadLabel { text: domain.unwrap_or_default().to_owned() };
        let mut origin = Name::from_labels(labels.iter().map(String::as_bytes)).map_err(bad)?;
        origin.set_fqdn(true);
        let master = origin.prepend_label(MASTER).map_err(bad)?;
        let contact = origin.prepend_label("hostmaster").map_err(bad)?;
        let labels = labels.into_iter().rev().map(String::into_bytes).collect();
        Ok(Self { origin, master, contact, labels })
    }

    /// The zone as text, with the final dot: for search domains and messages.
    #[must_use]
    pub fn text(&self) -> String {
        self.origin.to_ascii()
    }

    /// The apex.
    pub(crate) fn origin(&self) -> &Name {
        &self.origin
    }

    /// The name of the replicas.
    pub(crate) fn master(&self) -> &Name {
        &self.master
    }

    /// The mailbox of the zone's administrator, for its SOA record.
    pub(crate) fn contact(&self) -> &Name {
        &self.contact
    }

    /// The name of an owner of addresses; `None` if it would exceed the 255 bytes of a DNS name.
    pub(crate) fn name_of(&self, owner: &Owner) -> Option<Name> {
        let Owner::Task { user, job, index } = owner else { return Some(self.master.clone()) };
        let index = index.0.to_string();
        let below = [index.as_str(), job.as_str(), user.as_str()].map(str::as_bytes);
        let mut name = Name::from_labels(below.into_iter().chain(self.origin.iter())).ok()?;
        name.set_fqdn(true);
        Some(name)
    }

    /// What a name is about. Upper and lower case are the same.
    pub(crate) fn target(&self, name: &Name) -> Target {
        let mut rest = name.iter();
        for label in &self.labels {
            match rest.next_back() {
                Some(theirs) if theirs.eq_ignore_ascii_case(label) => {}
                _ => return reverse(name).map_or(Target::Foreign, Target::Reverse),
            }
        }
        below(rest).unwrap_or(Target::Impossible)
    }
}

/// What the labels below the zone are about, the lowest first; `None` if no such name can exist.
fn below<'a>(mut labels: impl DoubleEndedIterator<Item = &'a [u8]>) -> Option<Target> {
    let mut next = || labels.next_back().map(lower_case);
    let itself = |question| Some(Target::Name(question, NamePart::Itself));
    let Some(user) = next() else { return Some(Target::Apex) };
    let user = user?;
    let Some(job) = next() else {
        return itself(if user == MASTER {
            Question::Master
        } else {
            Question::User(UserName::new(&user).ok()?)
        });
    };
    let (user, job) = (UserName::new(&user).ok()?, JobName::new(&job?).ok()?);
    let (question, protocol) = match next() {
        None => return itself(Question::Job { user, job }),
        Some(label) => {
            let label = label?;
            if label.starts_with('_') {
                (Question::Job { user, job }, label)
            } else {
                let task = Question::Task { user, job, index: task_index(&label)? };
                match next() {
                    None => return itself(task),
                    Some(label) => (task, label?),
                }
            }
        }
    };
    if protocol != "_tcp" {
        return None;
    }
    let Some(port) = next() else { return Some(Target::Name(question, NamePart::Tcp)) };
    let port = port?.strip_prefix('_')?.parse().ok()?;
    next().is_none().then_some(Target::Name(question, NamePart::Port(port)))
}

/// A label in lower case; `None` if it is not ASCII.
fn lower_case(label: &[u8]) -> Option<String> {
    let label = std::str::from_utf8(label).ok().filter(|label| label.is_ascii())?;
    Some(label.to_ascii_lowercase())
}

/// A task index in its only form: decimal without leading zeros.
fn task_index(text: &str) -> Option<TaskIndex> {
    let index: u32 = text.parse().ok()?;
    (index.to_string() == text).then_some(TaskIndex(index))
}

/// The address whose reverse name this is; `None` for any other name, including those of networks.
fn reverse(name: &Name) -> Option<IpAddr> {
    let mut labels = name.iter().rev();
    if !labels.next()?.eq_ignore_ascii_case(b"arpa") {
        return None;
    }
    let family = labels.next()?;
    if family.eq_ignore_ascii_case(b"in-addr") && labels.len() == 4 {
        let mut octets = [0; 4];
        for (octet, label) in octets.iter_mut().zip(labels) {
            let text = std::str::from_utf8(label).ok()?;
            *octet = text.parse().ok()?;
            if octet.to_string() != text {
                return None;
            }
        }
        return Some(IpAddr::from(octets));
    }
    if family.eq_ignore_ascii_case(b"ip6") && labels.len() == 32 {
        let mut address = 0_u128;
        for label in labels {
            let [digit] = label else { return None };
            address = address << 4 | u128::from(char::from(*digit).to_digit(16)?);
        }
        return Some(IpAddr::from(address.to_be_bytes()));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(domain: Option<&str>) -> Zone {
        Zone::new(&"cc".parse().unwrap(), domain).unwrap()
    }

    /// Parses a name, in which `~` stands for the byte 0, `^` for 255 and `,` for a dot in a label.
    fn name(text: &str) -> Name {
        let byte = |byte| match byte {
            b'~' => 0,
            b'^' => 255,
            b',' => b'.',
            byte => byte,
        };
        let labels = text.split('.').filter(|label| !label.is_empty());
        let labels = labels.map(|label| label.bytes().map(byte).collect::<Vec<u8>>());
        let labels: Vec<_> = labels.collect();
        let mut name = Name::from_labels(labels.iter().map(Vec::as_slice)).expect(text);
        name.set_fqdn(true);
        name
    }

    #[test]
    fn names_are_about() {
        let table = [
            ("cc.borg.", "Apex"),
            ("CC.Borg.", "Apex"),
            ("borg.", "Foreign"),
            (".", "Foreign"),
            ("cc.borg.example.com.", "Foreign"),
            ("ccc.borg.", "Foreign"),
            ("master.cc.borg.", "Name(Master, Itself)"),
            ("ubar.cc.borg.", "Name(User(UserName(ubar)), Itself)"),
            (
                "JFoo.uBar.cc.borg.",
                "Name(Job { user: UserName(ubar), job: JobName(jfoo) }, Itself)",
            ),
            (
                "50.jfoo.ubar.cc.borg.",
                "Name(Task { user: UserName(ubar), job: JobName(jfoo), index: TaskIndex(50) }, Itself)",
            ),
            (
                "_tcp.jfoo.ubar.cc.borg.",
                "Name(Job { user: UserName(ubar), job: JobName(jfoo) }, Tcp)",
            ),
            (
                "_HTTP._TCP.jfoo.ubar.cc.borg.",
                "Name(Job { user: UserName(ubar), job: JobName(jfoo) }, Port(PortName(http)))",
            ),
            (
                "_http._tcp.0.jfoo.ubar.cc.borg.",
                "Name(Task { user: UserName(ubar), job: JobName(jfoo), index: TaskIndex(0) }, \
                 Port(PortName(http)))",
            ),
            (
                "jfoo.master.cc.borg.",
                "Name(Job { user: UserName(master), job: JobName(jfoo) }, Itself)",
            ),
            ("050.jfoo.ubar.cc.borg.", "Impossible"),
            ("+5.jfoo.ubar.cc.borg.", "Impossible"),
            ("4294967296.jfoo.ubar.cc.borg.", "Impossible"),
            ("x.jfoo.ubar.cc.borg.", "Impossible"),
            ("0.0.jfoo.ubar.cc.borg.", "Impossible"),
            ("_http._udp.jfoo.ubar.cc.borg.", "Impossible"),
            ("http._tcp.jfoo.ubar.cc.borg.", "Impossible"),
            ("_._tcp.jfoo.ubar.cc.borg.", "Impossible"),
            ("a._http._tcp.jfoo.ubar.cc.borg.", "Impossible"),
            ("_tcp.ubar.cc.borg.", "Impossible"),
            ("-.ubar.cc.borg.", "Impossible"),
            ("*.ubar.cc.borg.", "Impossible"),
            ("j~oo.ubar.cc.borg.", "Impossible"),
            ("j^oo.ubar.cc.borg.", "Impossible"),
            ("j,foo.ubar.cc.borg.", "Impossible"),
            ("4.3.2.10.in-addr.arpa.", "Reverse(10.2.3.4)"),
            ("4.3.2.10.IN-ADDR.ARPA.", "Reverse(10.2.3.4)"),
            ("3.2.10.in-addr.arpa.", "Foreign"),
            ("5.4.3.2.10.in-addr.arpa.", "Foreign"),
            ("256.3.2.10.in-addr.arpa.", "Foreign"),
            ("04.3.2.10.in-addr.arpa.", "Foreign"),
            ("arpa.", "Foreign"),
            (
                "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa.",
                "Reverse(2001:db8::1)",
            ),
            ("8.b.d.0.1.0.0.2.ip6.arpa.", "Foreign"),
        ];
        for (text, expected) in table {
            assert_eq!(format!("{:?}", zone(None).target(&name(text))), expected, "{text}");
        }
    }

    #[test]
    fn a_domain_is_a_suffix_of_the_zone() {
        let zone = zone(Some("Example.com."));
        assert_eq!(zone.text(), "cc.borg.example.com.");
        let target = |name| zone.target(&Name::from_ascii(name).unwrap());
        assert_eq!(
            target("master.cc.borg.EXAMPLE.com."),
            Target::Name(Question::Master, NamePart::Itself)
        );
        assert_eq!(target("master.cc.borg."), Target::Foreign);
    }

    #[test]
    fn other_texts_are_no_domains() {
        let says =
            |text: &str| Zone::new(&"cc".parse().unwrap(), Some(text)).expect_err(text).to_string();
        for text in ["", ".", "a..b", "-a", "a_b", "é.com"] {
            assert!(says(text).contains("is not a domain"), "{text}");
        }
        assert_eq!(says(&"a.".repeat(60)), "a domain has at most 100 characters, this one has 120");
    }

    #[test]
    fn names_of_owners_read_back() {
        let zone = zone(Some("example.com"));
        let (user, job, index) = ("ubar".parse().unwrap(), "jfoo".parse().unwrap(), TaskIndex(7));
        let owner = Owner::Task { user, job, index };
        let name = zone.name_of(&owner).unwrap();
        assert_eq!(name.to_ascii(), "7.jfoo.ubar.cc.borg.example.com.");
        let Owner::Task { user, job, index } = owner else { unreachable!() };
        let task = Question::Task { user, job, index };
        assert_eq!(zone.target(&name), Target::Name(task, NamePart::Itself));
        assert_eq!(zone.name_of(&Owner::Master).unwrap().to_ascii(), "master.cc.borg.example.com.");
    }
}
