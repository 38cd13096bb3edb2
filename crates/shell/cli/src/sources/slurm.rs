//! Scripts for Slurm: which `#BOURG` words say what their `#SBATCH` lines say.

use command::Failure;

use super::script::WORDS;

/// The prefix of the lines.
const SBATCH: &str = "#SBATCH";
/// How many lines are named that have no equal.
const UNKNOWN_SHOWN: usize = 8;

/// What an option becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Translated {
    /// These words.
    Words(String),
    /// Nothing: it is so anyway, or says something about Slurm's own files.
    Needless,
    /// It has no equal.
    Unknown,
}

/// The failure for a script that has lines for Slurm and none for us, with the lines to write.
pub(super) fn failure(shown: &str, script: &str) -> Failure {
    let (words, unknown) = translated(script);
    let mut text = format!(
        "error: {shown} is a script for Slurm: it has {SBATCH} lines, which are not read here, and no {WORDS} lines"
    );
    if !unknown.is_empty() {
        let named = unknown.iter().take(UNKNOWN_SHOWN).map(String::as_str);
        let more = if unknown.len() > UNKNOWN_SHOWN { ", …" } else { "" };
        text.push_str(&format!(
            "\nwithout an equal: {}{more}",
            named.collect::<Vec<_>>().join(", ")
        ));
    }
    let lines: String = words.iter().map(|word| format!("\n{WORDS} {word}")).collect();
    let failure = Failure::usage(text);
    match lines.is_empty() {
        true => failure.next(format!(
            "write what it needs below the first line, as in {WORDS} cpu=1 ram=1GiB"
        )),
        false => failure.next(format!("write these lines below the first one:{lines}")),
    }
}

/// Whether a text has lines for Slurm.
pub(super) fn is_for_slurm(text: &str) -> bool {
    text.lines().any(|line| line.starts_with(SBATCH))
}

/// The words for the lines of a script, and the options that have none.
fn translated(script: &str) -> (Vec<String>, Vec<String>) {
    let (mut words, mut unknown): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for line in script.lines() {
        let Some(rest) = line.strip_prefix(SBATCH) else { continue };
        // What is after `#` is a comment.
        let rest = rest.split(" #").next().unwrap_or_default();
        let mut arguments = rest.split_whitespace().peekable();
        while let Some(argument) = arguments.next() {
            let (option, value) = match argument.split_once('=') {
                Some((option, value)) => (option.to_owned(), value.to_owned()),
                // `-n4` is `-n 4`.
                None if is_short(argument) && argument.len() > 2 => {
                    let (option, value) = argument.split_at(2);
                    (option.to_owned(), value.to_owned())
                }
                None => {
                    let next = arguments.next_if(|next| !next.starts_with('-'));
                    (argument.to_owned(), next.unwrap_or_default().to_owned())
                }
            };
            match of(&option, value.trim_matches(['"', '\''])) {
                Translated::Words(new) => words.push(new),
                Translated::Needless => {}
                Translated::Unknown => unknown.push(shown(&option, &value)),
            }
        }
    }
    // `--ntasks` beside `--array` are the processes of one element.
    if words.iter().filter(|word| word.starts_with("tasks=")).count() > 1 {
        let last = words.iter().rposition(|word| word.starts_with("tasks="));
        if let Some(word) = last.map(|place| words.remove(place)) {
            unknown.push(format!("a second number of tasks ({word})"));
        }
    }
    (words, unknown)
}

fn is_short(argument: &str) -> bool {
    argument.starts_with('-') && !argument.starts_with("--") && argument.is_char_boundary(2)
}

fn shown(option: &str, value: &str) -> String {
    let text = if value.is_empty() { option.to_owned() } else { format!("{option} {value}") };
    text.escape_debug().to_string()
}

/// What an option with its value becomes.
fn of(option: &str, value: &str) -> Translated {
    let words = |words: Option<String>| words.map_or(Translated::Unknown, Translated::Words);
    let number = value.parse::<u32>().ok().filter(|number| *number > 0);
    match option {
        "--job-name" | "-J" => words(name(value).map(|name| format!("name={name}"))),
        "--ntasks" | "-n" => words(number.map(|tasks| format!("tasks={tasks}"))),
        "--cpus-per-task" | "-c" => words(number.map(|cpus| format!("cpu={cpus}"))),
        "--mem" => words(memory(value).map(|ram| format!("ram={ram}"))),
        "--time" | "-t" => words(minutes(value).map(|time| format!("maxRuntime={time}"))),
        "--array" | "-a" => words(array(value)),
        "--dependency" | "-d" => words(after(value)),
        "--output" | "-o" | "--error" | "-e" | "--nodes" | "-N" | "--requeue" => {
            Translated::Needless
        }
        _ => Translated::Unknown,
    }
}

/// A name as jobs have it.
fn name(value: &str) -> Option<String> {
    let lower = value.to_ascii_lowercase().replace(['_', '.', ' '], "-");
    lower.parse::<model::JobName>().ok().map(|name| name.to_string())
}

/// `4G`, `500M` or `500` (MiB) as an amount with its unit.
fn memory(value: &str) -> Option<String> {
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok().filter(|number| *number > 0)?;
    let unit = match value.strip_prefix(digits)?.trim_end_matches(['B', 'b', 'i']) {
        "K" | "k" => "KiB",
        "" | "M" | "m" => "MiB",
        "G" | "g" => "GiB",
        "T" | "t" => "TiB",
        _ => return None,
    };
    Some(format!("{number}{unit}"))
}

