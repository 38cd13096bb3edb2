//! Limits on streams that users hold for as long as they like: for each kind a bound that they share.

use model::{Asker, UserName};
use rpc::transport::{Full, Limiter, Permit};
use tonic::Status;

/// The streams of a kind. Clones share the limits.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    /// What their users do, as a verb in the plural: `watch-jobs`.
    name: &'static str,
    limiter: Limiter<UserName>,
}

impl Streams {
    /// A bound of this name for streams whose users share it.
    pub(crate) fn new(name: &'static str, max: usize) -> Self {
        Self { name, limiter: Limiter::shared(max) }
    }

    /// A permit for one stream of a user, until it is dropped.
    pub(crate) fn begin(&self, holder: StreamHolder<'_>) -> Result<Permit<UserName>, Status> {
        self.begin_as(holder, 1)
    }

    /// The same for a stream that counts as several.
    pub(crate) fn begin_as(
        &self,
        holder: StreamHolder<'_>,
        number: usize,
    ) -> Result<Permit<UserName>, Status> {
        let StreamHolder { user, asker } = holder;
        let doing = self.name.replace('-', " ");
        self.limiter.acquire_many(user.clone(), number, asker).map_err(|full| {
            Status::resource_exhausted(match (full, number) {
                (Full::One(user, has), 1) => format!(
                    "{user} has {has} calls that {doing} already, as many as its share of what all \
                     users have: end one of them"
                ),
                (Full::One(user, has), _) => format!(
                    "that counts as {number} calls that {doing}, and {user} has {has} already, which \
                     is more than its share of what all users have: ask for fewer tasks, or end others"
                ),
                (Full::All(all), _) => format!("{all} calls {doing} already: try again later"),
            })
        })
    }
}

/// The bound as the API and metrics have it.
impl Streams {
    /// Its name: `watch-jobs`.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// The limiter, to be read.
    pub(crate) fn limiter(&self) -> &Limiter<UserName> {
        &self.limiter
    }
}

/// Who holds a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamHolder<'a> {
    pub(crate) user: &'a UserName,
    pub(crate) asker: Asker,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_leaves_places_for_others() {
        let streams = Streams::new("read-logs", 8);
        let [ana, ben, eva, max] =
            ["ana", "ben", "eva", "max"].map(|user| user.parse().expect("a name"));
        let begin = |user| streams.begin(StreamHolder { user, asker: Asker::User });
        let held = [(); 4].map(|()| begin(&ana).expect("there is room"));
        let rejected = begin(&ana).expect_err("that is one too many");
        assert_eq!(
            rejected.message(),
            "ana has 4 calls that read logs already, as many as its share of what all users have: end \
             one of them"
        );
        let _others = [&ben, &ben, &eva].map(|user| begin(user).expect("there is room"));
        let rejected = begin(&max).expect_err("there is none left");
        assert_eq!(rejected.message(), "7 calls read logs already: try again later");
        streams
            .begin(StreamHolder { user: &ana, asker: Asker::Administrator })
            .expect_err("ana has enough");
        let admin = "root".parse().expect("a name");
        let _repair = streams
            .begin(StreamHolder { user: &admin, asker: Asker::Administrator })
            .expect("that is reserved");
        drop(held);
        begin(&eva).expect("there is room");
        let rejected = streams
            .begin_as(StreamHolder { user: &eva, asker: Asker::User }, 3)
            .expect_err("too many");
        assert_eq!(
            rejected.message(),
            "that counts as 3 calls that read logs, and eva has 1 already, which is more than its share \
             of what all users have: ask for fewer tasks, or end others"
        );
    }
}
