//! Users and their certificates in an image.

use std::sync::Arc;

use api::{At, Malformed, read};
use cell::{Act, User};
use model::{Time, UserName};

use crate::v1;
use v1::image_head::{Act as ActMessage, User as UserMessage};

/// The message of a user.
pub(super) fn user((name, user): &(UserName, Arc<User>)) -> UserMessage {
    UserMessage {
        name: name.to_string(),
        added: user.added.as_ref().map(act),
        certificates: user.certificates.iter().map(|certificate| (*certificate).into()).collect(),
        revoked: user.revoked.as_ref().map(act),
    }
}

/// The user of a message, with their name.
pub(super) fn user_of(read: UserMessage) -> Result<(UserName, Arc<User>), Malformed> {
    let name = read::name(&read.name, "name")?;
    let user = User {
        added: read.added.map(act_of).transpose().field("added")?,
        certificates: read::list(read.certificates, "certificates")?,
        revoked: read.revoked.map(act_of).transpose().field("revoked")?,
    };
    Ok((name, Arc::new(user)))
}

pub(super) fn act(Act { at, by }: &Act) -> ActMessage {
    ActMessage { at: at.0, by: by.to_string() }
}

pub(super) fn act_of(ActMessage { at, by }: ActMessage) -> Result<Act, Malformed> {
    Ok(Act { at: Time(at), by: read::name(&by, "by")? })
}
