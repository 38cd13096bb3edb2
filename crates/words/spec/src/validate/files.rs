//! Files of tasks and secrets: where they may be, and how much they may have.

use std::collections::BTreeMap;

use thiserror::Error;

use super::{ProblemKind, Problems};
use crate::path::Location;
use crate::{HealthCheck, TaskSpec, limits, template};

/// Where tasks find what the cell and the kernel give them.
const RESERVED: [&str; 8] =
    ["/proc", "/sys", "/dev", "/packages", "/alloc", "/run/bourg", "/tmp", "/var/tmp"];

/// Directories of every system, which are no files.
const DIRECTORIES: [&str; 15] = [
    "/bin", "/boot", "/etc", "/home", "/lib", "/lib64", "/media", "/mnt", "/opt", "/root", "/run",
    "/sbin", "/srv", "/usr", "/var",
];

/// Directories of the machine that a task without an image sees, read-only.
const OF_THE_MACHINE: [&str; 12] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ssl/certs",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/etc/ca-certificates",
    "/etc/alternatives",
    "/etc/ld.so.conf.d",
];

/// Why no task can have a file at a path.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FilePathProblem {
    /// It is no path of a file.
    #[error(
        "is not a path for a file of a task: use an absolute path without '.', '..', empty parts and control \
         characters, of at most {} bytes",
        limits::TASK_FILE_PATH_BYTES_MAX
    )]
    Malformed,
    /// Tasks have it from the cell or the kernel.
    #[error("is in {directory}, where tasks have no files of their own: choose another path")]
    Reserved {
        /// The directory.
        directory: &'static str,
    },
    /// It is in a directory of the machine that takes no new files.
    #[error(
        "is in {directory}, which is the machine's and takes no new files: choose another path, such as one in /etc, \
         /opt or /home/task, or give the job an image, in which a file can be anywhere"
    )]
    OfTheMachine {
        /// The directory.
        directory: &'static str,
    },
    /// It is at or below that of another one.
    #[error("is at or below another file, {}: give each file a place of its own", .other.escape_debug())]
    BelowFile {
        /// The path of the other file.
        other: String,
    },
}

impl Problems {
    pub(super) fn files(&mut self, top: &Location<'_>, task: &TaskSpec) {
        let (files, secrets) = (top.field("files"), top.field("secrets"));
        let number = task.files.len().saturating_add(task.secrets.len());
        self.count(&files, number, limits::TASK_FILES_MAX, "files, those of secrets included");
        let of_secrets = task.secrets.len().saturating_add(task.secret_env.len());
        self.count(&secrets, of_secrets, limits::TASK_SECRETS_MAX, "secrets");
        let mut all = 0_usize;
        for (path, file) in &task.files {
            let at = files.key(path);
            self.path(&at, path, task);
            let bytes = match file.content.text() {
                Some(text) => {
                    self.references(&at, text);
                    self.values.filled(text).max(text.len())
                }
                None => file.content.len(),
            };
            all = all.saturating_add(bytes);
            let unit = "bytes with its references filled in";
            self.count(&at, bytes, limits::TASK_FILE_BYTES_MAX, unit);
        }
        let unit = "bytes in all files with their references filled in";
        self.count(&files, all, limits::TASK_FILES_BYTES_MAX, unit);
        for path in task.secrets.keys() {
            self.path(&secrets.key(path), path, task);
        }
        self.apart(top, task);
        let variables = top.field("secretEnv");
        for name in task.secret_env.keys() {
            let at = variables.key(name);
            self.variable(&at, name);
            if task.env.contains_key(name) {
                self.add(&at, ProblemKind::SecretAndValue);
            }
        }
    }

    /// No file is at or below another one.
    fn apart(&mut self, top: &Location<'_>, task: &TaskSpec) {
        if task.files.len().saturating_add(task.secrets.len()) > limits::TASK_FILES_MAX {
            return;
        }
        let is_file = |path: &str| task.files.contains_key(path) || task.secrets.contains_key(path);
        let fields = [
            ("files", task.files.keys().collect::<Vec<_>>()),
            ("secrets", task.secrets.keys().collect()),
        ];
        for (field, paths) in fields {
            let field_at = top.field(field);
            for path in paths {
                let at = field_at.key(path);
                if field == "secrets" && task.files.contains_key(path) {
                    self.add(&at, FilePathProblem::BelowFile { other: path.clone() }.into());
                }
                let above = path.match_indices('/').map(|(end, _)| &path[..end]);
                if let Some(other) = above.into_iter().find(|above| is_file(above)) {
                    let other = other.to_owned();
                    self.add(&at, FilePathProblem::BelowFile { other }.into());
                }
            }
        }
    }

