//! Savers: when the command that saves the data of an ended task or alloc runs, how often, and when
//! its data is given up.
//!
//! An instance that has ended is reported at once, and its resources and ports are free: a saver has
//! small limits of its own. Its data stays until the saver exits with 0, its time is over, or there
//! is no room for it any more: the user who keeps most loses its oldest data. Users share the savers that
//! run at once, and an attempt has a time of its own. What became of the data is reported until an order
//! confirms that the cell knows.

use std::collections::BTreeMap;

use model::{
    Asker, Bytes, End, Held, InstanceId, SaverOutcome, Saving, SharedBound, Span, Time, UserName,
};
use poll::DesiredAlloc;
use spec::Saver;

use crate::launch::{self, fill};
use crate::{Effect, Launch, environment};

/// How many savers run at once on a machine; users share them, and the others wait for their turn.
pub const SAVERS_MAX: u64 = 8;
/// The data of how many instances a machine keeps. Beyond it, the user who keeps most loses the oldest.
pub const KEPT_DATA_MAX: usize = 100;
/// How long one attempt may run. Then it is killed, and tried again after the saver's interval.
pub const ATTEMPT_TIME_MAX: Span = Span::from_secs(15 * 60);
/// The savers that run at once, as users share them.
const SAVERS: SharedBound = SharedBound::new(SAVERS_MAX);
/// Bound of the text of a failure, in characters.
const FAILURE_CHARACTERS_MAX: usize = 300;
/// After this long a saver that was killed and is still there is killed again.
const KILL_AGAIN: Span = Span::from_secs(5);

