//! Scripts as jobs: `#BOURG` lines say what a task needs, and the text becomes its command.

use std::path::Path;

use command::Failure;
use spec::limits::CMD_BYTES_MAX;

use super::line::{JobLine, list, quoted};
use super::slurm;

/// The prefix of lines with words for us.
pub(super) const WORDS: &str = "#BOURG";
/// Interpreters that take a program as an argument, the flag for it, and whether the first argument after it is
/// the program's name.
const INTERPRETERS: &[(&str, &str, bool)] = &[
    ("sh", "-c", true),
    ("bash", "-c", true),
    ("dash", "-c", true),
    ("ash", "-c", true),
    ("ksh", "-c", true),
    ("zsh", "-c", true),
    ("python", "-c", false),
    ("python3", "-c", false),
    ("perl", "-e", false),
    ("ruby", "-e", false),
    ("node", "-e", false),
];

/// The BCL file of a script; flags come before its words.
pub(super) fn bcl(
    file: &Path,
    shown: &str,
    script: Vec<u8>,
    line: &JobLine,
) -> Result<String, Failure> {
    let failed = |what: String| Failure::usage(format!("error: {shown}{what}"));
    if script.len() > CMD_BYTES_MAX {
        let most = CMD_BYTES_MAX >> 10;
        return Err(failed(format!(": a script of a job has at most {most} KiB"))
            .next("make a package of a larger one, and run it from there: bourg package build"));
    }
    let script = String::from_utf8(script).map_err(|_| failed(" is not UTF-8 text".to_owned()))?;
    let mut line = line.clone();
    words(&script, &mut line).map_err(|(number, what)| failed(format!(":{number}: {what}")))?;
    let has_words = script.lines().any(|line| line.starts_with(WORDS));
    if slurm::is_for_slurm(&script) && !has_words {
        return Err(slurm::failure(shown, &script));
    }
    let interpreter = script.lines().next().unwrap_or_default();
    let interpreter = interpreter.trim_start_matches("#!").trim();
    let mut command: Vec<String> = interpreter.split_whitespace().map(str::to_owned).collect();
    // As `/usr/bin/env -S python3 -u`.
    command.retain(|word| word != "-S");
    let base = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let programs = command.iter().map(|word| base(word));
    let program = programs.filter(|program| program != "env").find(|word| !word.starts_with('-'));
    let program = program.unwrap_or_default();
    let Some((_, flag, named)) = INTERPRETERS.iter().find(|(name, ..)| *name == program) else {
        let known: Vec<&str> = INTERPRETERS.iter().map(|(name, ..)| *name).collect();
        return Err(failed(format!(
            ":1: '{}' is no interpreter that takes a script as an argument: {}",
            program.escape_debug(),
            known.join(", ")
        ))
        .next("make a package of the script and run it from there: bourg package build"));
    };
    command.push((*flag).to_owned());
    let name = file.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut elements: Vec<String> = command.iter().map(|word| quoted(word)).collect();
    elements.push(block(&script));
    if *named {
        elements.push(quoted(&name));
    }
    elements.extend(line.command.iter().map(|argument| quoted(argument)));
    line.bcl_with(&name, &list(elements.into_iter()))
}

/// Takes the words of a script, which are before its first command. The error has its line.
fn words(script: &str, line: &mut JobLine) -> Result<(), (usize, String)> {
    let mut begun = false;
    for (number, text) in script.lines().enumerate() {
        let fail = |what: String| (number + 1, what);
        begun |= !text.is_empty() && !text.starts_with('#');
        let Some(rest) = text.strip_prefix(WORDS) else { continue };
        if begun {
            return Err(fail(format!("{WORDS} lines come before the first command")));
        }
        if !rest.starts_with([' ', '\t']) {
            return Err(fail(format!("a space follows {WORDS}, as in {WORDS} cpu=1")));
        }
        for word in rest.split_whitespace() {
            line.word(word).map_err(fail)?;
        }
    }
    Ok(())
}

/// A text in BCL, as a block of lines where that is possible.
fn block(text: &str) -> String {
    let begins = text.lines().next().is_some_and(|line| line.starts_with("#!"));
    if !begins || text.chars().any(|c| c.is_control() && c != '\n' && c != '\t') {
        return quoted(text);
    }
    let mut out = String::from("|||\n");
    for line in text.lines() {
        if !line.is_empty() {
            out.push_str("    ");
            out.push_str(line);
        }
        out.push('\n');
    }
    out + "  |||"
}

#[cfg(test)]
mod tests {
    use bcl::{NoImports, Settings};

    use super::*;

    fn of(script: &str, line: &JobLine) -> Result<String, String> {
        let made = bcl(Path::new("dir/pi.sh"), "pi.sh", script.as_bytes().to_vec(), line);
        made.map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_script_is_a_job() {
        let script = "#!/bin/bash -e\n#BOURG cpu=1 ram=1GiB\n#BOURG tasks=3 name=other\n\n\techo ${HOME} '|||'\n";
        let line = JobLine { command: vec!["one".to_owned()], ..JobLine::default() };
        let text = of(script, &line).expect("a job");
        let jobs = bcl::evaluate("x", text.as_bytes(), &mut NoImports, &Settings::default());
        let jobs = jobs.unwrap_or_else(|errors| panic!("{text}\n{errors}"));
        assert_eq!((jobs[0].name.as_str(), jobs[0].tasks), ("other", 3));
        assert_eq!(jobs[0].task.cmd, ["/bin/bash", "-e", "-c", script, "pi", "one"]);
        let python = of("#!/usr/bin/env python3\nprint(1)\r\n", &JobLine::default());
        let python = python.expect("a job");
        let jobs = bcl::evaluate("x", python.as_bytes(), &mut NoImports, &Settings::default());
        let jobs = jobs.unwrap_or_else(|errors| panic!("{python}\n{errors}"));
        let cmd = ["/usr/bin/env", "python3", "-c", "#!/usr/bin/env python3\nprint(1)\r\n"];
        assert_eq!(
            (jobs[0].name.as_str(), jobs[0].task.cmd.as_slice()),
            ("pi", &cmd.map(str::to_owned)[..])
        );
    }

    #[test]
    fn a_bad_script_is_explained() {
        for (script, said) in [
            ("#!/bin/sh\n#BOURG cpus=1\n", "pi.sh:2: 'cpus' is no word of a job"),
            ("#!/bin/sh\ntrue\n#BOURG cpu=1\n", "pi.sh:3: #BOURG lines come before"),
            ("#!/bin/sh\n#BOURGcpu=1\n", "pi.sh:2: a space follows #BOURG"),
            ("#!/usr/bin/awk -f\n", "pi.sh:1: 'awk' is no interpreter"),
            ("#!\n", "pi.sh:1: '' is no interpreter"),
            ("#!/bin/sh\n#SBATCH --mem=1G\n", "it has #SBATCH lines, which are not read here"),
        ] {
            let error = of(script, &JobLine::default()).expect_err(script);
            assert!(error.contains(said), "{script}: {error}");
        }
        let long = format!("#!/bin/sh\n{}", "x".repeat(CMD_BYTES_MAX));
        assert!(of(&long, &JobLine::default()).expect_err("long").contains("at most 128 KiB"));
    }
}
