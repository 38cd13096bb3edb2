//! The load of a cell: jobs come and go, machines are drained and used again.

use cell::{Cell, Mutation, Rejection, Reply};
use model::{Random, Span, Time, UserName};

/// Generates requests and other actions.
pub trait Load {
    /// The time of the next action; `None` if there are no more.
    fn next(&mut self, now: Time) -> Option<Time>;

    /// The actions at this time, in order.
    fn action(&mut self, now: Time, cell: Option<&Cell>, random: &mut Random) -> Vec<Action>;

    /// Called when a request was answered.
    fn answered(&mut self, _by: &UserName, _for: &Mutation, _answer: &Result<Reply, Rejection>) {}

    /// Stops the load: no more actions follow.
    fn stop(&mut self);
}

/// An action of a load.
#[derive(Clone, Debug)]
pub enum Action {
    /// A client, by number, makes a request.
    Request(usize, Mutation),
    /// A client, by number, repeats its last answered request.
    Repeat(usize),
    /// A machine, by number, loses power for a while.
    Remove(usize, Span),
}

/// A load without actions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Load for Nothing {
    fn next(&mut self, _: Time) -> Option<Time> {
        None
    }

    fn action(&mut self, _: Time, _: Option<&Cell>, _: &mut Random) -> Vec<Action> {
        Vec::new()
    }

    fn stop(&mut self) {}
}
