//! The pairs of ports of `bourg port-forward`.

use std::fmt;
use std::str::FromStr;

use api::v1;
use command::Failure;
use command::output::one_line;
use model::PortName;

/// A port here, and the port of a task to which its connections go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PortPair {
    /// 0 is a free port.
    pub(super) here: u16,
    pub(super) there: TaskPort,
}

/// A port of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TaskPort {
    /// The name of a port of the job.
    Named(PortName),
    Numbered(u16),
}

impl FromStr for PortPair {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (here, there) = match text.split_once(':') {
            Some(("", there)) => (0, there.parse()?),
            Some((here, there)) => (number(here)?, there.parse()?),
            None => match text.parse()? {
                TaskPort::Numbered(port) => (port, TaskPort::Numbered(port)),
                named @ TaskPort::Named(_) => (0, named),
            },
        };
        Ok(Self { here, there })
    }
}

fn number(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("'{text}' is no port: 1 to 65535")),
        Ok(port) => Ok(port),
    }
}

impl FromStr for TaskPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.starts_with(|first: char| first.is_ascii_digit()) {
            true => number(text).map(Self::Numbered),
            false => PortName::new(text).map(Self::Named).map_err(|error| error.to_string()),
        }
    }
}

impl fmt::Display for TaskPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => name.fmt(f),
            Self::Numbered(port) => port.fmt(f),
        }
    }
}

impl TaskPort {
    pub(super) fn is_named(&self) -> bool {
        matches!(self, Self::Named(_))
    }

    /// Its number in this incarnation of a task.
    pub(super) fn number(&self, task: &v1::TaskStatus) -> Result<u16, Failure> {
        let name = match self {
            Self::Numbered(port) => return Ok(*port),
            Self::Named(name) => name.to_string(),
        };
        let found = task.ports.iter().find(|port| port.name == name);
        if let Some(port) = found.and_then(|port| u16::try_from(port.port).ok()) {
            return Ok(port);
        }
        let failure = Failure::usage(format!("error: the task has no port {name}"));
        let names: Vec<_> = task.ports.iter().map(|port| one_line(&port.name)).collect();
        Err(match names.is_empty() {
            true => failure.next("name the port by its number: the job describes no ports"),
            false => failure.next(format!("its ports are {}", names.join(", "))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_or_rejected() {
        let named = |name: &str| TaskPort::Named(PortName::new(name).expect("a name"));
        for (text, here, there) in [
            ("8080:http", 8080, named("http")),
            ("8080:80", 8080, TaskPort::Numbered(80)),
            (":http", 0, named("http")),
            (":80", 0, TaskPort::Numbered(80)),
            ("http", 0, named("http")),
            ("80", 80, TaskPort::Numbered(80)),
        ] {
            assert_eq!(text.parse(), Ok(PortPair { here, there }), "{text}");
        }
        for text in ["", ":", "80:", "0:80", "80:0", "http:80", "80:70000", "70000:http", "1:2:3"] {
            assert!(text.parse::<PortPair>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_port_that_the_task_lacks_is_an_error_with_those_it_has() {
        let http = v1::NamedPort { name: "http".to_owned(), port: 31_001 };
        let task = v1::TaskStatus { ports: vec![http], ..v1::TaskStatus::default() };
        let number = |text: &str| text.parse::<TaskPort>().expect("a port").number(&task);
        assert_eq!(number("http").expect("a port"), 31_001);
        assert_eq!(number("7").expect("a port"), 7);
        let said = number("grpc").expect_err("no such port").to_string();
        assert!(said.contains("no port grpc") && said.contains("its ports are http"), "{said}");
    }
}
