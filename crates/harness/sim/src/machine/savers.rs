//! What a simulated machine keeps of ended tasks and allocs, until their savers have succeeded. It
//! is on the disk: it survives the death of the Borglet and a loss of power. Savers survive only the
//! former.

use borglet::{Effect, Input, KeptData, RecoveredAttempt, RecoveredData, SAVERS_MAX, SaverLaunch};
use model::{Bytes, InstanceId, SaverOutcome, Span, Time};

use super::{Consequence, Machine, Passed, ProcessPhase, TaskStep};
use crate::program;

/// From SIGKILL to the end of a saver.
const KILLING: Span = Span::from_millis(2);
/// How long measuring takes.
const MEASURING: Span = Span::from_millis(5);

/// The data of an ended instance.
#[derive(Clone, Debug)]
pub(crate) struct Data {
    /// The record beside it.
    pub(crate) kept: KeptData,
    /// Whether the Borglet that runs, or ran last, knows of it.
    told: bool,
    /// The record of the last attempt.
    attempt: RecoveredAttempt,
    /// The saver that really runs.
    process: Option<SaverProcess>,
}

#[derive(Clone, Copy, Debug)]
struct SaverProcess {
    attempt: u32,
    uid: u32,
}

impl Machine {
    /// The data that a starting Borglet finds, and that of tasks that ended without one.
    pub(super) fn recovered_data(&mut self, now: Time) -> Vec<RecoveredData> {
        let ended: Vec<InstanceId> = self.processes.keys().copied().collect();
        ended.into_iter().for_each(|id| self.leave(now, id));
        let recovered = |data: &mut Data| {
            data.told = true;
            let attempt = match data.kept.outcome {
                Some(_) => RecoveredAttempt::None,
                None => data.attempt.clone(),
            };
            RecoveredData { kept: data.kept.clone(), attempt }
        };
        self.data.values_mut().map(recovered).collect()
    }

