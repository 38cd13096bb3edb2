//! What a cell knows for its batch queue, in its image.

use api::{At, Malformed, read};
use cell::{Image, KeptRuntimes};
use model::{QueueSettings, ShareWeights, Span, Time, UserName};

use crate::v1;

/// `None` if they are those of a cell without a queue.
pub(super) fn settings(image: &Image) -> Option<v1::QueueSettings> {
    (image.queue != QueueSettings::default()).then(|| (&image.queue).into())
}

pub(super) fn weights(image: &Image) -> Vec<v1::UserWeights> {
    let weights = image.share_weights.iter();
    weights.map(|(user, weights)| api::queue_settings::user_weights(user, weights)).collect()
}

pub(super) fn weights_of(
    read: Vec<v1::UserWeights>,
) -> Result<Vec<(UserName, ShareWeights)>, Malformed> {
    let weight = |(position, read)| {
        api::queue_settings::user_weights_of(&read).element(position).field("shareWeights")
    };
    read.into_iter().enumerate().map(weight).collect()
}

pub(super) fn runtimes(kept: &KeptRuntimes) -> v1::RuntimesImage {
    v1::RuntimesImage {
        user: kept.user.to_string(),
        name: kept.name.to_string(),
        last: kept.last.0,
        micros: kept.spans.iter().map(|span| span.0).collect(),
    }
}

pub(super) fn runtimes_of(read: v1::RuntimesImage) -> Result<KeptRuntimes, Malformed> {
    Ok(KeptRuntimes {
        user: read::name(&read.user, "user")?,
        name: read::name(&read.name, "name")?,
        last: Time(read.last),
        spans: read.micros.into_iter().map(Span).collect(),
    })
}
