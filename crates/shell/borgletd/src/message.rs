//! What the driver is told, by whoever answers the master and by whatever watches the machine.

use borglet::{Input, Order};
use tokio::sync::oneshot;

/// Something for the driver.
pub(crate) enum Message {
    /// For the Borglet.
    Input(Input),
    /// An order; the answer says what became of it.
    Order(Order, oneshot::Sender<Obeyed>),
}

/// What became of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obeyed {
    /// It was obeyed.
    Yes,
    /// A newer one was obeyed before.
    TooOld,
    /// Its stamp could not be made durable, so it is as if it had not come: who gave it gives it again.
    NotNow,
}
