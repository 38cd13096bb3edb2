//! What the tasks of a simulated machine have read: secrets, and what the names of other jobs stand for. It is
//! in memory, as in `/dev/shm` of a real machine, until the Borglet learns that the task has ended.

use std::collections::{BTreeMap, BTreeSet};

use model::{InstanceId, RestoreEpoch, SecretName, Span, Time};
use spec::NameReference;

use super::{InstanceProcess, TaskStep};

/// How long a starting task waits for what it needs.
pub(crate) const PATIENCE: Span = Span::from_secs(8);
/// The timeout of a call to one master.
pub(crate) const TIMEOUT: Span = Span::from_secs(3);
/// The delay before the next master is asked.
pub(crate) const PAUSE: Span = Span::from_millis(200);
/// The delay before a running task's Borglet tries to read again, and after so many rounds.
pub(crate) const RETRY: Span = Span::from_secs(5);
pub(crate) const FREQUENT_ROUNDS: u32 = 60;
pub(crate) const RARE_RETRY: Span = Span::from_secs(60);

/// What a task has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadInputs {
    /// The versions of secrets in its files.
    pub(crate) files: BTreeMap<SecretName, u32>,
    /// The versions of secrets in its variables, which it keeps.
    pub(crate) variables: BTreeMap<SecretName, u32>,
    pub(crate) names: BTreeMap<NameReference, String>,
    /// How often the cell had been restored when it was read.
    pub(crate) epoch: RestoreEpoch,
}

/// What a master has sent.
#[derive(Clone, Debug)]
pub(crate) struct OpenedInputs {
    pub(crate) secrets: BTreeMap<SecretName, u32>,
    pub(crate) names: BTreeMap<NameReference, String>,
    pub(crate) epoch: RestoreEpoch,
}

/// The answer of a master.
#[derive(Clone, Debug)]
pub(crate) enum InputsAnswer {
    Opened(Box<OpenedInputs>),
    /// Another one, or the same one later, may know.
    Later,
    /// No master would answer otherwise.
    Never,
}

/// What the answer is for.
#[derive(Clone, Debug)]
pub(crate) enum AskedFor {
    /// A start: the step follows so long after the answer.
    Start { begins: Span, step: TaskStep },
    /// A running task whose machine was told to read again.
    Again { round: u32 },
}

impl AskedFor {
    /// Whether the task runs already.
    pub(crate) fn is_again(&self) -> bool {
        matches!(self, Self::Again { .. })
    }
}

/// A request that is not answered yet.
#[derive(Debug)]
pub(crate) struct Asking {
    pub(crate) what: AskedFor,
    /// The number of its last attempt.
    pub(crate) attempt: u64,
    /// The replica that is asked.
    pub(crate) host: usize,
    /// When the Borglet stops asking, or makes a longer pause.
    pub(crate) until: Time,
}

/// A step of a request.
#[derive(Debug)]
pub(crate) enum InputsStep {
    /// It is sent.
    Sends,
    /// No answer has come in time.
    TimesOut,
    /// An answer arrives.
    Answered(InputsAnswer),
}

/// A request that arrives at a replica.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InputsRequest {
    pub(crate) host: usize,
    pub(crate) machine: usize,
    pub(crate) boot: u64,
    pub(crate) instance: InstanceId,
    /// Whether the task runs already.
    pub(crate) again: bool,
    pub(crate) attempt: u64,
}

/// What a machine has of it.
#[derive(Debug, Default)]
pub(crate) struct MachineInputs {
    pub(crate) read: BTreeMap<InstanceId, ReadInputs>,
    pub(crate) asking: BTreeMap<InstanceId, Asking>,
    /// Running tasks for which a note says that their files are being read again. A Borglet that starts goes on with
    /// it: the cell may have recorded that it was read.
    pub(crate) noted: BTreeSet<InstanceId>,
    /// The replica that answered last.
    pub(crate) master: usize,
}

impl MachineInputs {
    /// A Borglet that starts removes what tasks have left that are not there any more.
    pub(crate) fn adopt(&mut self, processes: &BTreeMap<InstanceId, InstanceProcess>) {
        self.asking.clear();
        let is_there = |id: &InstanceId| processes.get(id).is_some_and(InstanceProcess::is_there);
        self.read.retain(|id, _| is_there(id));
        self.noted.retain(is_there);
    }

    pub(crate) fn lose_power(&mut self) {
        self.asking.clear();
        self.read.clear();
        self.noted.clear();
    }

    /// The tasks whose start waits for an answer.
    pub(crate) fn starting(&self) -> Vec<InstanceId> {
        let starts = |asking: &Asking| matches!(asking.what, AskedFor::Start { .. });
        self.asking.iter().filter(|(_, asking)| starts(asking)).map(|(id, _)| *id).collect()
    }
}

impl InstanceProcess {
    /// It has read its secrets and names; variables only when it starts. It keeps what a name stood for that stands for
    /// nothing now.
    pub(crate) fn has_read(&self, before: Option<&ReadInputs>, opened: OpenedInputs) -> ReadInputs {
        let OpenedInputs { secrets, mut names, epoch } = opened;
        for (name, had) in before.into_iter().flat_map(|before| &before.names) {
            names.entry(name.clone()).or_insert_with(|| had.clone());
        }
        let spec = &self.launch.desired.spec;
        let of = |named: &BTreeMap<String, SecretName>| {
            let has = |name: &SecretName| Some((name.clone(), *secrets.get(name)?));
            named.values().filter_map(has).collect::<BTreeMap<_, _>>()
        };
        let variables = match before {
            Some(before) => before.variables.clone(),
            None => of(&spec.secret_env),
        };
        ReadInputs { files: of(&spec.secrets), variables, names, epoch }
    }
}
