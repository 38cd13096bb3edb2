//! Savers: when the command that saves the data of an ended task or alloc runs, how often, and when
//! its data is given up.
//!
//! An instance that has ended is reported at once, and its resources and ports are free: a saver has
//! small limits of its own. Its data stays until the saver exits with 0, its time is over, or there
//! is no room for it any more: the oldest is given up first. What became of it is reported until an
//! order confirms that the cell knows.

use std::collections::BTreeMap;

use model::{Bytes, End, InstanceId, SaverOutcome, Saving, Span, Time};
use spec::Saver;

use crate::launch::{self, fill};
use crate::{DesiredAlloc, Effect, Launch, environment};

/// How many savers run at once on a machine.
pub const SAVERS_AT_ONCE: usize = 4;
/// The data of how many instances a machine keeps.
pub const KEPT_DATA_MAX: usize = 100;
/// Bound of the text of a failure, in characters.
const FAILURE_CHARACTERS_MAX: usize = 300;
/// After this long a saver that was killed and is still there is killed again.
const KILL_AGAIN: Span = Span::from_secs(5);

/// What is kept of an ended instance, as it is recorded beside its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptData {
    /// The instance.
    pub instance: InstanceId,
    /// Its name in messages: `ana/web/3`.
    pub name: String,
    /// The saver's program and its arguments.
    pub argv: Vec<String>,
    /// The saver's environment.
    pub env: Vec<(String, String)>,
    /// The user id to which the data belongs; none for an alloc, whose tasks had several.
    pub uid: Option<u32>,
    /// When the instance ended.
    pub since: Time,
    /// Until when the saver is tried.
    pub until: Time,
    /// The time from the end of an attempt to the next one.
    pub interval: Span,
    /// How often the saver was started.
    pub attempts: u32,
    /// What became of the data, which is then deleted.
    pub outcome: Option<SaverOutcome>,
}

/// One attempt to save the data of an ended instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaverLaunch {
    /// The data, with this attempt counted.
    pub kept: KeptData,
    /// The user id that the saver runs as, used by nothing else on this machine.
    pub uid: u32,
}

/// Data that an earlier Borglet kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredData {
    /// The data.
    pub kept: KeptData,
    /// What became of the last attempt.
    pub attempt: RecoveredAttempt,
}

/// What became of an attempt while no Borglet was running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveredAttempt {
    /// There was none, or nothing is known about it.
    None,
    /// It is running: its end will be reported.
    Running {
        /// The user id it runs as.
        uid: u32,
    },
    /// It has ended; the error says how it failed.
    Ended(Result<(), String>),
}

impl KeptData {
    /// What is kept of a task that has ended; none if it has no saver, or its program never ran.
    #[must_use]
    pub fn of_task(
        launch: &Launch,
        alloc: Option<&DesiredAlloc>,
        end: &End,
        now: Time,
    ) -> Option<Self> {
        let desired = &launch.desired;
        let saver = desired.spec.saver.as_ref()?;
        if let End::NotStarted { .. } = end {
            return None;
        }
        let own = desired.spec.env.iter();
        let mut env = environment(desired, alloc);
        env.retain(|(name, _)| {
            !desired.spec.env.contains_key(name) && !launch::is_of_its_life(name)
        });
        env.extend(own.map(|(name, text)| (name.clone(), fill(desired, text))));
        env.extend(of_its_end(end));
        Some(Self {
            name: format!("{}/{}/{}", desired.user, desired.job, desired.instance.index),
            argv: saver.cmd.iter().map(|text| fill(desired, text)).collect(),
            env,
            uid: Some(launch.uid),
            ..Self::new(launch.instance, saver, now)
        })
    }

