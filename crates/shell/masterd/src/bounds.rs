//! Checks before a request is proposed: texts beyond the cell's bounds, and invalid addresses.
//! Everything proposed is in the log, even if the cell then rejects it.

use cell::Op;

use crate::request::Request;

/// The error because of which a request is not proposed.
pub(super) fn check(ask: &Request) -> Result<(), String> {
    match ask {
        Request::Mutate(_, _, mutation) => {
            mutation.within_bounds().map_err(|why| diagnostics::of_mutation(mutation, &why))?;
        }
        Request::Enrolment(op) => op.within_bounds().map_err(|why| diagnostics::sentence(&why))?,
        Request::OpenSession(_) | Request::Propose(..) | Request::Enable(..) => {}
    }
    address(ask).map_or(Ok(()), check_address)
}

/// Rejects an address that nobody could connect to.
pub(super) fn check_address(address: &str) -> Result<(), String> {
    rpc::transport::check_address(address).map_err(|error| error.to_string())
}

/// The address in a request.
fn address(ask: &Request) -> Option<&str> {
    match ask {
        Request::Mutate(_, _, mutation) => mutation.address(),
        Request::Enrolment(Op::Enrol { address, .. }) => Some(address),
        Request::Enrolment(_)
        | Request::OpenSession(_)
        | Request::Propose(..)
        | Request::Enable(..) => None,
    }
}
