//! References in commands and environments: `${port.http}`, `${task.index}`.
//!
//! Only `${port.…}`, `${task.…}` and `${bns.…}` are references; everything else, such as a shell's `${HOME}`,
//! is left unchanged. Shell variable names contain no dot, so they need no escape. For the same
//! reason likely typos such as `${prot.http}` can be detected. A `$` before any of these makes it
//! literal: `$${task.index}` is `${task.index}` for the program.

use model::PortName;

use crate::NameReference;

/// What a reference stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The number assigned to one of the task's ports.
    Port(PortName),
    /// A property of the task itself.
    Task(TaskField),
    /// Where tasks of another job are.
    Name(NameReference),
}

/// The properties of a task that references can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskField {
    /// The index in the job, from 0.
    Index,
    /// The job's name.
    Job,
    /// The job's owner.
    User,
    /// The cell.
    Cell,
    /// The CPU that it may use, in cores of its machine.
    Cpu,
    /// Its memory limit, in bytes.
    Ram,
    /// The number of tasks of its job.
    Tasks,
}

impl TaskField {
    /// All fields.
    pub const ALL: [Self; 7] =
        [Self::Index, Self::Job, Self::User, Self::Cell, Self::Cpu, Self::Ram, Self::Tasks];

    /// The name used in references.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Job => "job",
            Self::User => "user",
            Self::Cell => "cell",
            Self::Cpu => "cpu",
            Self::Ram => "ram",
            Self::Tasks => "tasks",
        }
    }
}

/// What begins with `${` and is closed.
enum Found {
    Reference(Reference),
    /// The text of an invalid reference.
    Invalid(String),
    /// A literal `${…}` after a `$`, which the range includes.
    Escaped,
}

/// Every reference and every escaped one in a text with its position, in order.
fn found(text: &str) -> impl Iterator<Item = (std::ops::Range<usize>, Found)> {
    let mut from = 0;
    let mut end = 0;
    std::iter::from_fn(move || {
        loop {
            let start = from + text[from..].find("${")?;
            // Many beginnings may share one end; search for it once, because the text may be
            // hostile.
            if end <= start {
                end = start + text[start..].find('}')? + 1;
            }
            let inner = &text[start + 2..end - 1];
            if is_escaped(text, start) && is_near(inner) {
                from = end;
                return Some((start - 1..end, Found::Escaped));
            }
            let invalid = || Found::Invalid(inner.to_owned());
            if let Some(name) = inner.strip_prefix("port.") {
                from = end;
                let port = PortName::new(name).map(|name| Found::Reference(Reference::Port(name)));
                return Some((start..end, port.unwrap_or_else(|_| invalid())));
            }
            if let Some(name) = inner.strip_prefix("task.") {
                from = end;
                let field = TaskField::ALL.into_iter().find(|field| field.name() == name);
                let field = field.map(|field| Found::Reference(Reference::Task(field)));
                return Some((start..end, field.unwrap_or_else(invalid)));
            }
            if inner.starts_with("bns.") {
                from = end;
                let name = inner.parse().map(|name| Found::Reference(Reference::Name(name)));
                return Some((start..end, name.unwrap_or_else(|_| invalid())));
            }
            from = start + 2;
        }
    })
}

/// Whether the `${` at a position follows a `$`.
fn is_escaped(text: &str, start: usize) -> bool {
    text[..start].ends_with('$')
}

/// Every reference in a text with its position, in order; `Err` contains the text of an invalid
/// one. Escaped ones are none.
pub fn references(
    text: &str,
) -> impl Iterator<Item = (std::ops::Range<usize>, Result<Reference, String>)> {
    found(text).filter_map(|(range, found)| match found {
        Found::Reference(reference) => Some((range, Ok(reference))),
        Found::Invalid(text) => Some((range, Err(text))),
        Found::Escaped => None,
    })
}

/// The longest values that references can have in a job, before it is known where its tasks run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Longest {
    job: usize,
    index: usize,
}

