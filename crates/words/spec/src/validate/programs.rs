//! Commands and environments: what a kernel takes, with the references filled in.

use std::collections::BTreeMap;

use super::{ProblemKind, Problems};
use crate::limits;
use crate::path::Location;
use crate::template::{self, Reference, TaskField};
use crate::{NameReference, NotAName};

/// The unit of what is bounded.
const BYTES: &str = "bytes with its references filled in";

impl Problems {
    pub(super) fn cmd(&mut self, at: &Location<'_>, cmd: &[String]) {
        match cmd.first() {
            None => self.add(at, ProblemKind::NoCommand),
            Some(program) if program.is_empty() => {
                self.add(&at.element(0), ProblemKind::EmptyProgram);
            }
            Some(_) => {}
        }
        self.count(at, cmd.len(), limits::CMD_ARGUMENTS_MAX, "arguments");
        let longest = |text: &String| self.values.filled(text);
        let bytes = cmd.iter().map(longest).fold(0, usize::saturating_add);
        let within =
            self.together(at, bytes, cmd.iter().map(String::len).sum(), limits::CMD_BYTES_MAX);
        for (position, argument) in cmd.iter().enumerate() {
            self.no_zero_byte(&at.element(position), argument);
            self.references(&at.element(position), argument);
            if within {
                // One zero byte ends it.
                self.text(&at.element(position), argument, 1);
            }
        }
    }

    pub(super) fn env(&mut self, at: &Location<'_>, env: &BTreeMap<String, String>) {
        self.count(at, env.len(), limits::ENV_VARIABLES_MAX, "variables");
        let longest = |(name, value): (&String, &String)| name.len() + self.values.filled(value);
        let bytes = env.iter().map(longest).fold(0, usize::saturating_add);
        let plain = env.iter().map(|(name, value)| name.len() + value.len()).sum();
        let within = self.together(at, bytes, plain, limits::ENV_BYTES_MAX);
        for (name, value) in env {
            self.variable(&at.key(name), name);
            self.no_zero_byte(&at.key(name), value);
            self.references(&at.key(name), value);
            if within {
                // The kernel gets NAME=VALUE and a zero byte.
                self.text(&at.key(name), value, name.len() + 2);
            }
        }
    }

    pub(super) fn variable(&mut self, at: &Location<'_>, name: &str) {
        let mut characters = name.chars();
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let first = characters.next().is_some_and(|c| word(c) && !c.is_ascii_digit());
        if !first || !characters.all(word) {
            self.add(at, ProblemKind::BadVariable);
        }
    }

    /// All texts together: the bytes at most, and those that are written. Returns whether they are
    /// within the bound: else each text needs no complaint of its own.
    fn together(&mut self, at: &Location<'_>, bytes: usize, plain: usize, most: usize) -> bool {
        let unit = if plain > most { "bytes" } else { BYTES };
        self.count(at, bytes.max(plain), most, unit);
        bytes.max(plain) <= most
    }

    /// One text with what the kernel adds: a longer one makes every start fail.
    fn text(&mut self, at: &Location<'_>, text: &str, more: usize) {
        let bytes = self.values.filled(text).saturating_add(more);
        self.count(at, bytes, limits::TEXT_BYTES_MAX, BYTES);
    }

    /// A command that runs beside a task, or after it: it is not told where other jobs are.
    pub(super) fn command_beside(&mut self, at: &Location<'_>, cmd: &[String]) {
        self.cmd(at, cmd);
        for (position, argument) in cmd.iter().enumerate() {
            for (_, found) in template::references(argument) {
                if let Ok(Reference::Name(name)) = found {
                    let reference = name.to_string();
                    self.add(&at.element(position), ProblemKind::BadReference { reference });
                }
            }
        }
    }

    pub(super) fn references(&mut self, at: &Location<'_>, text: &str) {
        for reference in template::references(text).filter_map(|(_, found)| found.err()) {
            self.add(at, ProblemKind::BadReference { reference });
        }
    }
}

/// What a text in braces could refer to instead.
pub(super) fn what_there_is(reference: &str) -> String {
    if !reference.starts_with("bns.") {
        let fields = TaskField::ALL.map(|field| format!("${{task.{}}}", field.name()));
        return format!("there are ${{port.NAME}} and {}", fields.join(", "));
    }
    let why = match reference.parse::<NameReference>() {
        Ok(_) => "only cmd, env and files say where other jobs are",
        Err(NotAName) => {
            "write ${bns.USER/JOB/INDEX.WHAT} without what is not needed, with host, port.NAME, \
             address.NAME, or of all tasks addresses.NAME"
        }
    };
    why.to_owned()
}

#[cfg(test)]
mod tests {
    use crate::JobSpec;
    use crate::testing::job;

    fn problems(change: impl FnOnce(&mut JobSpec)) -> Vec<String> {
        let mut job = job();
        change(&mut job);
        job.problems().iter().map(ToString::to_string).collect()
    }

    /// A text that would be too long where it is used is rejected where it is written.
    #[test]
    fn a_command_that_no_kernel_would_start_is_rejected() {
        let cmd = |text: String| move |job: &mut JobSpec| job.task.cmd = vec!["x".to_owned(), text];
        let env =
            |text: String| move |job: &mut JobSpec| drop(job.task.env.insert("A".to_owned(), text));
        let long = |bytes| "x".repeat(bytes);
        assert_eq!(problems(cmd(long(131_071))), [""; 0]);
        assert_eq!(
            problems(cmd(long(131_072))),
            ["cmd: has 131073 bytes, at most 131072 are allowed"]
        );
        assert_eq!(problems(env(long(131_069))), [""; 0]);
        let filled = "bytes with its references filled in, at most 131072 are allowed";
        assert_eq!(problems(env(long(131_070))), [format!("env[\"A\"]: has 131073 {filled}")]);
        // References count as what they stand for at most.
        let refer = |field: &str, count| format!("${{{field}}}").repeat(count);
        for (field, bytes) in [("task.user", 63), ("task.cell", 63), ("task.index", 1)] {
            let fits = (131_071 / bytes).min(131_071 / (field.len() + 3));
            assert_eq!(problems(cmd(refer(field, fits))), [""; 0], "{field}");
        }
        assert_eq!(problems(cmd(refer("task.user", 2_500))), [format!("cmd: has 157501 {filled}")]);
        assert_eq!(problems(env(refer("task.user", 2_500))), [format!("env: has 157501 {filled}")]);
        let named = |length: usize| {
            move |job: &mut JobSpec| {
                job.name = "n".repeat(length).parse().expect("a name");
                job.task.cmd = vec!["x".to_owned(), "${task.job}".repeat(2_500)];
            }
        };
        assert_eq!(problems(named(52)), [""; 0]);
        assert_eq!(problems(named(62)), [format!("cmd: has 155001 {filled}")]);
    }

    #[test]
    fn an_escaped_reference_is_no_reference() {
        let says =
            |text: &str| problems(|job| job.task.cmd = vec!["x".to_owned(), text.to_owned()]);
        assert_eq!(says("$${task.nothing} $${port.HTTP}"), [""; 0]);
        assert_eq!(says("${task.nothing}").len(), 1);
    }
}