    fn path(&mut self, at: &Location<'_>, path: &str, task: &TaskSpec) {
        let parts = path.strip_prefix('/').map(|parts| parts.split('/'));
        let is_part = |part: &str| !matches!(part, "" | "." | "..") && part.len() <= 255;
        let fits =
            path.len() <= limits::TASK_FILE_PATH_BYTES_MAX && !path.chars().any(char::is_control);
        if !fits || !parts.is_some_and(|mut parts| parts.all(is_part)) {
            return self.add(at, FilePathProblem::Malformed.into());
        }
        let is_in = |directory: &&str| {
            path.strip_prefix(*directory)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let is_directory = |directory: &&str| path == *directory;
        let reserved = RESERVED.into_iter().find(is_in);
        if let Some(directory) = reserved.or(DIRECTORIES.into_iter().find(is_directory)) {
            return self.add(at, FilePathProblem::Reserved { directory }.into());
        }
        let of_the_machine = OF_THE_MACHINE.into_iter().find(is_in);
        if let Some(directory) = of_the_machine.filter(|_| task.image.is_none()) {
            self.add(at, FilePathProblem::OfTheMachine { directory }.into());
        }
    }

    /// Probable slips in commands and variables.
    pub(super) fn near_references(
        &mut self,
        at: &Location<'_>,
        cmd: &[String],
        env: &BTreeMap<String, String>,
        check: Option<&HealthCheck>,
    ) {
        let near = |found: &mut Self, at: &Location<'_>, text: &str| {
            for (text, meant) in template::near_references(text) {
                found.add(at, ProblemKind::NearReference { text: text.to_owned(), meant });
            }
        };
        let (arguments, variables) = (at.field("cmd"), at.field("env"));
        for (position, text) in cmd.iter().enumerate() {
            near(self, &arguments.element(position), text);
        }
        for (name, text) in env {
            near(self, &variables.key(name), text);
        }
        self.near_references_of_check(&at.field("healthCheck"), check);
    }

    /// Probable slips in the command of a check.
    pub(super) fn near_references_of_check(
        &mut self,
        at: &Location<'_>,
        check: Option<&HealthCheck>,
    ) {
        let exec = at.field("exec");
        for (position, text) in check.map(HealthCheck::cmd).unwrap_or_default().iter().enumerate() {
            for (text, meant) in template::near_references(text) {
                let kind = ProblemKind::NearReference { text: text.to_owned(), meant };
                self.add(&exec.element(position), kind);
            }
        }
    }

    /// Probable slips in the texts of files.
    pub(super) fn near_references_of_files(&mut self, task: &TaskSpec) {
        let files = Location::TOP.field("files");
        for (path, file) in &task.files {
            let text = file.content.text().unwrap_or_default();
            for (text, meant) in template::near_references(text) {
                let kind = ProblemKind::NearReference { text: text.to_owned(), meant };
                self.add(&files.key(path), kind);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::job;
    use crate::{FileContent, FileMode, JobSpec, TaskFile};

    fn problems(change: impl FnOnce(&mut JobSpec)) -> Vec<String> {
        let mut job = job();
        change(&mut job);
        job.problems().iter().map(ToString::to_string).collect()
    }

    fn file(text: &str) -> TaskFile {
        TaskFile { content: FileContent::Text(text.into()), mode: FileMode::default() }
    }

    fn with(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), file(text)));
        problems(|job| job.task.files = files.collect())
    }

