//! What a caller may do, as a master has signed it.

use std::time::SystemTime;

use api::v1;
use model::{Digest, Time, UserName};
use rpc::Identity;
use rpc::statement::Verifier;
use tonic::Status;

/// A right to upload.
#[derive(Debug)]
pub(crate) struct MayUpload {
    /// Whose packages.
    pub(crate) user: UserName,
    /// What may be stored, in bytes.
    pub(crate) bytes_max: u64,
    /// When the right ends.
    pub(crate) until: Time,
}

/// Checks a right to upload.
pub(crate) fn to_upload(
    verifier: &Verifier,
    statement: Option<&v1::Statement>,
    holder: &Identity,
) -> Result<MayUpload, Status> {
    match of(verifier, statement, holder)? {
        (v1::right::What::Upload(v1::UploadRight { user, bytes_max }), until) => {
            let user = user.parse::<UserName>();
            let user = user.map_err(|error| Status::invalid_argument(error.to_string()))?;
            Ok(MayUpload { user, bytes_max, until })
        }
        (v1::right::What::Read(_), _) => Err(Status::permission_denied(
            "this right allows reading, not uploading: ask a master for one to upload",
        )),
    }
}

/// Checks a right to read, and returns the digest of the manifest.
pub(crate) fn to_read(
    verifier: &Verifier,
    statement: Option<&v1::Statement>,
    holder: &Identity,
) -> Result<Digest, Status> {
    match of(verifier, statement, holder)? {
        (v1::right::What::Read(manifest), _) => digest(&manifest),
        (v1::right::What::Upload(_), _) => Err(Status::permission_denied(
            "this right allows uploading, not reading: ask a master for one to read",
        )),
    }
}

/// What a right allows its holder, and until when.
fn of(
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

/// Whom what a caller takes counts for: tasks for their user.
pub(crate) fn account(identity: &Identity) -> String {
    match identity {
        Identity::Task { user, .. } => Identity::User(user.clone()).to_string(),
        other => other.to_string(),
    }
}

/// A digest of 32 bytes.
pub(crate) fn digest(bytes: &[u8]) -> Result<Digest, Status> {
    let bytes = <[u8; 32]>::try_from(bytes).map_err(|_| {
        Status::invalid_argument(format!("a digest has 32 bytes, not {}", bytes.len()))
    })?;
    Ok(Digest::from_bytes(bytes))
}

/// Digests one after the other, at most `max`.
pub(crate) fn digests(bytes: &[u8], max: usize) -> Result<Vec<Digest>, Status> {
    let (digests, rest) = bytes.as_chunks::<32>();
    if !rest.is_empty() || digests.len() > max {
        let length = bytes.len();
        return Err(Status::invalid_argument(format!(
            "{length} bytes are not 0 to {max} digests of 32 bytes each"
        )));
    }
    Ok(digests.iter().copied().map(Digest::from_bytes).collect())
}
