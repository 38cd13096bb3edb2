//! Where reads are answered: on the thread that serves, on a thread of their own, or from the past.

use model::UserName;
use proto::v1;
use proto::v1::past_answer::Answer as PastAnswer;
use proto::v1::past_question::Question;
use rpc::transport::{Permit, Turn};
use tonic::{Response, Status};

use super::{Answer, Service, unexpected};
use crate::caller::Caller;
use crate::reads::Reads;

impl Service {
    /// Answers from the newest view.
    pub(super) fn read<T>(
        &self,
        by: &Caller,
        answer: impl FnOnce(&Reads<'_>) -> Result<T, Status>,
    ) -> Answer<T> {
        answer(&Reads::of(&self.core.view(), by)).map(Response::new)
    }

    /// The same for answers that may be as large as the cell: a few at a time, on separate threads,
    /// because those that serve also receive messages of other replicas.
    pub(super) async fn read_much<T: Send + 'static>(
        &self,
        by: &Caller,
        answer: impl FnOnce(&Reads<'_>) -> Result<T, Status> + Send + 'static,
    ) -> Answer<T> {
        // Who waits for a turn counts, too.
        let place = self.askers.begin((&by.user, by.asker(&self.core.view().cell)))?;
        let turn = self.much.of(&Some(by.user.clone())).await;
        self.read_on_a_thread(by, place, Some(turn), answer).await
    }

    /// The same for answers that take longer than a thread that serves may be blocked, but not much: they need
    /// no turn.
    pub(super) async fn read_some<T: Send + 'static>(
        &self,
        by: &Caller,
        answer: impl FnOnce(&Reads<'_>) -> Result<T, Status> + Send + 'static,
    ) -> Answer<T> {
        let place = self.askers.begin((&by.user, by.asker(&self.core.view().cell)))?;
        self.read_on_a_thread(by, place, None, answer).await
    }

    async fn read_on_a_thread<T: Send + 'static>(
        &self,
        by: &Caller,
        place: Permit<UserName>,
        turn: Option<Turn<Option<UserName>>>,
        answer: impl FnOnce(&Reads<'_>) -> Result<T, Status> + Send + 'static,
    ) -> Answer<T> {
        let (view, by) = (self.core.view(), by.clone());
        let answered = tokio::task::spawn_blocking(move || {
            // Held even if the client is gone.
            let _held = (turn, place);
            answer(&Reads::of(&view, &by))
        });
        answered.await.map_err(|error| Status::internal(error.to_string()))?.map(Response::new)
    }

    /// Answers from a moment of the past.
    pub(super) async fn past<T: OfPast>(
        &self,
        by: &Caller,
        at: v1::Moment,
        question: Question,
    ) -> Answer<T> {
        let (asked, asker) = {
            let view = self.core.view();
            let asked = v1::PastQuestion {
                user: by.user.to_string(),
                administers_jobs: by.administers_jobs(&view.cell),
                at: Some(at),
                newest: view.cell.index().0,
                question: Some(question),
            };
            (asked, by.asker(&view.cell))
        };
        let turn = self.past.turn((&by.user, asker)).await?;
        T::of(self.past.ask(turn, asked).await?).map(Response::new)
    }
}

/// A response of one kind to a question about the past.
pub(super) trait OfPast: Sized {
    /// The response; an answer of another kind is an error.
    fn of(answer: PastAnswer) -> Result<Self, Status>;
}

macro_rules! of_past {
    ($($kind:ident: $response:ident,)*) => {$(
        impl OfPast for v1::$response {
            fn of(answer: PastAnswer) -> Result<Self, Status> {
                match answer {
                    PastAnswer::$kind(response) => Ok(response),
                    other => Err(unexpected(&other)),
                }
            }
        }
    )*};
}

of_past! {
    Status: StatusResponse,
    Why: WhyResponse,
    Machines: MachinesResponse,
    Cell: CellStatusResponse,
    Users: UsersResponse,
    Quota: QuotaResponse,
    Capabilities: CapabilitiesResponse,
    Services: ServicesResponse,
    Names: GetNamesResponse,
}