    /// A Borglet finds that a task has ended: the task's files are kept for its saver, or deleted.
    fn leave(&mut self, now: Time, id: InstanceId) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        let ProcessPhase::Ended(end) = &process.phase else { return };
        if std::mem::take(&mut process.has_files) {
            let alloc = process.launch.desired.alloc.and_then(|alloc| self.allocs.get(&alloc));
            let alloc = alloc.map(|alloc| alloc.desired.as_ref());
            let kept = KeptData::of_task(&process.launch, alloc, end, now);
            self.keep(kept);
        }
    }

    pub(super) fn keep(&mut self, kept: Option<KeptData>) {
        let Some(kept) = kept else { return };
        let (told, attempt, process) = (false, RecoveredAttempt::None, None);
        self.data.entry(kept.instance).or_insert(Data { kept, told, attempt, process });
    }

    /// What is kept from now on, told to the Borglet before the end of a task or an alloc.
    pub(crate) fn newly_kept(&mut self, now: Time, input: &Input) -> Option<Input> {
        let (Input::Ended(id, ..) | Input::AllocRemoved(id) | Input::AllocStays(id)) = input else {
            return None;
        };
        self.leave(now, *id);
        let data = self.data.get_mut(id).filter(|data| !data.told)?;
        data.told = true;
        Some(Input::Kept(Box::new(data.kept.clone())))
    }

    /// The data stays, and the savers are gone.
    pub(super) fn savers_lose_power(&mut self) {
        for data in self.data.values_mut() {
            if data.process.take().is_some() {
                let unknown = "how it ended is not known".to_owned();
                data.attempt = RecoveredAttempt::Ended(Err(unknown));
            }
        }
    }

    /// An injected bug: forgets what was kept.
    pub(crate) fn forget_data(&mut self) {
        self.data.clear();
    }

    /// An injected bug: forgets that savers run.
    pub(crate) fn forget_savers(&mut self) {
        let running = |data: &&mut Data| data.process.is_some();
        let all = self.data.values_mut().filter(running);
        all.for_each(|data| data.attempt = RecoveredAttempt::None);
    }

    /// Whether a saver runs with a user id.
    pub(super) fn is_saver(&self, uid: u32) -> bool {
        let mut running = self.data.values().filter_map(|data| data.process);
        running.any(|process| process.uid == uid)
    }

    /// Carries out an effect on what is kept.
    pub(super) fn save(&mut self, now: Time, effect: Effect, consequences: &mut Vec<Consequence>) {
        let done = match effect {
            Effect::RunSaver(launch) => self.run_saver(*launch),
            Effect::KillSaver(id) => Ok(self.kill_saver(id)),
            Effect::EndData(kept) => self.end_data(now, *kept),
            Effect::ForgetData(id) => {
                self.data.remove(&id);
                Ok(Some(Consequence::Forgot(id)))
            }
            Effect::MeasureData(id) => {
                let bytes = Bytes(1 << self.random.within(10..30));
                Ok(Some(Consequence::After(MEASURING, id, TaskStep::Measured(bytes))))
            }
            _ => Ok(None),
        };
        consequences.extend(done.unwrap_or_else(|wrong| Some(Consequence::Wrong(wrong))));
    }

    /// Fails with what is wrong if it must not run.
    fn run_saver(&mut self, launch: SaverLaunch) -> Result<Option<Consequence>, String> {
        let SaverLaunch { kept, uid } = launch;
        let (id, attempt) = (kept.instance, kept.attempts);
        if self.is_saver(uid) || self.running_as(uid).is_some() {
            let other = self.running_as(uid);
            return Err(format!("the saver of {id} is user {uid}, as another one: {other:?}"));
        }
        let mut running = 0;
        let all = self.data.values().filter(|data| data.process.is_some());
        all.for_each(|_| running += 1);
        if running >= SAVERS_MAX {
            return Err(format!("the saver of {id} runs beside {running} others"));
        }
        let (takes, ended) = program::saver(&kept.argv, &mut self.random);
        let Some(data) = self.data.get_mut(&id) else {
            return Err(format!("the saver of {id} runs without its data"));
        };
        if data.process.is_some() {
            return Err(format!("two savers run at once in the data of {id}"));
        }
        if let Some(outcome) = &data.kept.outcome {
            return Err(format!("the saver of {id} runs after its data was {outcome}"));
        }
        data.kept = kept;
        data.attempt = RecoveredAttempt::Running { uid };
        data.process = Some(SaverProcess { attempt, uid });
        Ok(takes.map(|takes| Consequence::After(takes, id, TaskStep::SaverEnds(attempt, ended))))
    }

    /// The task that runs with a user id.
    fn running_as(&self, uid: u32) -> Option<InstanceId> {
        let mut all = self.processes.iter();
        all.find(|(_, other)| other.is_there() && other.launch.uid == uid).map(|(id, _)| *id)
    }

    /// Occasionally something hangs in the kernel.
    fn kill_saver(&mut self, id: InstanceId) -> Option<Consequence> {
        let process = self.data.get(&id)?.process?;
        let killed = TaskStep::SaverEnds(process.attempt, Err("signal 9".to_owned()));
        (!self.random.chance(100)).then_some(Consequence::After(KILLING, id, killed))
    }

    /// Fails with what is wrong if the data must not be deleted.
    fn end_data(&mut self, now: Time, kept: KeptData) -> Result<Option<Consequence>, String> {
        let id = kept.instance;
        let Some(outcome) = kept.outcome.clone() else {
            return Err(format!("the data of {id} is deleted, and nothing became of it"));
        };
        let Some(data) = self.data.get_mut(&id) else {
            return Err(format!("the data of {id} is {outcome}, and is not there"));
        };
        if data.process.is_some() {
            return Err(format!("the data of {id} is {outcome} while its saver runs"));
        }
        let succeeded = data.attempt == RecoveredAttempt::Ended(Ok(()));
        let right = match &outcome {
            SaverOutcome::Saved => succeeded,
            SaverOutcome::GivenUp { reason } => {
                !succeeded && (!reason.starts_with("it did not succeed") || data.kept.until <= now)
            }
        };
        if !right {
            return Err(format!("the data of {id} is {outcome}, but it is {data:?}"));
        }
        data.kept = kept;
        data.attempt = RecoveredAttempt::None;
        Ok(Some(Consequence::Settled(id, outcome)))
    }

    /// An event of kept data takes effect; returns the input for the Borglet.
    pub(super) fn pass_data(&mut self, id: InstanceId, step: TaskStep) -> Option<Passed> {
        let data = self.data.get_mut(&id)?;
        let input = match step {
            TaskStep::SaverEnds(attempt, ended) => {
                data.process.take_if(|process| process.attempt == attempt)?;
                data.attempt = RecoveredAttempt::Ended(ended.clone());
                Input::SaverEnded(id, ended)
            }
            TaskStep::Measured(bytes) => Input::DataMeasured(id, bytes),
            _ => return None,
        };
        Some(Passed { input, then: None, ended: None })
    }
}
