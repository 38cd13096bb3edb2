//! Lookups at replicas that are under way: requests with the same question share one.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use dns::{Lookup, Question};
use tokio::sync::watch;

use crate::metrics::Metrics;

/// What comes of a lookup; `None` until then.
type Result = Option<Lookup>;

/// The lookups that are under way, by question.
#[derive(Default)]
pub(crate) struct Lookups(Mutex<BTreeMap<Question, watch::Receiver<Result>>>);

impl Lookups {
    /// What comes of the lookup of a question that is under way, or else of `resolve`. If the request
    /// that started it ends early, it is [`Lookup::Missing`] for the others, too, which are counted in
    /// `shared`.
    pub(crate) async fn share(
        &self,
        question: &Question,
        resolve: impl Future<Output = Lookup>,
        shared: &AtomicU64,
    ) -> Lookup {
        let (sender, receiver) = watch::channel(None);
        if let Some(mut under_way) = self.join(question, receiver) {
            Metrics::count(shared);
            let result = under_way.wait_for(Option::is_some).await;
            return result.ok().and_then(|result| result.clone()).unwrap_or(Lookup::Missing);
        }
        let entry = LookupGuard { lookups: self, question };
        let lookup = resolve.await;
        // Later requests ask anew: what they ask for may have changed.
        drop(entry);
        sender.send_replace(Some(lookup.clone()));
        lookup
    }

    /// The lookup that is under way; without one, `own` is what others find.
    fn join(
        &self,
        question: &Question,
        own: watch::Receiver<Result>,
    ) -> Option<watch::Receiver<Result>> {
        let mut under_way = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(receiver) = under_way.get(question) {
            return Some(receiver.clone());
        }
        under_way.insert(question.clone(), own);
        None
    }
}

/// A lookup of one's own, which others find until this is dropped.
struct LookupGuard<'a> {
    lookups: &'a Lookups,
    question: &'a Question,
}

impl Drop for LookupGuard<'_> {
    fn drop(&mut self) {
        let mut under_way = self.lookups.0.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.remove(self.question);
    }
}
