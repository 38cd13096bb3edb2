//! What the driver is told, by whoever answers the master and by whatever watches the machine.

use borglet::{Input, Order};
use tokio::sync::oneshot;

/// A message to the driver.
pub(crate) enum Message {
    /// An input for the Borglet.
    Input(Input),
    /// An order; the channel returns its outcome.
    Order(Order, oneshot::Sender<Obeyed>),
}

/// The outcome of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obeyed {
    /// The order was obeyed.
    Yes,
    /// The Borglet has obeyed a newer one before.
    TooOld,
    /// Its stamp could not be made durable, so the order is dropped: the sender repeats it.
    NotNow,
}
