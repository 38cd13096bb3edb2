//! The circuit breaker as it is said in the log.

use cell::{Cell, Rescheduling};

/// Says in the log what has become of rescheduling, where that is new.
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
