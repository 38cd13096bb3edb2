//! What a caller may do, as a master has signed it.

use api::v1;
use model::{Digest, Time, UserName};
use rpc::Identity;
use rpc::rights;
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
    match rights::allowed(verifier, statement, holder)? {
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
