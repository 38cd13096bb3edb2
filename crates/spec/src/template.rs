//! References in commands and environments: `${port.http}`, `${task.index}`.
//!
//! Only `${port.…}` and `${task.…}` are references; everything else, such as a shell's `${HOME}`,
//! is left alone. No shell variable has a dot in its name, so nothing needs to be escaped.

use model::PortName;

/// What a reference stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The number of one of the task's ports.
    Port(PortName),
    /// Something about the task itself.
    Task(TaskField),
}

/// What can be known about a task from inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskField {
    /// Its place in the job, from 0.
    Index,
    /// The job's name.
    Job,
    /// The job's owner.
    User,
    /// The cell.
    Cell,
}

impl TaskField {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Index, Self::Job, Self::User, Self::Cell];

    /// Its name in a reference.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Job => "job",
            Self::User => "user",
            Self::Cell => "cell",
        }
    }
}

/// Every reference in a text with its place, in order; `Err` holds one that refers to nothing.
pub fn references(
    text: &str,
) -> impl Iterator<Item = (std::ops::Range<usize>, Result<Reference, String>)> {
    let mut from = 0;
    let mut end = 0;
    std::iter::from_fn(move || {
        loop {
            let start = from + text[from..].find("${")?;
            // One end may follow many beginnings, and is looked for once: the text may be hostile.
            if end <= start {
                end = start + text[start..].find('}')? + 1;
            }
            let inner = &text[start + 2..end - 1];
            if let Some(name) = inner.strip_prefix("port.") {
                from = end;
                let found = PortName::new(name).map(Reference::Port);
                return Some((start..end, found.map_err(|_| inner.to_owned())));
            }
            if let Some(name) = inner.strip_prefix("task.") {
                from = end;
                let found = TaskField::ALL.into_iter().find(|field| field.name() == name);
                return Some((
                    start..end,
                    found.map(Reference::Task).ok_or_else(|| inner.to_owned()),
                ));
            }
            from = start + 2;
        }
    })
}

/// A text with its references filled in. One that refers to nothing is left as it stands.
#[must_use]
pub fn expand(text: &str, value: impl Fn(&Reference) -> Option<String>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut from = 0;
    for (range, reference) in references(text) {
        if let Some(value) = reference.ok().and_then(|reference| value(&reference)) {
            expanded.push_str(&text[from..range.start]);
            expanded.push_str(&value);
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
        })
    }

    #[test]
    fn references_are_filled_in_and_the_rest_is_left_alone() {
        for (text, value) in [
            ("--port=${port.http}", "--port=31001"),
            ("${task.user}/${task.job}/${task.index}@${task.cell}", "USER/JOB/INDEX@CELL"),
            ("${port.grpc}", "${port.grpc}"),
            ("${HOME} $HOME ${ ${port.http}", "${HOME} $HOME ${ 31001"),
            ("${${port.http}}", "${31001}"),
            ("${port.http", "${port.http"),
            ("é${task.index}é", "éINDEXé"),
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
}