    /// What is kept of an alloc that is removed; none if its set has no saver.
    #[must_use]
    pub fn of_alloc(desired: &DesiredAlloc, now: Time) -> Option<Self> {
        let saver = desired.saver.as_ref()?;
        let DesiredAlloc { instance, cell, user, name, .. } = desired;
        let mut env = vec![
            ("BORG_CELL".to_owned(), cell.to_string()),
            ("BORG_USER".to_owned(), user.to_string()),
            ("BORG_ALLOC".to_owned(), instance.index.to_string()),
            ("BORG_ALLOC_SET".to_owned(), format!("{user}/{name}")),
        ];
        env.extend(of_its_end(&End::Stopped));
        let name = format!("{user}/{name}/{}", instance.index);
        Some(Self { name, argv: saver.cmd.clone(), env, ..Self::new(*instance, saver, now) })
    }

    fn new(instance: InstanceId, saver: &Saver, now: Time) -> Self {
        Self {
            instance,
            name: String::new(),
            argv: Vec::new(),
            env: Vec::new(),
            uid: None,
            since: now,
            until: now + saver.time_limit,
            interval: saver.interval,
            attempts: 0,
            outcome: None,
        }
    }
}

/// How an instance ended: `BOURG_END` in words, and `BOURG_EXIT_CODE` if its program exited.
fn of_its_end(end: &End) -> impl Iterator<Item = (String, String)> {
    let code = match end {
        End::Exited { code } => Some(("BOURG_EXIT_CODE".to_owned(), code.to_string())),
        _ => None,
    };
    std::iter::once(("BOURG_END".to_owned(), end.to_string())).chain(code)
}

/// The data that a machine keeps.
#[derive(Clone, Debug, Default)]
pub(super) struct Savers(BTreeMap<InstanceId, Keeping>);

#[derive(Clone, Debug)]
struct Keeping {
    kept: KeptData,
    bytes: Bytes,
    /// Whether its size was asked for.
    measured: bool,
    attempt: Attempt,
    /// Its last attempt succeeded while no Borglet was running.
    succeeded: bool,
    /// Why it is being given up.
    giving_up: Option<String>,
    /// How the last attempt failed.
    failure: Option<String>,
}

#[derive(Clone, Debug)]
enum Attempt {
    Waiting { next: Time },
    Running { uid: u32, kill: Option<Time> },
}

impl Savers {
    /// Adopts the data that an earlier Borglet kept.
    pub(super) fn adopt(&mut self, now: Time, found: Vec<RecoveredData>) {
        for RecoveredData { kept, attempt } in found {
            let instance = kept.instance;
            let mut keeping = Keeping::new(kept, now);
            match attempt {
                RecoveredAttempt::None => {}
                RecoveredAttempt::Running { uid } => {
                    keeping.attempt = Attempt::Running { uid, kill: None };
                }
                RecoveredAttempt::Ended(Ok(())) => keeping.succeeded = true,
                RecoveredAttempt::Ended(Err(failure)) => keeping.failure = Some(failure),
            }
            self.0.insert(instance, keeping);
        }
    }

    /// The data of an instance that has ended is kept from now on.
    pub(super) fn keep(&mut self, now: Time, kept: KeptData) {
        self.0.entry(kept.instance).or_insert_with(|| Keeping::new(kept, now));
    }

    pub(super) fn measured(&mut self, instance: InstanceId, bytes: Bytes) {
        if let Some(keeping) = self.0.get_mut(&instance) {
            keeping.bytes = bytes;
        }
    }

    /// An attempt has ended; the error says how it failed.
    pub(super) fn ended(
        &mut self,
        now: Time,
        instance: InstanceId,
        ended: Result<(), String>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(keeping) = self.0.get_mut(&instance) else { return };
        if keeping.kept.outcome.is_some() {
            return;
        }
        match ended {
            Ok(()) => keeping.end(SaverOutcome::Saved, effects),
            Err(failure) => {
                keeping.failure = Some(failure.chars().take(FAILURE_CHARACTERS_MAX).collect());
                keeping.attempt = Attempt::Waiting { next: now + keeping.kept.interval };
                // It may have deleted a part.
                keeping.measured = false;
            }
        }
    }

