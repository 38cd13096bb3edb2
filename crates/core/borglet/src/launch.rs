//! From what is desired to what is started: references filled in, the environment complete.

use model::InstanceId;
use spec::{Reference, TaskField, expand};

use crate::{Desired, DesiredAlloc};

/// Where a task in an alloc finds the directory that all tasks of the alloc share.
pub const ALLOC_DIRECTORY: &str = "/alloc";

/// Where a task that asks its cell finds the client directory with its own certificate.
pub const CLIENT_DIRECTORY: &str = "/run/bourg/cell";

/// An instance as it is started: everything decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Which.
    pub instance: InstanceId,
    /// What was desired.
    pub desired: Desired,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The environment.
    pub env: Vec<(String, String)>,
    /// The user id that it runs as, its own on this machine.
    pub uid: u32,
}

impl Launch {
    /// Fills in a desired instance's references. Its alloc is given where it is to run in one.
    #[must_use]
    pub fn new(desired: Desired, alloc: Option<&DesiredAlloc>, uid: u32) -> Self {
        let fill = |text: &String| expand(text, |reference| value(&desired, reference));
        let argv = desired.spec.cmd.iter().map(fill).collect();
        let own = desired.spec.env.iter().map(|(name, text)| (name.clone(), fill(text)));
        let mut env = environment(&desired, alloc);
        env.retain(|(name, _)| !desired.spec.env.contains_key(name));
        env.extend(own);
        Self { instance: desired.instance, argv, env, uid, desired }
    }
}

/// What every task finds in its environment, beside what its job gives it: `BORG_CELL`,
/// `BORG_USER`, `BORG_JOB`, `BORG_TASK` (its index), and for each port `PORT_<NAME>`, in capitals,
/// hyphens as underscores; `PORT` too where there is only one. In an alloc also `BORG_ALLOC_DIR`, the
/// directory that its tasks share, `BORG_ALLOC`, its index, and `BORG_ALLOC_SET`, as `user/name`. With
/// `api`, `BOURG_CELL`: the client directory, so that `bourg` asks its own cell.
#[must_use]
pub fn environment(desired: &Desired, alloc: Option<&DesiredAlloc>) -> Vec<(String, String)> {
    let mut env = vec![
        ("BORG_CELL".to_owned(), desired.cell.to_string()),
        ("BORG_USER".to_owned(), desired.user.to_string()),
        ("BORG_JOB".to_owned(), desired.job.to_string()),
        ("BORG_TASK".to_owned(), desired.instance.index.to_string()),
    ];
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
    })
}
