//! The addresses of pages: each page has one, which can be shared, at any moment of the cell.

use std::fmt;

use axum::http::Uri;

/// A page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Cell(Query),
    Jobs(Query),
    Job { user: String, job: String },
    Description { user: String, job: String },
    Why { user: String, job: String },
    Task { user: String, job: String, index: u32 },
    Logs { user: String, job: String, index: u32, query: Query },
    Terminal { user: String, job: String, index: u32 },
    Machines(Query),
    Machine { name: String },
    Pending,
    Queue,
    Users,
    User { name: String },
    Names,
    NamesOf { user: String },
    Events(Query),
    Help,
}

/// The task that a page is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskName<'a> {
    pub(crate) user: &'a str,
    pub(crate) job: &'a str,
    pub(crate) index: u32,
}

/// As commands take it: `ana/web/3`.
impl fmt::Display for TaskName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.user, self.job, self.index)
    }
}

/// A page and the moment that it shows; none is now.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(crate) place: Place,
    /// As the user gave it: an index, a time, or an age.
    pub(crate) at: Option<String>,
}

/// The fields of a query, in the order of the address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Query(Vec<(String, String)>);

/// The most bytes of an address.
const BYTES_MAX: usize = 4_096;

impl Query {
    /// A field; empty if it is absent.
    pub(crate) fn get(&self, name: &str) -> &str {
        let mut fields = self.0.iter();
        fields.find(|(field, _)| field == name).map_or("", |(_, value)| value)
    }

    /// The same with another value of a field; empty removes it.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut fields = self.0.clone();
        fields.retain(|(field, _)| field != name);
        if !value.is_empty() {
            fields.push((name.to_owned(), value.to_owned()));
        }
        Self(fields)
    }

    /// Reads the part of an address after the question mark.
    pub(crate) fn parse(text: &str) -> Self {
        let field = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        };
        Self(text.split('&').filter(|pair| !pair.is_empty()).map(field).collect())
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (name, value)) in self.0.iter().enumerate() {
            let before = if number == 0 { '?' } else { '&' };
            write!(f, "{before}{}={}", encoded(name), encoded(value))?;
        }
        Ok(())
    }
}

impl Address {
    /// The page of a request.
    pub(crate) fn of(uri: &Uri) -> Option<Self> {
        Self::parse(uri.path(), uri.query().unwrap_or_default())
    }

    /// The page of an address such as `/jobs/ana/web?at=10m`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        Self::parse(path, query)
    }

    fn parse(path: &str, query: &str) -> Option<Self> {
        if path.len() + query.len() > BYTES_MAX {
            return None;
        }
        let query = Query::parse(query);
        let at = Some(query.get("at").to_owned()).filter(|at| !at.is_empty());
        let rest = query.with("at", "");
        let parts: Vec<String> =
            path.split('/').filter(|part| !part.is_empty()).map(decoded).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let index = |text: &str| text.parse().ok();
        let (user, job) = match parts.as_slice() {
            ["jobs", user, job, ..] => ((*user).to_owned(), (*job).to_owned()),
            _ => Default::default(),
        };
        let place = match parts.as_slice() {
            [] => Place::Cell(rest),
            ["jobs"] => Place::Jobs(rest),
            ["jobs", user] => Place::Jobs(rest.with("user", user)),
            ["jobs", _, _] => Place::Job { user, job },
            ["jobs", _, _, "description"] => Place::Description { user, job },
            ["jobs", _, _, "why"] => Place::Why { user, job },
            ["jobs", _, _, task] => Place::Task { user, job, index: index(task)? },
            ["jobs", _, _, task, "logs"] => {
                Place::Logs { user, job, index: index(task)?, query: rest }
            }
            ["jobs", _, _, task, "terminal"] => Place::Terminal { user, job, index: index(task)? },
            ["machines"] => Place::Machines(rest),
            ["machines", name] => Place::Machine { name: (*name).to_owned() },
            ["pending"] => Place::Pending,
            ["queue"] => Place::Queue,
            ["users"] => Place::Users,
            ["users", name] => Place::User { name: (*name).to_owned() },
            ["names"] => Place::Names,
            ["names", user] => Place::NamesOf { user: (*user).to_owned() },
            ["events"] => Place::Events(rest),
            ["help"] => Place::Help,
            _ => return None,
        };
        Some(Self { place, at })
    }

    /// The page of a job at the same moment, and so on: a link from this page.
    pub(crate) fn to(&self, place: Place) -> String {
        Self { place, at: self.at.clone() }.to_string()
    }

    /// The same page at another moment.
    pub(crate) fn at(&self, at: Option<&str>) -> String {
        Self { place: self.place.clone(), at: at.map(str::to_owned) }.to_string()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cell(query) => write!(f, "/{query}"),
            Self::Jobs(query) => write!(f, "/jobs{query}"),
            Self::Job { user, job } => write!(f, "/jobs/{}/{}", encoded(user), encoded(job)),
            Self::Description { user, job } => {
                write!(f, "/jobs/{}/{}/description", encoded(user), encoded(job))
            }
            Self::Why { user, job } => write!(f, "/jobs/{}/{}/why", encoded(user), encoded(job)),
            Self::Task { user, job, index } => {
                write!(f, "/jobs/{}/{}/{index}", encoded(user), encoded(job))
            }
            Self::Logs { user, job, index, query } => {
                write!(f, "/jobs/{}/{}/{index}/logs{query}", encoded(user), encoded(job))
            }
            Self::Terminal { user, job, index } => {
                write!(f, "/jobs/{}/{}/{index}/terminal", encoded(user), encoded(job))
            }
            Self::Machines(query) => write!(f, "/machines{query}"),
            Self::Machine { name } => write!(f, "/machines/{}", encoded(name)),
            Self::Pending => f.write_str("/pending"),
            Self::Queue => f.write_str("/queue"),
            Self::Users => f.write_str("/users"),
            Self::User { name } => write!(f, "/users/{}", encoded(name)),
            Self::Names => f.write_str("/names"),
            Self::NamesOf { user } => write!(f, "/names/{}", encoded(user)),
            Self::Events(query) => write!(f, "/events{query}"),
            Self::Help => f.write_str("/help"),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place.to_string();
        match &self.at {
            None => f.write_str(&place),
            Some(at) => {
                let before = if place.contains('?') { '&' } else { '?' };
                write!(f, "{place}{before}at={}", encoded(at))
            }
        }
    }
}