    /// The cell knows what became of these.
    pub(super) fn settled(&mut self, instances: &[InstanceId], effects: &mut Vec<Effect>) {
        for instance in instances {
            let over = |keeping: &Keeping| keeping.kept.outcome.is_some();
            if self.0.get(instance).is_some_and(over) {
                self.0.remove(instance);
                effects.push(Effect::ForgetData(*instance));
            }
        }
    }

    /// Gives up what is over or has no room, and starts the savers that are due. `uid` is a user id
    /// that nothing else uses, for the data of allocs.
    pub(super) fn settle(
        &mut self,
        now: Time,
        room: Bytes,
        mut uid: impl FnMut(&Self) -> Option<u32>,
        effects: &mut Vec<Effect>,
    ) {
        for keeping in self.0.values_mut().filter(|keeping| keeping.is_kept()) {
            if keeping.succeeded {
                keeping.end(SaverOutcome::Saved, effects);
                continue;
            }
            if !std::mem::replace(&mut keeping.measured, true) {
                effects.push(Effect::MeasureData(keeping.kept.instance));
            }
            if keeping.kept.until <= now {
                let time = keeping.kept.until.since(keeping.kept.since);
                keeping.giving_up = Some(format!("it did not succeed within {time}"));
            }
        }
        self.make_room(room);
        for keeping in self.0.values_mut().filter(|keeping| keeping.kept.outcome.is_none()) {
            keeping.give_up(now, effects);
        }
        let mut due: Vec<(Time, InstanceId)> = self
            .0
            .iter()
            .filter(|(_, keeping)| keeping.next_start().is_some_and(|next| next <= now))
            .map(|(instance, keeping)| (keeping.kept.since, *instance))
            .collect();
        due.sort_unstable();
        let free = SAVERS_AT_ONCE.saturating_sub(self.running());
        for (_, instance) in due.into_iter().take(free) {
            let own = self.0.get(&instance).and_then(|keeping| keeping.kept.uid);
            let uid = own.or_else(|| uid(self));
            let Some(keeping) = self.0.get_mut(&instance) else { continue };
            let Some(uid) = uid else {
                keeping.attempt = Attempt::Waiting { next: now + keeping.kept.interval };
                continue;
            };
            keeping.kept.attempts = keeping.kept.attempts.saturating_add(1);
            keeping.attempt = Attempt::Running { uid, kill: None };
            let launch = SaverLaunch { kept: keeping.kept.clone(), uid };
            effects.push(Effect::RunSaver(Box::new(launch)));
        }
    }

    /// Gives up the oldest while there is too much.
    fn make_room(&mut self, room: Bytes) {
        let kept = self.0.values().filter(|keeping| keeping.is_kept());
        let mut all: Vec<(Time, InstanceId, u64)> = kept
            .map(|keeping| (keeping.kept.since, keeping.kept.instance, keeping.bytes.0))
            .collect();
        all.sort_unstable();
        let mut bytes = all.iter().fold(0_u64, |sum, (.., bytes)| sum.saturating_add(*bytes));
        let mut count = all.len();
        for (_, instance, own) in all {
            if bytes <= room.0 && count <= KEPT_DATA_MAX {
                return;
            }
            if let Some(keeping) = self.0.get_mut(&instance) {
                keeping.giving_up = Some(match count > KEPT_DATA_MAX {
                    true => {
                        format!("its machine keeps the data of at most {KEPT_DATA_MAX} instances")
                    }
                    false => format!("its machine keeps at most {room} of such data"),
                });
            }
            bytes = bytes.saturating_sub(own);
            count -= 1;
        }
    }

