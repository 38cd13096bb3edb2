//! A job in one line: `--name pi --cpu 1 -- estimate-pi`, and the BCL file that says the same.

use std::fmt::Write as _;

use clap::Args;
use command::Failure;
use model::JobName;

/// The characters after which a list of strings is written over several lines.
const LINE_CHARACTERS: usize = 80;

/// A job as flags.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct JobLine {
    /// Of a command or a script: the job's name. Default: the name of the program or script.
    #[arg(long, help_heading = "A job in one line")]
    pub(super) name: Option<String>,
    /// CPU of each task, in cores: 0.5.
    #[arg(long, value_name = "CORES", help_heading = "A job in one line")]
    pub(super) cpu: Option<String>,
    /// Memory of each task: 1GiB.
    #[arg(long, value_name = "BYTES", help_heading = "A job in one line")]
    pub(super) ram: Option<String>,
    /// Disk of each task: 1GiB.
    #[arg(long, value_name = "BYTES", help_heading = "A job in one line")]
    pub(super) disk: Option<String>,
    /// The number of tasks.
    #[arg(long, value_name = "NUMBER", help_heading = "A job in one line")]
    pub(super) tasks: Option<u32>,
    /// The priority: a number, or a band such as free or production.
    #[arg(long, help_heading = "A job in one line")]
    pub(super) priority: Option<String>,
    /// A package of the tasks, NAME@VERSION; repeatable.
    #[arg(long = "package", value_name = "PACKAGE", help_heading = "A job in one line")]
    pub(super) packages: Vec<String>,
    /// An image that is the root of the tasks, NAME@VERSION. Without a command it says what runs.
    #[arg(long, help_heading = "A job in one line")]
    pub(super) image: Option<String>,
    /// A variable of the tasks' environment, NAME=VALUE; repeatable.
    #[arg(long, value_name = "NAME=VALUE", help_heading = "A job in one line")]
    pub(super) env: Vec<String>,
    /// A label of the job, KEY=VALUE; repeatable.
    #[arg(long = "label", value_name = "KEY=VALUE", help_heading = "A job in one line")]
    pub(super) labels: Vec<String>,
    /// The job is a service: its tasks run until they are stopped. Default: a batch job.
    #[arg(long, help_heading = "A job in one line")]
    pub(super) service: bool,
    /// All of its tasks start together, or none does.
    #[arg(long, help_heading = "A job in one line")]
    pub(super) gang: bool,
    /// How many of its tasks may run at once.
    #[arg(long, value_name = "NUMBER", help_heading = "A job in one line")]
    pub(super) at_once: Option<u32>,
    /// How long a task may run, such as 90m: it is ended after that time.
    #[arg(long, value_name = "TIME", help_heading = "A job in one line")]
    pub(super) max_runtime: Option<String>,
    /// How long a task is expected to run, such as 20m; the batch queue plans with it.
    #[arg(long, value_name = "TIME", help_heading = "A job in one line")]
    pub(super) expected_runtime: Option<String>,
    /// Its tasks keep their place in the batch queue after a preemption.
    #[arg(long, help_heading = "A job in one line")]
    pub(super) requeue: bool,
    /// A job that has to finish before it starts: extract, ana/extract. With :ended or :failed it has to end so; with
    /// :each-task each task waits for the task of the same index only. Repeatable.
    #[arg(long, value_name = "JOB", help_heading = "A job in one line")]
    pub(super) after: Vec<String>,
    /// The command, after --; of a script, its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

