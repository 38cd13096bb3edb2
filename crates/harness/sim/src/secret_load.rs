//! Secrets and references in the mixed load: users set, rotate and delete secrets, and their jobs name them and
//! refer to other jobs. Half of the worlds have them.

use cell::{Cell, DeleteSecret, Mutation, SetSecret};
use model::{Random, Sealed, SecretKeyId, SecretName, UserName};
use spec::{JobSpec, Kind, OnChange};

use crate::load::Action;

/// What can follow a change.
const ON_CHANGE: [OnChange; 3] = [OnChange::Nothing, OnChange::Signal, OnChange::Restart];

/// Who sets and names secrets. It draws from random numbers of its own, so that everything else stays that of
/// the seed.
#[derive(Debug)]
pub(crate) struct SecretLoad {
    random: Random,
    has_secrets: bool,
    users: usize,
}

impl SecretLoad {
    pub(crate) fn new(seed: u64, users: usize) -> Self {
        let seed = Random::mixed(seed);
        Self { random: Random::new(seed), has_secrets: seed.is_multiple_of(2), users }
    }

    fn name(&mut self) -> Option<SecretName> {
        SecretName::new(self.random.one_of(&["db", "tls", "token"])?).ok()
    }

    /// What a user does with a secret.
    pub(crate) fn actions(&mut self) -> Vec<Action> {
        if !self.has_secrets || !self.random.chance(250) {
            return Vec::new();
        }
        let user = 1 + self.random.index(self.users.saturating_sub(1));
        let Some(name) = self.name() else { return Vec::new() };
        let mutation = match self.random.below(5) {
            // Rejected as long as a job names it.
            0 => Mutation::from(DeleteSecret(name)),
            _ => {
                let mut nonce = [0; 12];
                nonce[..8].copy_from_slice(&self.random.number().to_le_bytes());
                let bytes = vec![7; 16 + self.random.index(64)].into();
                let sealed = Sealed { key: SecretKeyId([1; 8]), nonce, bytes };
                Mutation::from(SetSecret { name, sealed })
            }
        };
        vec![Action::Request(user, mutation)]
    }

    /// Lets the tasks of some jobs name secrets of their owner, and refer to another job.
    pub(crate) fn ask(&mut self, cell: &Cell, owner: &UserName, spec: &mut JobSpec) {
        if !self.has_secrets || !matches!(spec.kind, Kind::Job { .. }) {
            return;
        }
        if self.random.chance(400) {
            let has: Vec<SecretName> =
                cell.secrets_of(owner).map(|secret| secret.name.clone()).collect();
            let task = &mut spec.task;
            if let Some(name) = self.random.one_of(&has) {
                task.secrets.insert("/secrets/first".to_owned(), name.clone());
            }
            if let Some(name) = self.random.one_of(&has).filter(|_| self.random.chance(500)) {
                task.secret_env.insert("SECRET".to_owned(), name.clone());
            }
        }
        if self.random.chance(200) {
            spec.task.cmd.extend(self.reference(cell));
        }
        spec.task.on_change = *self.random.one_of(&ON_CHANGE).unwrap_or(&OnChange::Nothing);
    }

    /// A word of a command with the address of a job that refers to no other one: what refers to each other would
    /// be restarted again and again.
    fn reference(&mut self, cell: &Cell) -> Option<String> {
        let can = |job: &&std::sync::Arc<cell::Job>| {
            let is_job = matches!(job.spec.kind, Kind::Job { .. });
            is_job && job.is_alive() && job.spec.names().is_empty() && job.spec.tasks > 0
        };
        let jobs: Vec<_> = cell.jobs().filter(can).collect();
        let job = self.random.one_of(&jobs)?;
        let (owner, name) = (&job.owner, &job.spec.name);
        let has_port = job.ports(model::TaskIndex(0)).len() == 1;
        let reference = match self.random.below(3) {
            0 if has_port => format!("{owner}/{name}.addresses"),
            1 if has_port => format!("{owner}/{name}/0.address"),
            _ => format!("{owner}/{name}/0.host"),
        };
        Some(format!("of=${{bns.{reference}}}"))
    }
}