    /// The machine's disk is nearly full: gives up the oldest; returns whether there was one.
    pub(super) fn give_up_oldest(&mut self) -> bool {
        let kept = self.0.values_mut().filter(|keeping| keeping.is_kept());
        let Some(oldest) = kept.min_by_key(|keeping| keeping.kept.since) else { return false };
        oldest.giving_up = Some("the disk of its machine is full".to_owned());
        true
    }

    fn running(&self) -> usize {
        let runs = |keeping: &&Keeping| matches!(keeping.attempt, Attempt::Running { .. });
        let all = self.0.values().filter(|keeping| keeping.kept.outcome.is_none());
        all.filter(runs).count()
    }

    /// When the next tick is due.
    pub(super) fn next_tick(&self) -> Option<Time> {
        let room = self.running() < SAVERS_AT_ONCE;
        let due = |keeping: &Keeping| {
            let start = keeping.next_start().filter(|_| room);
            let first = keeping.is_kept() && (keeping.succeeded || !keeping.measured);
            let first = first.then_some(keeping.kept.since);
            let over = keeping.is_kept().then_some(keeping.kept.until);
            let kill = match keeping.attempt {
                Attempt::Running { kill, .. } if keeping.kept.outcome.is_none() => kill,
                _ => None,
            };
            [first, start, over, kill].into_iter().flatten().min()
        };
        self.0.values().filter_map(due).min()
    }

    /// The user ids of the data that is kept.
    pub(super) fn uids(&self) -> impl Iterator<Item = u32> {
        let kept = self.0.values().filter(|keeping| keeping.kept.outcome.is_none());
        kept.filter_map(|keeping| match keeping.attempt {
            Attempt::Running { uid, .. } => Some(uid),
            Attempt::Waiting { .. } => keeping.kept.uid,
        })
    }

    /// What is kept, as it is reported.
    pub(super) fn reported(&self) -> Vec<Saving> {
        let saving = |keeping: &Keeping| Saving {
            instance: keeping.kept.instance,
            bytes: keeping.bytes,
            attempts: keeping.kept.attempts,
            until: keeping.kept.until,
            outcome: keeping.kept.outcome.clone(),
        };
        self.0.values().map(saving).collect()
    }
}

impl Keeping {
    fn new(kept: KeptData, now: Time) -> Self {
        Self {
            kept,
            bytes: Bytes(0),
            measured: false,
            succeeded: false,
            attempt: Attempt::Waiting { next: now },
            giving_up: None,
            failure: None,
        }
    }

    /// Whether its saver is still tried.
    fn is_kept(&self) -> bool {
        self.kept.outcome.is_none() && self.giving_up.is_none()
    }

    /// When its saver is to be started.
    fn next_start(&self) -> Option<Time> {
        match self.attempt {
            Attempt::Waiting { next } if self.is_kept() => Some(next),
            _ => None,
        }
    }

    /// Ends it if it is being given up; a saver that runs is killed first.
    fn give_up(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let Some(why) = self.giving_up.clone() else { return };
        match &mut self.attempt {
            Attempt::Waiting { .. } => {
                let attempts = match self.kept.attempts {
                    0 => "it was never started".to_owned(),
                    1 => "1 attempt".to_owned(),
                    several => format!("{several} attempts"),
                };
                let last = self.failure.as_ref().map(|last| format!(", the last: {last}"));
                let reason = format!("{why} ({attempts}{})", last.unwrap_or_default());
                self.end(SaverOutcome::GivenUp { reason }, effects);
            }
            Attempt::Running { kill, .. } => {
                if kill.is_none_or(|again| again <= now) {
                    *kill = Some(now + KILL_AGAIN);
                    effects.push(Effect::KillSaver(self.kept.instance));
                }
            }
        }
    }

    fn end(&mut self, outcome: SaverOutcome, effects: &mut Vec<Effect>) {
        self.kept.outcome = Some(outcome);
        self.bytes = Bytes(0);
        effects.push(Effect::EndData(Box::new(self.kept.clone())));
    }
}
