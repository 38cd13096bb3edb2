//! What is refused before it is proposed: texts beyond the cell's bounds, and addresses that nobody could
//! dial. What is proposed is in the log, whatever the cell then says to it.

use cell::Op;

use crate::request::Request;

/// Why a question is not proposed, if it is not.
pub(super) fn check(ask: &Request) -> Result<(), String> {
    let within = match ask {
        Request::Mutate(_, _, mutation) => mutation.within_bounds(),
        Request::Enrolment(op) => op.within_bounds(),
        Request::OpenSession(_) | Request::Propose(_) => Ok(()),
    };
    within.map_err(|rejection| rejection.to_string())?;
    address(ask).map_or(Ok(()), check_address)
}

/// Refuses what is no address of a process that others dial.
pub(super) fn check_address(address: &str) -> Result<(), String> {
    rpc::transport::check_address(address).map_err(|error| error.to_string())
}

/// The address that is said in a question.
fn address(ask: &Request) -> Option<&str> {
    match ask {
        Request::Mutate(_, _, mutation) => mutation.address(),
        Request::Enrolment(Op::Enrol { address, .. }) => Some(address),
        Request::Enrolment(_) | Request::OpenSession(_) | Request::Propose(_) => None,
    }
}
