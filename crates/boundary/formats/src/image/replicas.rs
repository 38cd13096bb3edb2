//! The replicas in an image.

use api::{At, Malformed, read};
use cell::{Image, Replica};
use model::ReplicaId;

use crate::v1;
use v1::image_head::Replicas;

/// `None` if they are as in a new cell.
pub(super) fn replicas(image: &Image) -> Option<Replicas> {
    let new = Image::default();
    if image.replicas.is_empty() && image.last_replica == new.last_replica {
        return None;
    }
    let recorded = image.replicas.iter().map(Into::into).collect();
    Some(Replicas { last: image.last_replica.0, recorded })
}

/// The last assigned id, and the recorded replicas.
pub(super) fn replicas_of(head: Option<Replicas>) -> Result<(ReplicaId, Vec<Replica>), Malformed> {
    let Some(Replicas { last, recorded }) = head else {
        return Ok((Image::default().last_replica, Vec::new()));
    };
    Ok((ReplicaId(last), read::list(recorded, "recorded").field("replicas")?))
}
