//! The core as other threads see it: its newest view, and its queue.

#[cfg(test)]
mod stalled;

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::CellCopy;
use replica::Input;
use tokio::sync::{mpsc, oneshot, watch};

use crate::admission::changed_tasks::changed_by;
use crate::admission::{Admission, Counted, RequestClass, Shed};
use crate::bounds;
use crate::disk::log::ToLog;
use crate::identity::Dismissed;
use crate::message::{Answered, Following, Message, PendingCall};
use crate::request::{Principal, Request};
use crate::view::View;

/// How often a waiting request checks whether the disk is full.
const TROUBLE_LOOK: Duration = Duration::from_millis(200);
/// How long a stopping leader waits for another leader.
const HAND_OVER: Duration = Duration::from_secs(2);

/// A handle on the core.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    to_core: mpsc::Sender<Message>,
    view: watch::Receiver<Arc<View>>,
    ended: watch::Receiver<Option<Arc<anyhow::Error>>>,
    to_log: ToLog,
    admission: Arc<Admission>,
}

/// Why the core does not accept a request.
#[derive(Debug)]
pub(crate) enum NotTaken {
    /// Too many requests wait already.
    Overloaded(Shed),
    /// Nothing can be made durable now.
    NoRoom(String),
    /// The request is invalid in any cell.
    Invalid(String),
    /// The process is stopping.
    Stopping,
}

impl Core {
    /// A handle on the core whose thread reads that queue and publishes those views.
    pub(crate) fn new(
        to_core: mpsc::Sender<Message>,
        view: watch::Receiver<Arc<View>>,
        ended: watch::Receiver<Option<Arc<anyhow::Error>>>,
        to_log: ToLog,
        admission: Arc<Admission>,
    ) -> Self {
        Self { to_core, view, ended, to_log, admission }
    }