impl JobLine {
    /// The first flag or argument that is given.
    pub(super) fn first_flag(&self) -> Option<&'static str> {
        let given = [
            ("--name", self.name.is_some()),
            ("--cpu", self.cpu.is_some()),
            ("--ram", self.ram.is_some()),
            ("--disk", self.disk.is_some()),
            ("--tasks", self.tasks.is_some()),
            ("--priority", self.priority.is_some()),
            ("--package", !self.packages.is_empty()),
            ("--image", self.image.is_some()),
            ("--env", !self.env.is_empty()),
            ("--label", !self.labels.is_empty()),
            ("--service", self.service),
            ("--gang", self.gang),
            ("--at-once", self.at_once.is_some()),
            ("--max-runtime", self.max_runtime.is_some()),
            ("--expected-runtime", self.expected_runtime.is_some()),
            ("--requeue", self.requeue),
            ("--after", !self.after.is_empty()),
            ("--", !self.command.is_empty()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }

    /// What a flag is given, as often as it is given.
    pub(super) fn given(&self, flag: &str) -> Vec<String> {
        let one = |value: &Option<String>| value.iter().cloned().collect();
        match flag {
            "name" => one(&self.name),
            "cpu" => one(&self.cpu),
            "ram" => one(&self.ram),
            "disk" => one(&self.disk),
            "priority" => one(&self.priority),
            "image" => one(&self.image),
            "tasks" => self.tasks.iter().map(ToString::to_string).collect(),
            "package" => self.packages.clone(),
            "env" => self.env.clone(),
            "label" => self.labels.clone(),
            _ => Vec::new(),
        }
    }

    /// Whether it describes a job without a file.
    pub(crate) fn is_job(&self) -> bool {
        !self.command.is_empty() || self.image.is_some()
    }

    /// Sets what a word of a script says, unless a flag says it. The error says what is wrong.
    pub(super) fn word(&mut self, word: &str) -> Result<(), String> {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let set = |field: &mut Option<String>| {
            field.get_or_insert_with(|| value.to_owned());
        };
        let number = || {
            let read = value.parse::<u32>();
            read.map_err(|_| format!("{key} '{}' is no number", value.escape_debug()))
        };
        let truth = || match (word.contains('='), value) {
            (false, _) | (true, "true") => Ok(true),
            (true, "false") => Ok(false),
            _ => Err(format!("{key} '{}' is neither true nor false", value.escape_debug())),
        };
        if value.is_empty() && !["service", "gang", "requeue"].contains(&word) {
            return Err(format!("'{}' has no value: write it as cpu=1", word.escape_debug()));
        }
        if matches!(key, "env" | "label") && !value.contains('=') {
            let value = value.escape_debug();
            return Err(format!("{key} '{value}' has no '=': write it as {key}=KEY=VALUE"));
        }
        match key {
            "name" => match value.parse::<JobName>() {
                Ok(_) => set(&mut self.name),
                Err(error) => return Err(error.to_string()),
            },
            "cpu" => set(&mut self.cpu),
            "ram" => set(&mut self.ram),
            "disk" => set(&mut self.disk),
            "priority" => set(&mut self.priority),
            "image" => set(&mut self.image),
            "package" => self.packages.push(value.to_owned()),
            "env" => self.env.insert(0, value.to_owned()),
            "label" => self.labels.insert(0, value.to_owned()),
            "service" if word == "service" => self.service = true,
            "tasks" => {
                self.tasks.get_or_insert(number()?);
            }
            "gang" => self.gang |= truth()?,
            "requeue" => self.requeue |= truth()?,
            "atOnce" | "at-once" => {
                self.at_once.get_or_insert(number()?);
            }
            "maxRuntime" | "max-runtime" => set(&mut self.max_runtime),
            "expectedRuntime" | "expected-runtime" => set(&mut self.expected_runtime),
            "after" => self.after.extend(value.split(',').map(str::to_owned)),
            _ => {
                return Err(format!(
                    "'{}' is no word of a job; they are name, cpu, ram, disk, tasks, priority, package, \
                     image, env, label, service, gang, atOnce, maxRuntime, expectedRuntime, requeue and after",
                    key.escape_debug()
                ));
            }
        }
        Ok(())
    }

    /// The BCL file of the job whose command is after `--`.
    pub(crate) fn bcl(&self) -> Result<String, Failure> {
        let program = self.command.first().or(self.image.as_ref());
        let usual = program.map_or("", |program| program.rsplit('/').next().unwrap_or_default());
        let usual = usual.split(['@', ':']).next().unwrap_or_default();
        self.bcl_with(usual, &list(self.command.iter().map(|argument| quoted(argument))))
    }

    /// The BCL file of a job with the command, as BCL, and a name if none is given.
    pub(super) fn bcl_with(&self, usual_name: &str, cmd: &str) -> Result<String, Failure> {
        let name = self.name.as_deref().unwrap_or(usual_name);
        if let Err(error) = name.parse::<JobName>() {
            let what = match self.name {
                Some(_) => String::new(),
                None => "the job has no name: ".to_owned(),
            };
            return Err(
                Failure::usage(format!("error: {what}{error}")).next("give one with --name")
            );
        }
        let template = if self.service { "service" } else { "batch" };
        let tasks = self.tasks.map(|tasks| format!(", tasks={tasks}")).unwrap_or_default();
        let mut text = String::from("local borg = import 'borg.libsonnet';\n");
        let _infallible = write!(text, "borg.{template}({}{tasks}, cmd={cmd}) {{", quoted(name));
        let mut fields = Vec::new();
        let quantities = [("cpu", &self.cpu), ("ram", &self.ram), ("disk", &self.disk)];
        for (field, value) in quantities {
            fields.extend(value.as_ref().map(|value| format!("{field}: {}", quoted(value))));
        }
        fields.extend(self.priority.as_ref().map(|priority| match priority.parse::<u32>() {
            Ok(number) => format!("priority: {number}"),
            Err(_) => format!("priority: {}", quoted(priority)),
        }));
        if !self.packages.is_empty() {
            let packages = list(self.packages.iter().map(|package| quoted(package)));
            fields.push(format!("packages: {packages}"));
        }
        fields.extend(self.image.as_ref().map(|image| format!("image: {}", quoted(image))));
        fields.extend(self.gang.then(|| "gang: true".to_owned()));
        fields.extend(self.at_once.map(|number| format!("atOnce: {number}")));
        let times =
            [("maxRuntime", &self.max_runtime), ("expectedRuntime", &self.expected_runtime)];
        for (field, value) in times {
            fields.extend(value.as_ref().map(|value| format!("{field}: {}", quoted(value))));
        }
        fields.extend(self.requeue.then(|| "requeue: true".to_owned()));
        if !self.after.is_empty() {
            let after = list(self.after.iter().map(|job| quoted(job)));
            fields.push(format!("after: {after}"));
        }
        for (field, flag, pairs) in
            [("env", "--env", &self.env), ("labels", "--label", &self.labels)]
        {
            if !pairs.is_empty() {
                fields.push(format!("{field}+: {{ {} }}", object(flag, pairs)?));
            }
        }
        for field in &fields {
            let _infallible = write!(text, "\n  {field},");
        }
        text.push_str(if fields.is_empty() { " }\n" } else { "\n}\n" });
        Ok(text)
    }
}

/// Pairs as the fields of an object; of the same key the last counts.
fn object(flag: &str, pairs: &[String]) -> Result<String, Failure> {
    let mut fields: Vec<(&str, &str)> = Vec::new();
    for pair in pairs {
        let (key, value) =
            pair.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or_else(|| {
                let pair = pair.escape_debug();
                Failure::usage(format!("error: {flag} '{pair}' has no '=': write it as KEY=VALUE"))
            })?;
        fields.retain(|(before, _)| *before != key);
        fields.push((key, value));
    }
    let fields = fields.iter().map(|(key, value)| format!("{}: {}", quoted(key), quoted(value)));
    Ok(fields.collect::<Vec<_>>().join(", "))
}

/// A list in BCL.
pub(super) fn list(elements: impl Iterator<Item = String>) -> String {
    let elements: Vec<String> = elements.collect();
    let in_one = format!("[{}]", elements.join(", "));
    match in_one.chars().count() > LINE_CHARACTERS || in_one.contains('\n') {
        false => in_one,
        true => format!("[\n  {},\n]", elements.join(",\n  ")),
    }
}

/// A string in BCL.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("'");
    for character in text.chars() {
        match character {
            '\'' => out.push_str("\\'"),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => {
                let _infallible = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out + "'"
}

#[cfg(test)]
mod tests {
    use bcl::{NoImports, Settings};

    use super::*;

    #[test]
    fn a_line_is_a_job() {
        let line = JobLine {
            cpu: Some("1".to_owned()),
            ram: Some("1.5GiB".to_owned()),
            tasks: Some(8),
            priority: Some("free".to_owned()),
            env: ["A=1", "B=x=y", "A=2"].map(str::to_owned).to_vec(),
            command: ["/bin/echo", "it's", "a\\b", "tab\t\u{1}", "$HOME"]
                .map(str::to_owned)
                .to_vec(),
            ..JobLine::default()
        };
        let text = line.bcl().expect("a job");
        let jobs = bcl::evaluate("x", text.as_bytes(), &mut NoImports, &Settings::default());
        let jobs = jobs.unwrap_or_else(|errors| panic!("{text}\n{errors}"));
        let [job] = jobs.as_slice() else { panic!("{text}") };
        assert_eq!((job.name.as_str(), job.tasks), ("echo", 8));
        assert_eq!(job.task.cmd, line.command);
        assert_eq!(job.task.env.get("A").map(String::as_str), Some("2"));
        assert_eq!(job.task.env.get("B").map(String::as_str), Some("x=y"));
    }

    #[test]
    fn words_of_the_batch_queue_are_fields() {
        let mut line =
            JobLine { command: vec!["step".to_owned()], at_once: Some(2), ..JobLine::default() };
        for word in [
            "maxRuntime=1h",
            "expected-runtime=20m",
            "gang=true",
            "requeue",
            "atOnce=4",
            "after=extract,ana/load:ended",
            "after=x:failed",
        ] {
            line.word(word).unwrap_or_else(|error| panic!("{word}: {error}"));
        }
        let text = line.bcl().expect("a job");
        let expected = "\
local borg = import 'borg.libsonnet';
borg.batch('step', cmd=['step']) {
  gang: true,
  atOnce: 2,
  maxRuntime: '1h',
  expectedRuntime: '20m',
  requeue: true,
  after: ['extract', 'ana/load:ended', 'x:failed'],
}
";
        assert_eq!(text, expected, "the flag comes before the word");
        for (word, said) in [
            ("gang=yes", "gang 'yes' is neither true nor false"),
            ("atOnce=all", "atOnce 'all' is no number"),
            ("maxRuntime", "has no value"),
        ] {
            assert!(line.word(word).expect_err(word).contains(said), "{word}");
        }
    }

    #[test]
    fn a_bad_line_is_explained() {
        let bad = |line: JobLine| line.bcl().expect_err("bad").to_string();
        let command = vec!["/bin/UPPER case".to_owned()];
        let said = bad(JobLine { command: command.clone(), ..JobLine::default() });
        assert!(said.contains("the job has no name") && said.contains("--name"), "{said}");
        let (name, env) = (Some("a".to_owned()), vec!["A".to_owned()]);
        let said = bad(JobLine { command, name, env, ..JobLine::default() });
        assert!(said.contains("--env 'A' has no '='"), "{said}");
        let mut line = JobLine::default();
        assert!(line.word("cpus=1").expect_err("bad").contains("no word of a job"));
        assert!(line.word("cpu").expect_err("bad").contains("has no value"));
        assert!(line.word("tasks=x").expect_err("bad").contains("no number"));
        assert!(line.word("env=A").expect_err("bad").contains("env 'A' has no '='"));
        assert!(line.word("name=UPPER").expect_err("bad").contains("'UPPER' is not a job name"));
    }
}