/// What is kept of an ended instance, as it is recorded beside its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptData {
    /// The instance.
    pub instance: InstanceId,
    /// Its owner.
    pub user: UserName,
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
            !desired.spec.env.contains_key(name) && !launch::is_of_its_incarnation(name)
        });
        env.extend(own.map(|(name, text)| (name.clone(), fill(desired, text))));
        env.extend(of_its_end(end));
        Some(Self {
            name: format!("{}/{}/{}", desired.user, desired.job, desired.instance.index),
            argv: saver.cmd.iter().map(|text| fill(desired, text)).collect(),
            env,
            uid: Some(launch.uid),
            ..Self::new(launch.instance, desired.user.clone(), saver, now)
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
        let new = Self::new(*instance, user.clone(), saver, now);
        Some(Self { name, argv: saver.cmd.clone(), env, ..new })
    }

    fn new(instance: InstanceId, user: UserName, saver: &Saver, now: Time) -> Self {
        Self {
            instance,
            user,
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
    Waiting {
        next: Time,
    },
    Running {
        uid: u32,
        /// When its own time is over.
        until: Time,
        /// When it is killed again, once it was killed.
        kill: Option<Time>,
    },
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
                    keeping.attempt = Attempt::running(uid, now);
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
                let failure = match keeping.attempt {
                    Attempt::Running { until, kill: Some(_), .. } if until <= now => {
                        format!("killed after {ATTEMPT_TIME_MAX}, the maximum of one attempt")
                    }
                    _ => failure.chars().take(FAILURE_CHARACTERS_MAX).collect(),
                };
                keeping.failure = Some(failure);
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

    /// The owners of these, or administrators, give their data up.
    pub(super) fn end_by_order(&mut self, ends: &BTreeMap<InstanceId, UserName>) {
        for (instance, by) in ends {
            let kept = self.0.get_mut(instance).filter(|keeping| keeping.is_kept());
            if let Some(keeping) = kept {
                keeping.giving_up = Some(format!("{by} has ended it"));
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
        while let Some(instance) = self.next_due(now) {
            let own = self.0.get(&instance).and_then(|keeping| keeping.kept.uid);
            let uid = own.or_else(|| uid(self));
            let Some(keeping) = self.0.get_mut(&instance) else { return };
            let Some(uid) = uid else {
                keeping.attempt = Attempt::Waiting { next: now + keeping.kept.interval };
                continue;
            };
            keeping.kept.attempts = keeping.kept.attempts.saturating_add(1);
            keeping.attempt = Attempt::running(uid, now);
            let launch = SaverLaunch { kept: keeping.kept.clone(), uid };
            effects.push(Effect::RunSaver(Box::new(launch)));
        }
    }

    /// The data whose saver starts next. It is due, and its user has not reached its share of running savers.
    /// The user with the fewest running savers comes first, then the oldest data.
    fn next_due(&self, now: Time) -> Option<InstanceId> {
        let is_due = |keeping: &&Keeping| keeping.next_start().is_some_and(|next| next <= now);
        let due = self.0.values().filter(is_due);
        let running = self.running();
        let may = due.filter(|keeping| may_run(&running, &keeping.kept.user));
        let order = |keeping: &&Keeping| {
            let own = running.get(&keeping.kept.user).copied().unwrap_or_default();
            (own, keeping.kept.since, keeping.kept.instance)
        };
        may.min_by_key(order).map(|keeping| keeping.kept.instance)
    }

    /// While there is too much, gives up the oldest data of the user who keeps most.
    fn make_room(&mut self, room: Bytes) {
        loop {
            let kept = self.0.values().filter(|keeping| keeping.is_kept());
            let (mut count, mut bytes) = (0, 0_u64);
            kept.for_each(|keeping| {
                count += 1;
                bytes = bytes.saturating_add(keeping.bytes.0);
            });
            let (measure, why): (fn(&Keeping) -> u64, _) = if count > KEPT_DATA_MAX {
                let max = format!("the data of at most {KEPT_DATA_MAX} instances");
                (|_| 1, format!("its machine keeps {max}"))
            } else if bytes > room.0 {
                (
                    |keeping| keeping.bytes.0,
                    format!("its machine keeps at most {room} of such data"),
                )
            } else {
                return;
            };
            let Some(oldest) = self.oldest_of_most(measure) else { return };
            let user = &oldest.kept.user;
            oldest.giving_up = Some(format!("{why}, and {user} has most of it"));
        }
    }

    /// The oldest data of the user who keeps most by a measure; only what counts in it.
    fn oldest_of_most(&mut self, measure: fn(&Keeping) -> u64) -> Option<&mut Keeping> {
        let mut by_user = BTreeMap::<UserName, u64>::new();
        for keeping in self.0.values().filter(|keeping| keeping.is_kept()) {
            let own = by_user.entry(keeping.kept.user.clone()).or_default();
            *own = own.saturating_add(measure(keeping));
        }
        let (most, _) = by_user.into_iter().max_by_key(|(_, own)| *own)?;
        let kept = self.0.values_mut().filter(|keeping| keeping.is_kept());
        let of_most = kept.filter(|keeping| keeping.kept.user == most && measure(keeping) > 0);
        of_most.min_by_key(|keeping| (keeping.kept.since, keeping.kept.instance))
    }

    /// The machine's disk is nearly full: gives up the oldest data of the user who keeps most. Returns whether
    /// there was any.
    pub(super) fn give_up_oldest(&mut self) -> bool {
        // What is not measured yet counts, too.
        let oldest = self.oldest_of_most(|keeping| keeping.bytes.0.saturating_add(1));
        let Some(oldest) = oldest else { return false };
        oldest.giving_up = Some("the disk of its machine is full".to_owned());
        true
    }

    /// How many savers of each user run.
    fn running(&self) -> BTreeMap<UserName, u64> {
        let mut running = BTreeMap::new();
        for keeping in self.0.values().filter(|keeping| keeping.kept.outcome.is_none()) {
            if let Attempt::Running { .. } = keeping.attempt {
                *running.entry(keeping.kept.user.clone()).or_default() += 1;
            }
        }
        running
    }

    /// When the next tick is due.
    pub(super) fn next_tick(&self) -> Option<Time> {
        let running = self.running();
        let due = |keeping: &Keeping| {
            let start = keeping.next_start().filter(|_| may_run(&running, &keeping.kept.user));
            let first = keeping.is_kept() && (keeping.succeeded || !keeping.measured);
            let first = first.then_some(keeping.kept.since);
            let over = keeping.is_kept().then_some(keeping.kept.until);
            let kill = match keeping.attempt {
                Attempt::Running { until, kill, .. } if keeping.kept.outcome.is_none() => {
                    Some(kill.unwrap_or(until))
                }
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

/// Whether one more saver of a user may run.
fn may_run(running: &BTreeMap<UserName, u64>, user: &UserName) -> bool {
    let held =
        Held { all: running.values().sum(), own: running.get(user).copied().unwrap_or_default() };
    SAVERS.take(held, 1, Asker::User).is_ok()
}

impl Attempt {
    fn running(uid: u32, now: Time) -> Self {
        Self::Running { uid, until: now + ATTEMPT_TIME_MAX, kill: None }
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

    /// Ends it if it is being given up; a saver that runs is killed first, and when its time is over.
    fn give_up(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if let Attempt::Running { until, kill, .. } = &mut self.attempt {
            let must_end = self.giving_up.is_some() || *until <= now;
            if must_end && kill.is_none_or(|again| again <= now) {
                *kill = Some(now + KILL_AGAIN);
                effects.push(Effect::KillSaver(self.kept.instance));
            }
            return;
        }
        let Some(why) = self.giving_up.take() else { return };
        let attempts = match self.kept.attempts {
            0 => "it was never started".to_owned(),
            1 => "1 attempt".to_owned(),
            several => format!("{several} attempts"),
        };
        let last = self.failure.as_ref().map(|last| format!(", the last: {last}"));
        let reason = format!("{why} ({attempts}{})", last.unwrap_or_default());
        self.end(SaverOutcome::GivenUp { reason }, effects);
    }

    fn end(&mut self, outcome: SaverOutcome, effects: &mut Vec<Effect>) {
        self.kept.outcome = Some(outcome);
        self.bytes = Bytes(0);
        effects.push(Effect::EndData(Box::new(self.kept.clone())));
    }
}