impl Longest {
    /// Characters of the names of users and cells.
    const NAME: usize = 63;
    /// Digits of a port.
    const PORT: usize = 5;
    /// Digits of an amount of a resource.
    const AMOUNT: usize = 20;

    pub(crate) fn of(job: &str, tasks: u32) -> Self {
        Self { job: job.len(), index: tasks.saturating_sub(1).to_string().len() }
    }

    /// The bytes of a text with its references filled in, at most.
    pub(crate) fn filled(self, text: &str) -> usize {
        let longer = |(range, found): (std::ops::Range<usize>, Found)| {
            let value = match found {
                Found::Reference(Reference::Port(_)) => Self::PORT,
                Found::Reference(Reference::Name(name)) => name.value_bytes_max(),
                Found::Reference(Reference::Task(field)) => match field {
                    TaskField::Index => self.index,
                    TaskField::Job => self.job,
                    TaskField::User | TaskField::Cell => Self::NAME,
                    TaskField::Cpu | TaskField::Ram | TaskField::Tasks => Self::AMOUNT,
                },
                Found::Invalid(_) => range.len(),
                Found::Escaped => range.len() - 1,
            };
            (value, range.len())
        };
        found(text)
            .map(longer)
            .fold(text.len(), |bytes, (value, replaced)| (bytes - replaced).saturating_add(value))
    }
}

/// The prefixes of references.
const WORDS: [&str; 3] = ["port", "task", NameReference::WORD];

/// Every text in braces that is probably a misspelt reference, with the suggested reference.
///
/// A text with one mistake is near; a swap of neighbours or a different case counts as one. Two
/// mistakes are not near: other programs' `${host.name}` and `${test.x}` are two mistakes away.
pub(crate) fn near_references(text: &str) -> impl Iterator<Item = (&str, String)> {
    let begins = text.match_indices("${").map(|(start, _)| start);
    let inside = begins.filter(|start| !is_escaped(text, *start)).filter_map(|start| {
        let piece = text[start + 2..].split("${").next()?;
        Some(piece.split_once('}')?.0)
    });
    inside.filter_map(|inner| {
        let (word, name) = inner.split_once('.')?;
        let meant = nearest_word(word).filter(|meant| *meant != word)?;
        Some((inner, format!("{meant}.{}", name.trim())))
    })
}

/// Whether a text in braces begins like a reference, or is probably meant to.
fn is_near(inner: &str) -> bool {
    // No longer word is near, and the text may be hostile.
    let dot = inner.bytes().take(32).position(|byte| byte == b'.');
    dot.is_some_and(|dot| nearest_word(inner[..dot].trim()).is_some())
}

fn nearest_word(word: &str) -> Option<&'static str> {
    // The distance takes quadratic time, so skip long texts, which are never near.
    if word.len() > 16 {
        return None;
    }
    let word = word.to_lowercase();
    // One letter more or less makes another word of a short one: `${dns.name}` is no mistake.
    let mistakes = |near: &str| usize::from(near.len() > 3);
    WORDS.into_iter().find(|near| strsim::damerau_levenshtein(near, &word) <= mistakes(near))
}

