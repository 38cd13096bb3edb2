//! Orders that are rejected.

use std::sync::Arc;

use model::{Span, Time, attribute};
use poll::Order;

use super::Borglet;

/// How long only orders come that are rejected before the machine reports it: a single one that
/// comes late is nothing.
const REJECTS_FOR: Span = Span::from_secs(10);

impl Borglet {
    /// Whether an order may be obeyed: it is at least as new as the last one, or an administrator
    /// has said that it replaces that one.
    pub(super) fn may_obey(&self, order: &Order) -> bool {
        order.stamp >= self.stamp || order.overrules == Some(self.stamp)
    }

    /// An order was rejected.
    pub(super) fn rejected(&mut self, now: Time) {
        self.rejects_since.get_or_insert(now);
        let for_long = |since: Time| now.since(since) >= REJECTS_FOR;
        self.reports_rejection = self.rejects_since.is_some_and(for_long);
        self.report_rejection();
    }

    /// An order was obeyed.
    pub(super) fn obeyed(&mut self) {
        (self.rejects_since, self.reports_rejection) = (None, false);
        self.report_rejection();
    }

    /// Puts into the report whether the machine rejects orders.
    pub(super) fn report_rejection(&mut self) {
        let says = self.machine.attributes.contains_key(attribute::REJECTS_ORDERS);
        if says == self.reports_rejection {
            return;
        }
        let attributes = &mut Arc::make_mut(&mut self.machine).attributes;
        match self.reports_rejection {
            true => attributes.insert(attribute::REJECTS_ORDERS.to_owned(), self.stamp.to_string()),
            false => attributes.remove(attribute::REJECTS_ORDERS),
        };
    }
}
