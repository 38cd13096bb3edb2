//! Limits on streams that users hold for as long as they like: for each kind, one in all and one
//! per user.

use model::{Asker, UserName};
use rpc::transport::{Full, Limiter, Permit};
use tokio_stream::{Stream, StreamExt as _};
use tonic::Status;

use crate::service::Streamed;

/// The streams of a kind. Clones share the limits.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    /// What their users do, as a verb in the plural.
    doing: &'static str,
    limiter: Limiter<UserName>,
}

impl Streams {
    /// Limits for streams whose users do `doing`: in all, and per user.
    pub(crate) fn new(doing: &'static str, most: usize, max_per_client: usize) -> Self {
        Self { doing, limiter: Limiter::new(most, max_per_client) }
    }

    /// A permit for one stream of a user, until it is dropped.
    pub(crate) fn begin(&self, user: &UserName) -> Result<Permit<UserName>, Status> {
        self.begin_as(user, 1)
    }

    /// The same for a stream that counts as several.
    pub(crate) fn begin_as(
        &self,
        user: &UserName,
        number: usize,
    ) -> Result<Permit<UserName>, Status> {
        let (doing, most) = (self.doing, self.limiter.max_per_client());
        self.limiter.acquire_many(user.clone(), number, Asker::User).map_err(|full| {
            Status::resource_exhausted(match (full, number) {
                (Full::One(user, has), 1) => format!(
                    "{user} has {has} calls that {doing} already, as many as one user may have: end \
                     one of them"
                ),
                (Full::One(user, has), _) => format!(
                    "that counts as {number} calls that {doing}, and {user} has {has} of the {most} \
                     that one user may have: ask for fewer tasks, or end others"
                ),
                (Full::All(all), _) => format!("{all} calls {doing} already: try again later"),
            })
        })
    }
}

/// A stream that holds a value until it ends: what waits for a reader takes memory until then.
pub(crate) fn holding<T: 'static>(
    held: impl Send + 'static,
    stream: impl Stream<Item = Result<T, Status>> + Send + 'static,
) -> Streamed<T> {
    Box::pin(stream.map(move |message| {
        let _held = &held;
        message
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_leaves_places_for_others() {
        let streams = Streams::new("read logs", 3, 2);
        let begin = |user: &str| streams.begin(&user.parse().expect("a name"));
        let held = [begin("ana"), begin("ana")].map(|place| place.expect("there is room"));
        let refused = begin("ana").expect_err("that is one too many");
        assert_eq!(
            refused.message(),
            "ana has 2 calls that read logs already, as many as one user may have: end one of them"
        );
        let _another = begin("ben").expect("there is room");
        let refused = begin("eva").expect_err("there is none left");
        assert_eq!(refused.message(), "3 calls read logs already: try again later");
        drop(held);
        begin("eva").expect("there is room");
        let refused = streams.begin_as(&"eva".parse().expect("a name"), 3).expect_err("too many");
        assert_eq!(
            refused.message(),
            "that counts as 3 calls that read logs, and eva has 0 of the 2 that one user may have: \
             ask for fewer tasks, or end others"
        );
    }
}
