//! Rights, as those check them who have the bytes of packages: stores, and machines.

use std::time::SystemTime;

use api::v1;
use model::{Digest, Time};
use tonic::Status;

use crate::Identity;
use crate::statement::Verifier;

/// What a right allows its holder, and until when.
///
/// # Errors
/// `PERMISSION_DENIED` if there is none, or it is not valid for this holder.
pub fn allowed(
    verifier: &Verifier,
    statement: Option<&v1::Statement>,
    holder: &Identity,
) -> Result<(v1::right::What, Time), Status> {
    let statement = statement.ok_or_else(|| {
        Status::permission_denied("no right was given: ask a master for one, and send it along")
    })?;
    let verified = verifier.verify::<v1::Right>(statement, SystemTime::now());
    let right = verified.map_err(|invalid| Status::permission_denied(invalid.to_string()))?.message;
    if right.holder != holder.to_string() {
        return Err(Status::permission_denied(format!(
            "this right belongs to {}, not to {holder}: ask a master for one of your own",
            right.holder.escape_debug()
        )));
    }
    let until = Time(right.until);
    right.what.map(|what| (what, until)).ok_or_else(|| {
        Status::permission_denied(
            "this right allows something that this version does not know: start a newer store",
        )
    })
}

/// Checks a right to read, and returns the digest of the manifest.
///
/// # Errors
/// `PERMISSION_DENIED` if it is none, or not valid for this holder.
pub fn to_read(
    verifier: &Verifier,
    statement: Option<&v1::Statement>,
    holder: &Identity,
) -> Result<Digest, Status> {
    match allowed(verifier, statement, holder)? {
        (v1::right::What::Read(manifest), _) => {
            let bytes = <[u8; Digest::BYTES]>::try_from(manifest.as_slice());
            bytes.map(Digest::from_bytes).map_err(|_| {
                let length = manifest.len();
                Status::invalid_argument(format!("a digest has 32 bytes, not {length}"))
            })
        }
        (v1::right::What::Upload(_), _) => Err(Status::permission_denied(
            "this right allows uploading, not reading: ask a master for one to read",
        )),
    }
}
