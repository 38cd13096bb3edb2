//! Converts a desired instance to a launch: references resolved, environment complete.

use std::collections::BTreeMap;

use model::InstanceId;
use poll::{Desired, DesiredAlloc};
use spec::{FileContent, FileMode, Reference, TaskField, expand, references};

/// The path at which a task in an alloc sees the directory shared by all tasks of the alloc.
pub const ALLOC_DIRECTORY: &str = "/alloc";

/// The path of the directory below which a task finds its packages, each by its name.
pub const PACKAGES_DIRECTORY: &str = "/packages";

/// The path of the client directory with the task's certificate, for tasks that call the cell's
/// API.
pub const CLIENT_DIRECTORY: &str = "/run/bourg/cell";

/// The path of the directory in which a task finds its notice.
pub const NOTICE_DIRECTORY: &str = "/run/bourg/notice";

/// The name of the file there, which exists only once notice is given.
pub const NOTICE_FILE: &str = "notice.json";

/// What an image says of how it is started. What a job says itself counts instead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageDefaults {
    /// The program, with the arguments that always come first.
    pub entrypoint: Vec<String>,
    /// Further arguments, or the program if there is no entrypoint.
    pub cmd: Vec<String>,
    /// The environment.
    pub env: Vec<(String, String)>,
}

/// A file that a task finds, with its references filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchFile {
    /// Its path.
    pub path: String,
    /// Its content.
    pub content: Vec<u8>,
    /// Who may read it.
    pub mode: FileMode,
    /// Whether it is known what all names stand for to which it refers.
    pub is_complete: bool,
}

/// A fully specified start of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The instance.
    pub instance: InstanceId,
    /// The desired instance.
    pub desired: Desired,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The environment.
    pub env: Vec<(String, String)>,
    /// The user id it runs as, unique on this machine.
    pub uid: u32,
    /// The CPUs that it has for itself, in order; empty if it shares.
    pub cpus: Vec<u32>,
    /// What the names of other jobs stand for to which its description refers, by what is in the braces.
    /// They are known once a master was asked.
    pub names: BTreeMap<String, String>,
}

impl Launch {
    /// Resolves the references of a desired instance; `alloc` is the alloc it runs in, if any.
    #[must_use]
    pub fn new(desired: Desired, alloc: Option<&DesiredAlloc>, uid: u32) -> Self {
        let mut env = environment(&desired, alloc);
        env.retain(|(name, _)| !desired.spec.env.contains_key(name));
        let own = desired.spec.env.keys();
        env.extend(own.map(|name| (name.clone(), String::new())));
        let (instance, cpus, names) = (desired.instance, Vec::new(), BTreeMap::new());
        let launch = Self { instance, argv: Vec::new(), env, uid, cpus, names, desired };
        launch.told(BTreeMap::new())
    }

    /// The same launch, once it is known what names stand for.
    #[must_use]
    pub fn told(mut self, names: BTreeMap<String, String>) -> Self {
        let desired = &self.desired;
        let fill = |text: &String| filled(desired, &names, text);
        self.argv = desired.spec.cmd.iter().map(fill).collect();
        for (name, value) in &mut self.env {
            if let Some(text) = desired.spec.env.get(name) {
                *value = fill(text);
            }
        }
        self.names = names;
        self
    }

    /// Whether a master has to be asked for what it needs: secrets, and what names stand for.
    #[must_use]
    pub fn asks_master(&self) -> bool {
        let spec = &self.desired.spec;
        !spec.secrets.is_empty() || !spec.secret_env.is_empty() || !spec.names().is_empty()
    }

    /// The files that the task brings.
    pub fn files(&self) -> impl Iterator<Item = LaunchFile> + '_ {
        self.desired.spec.files.iter().map(|(path, file)| {
            let (content, is_complete) = match &file.content {
                FileContent::Text(text) => {
                    let content = filled(&self.desired, &self.names, text).into_bytes();
                    (content, self.knows_names_of(text))
                }
                FileContent::Bytes(bytes) => (bytes.to_vec(), true),
            };
            LaunchFile { path: path.clone(), content, mode: file.mode, is_complete }
        })
    }

    fn knows_names_of(&self, text: &str) -> bool {
        let mut named = references(text).filter_map(|(_, reference)| match reference {
            Ok(Reference::Name(name)) => Some(name.to_string()),
            _ => None,
        });
        named.all(|name| self.names.contains_key(&name))
    }

    /// Completes the start of a task whose root is an image: a job without a command runs the image's, with
    /// its entrypoint, and the image's variables are there unless the cell or the job sets them.
    pub fn complete(&mut self, image: ImageDefaults) {
        if self.argv.is_empty() {
            self.argv = [image.entrypoint, image.cmd].concat();
        }
        let is_set = |name: &String| self.env.iter().any(|(other, _)| other == name);
        let mut env: Vec<_> = image.env.into_iter().filter(|(name, _)| !is_set(name)).collect();
        env.append(&mut self.env);
        self.env = env;
    }
}

