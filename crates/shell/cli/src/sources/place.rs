//! The places of errors in a job that was written as flags and `#BOURG` words: the report names those, and not
//! the lines of the BCL file that is made of them.

use std::fmt::Write as _;

use super::line::JobLine;
use super::script::WORDS;

/// What a job was made of.
#[derive(Clone, Debug)]
pub(super) struct WrittenJob {
    /// The flags of the command line.
    pub(super) flags: JobLine,
    /// The script, if there is one.
    pub(super) script: Option<String>,
}

/// A word of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ScriptWord<'a> {
    number: usize,
    line: &'a str,
    word: &'a str,
    /// How many characters are before it.
    column: usize,
}

impl WrittenJob {
    /// The report of an evaluation with the places of what was written.
    pub(super) fn placed(&self, shown: &str, report: &str) -> String {
        let arrow = format!("--> {shown}:");
        let mut out = String::new();
        let mut field = None;
        let mut lines = report.lines().peekable();
        while let Some(line) = lines.next() {
            if let Some(message) = line.strip_prefix("error: ") {
                field = field_of(message);
            }
            let is_place = line.trim_start().starts_with(&arrow);
            match field.filter(|_| is_place).and_then(|of| self.place(shown, of)) {
                Some(place) => {
                    out.push_str(&place);
                    while lines.next_if(|line| is_excerpt(line)).is_some() {}
                }
                None => {
                    out.push_str(line);
                    out.push('\n');
                }
            }
        }
        out
    }

    /// Where a field was written, with its text.
    fn place(&self, shown: &str, of: Field<'_>) -> Option<String> {
        let script = self.script.as_deref().unwrap_or_default();
        let words: Vec<_> = words(script, of.word()).collect();
        let flags = self.flags.given(of.word());
        // Flags of lists come before the words of the script, and take precedence over other words.
        let is_it = |value: &str| of.key.is_none_or(|key| value.split('=').next() == Some(key));
        let position = of.element.unwrap_or_default();
        if let Some(value) = flags.iter().filter(|value| is_it(value)).nth(position) {
            return Some(format!("   --> --{} {value}\n", of.word()));
        }
        let position = position.saturating_sub(flags.len());
        let value = |word: &ScriptWord<'_>| is_it(word.word.split_once('=').unwrap_or_default().1);
        words.into_iter().filter(value).nth(position).map(|word| excerpt(shown, word))
    }
}

/// The field that an error is about, and which element of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field<'a> {
    name: &'a str,
    element: Option<usize>,
    /// Of variables and labels: which.
    key: Option<&'a str>,
}

impl<'a> Field<'a> {
    /// The word, and the flag, that sets it.
    fn word(self) -> &'a str {
        match self.name {
            "packages" => "package",
            "labels" => "label",
            other => other,
        }
    }
}

/// `priority: 'fre' is not …` is about `priority`, `packages[1]: …` about the second package.
fn field_of(message: &str) -> Option<Field<'_>> {
    let (path, _) = message.split_once(": ")?;
    let name = path.split(['[', '.']).next().unwrap_or_default();
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic());
    let rest = path.strip_prefix(name)?.trim_matches(['[', ']', '.', '\'', '"']);
    let element = rest.parse().ok();
    let is_key = matches!(name, "env" | "labels") && !rest.is_empty();
    is_name.then_some(Field { name, element, key: is_key.then_some(rest) })
}

/// The words of a script with this key.
fn words<'a>(script: &'a str, key: &'a str) -> impl Iterator<Item = ScriptWord<'a>> {
    let lines = script.lines().enumerate().filter(|(_, line)| line.starts_with(WORDS));
    lines.flat_map(move |(number, line)| {
        let rest = line.strip_prefix(WORDS).unwrap_or_default();
        let of_key = move |word: &&str| {
            word.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        };
        rest.split_whitespace().filter(of_key).map(move |word| {
            // A part of the line: its place in memory is its place in the line.
            let bytes = (word.as_ptr() as usize).saturating_sub(line.as_ptr() as usize);
            let column = line.get(..bytes).unwrap_or_default().chars().count();
            ScriptWord { number: number + 1, line, word, column }
        })
    })
}

/// The place of a word, as in the report of an evaluation.
fn excerpt(shown: &str, of: ScriptWord<'_>) -> String {
    let ScriptWord { number, line, word, column } = of;
    let margin = " ".repeat(number.to_string().len());
    let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let (space, marks) = (" ".repeat(column), "^".repeat(word.chars().count()));
    let mut text = format!("{margin} --> {shown}:{number}:{}\n", column + 1);
    let _infallible =
        write!(text, " {margin} |\n {number} | {}\n {margin} | {space}{marks}\n", line.trim_end());
    text
}

/// Whether a line of a report shows a part of a file.
fn is_excerpt(line: &str) -> bool {
    let rest = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = rest.trim_start();
    rest.starts_with('|') || rest.starts_with("= not a literal") || rest.starts_with("= from ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "#!/bin/sh\n#BOURG name=x\n#BOURG cpu=much  package=a@1\n#BOURG package=b@\n#BOURG env=A=1 env=B=2\n#BOURG label=a=1\ntrue\n";

    fn report(message: &str) -> String {
        format!(
            "error: {message}\n   --> x.sh:14:3\n    |\n 14 |   cpu: 'much',\n    |   ^^^^^^^^^^^\n\nerror: other\n"
        )
    }

    #[test]
    fn an_error_of_a_word_is_at_the_line_of_the_script() {
        let job = WrittenJob { flags: JobLine::default(), script: Some(SCRIPT.to_owned()) };
        let cpu = "  --> x.sh:3:8\n   |\n 3 | #BOURG cpu=much  package=a@1\n   |        ^^^^^^^^\n";
        let package = "  --> x.sh:4:8\n   |\n 4 | #BOURG package=b@\n   |        ^^^^^^^^^^\n";
        let generated = "   --> x.sh:14:3\n    |\n 14 |   cpu: 'much',\n    |   ^^^^^^^^^^^\n";
        for (message, place) in [
            ("cpu: 'much' is not a number of cores", cpu),
            ("packages[1]: a version cannot be empty", package),
            (
                "env.B: too long",
                "  --> x.sh:5:16\n   |\n 5 | #BOURG env=A=1 env=B=2\n   |                ^^^^^^^\n",
            ),
            (
                "labels['a']: bad",
                "  --> x.sh:6:8\n   |\n 6 | #BOURG label=a=1\n   |        ^^^^^^^^^\n",
            ),
            // It was not written.
            ("ram: it is missing", generated),
            ("no field", generated),
        ] {
            let expected = format!("error: {message}\n{place}\nerror: other\n");
            assert_eq!(job.placed("x.sh", &report(message)), expected);
        }
    }

    #[test]
    fn an_error_of_a_flag_names_the_flag() {
        let flags = JobLine {
            cpu: Some("much".to_owned()),
            packages: vec!["c@".to_owned()],
            ..JobLine::default()
        };
        let job = WrittenJob { flags, script: Some(SCRIPT.to_owned()) };
        for (message, place) in [
            ("cpu: 'much' is not a number of cores", "   --> --cpu much\n"),
            ("packages[0]: a version cannot be empty", "   --> --package c@\n"),
        ] {
            let expected = format!("error: {message}\n{place}\nerror: other\n");
            assert_eq!(job.placed("x.sh", &report(message)), expected);
        }
        // What follows the flags is in the script.
        let said = job.placed("x.sh", &report("packages[2]: a version cannot be empty"));
        assert!(said.contains("x.sh:4:8"), "{said}");
    }
}