    #[test]
    fn files_are_where_nothing_else_is() {
        for path in ["/etc/app.conf", "/srv/a/b", "/home/task/x", "/runner", "/procedure"] {
            assert_eq!(with(&[(path, "x")]), [""; 0], "{path}");
        }
        for path in ["etc/app", "/", "", "/etc/", "/etc//app", "/etc/../app", "/./app", "/a\n"] {
            let says = with(&[(path, "x")]);
            assert!(says[0].contains("is not a path for a file of a task"), "{path}: {says:?}");
        }
        for path in [
            "/proc/x",
            "/sys/x",
            "/dev/x",
            "/packages/x",
            "/alloc",
            "/run/bourg/x",
            "/tmp/x",
            "/etc",
            "/usr",
        ] {
            let says = with(&[(path, "x")]);
            assert!(says[0].contains("where tasks have no files of their own"), "{path}: {says:?}");
        }
        for path in ["/usr/lib/a", "/bin/a", "/lib64/a/b", "/etc/ssl/certs/own.pem"] {
            let says = with(&[(path, "x")]);
            assert!(says[0].contains("the machine's and takes no new files"), "{path}: {says:?}");
            let in_an_image = problems(|job| {
                job.task.files.insert(path.to_owned(), file("x"));
                job.task.image = Some("app@1".parse().expect("an image"));
            });
            assert_eq!(in_an_image, [""; 0], "{path}");
        }
        for path in ["/usr-local/a", "/etc/ssl/own.pem", "/etc/alternatives.d/a"] {
            assert_eq!(with(&[(path, "x")]), [""; 0], "{path}");
        }
        assert_eq!(
            with(&[("/etc/a", "x"), ("/etc/a/b", "x"), ("/etc/a-b", "x")]),
            [
                "files[\"/etc/a/b\"]: is at or below another file, /etc/a: give each file a place of its own"
            ]
        );
        let says = problems(|job| {
            job.task.files.insert("/etc/a".to_owned(), file("x"));
            let secret: model::SecretName = "key".parse().expect("a name");
            job.task.secrets.insert("/etc/a".to_owned(), secret.clone());
            job.task.env.insert("A".to_owned(), "x".to_owned());
            job.task.secret_env.insert("A".to_owned(), secret.clone());
            job.task.secret_env.insert("1".to_owned(), secret);
        });
        assert_eq!(
            says,
            [
                "secrets[\"/etc/a\"]: is at or below another file, /etc/a: give each file a place of its own",
                "secretEnv[\"1\"]: is not a variable's name: use letters, digits and underscores, and no digit first",
                "secretEnv[\"A\"]: is in env, too: a variable has either a value or a secret",
            ]
        );
    }

    #[test]
    fn names_of_other_jobs_are_few_and_in_programs_of_the_task() {
        let names = |count| (0..count).map(|index| format!("${{bns.db/{index}.host}} "));
        let text: String = names(33).collect();
        let said = with(&[("/a", text.as_str())]);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].ends_with("has 33 names of other jobs, at most 32 are allowed"),
            "{said:?}"
        );
        assert_eq!(with(&[("/a", names(32).collect::<String>().as_str())]), Vec::<String>::new());
        let said = with(&[("/a", "${bns.db}")]);
        assert!(said[0].contains("'${bns.db}' refers to nothing: write ${bns."), "{said:?}");
        let said = problems(|job| {
            job.task.saver = Some(crate::Saver::of(vec!["${bns.db.host}".to_owned()]));
        });
        let only = "only cmd, env and files say where other jobs are";
        assert!(said.iter().any(|said| said.ends_with(only)), "{said:?}");
    }

    #[test]
    fn files_have_bounds_and_references() {
        let long = "x".repeat(65_536);
        assert_eq!(with(&[("/a", &long)]), [""; 0]);
        let says = with(&[("/a", &(long.clone() + "x"))]);
        assert_eq!(
            says,
            [
                "files[\"/a\"]: has 65537 bytes with its references filled in, at most 65536 are allowed"
            ]
        );
        let says = with(&[("/a", &long), ("/b", &long), ("/c", &long), ("/d", &long), ("/e", "x")]);
        assert_eq!(
            says,
            [
                "files: has 262145 bytes in all files with their references filled in, at most 262144 are allowed"
            ]
        );
        assert_eq!(with(&[("/a", "$${task.nothing} ${task.index} ${HOME}")]), [""; 0]);
        let says = with(&[("/a", "${task.nothing}")]);
        assert!(
            says[0].starts_with("files[\"/a\"]: '${task.nothing}' refers to nothing"),
            "{says:?}"
        );
        let many: Vec<String> = (0..65).map(|number| format!("/f{number}")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|path| (path.as_str(), "")).collect();
        assert_eq!(
            with(&many),
            ["files: has 65 files, those of secrets included, at most 64 are allowed"]
        );
    }

    #[test]
    fn a_file_requests_the_ports_that_it_refers_to() {
        let mut job = job();
        job.task.files.insert("/etc/app".to_owned(), file("listen ${port.admin}"));
        let ports: Vec<String> = job.task.all_ports().iter().map(ToString::to_string).collect();
        assert!(ports.contains(&"admin".to_owned()), "{ports:?}");
    }
}
