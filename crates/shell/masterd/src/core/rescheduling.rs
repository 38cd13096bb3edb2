//! Log messages of the circuit breaker for rescheduling.

use cell::{Cell, Rescheduling};

/// Logs a change of the circuit breaker.
pub(crate) fn tell(before: &Rescheduling, cell: &Cell) {
    let now = cell.rescheduling();
    if before == now {
        return;
    }
    match now {
        Rescheduling::Stopped { silent, of, .. } => tracing::error!(
            "rescheduling is stopped: {silent} of {of} machines are unreachable at once, and none is \
             marked down until fewer are. If they are gone for good: bourg cell resume-rescheduling"
        ),
        Rescheduling::Resumed { by, .. } => tracing::warn!(
            "{by} resumed rescheduling: machines are marked down though many are unreachable"
        ),
        Rescheduling::Allowed => {
            tracing::warn!("rescheduling is allowed: few machines are unreachable");
        }
    }
}