/// `30`, `1:30:00` or `2-12` as a time: minutes, minutes and seconds, hours and more, and days before a hyphen.
fn minutes(value: &str) -> Option<String> {
    let (days, rest) = match value.split_once('-') {
        Some((days, rest)) => (Some(days.parse::<u64>().ok()?), rest),
        None => (None, value),
    };
    let parts: Vec<u64> = rest.split(':').map(str::parse).collect::<Result<_, _>>().ok()?;
    let (hours, minutes, seconds) = match (days, parts.as_slice()) {
        (None, [minutes]) => (0, *minutes, 0),
        (None, [minutes, seconds]) => (0, *minutes, *seconds),
        (Some(_), [hours]) => (*hours, 0, 0),
        (Some(_), [hours, minutes]) => (*hours, *minutes, 0),
        (_, [hours, minutes, seconds]) => (*hours, *minutes, *seconds),
        _ => return None,
    };
    let hours = days.unwrap_or_default().checked_mul(24)?.checked_add(hours)?;
    let all = hours.checked_mul(60)?.checked_add(minutes)?.checked_mul(60)?.checked_add(seconds)?;
    match all {
        0 => None,
        all if all % 3600 == 0 => Some(format!("{}h", all / 3600)),
        all if all % 60 == 0 => Some(format!("{}m", all / 60)),
        all => Some(format!("{all}s")),
    }
}

/// `0-99%10` as tasks of which ten run at once: an array begins with 0 here.
fn array(value: &str) -> Option<String> {
    let (range, at_once) = match value.split_once('%') {
        Some((range, at_once)) => (range, Some(at_once.parse::<u32>().ok()?)),
        None => (value, None),
    };
    let (first, last) = range.split_once('-').unwrap_or(("0", range));
    let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
    let tasks = last.checked_sub(first)?.checked_add(1)?;
    let tasks = if range.contains('-') { tasks } else { 1 };
    let at_once = at_once.map(|most| format!(" atOnce={most}")).unwrap_or_default();
    Some(format!("tasks={tasks}{at_once}"))
}

/// `afterok:NAME` as the jobs that have to finish before. Slurm's numbers of jobs are no names of jobs here.
fn after(value: &str) -> Option<String> {
    let jobs = value.strip_prefix("afterok:")?;
    let is_number = |job: &str| job.bytes().all(|byte| byte.is_ascii_digit());
    let words = jobs.split(':').map(|job| match name(job) {
        Some(name) if !is_number(job) => Some(format!("after={name}")),
        // `$ID` and numbers stand for a job that has a name here.
        _ => Some("after=JOB".to_owned()),
    });
    words.collect::<Option<Vec<_>>>().map(|words| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_slurm_are_words_here() {
        for (line, words, unknown) in [
            ("--job-name=My_Job", &["name=my-job"][..], &[][..]),
            ("-J x -n4 -c 2", &["name=x", "tasks=4", "cpu=2"], &[]),
            ("--mem=4G", &["ram=4GiB"], &[]),
            ("--mem 500 # MiB", &["ram=500MiB"], &[]),
            ("--mem=16gb", &["ram=16GiB"], &[]),
            ("--time=30", &["maxRuntime=30m"], &[]),
            ("--time=90:00", &["maxRuntime=90m"], &[]),
            ("-t 1:30:00", &["maxRuntime=90m"], &[]),
            ("-t 2-12", &["maxRuntime=60h"], &[]),
            ("-t 0:0:20", &["maxRuntime=20s"], &[]),
            ("--time=UNLIMITED", &[], &["--time UNLIMITED"]),
            ("--array=0-99%10", &["tasks=100 atOnce=10"], &[]),
            ("--array=7", &["tasks=1"], &[]),
            ("--array=1,3,5", &[], &["--array 1,3,5"]),
            ("--dependency=afterok:extract:123", &["after=extract after=JOB"], &[]),
            ("--dependency=singleton", &[], &["--dependency singleton"]),
            ("--output=%x.out -e err --nodes=1", &[], &[]),
            ("--partition gpu --exclusive", &[], &["--partition gpu", "--exclusive"]),
            ("--ntasks=4 --array=0-9", &["tasks=4"], &["a second number of tasks (tasks=10)"]),
        ] {
            let script = format!("#!/bin/sh\n#SBATCH {line}\ntrue\n");
            let found = translated(&script);
            assert_eq!(
                (&found.0[..], &found.1[..]),
                (&own(words)[..], &own(unknown)[..]),
                "{line}"
            );
        }
    }

    fn own(words: &[&str]) -> Vec<String> {
        words.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_script_for_slurm_is_told_the_lines_to_write() {
        let script = "#!/bin/bash\n#SBATCH --job-name=pi\n#SBATCH --mem=1G -c 2\n#SBATCH --gres=gpu:1\nrun\n";
        assert_eq!(
            failure("pi.sh", script).to_string(),
            "error: pi.sh is a script for Slurm: it has #SBATCH lines, which are not read here, and no #BOURG lines\n\
             without an equal: --gres gpu:1\n\
             next: write these lines below the first one:\n#BOURG name=pi\n#BOURG ram=1GiB\n#BOURG cpu=2"
        );
        let none = failure("pi.sh", "#!/bin/sh\n#SBATCH --gres=gpu:1\n").to_string();
        assert!(none.contains("as in #BOURG cpu=1 ram=1GiB"), "{none}");
    }
}