    /// The newest view.
    pub(crate) fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.borrow())
    }

    /// A receiver of view changes; intermediate views may be skipped.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<View>> {
        self.view.clone()
    }

    /// Sends a request with a message of so many bytes, unless the core is overloaded.
    pub(crate) async fn ask(&self, ask: Request, bytes: usize) -> Result<Answered, NotTaken> {
        let counted = self.count(&ask, bytes)?;
        self.ask_counted(ask, counted).await
    }

    /// The same for a request that is already counted. All requests pass here, and nothing that is
    /// rejected here is proposed.
    pub(super) async fn ask_counted(
        &self,
        ask: Request,
        counted: Arc<Counted>,
    ) -> Result<Answered, NotTaken> {
        if let Some(why) = self.to_log.trouble() {
            return Err(NotTaken::NoRoom(why));
        }
        bounds::check(&ask).map_err(NotTaken::Invalid)?;
        let asked = counted.asked();
        let (answer, mut answered) = oneshot::channel();
        let asker = PendingCall { answer, counted, since: Instant::now() };
        self.to_core.try_send(Message::Request(ask, asker)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                NotTaken::Overloaded(self.admission.shed(asked, None, 1))
            }
            mpsc::error::TrySendError::Closed(_) => NotTaken::Stopping,
        })?;
        loop {
            tokio::select! {
                answered = &mut answered => return answered.map_err(|_| NotTaken::Stopping),
                () = tokio::time::sleep(TROUBLE_LOOK) => {}
            }
            // The disk filled up while the request was queued: it stays in the queue, for an
            // unknown time.
            if let Some(why) = self.to_log.trouble() {
                let why = format!("{why}. What was asked may still be done when there is room");
                return Err(NotTaken::NoRoom(why));
            }
        }
    }

    /// Counts a request of so many bytes as waiting, until the returned value is dropped.
    pub(super) fn count(&self, ask: &Request, bytes: usize) -> Result<Arc<Counted>, NotTaken> {
        let view = self.view();
        let (cell, now) = (&view.cell, view.now());
        let asked = RequestClass::of(ask, cell, now);
        let counted = self.count_as(asked, ask.by(), bytes)?;
        // What another replica decides counts there.
        if view.leads_elsewhere().is_none()
            && let Request::Mutate(_, by, mutation) = ask
            && !cell.is_administrator(&by.user)
        {
            let tasks = changed_by(mutation, &by.user, cell);
            let taken = self.admission.change_tasks(asked, now, &by.user, tasks);
            taken.map_err(NotTaken::Overloaded)?;
        }
        Ok(counted)
    }

    /// The same before the exact request is known.
    pub(super) fn count_as(
        &self,
        asked: RequestClass,
        by: Option<Principal>,
        bytes: usize,
    ) -> Result<Arc<Counted>, NotTaken> {
        let counted = self.admission.admit(asked, by, bytes);
        counted.map(Arc::new).map_err(|shed| match self.to_log.trouble() {
            // Waiting requests wait for the disk.
            Some(why) => NotTaken::NoRoom(why),
            None => NotTaken::Overloaded(shed),
        })
    }

    /// Sends a message unless the queue is full, or the core has ended; whether it was sent.
    pub(super) fn offer(&self, message: Message) -> bool {
        self.to_core.try_send(message).is_ok()
    }

    /// Sends a message as soon as there is room in the queue.
    pub(super) async fn tell(&self, message: Message) -> Result<(), ()> {
        self.to_core.send(message).await.map_err(drop)
    }

    /// Waits until the newest view has everything that was acknowledged anywhere before this call.
    pub(super) async fn read(&self) -> Option<()> {
        let (answer, answered) = oneshot::channel();
        self.tell(Message::Read(answer)).await.ok()?;
        answered.await.ok()
    }

    /// Follows the cell's records, on from what is there already.
    pub(crate) async fn follow(&self, has: Option<CellCopy>) -> Option<Following> {
        let (answer, answered) = oneshot::channel();
        self.to_core.send(Message::Follow(has, answer)).await.ok()?;
        answered.await.ok()
    }

    /// Waits until the cell reflects the whole log: from then on it can be read. `false` if the
    /// core ended before.
    pub(crate) async fn caught_up(&self) -> bool {
        let mut view = self.view.clone();
        view.wait_for(|view| view.caught_up).await.is_ok()
    }

    /// Whether the cell has caught up already.
    pub(crate) fn has_caught_up(&self) -> bool {
        self.view.borrow().caught_up
    }

    /// Waits until this replica has known no leader for this long: its state may be stale, and the
    /// others may have moved on without it.
    pub(super) async fn without_leader_for(&self, time: Duration) {
        let mut view = self.view.clone();
        loop {
            let left = view.wait_for(|view| view.leader.is_none()).await.is_ok();
            let led = async { view.wait_for(|view| view.leader.is_some()).await.is_ok() };
            match tokio::time::timeout(time, led).await {
                Ok(true) if left => {}
                // The core has ended, and all streams with it.
                Ok(_) => std::future::pending().await,
                Err(_) => return,
            }
        }
    }

    /// Before an orderly end: hands leadership over, if this replica leads and there is another.
    pub(crate) async fn hand_over(&self) {
        let view = self.view();
        if view.leads.is_none() || view.cell.voters().count() < 2 {
            return;
        }
        let _gone = self.tell(Message::Input(Input::Transfer(None))).await;
        let mut view = self.view.clone();
        let led = view.wait_for(|view| view.leads.is_none());
        let _in_vain = tokio::time::timeout(HAND_OVER, led).await;
    }

    /// The length of its queue, and the queue's capacity.
    pub(super) fn queue(&self) -> (usize, usize) {
        let most = self.to_core.max_capacity();
        (most.saturating_sub(self.to_core.capacity()), most)
    }

    /// Whether its queue and the limits on requests leave room for more; if not, why.
    pub(super) fn has_room(&self) -> Result<(), String> {
        let (used, most) = self.queue();
        match used < most && self.admission.has_room() {
            true => Ok(()),
            false => Err(format!(
                "{used} of {most} places are taken, and {} requests wait",
                self.admission.waiting().0
            )),
        }
    }

    /// Why nothing can be made durable now, if so.
    pub(super) fn trouble(&self) -> Option<String> {
        self.to_log.trouble()
    }

    pub(super) fn admission(&self) -> &Admission {
        &self.admission
    }

    /// Waits until the core has ended by itself.
    pub(crate) async fn stopped(&self) {
        let mut ended = self.ended.clone();
        let _gone = ended.wait_for(Option::is_some).await;
    }

    /// Stops the core; returns the error with which it had already ended, if it had.
    pub(crate) fn stop(self) -> anyhow::Result<()> {
        let _gone = self.to_core.blocking_send(Message::Stop);
        let ended = self.ended.borrow().clone();
        match ended {
            Some(error) => Err(match error.downcast_ref::<Dismissed>() {
                Some(dismissed) => dismissed.clone().into(),
                None => anyhow::anyhow!("{error:#}"),
            }),
            None => Ok(()),
        }
    }
}