/// The environment of a task, in addition to its job's variables: `BORG_CELL`, `BORG_USER`,
/// `BORG_JOB`, `BORG_TASK` (its index), `BORG_TASKS` (their number), its limits at its start
/// (`BORG_CPU` in cores, `BORG_RAM` and `BORG_DISK` in bytes), `BOURG_NOTICE` (the file that says why
/// it is stopped, once it is), and for each port `PORT_<NAME>`, in capitals with hyphens
/// as underscores; also `PORT` if there is exactly one. In an alloc also `BORG_ALLOC_DIR`, the
/// shared directory, `BORG_ALLOC`, the alloc's index, and `BORG_ALLOC_SET`, as `user/name`. With
/// `api`, `BOURG_CELL`: the client directory, so that `bourg` talks to the task's own cell.
#[must_use]
pub fn environment(desired: &Desired, alloc: Option<&DesiredAlloc>) -> Vec<(String, String)> {
    let limit = &desired.spec.limit;
    let mut env = vec![
        ("BORG_CELL".to_owned(), desired.cell.to_string()),
        ("BORG_USER".to_owned(), desired.user.to_string()),
        ("BORG_JOB".to_owned(), desired.job.to_string()),
        ("BORG_TASK".to_owned(), desired.instance.index.to_string()),
        ("BORG_TASKS".to_owned(), desired.tasks.to_string()),
        ("BORG_CPU".to_owned(), limit.cpu.cores()),
        ("BORG_RAM".to_owned(), limit.ram.0.to_string()),
        ("BORG_DISK".to_owned(), limit.disk.0.to_string()),
    ];
    env.push(("BOURG_NOTICE".to_owned(), format!("{NOTICE_DIRECTORY}/{NOTICE_FILE}")));
    for (name, port) in &desired.ports {
        let name = name.as_str().to_ascii_uppercase().replace('-', "_");
        env.push((format!("PORT_{name}"), port.to_string()));
    }
    if let [(_, port)] = desired.ports.as_slice() {
        env.push(("PORT".to_owned(), port.to_string()));
    }
    if desired.spec.api {
        env.push(("BOURG_CELL".to_owned(), CLIENT_DIRECTORY.to_owned()));
    }
    if let Some(DesiredAlloc { instance, user, name, .. }) = alloc {
        env.push(("BORG_ALLOC_DIR".to_owned(), ALLOC_DIRECTORY.to_owned()));
        env.push(("BORG_ALLOC".to_owned(), instance.index.to_string()));
        env.push(("BORG_ALLOC_SET".to_owned(), format!("{user}/{name}")));
    }
    env
}

/// Resolves the references in a text.
pub(crate) fn fill(desired: &Desired, text: &str) -> String {
    filled(desired, &BTreeMap::new(), text)
}

fn filled(desired: &Desired, names: &BTreeMap<String, String>, text: &str) -> String {
    expand(text, |reference| match reference {
        Reference::Name(name) => names.get(&name.to_string()).cloned(),
        other => value(desired, other),
    })
}

/// Whether a variable is of use only while the task runs, or has its limits.
pub(crate) fn is_of_its_incarnation(name: &str) -> bool {
    let limits = ["BORG_CPU", "BORG_RAM", "BORG_DISK"];
    matches!(name, "BOURG_NOTICE" | "BOURG_CELL" | "BORG_ALLOC_DIR") || limits.contains(&name)
}

fn value(desired: &Desired, reference: &Reference) -> Option<String> {
    Some(match reference {
        Reference::Port(wanted) => {
            let (_, port) = desired.ports.iter().find(|(name, _)| name == wanted)?;
            port.to_string()
        }
        Reference::Task(TaskField::Index) => desired.instance.index.to_string(),
        Reference::Task(TaskField::Job) => desired.job.to_string(),
        Reference::Task(TaskField::User) => desired.user.to_string(),
        Reference::Task(TaskField::Cell) => desired.cell.to_string(),
        Reference::Task(TaskField::Cpu) => desired.spec.limit.cpu.cores(),
        Reference::Task(TaskField::Ram) => desired.spec.limit.ram.0.to_string(),
        Reference::Task(TaskField::Tasks) => desired.tasks.to_string(),
        Reference::Name(_) => return None,
    })
}
