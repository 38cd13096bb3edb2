//! What is asked of a cell: jobs come and go, machines are drained and used again.

use cell::{Cell, Mutation, Rejection, Reply};
use model::{Random, Span, Time, UserName};

/// Whoever decides what is asked for, and when.
pub trait Load {
    /// When something is asked for next; none when nothing is any more.
    fn next(&mut self, now: Time) -> Option<Time>;

    /// What is asked for now: by which client, in its order.
    fn action(&mut self, now: Time, cell: Option<&Cell>, random: &mut Random) -> Vec<Action>;

    /// A request was answered.
    fn answered(&mut self, _by: &UserName, _for: &Mutation, _answer: &Result<Reply, Rejection>) {}

    /// Nothing is asked for from now on.
    fn stop(&mut self);
}

/// Something that somebody wants.
#[derive(Clone, Debug)]
pub enum Action {
    /// A client asks for something.
    Request(usize, Mutation),
    /// A client repeats the last request that was answered.
    Repeat(usize),
    /// A machine loses power for a while.
    Remove(usize, Span),
}

/// Nobody asks for anything.
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