/// Replaces the references in a text by their values. Invalid references are left unchanged, and
/// escaped ones lose the first `$`.
#[must_use]
pub fn expand(text: &str, value: impl Fn(&Reference) -> Option<String>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut from = 0;
    for (range, found) in found(text) {
        let instead = match found {
            Found::Reference(reference) => value(&reference),
            Found::Invalid(_) => None,
            Found::Escaped => Some(text[range.start + 1..range.end].to_owned()),
        };
        if let Some(instead) = instead {
            expanded.push_str(&text[from..range.start]);
            expanded.push_str(&instead);
            from = range.end;
        }
    }
    expanded.push_str(&text[from..]);
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> String {
        expand(text, |reference| match reference {
            Reference::Port(name) if name.as_str() == "http" => Some("31001".to_owned()),
            Reference::Port(_) => None,
            Reference::Task(field) => Some(field.name().to_uppercase()),
            Reference::Name(name) => Some(format!("<{name}>")),
        })
    }

    #[test]
    fn references_are_filled_in_and_the_rest_is_left_alone() {
        for (text, value) in [
            ("--port=${port.http}", "--port=31001"),
            ("${task.user}/${task.job}/${task.index}@${task.cell}", "USER/JOB/INDEX@CELL"),
            ("--heap=${task.ram} --threads=${task.cpu}", "--heap=RAM --threads=CPU"),
            ("${port.grpc}", "${port.grpc}"),
            ("${bns.ana/db.port} ${bns.db/3.host}", "<bns.ana/db.port> <bns.db/3.host>"),
            ("$${bns.db.host} ${bns.db} ${dns.db}", "${bns.db.host} ${bns.db} ${dns.db}"),
            ("${HOME} $HOME ${ ${port.http}", "${HOME} $HOME ${ 31001"),
            ("${${port.http}}", "${31001}"),
            ("${port.http", "${port.http"),
            ("é${task.index}é", "éINDEXé"),
            ("$${task.index} $${port.nothing}", "${task.index} ${port.nothing}"),
            ("$${task.index}${task.index}", "${task.index}INDEX"),
            ("$$${task.index}", "$${task.index}"),
            ("$${prot.http} $${ port.x } $${task.x}", "${prot.http} ${ port.x } ${task.x}"),
            ("$$ $${HOME} $${host.name} $$HOME", "$$ $${HOME} $${host.name} $$HOME"),
            ("$$", "$$"),
        ] {
            assert_eq!(expanded(text), value, "{text}");
        }
    }

    #[test]
    fn many_beginnings_take_no_longer_than_other_texts() {
        let text = format!("{}port.http}}", "${".repeat(1 << 20));
        assert_eq!(references(&text).count(), 1);
    }

    #[test]
    fn a_reference_to_nothing_is_found() {
        let bad: Vec<_> = references("${task.indx} ${port.HTTP} ${port.ok}")
            .filter_map(|(_, found)| found.err())
            .collect();
        assert_eq!(bad, ["task.indx", "port.HTTP"]);
    }

    #[test]
    fn misspelt_references_are_told_from_the_syntax_of_other_programs() {
        for (text, near) in [
            ("--port=${prot.http}", &[("prot.http", "port.http")][..]),
            ("${ports.http}", &[("ports.http", "port.http")]),
            ("${por.http}", &[("por.http", "port.http")]),
            (
                "${Port.http} ${TASK.index}",
                &[("Port.http", "port.http"), ("TASK.index", "task.index")],
            ),
            ("${ port.http }", &[(" port.http ", "port.http")]),
            (
                "${tsak.index}/${taks.job}",
                &[("tsak.index", "task.index"), ("taks.job", "task.job")],
            ),
            ("${${tasks.user}}", &[("tasks.user", "task.user")]),
            ("${pört.http}", &[("pört.http", "port.http")]),
            // References, valid or not.
            ("${port.http} ${task.index} ${task.indx}", &[]),
            // References of a shell and of other programs.
            ("${HOME} $HOME ${PORT} ${port} ${ports} ${port:-80} ${task#a.b}", &[]),
            ("${host.name} ${test.index} ${root.dir} ${path.module} ${a.b} ${.port} ${}", &[]),
            ("$${prot.http} $${Task.index}", &[]),
            ("${prot.http", &[]),
            ("prot.http}", &[]),
        ] {
            let found: Vec<_> = near_references(text).collect();
            let near: Vec<_> = near.iter().map(|(is, meant)| (*is, (*meant).to_owned())).collect();
            assert_eq!(found, near, "{text}");
        }
        assert_eq!(near_references(&format!("${{{}.x}}", "port".repeat(1_000))).count(), 0);
    }
}