/// A text as a part of an address: everything but letters, digits and `-_.~` is escaped.
pub(crate) fn encoded(text: &str) -> String {
    use fmt::Write as _;

    let mut found = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            found.push(char::from(byte));
        } else {
            let _infallible = write!(found, "%{byte:02X}");
        }
    }
    // A browser would resolve these.
    match found.as_str() {
        "." => "%2E".to_owned(),
        ".." => "%2E%2E".to_owned(),
        _ => found,
    }
}

/// The text of a part of an address. What is no UTF-8 is replaced.
pub(crate) fn decoded(text: &str) -> String {
    let hex = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                if let (Some(high), Some(low)) = (hex(*high), hex(*low)) {
                    bytes.push(high << 4 | low);
                    rest = after;
                } else {
                    bytes.push(first);
                }
            }
            (b'+', _) => bytes.push(b' '),
            _ => bytes.push(first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_as_it_is_read() {
        for text in [
            "/",
            "/?at=10m",
            "/?of=ram&by=limit&at=10m",
            "/jobs",
            "/jobs?user=ana&q=web&at=88412",
            "/jobs/ana/web",
            "/jobs/ana/web?at=2026-11-19%2003%3A10",
            "/jobs/ana/web/description",
            "/jobs/ana/web/why",
            "/jobs/ana/web/3",
            "/jobs/ana/web/3/logs?stream=stderr",
            "/jobs/ana/web/3/terminal",
            "/machines?label=rack%3Dr7",
            "/machines/m1",
            "/pending",
            "/queue",
            "/users",
            "/users/ana",
            "/names",
            "/names/ana",
            "/events?machine=m1",
            "/help",
            "/jobs/ana/%3Cscript%3E",
            "/jobs/ana/..%2F",
            "/machines/%2E%2E",
        ] {
            let address = Address::read(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(address.to_string(), text);
        }
        for text in ["/nothing", "/jobs/ana/web/x", "/jobs/ana/web/-1", "/jobs/a/b/1/2", "/.env"] {
            assert_eq!(Address::read(text), None, "{text}");
        }
        assert_eq!(Address::read(&format!("/jobs?q={}", "x".repeat(5_000))), None);
    }

    #[test]
    fn a_malformed_escape_stays_unchanged() {
        for (text, expected) in [
            ("a+b", "a b"),
            ("%41", "A"),
            ("%4", "%4"),
            ("%", "%"),
            ("%zz", "%zz"),
            ("%ff", "\u{fffd}"),
            ("%e2%86%92", "→"),
        ] {
            assert_eq!(decoded(text), expected, "{text}");
        }
    }

    #[test]
    fn a_link_stays_at_the_moment_of_its_page() {
        let address = Address::read("/jobs/ana/web?at=10m").expect("a page");
        assert_eq!(address.to(Place::Machines(Query::default())), "/machines?at=10m");
        assert_eq!(address.at(None), "/jobs/ana/web");
        assert_eq!(address.at(Some("1h")), "/jobs/ana/web?at=1h");
    }
}
