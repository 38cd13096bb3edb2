//! How instances ended, from the records of their shims to the cell's words.

use linux::record::{self, ExitReason};
use linux::task::LostReason;
use model::{Bytes, End, FinalUsage, Span};

use super::oom;

/// Converts an instance's end to the cell's type; the error says why the machine could not set it up.
pub(super) fn end(reason: &ExitReason) -> Result<End, String> {
    let byte = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
    Ok(match reason {
        ExitReason::Exited { code } => End::Exited { code: byte(*code) },
        ExitReason::Signalled { signal } => End::Signalled { signal: byte(*signal) },
        ExitReason::OutOfMemory { limit_bytes, peak_bytes } => {
            End::OutOfMemory { limit: Bytes(*limit_bytes), peak: Bytes(*peak_bytes) }
        }
        ExitReason::MachineOutOfMemory { limit_bytes, peak_bytes } => {
            End::OutOfResources { reason: oom::killed_by_kernel(*limit_bytes, *peak_bytes) }
        }
        ExitReason::NotStarted { reason } => End::NotStarted { reason: reason.clone() },
        ExitReason::NotSetUp { reason } => return Err(reason.clone()),
    })
}

/// The usage of an instance, as far as its shim measured it.
pub(super) fn usage(exit: &record::Exit) -> FinalUsage {
    let cpu_time = exit.cpu_ns.map(|time| Span(time / 1_000));
    FinalUsage { cpu_time, memory_peak: exit.memory_peak_bytes.map(Bytes), notice: None }
}

/// The end of an instance that is gone without a record.
pub(super) fn lost(reason: LostReason) -> End {
    let reason = match reason {
        LostReason::NeverStarted => "the Borglet died while starting it",
        LostReason::ShimDied => "its shim died",
        LostReason::Rebooted => "its machine was restarted",
    };
    End::Lost { reason: reason.to_owned() }
}
