//! The settings of the batch queue, and the weights of users.

use model::{CollectionId, Dimension, Enabled, QueueSettings, ShareWeights, UserName};

use crate::{At, Fault, Malformed, duration, read, v1};

impl From<&QueueSettings> for v1::QueueSettings {
    fn from(settings: &QueueSettings) -> Self {
        let QueueSettings { on, poorest, half_life, assumed_runtime } = *settings;
        Self {
            on,
            poorest: poorest.name().to_owned(),
            half_life: half_life.map(duration),
            assumed_runtime: Some(duration(assumed_runtime)),
        }
    }
}

impl TryFrom<v1::QueueSettings> for QueueSettings {
    type Error = Malformed;

    fn try_from(settings: v1::QueueSettings) -> Result<Self, Malformed> {
        Ok(Self {
            on: settings.on,
            poorest: read::word(&settings.poorest, "poorest")?,
            half_life: read::optional_span(settings.half_life, "halfLife")?,
            assumed_runtime: read::span(settings.assumed_runtime, "assumedRuntime")?,
        })
    }
}

impl From<&ShareWeights> for v1::ShareWeights {
    fn from(weights: &ShareWeights) -> Self {
        let mut message = Self::default();
        for (dimension, weight) in weights.each() {
            *field(&mut message, dimension) = weight;
        }
        message
    }
}

fn field(weights: &mut v1::ShareWeights, dimension: Dimension) -> &mut u32 {
    match dimension {
        Dimension::Cpu => &mut weights.cpu,
        Dimension::Ram => &mut weights.ram,
        Dimension::Disk => &mut weights.disk,
        Dimension::DiskRate => &mut weights.disk_rate,
    }
}

impl TryFrom<v1::ShareWeights> for ShareWeights {
    type Error = Malformed;

    fn try_from(mut message: v1::ShareWeights) -> Result<Self, Malformed> {
        let mut weights = Self::default();
        for dimension in Dimension::ALL {
            let is = *field(&mut message, dimension);
            let (least, most) = (*Self::RANGE.start(), *Self::RANGE.end());
            let out = Fault::OutOfRange { is: is.into(), least: least.into(), most: most.into() };
            let name = match dimension {
                Dimension::Cpu => "cpu",
                Dimension::Ram => "ram",
                Dimension::Disk => "disk",
                Dimension::DiskRate => "diskRate",
            };
            weights = weights.with(dimension, is).map_err(|_| out).field(name)?;
        }
        Ok(weights)
    }
}

/// The message of a user's weights.
#[must_use]
pub fn user_weights(user: &UserName, weights: &ShareWeights) -> v1::UserWeights {
    v1::UserWeights { user: user.to_string(), weights: Some(weights.into()) }
}

/// A user's weights.
///
/// # Errors
/// If the name or a weight is none.
pub fn user_weights_of(read: &v1::UserWeights) -> Result<(UserName, ShareWeights), Malformed> {
    Ok((read::name(&read.user, "user")?, read::message(read.weights, "weights")?))
}

impl From<Enabled> for v1::EnabledTasks {
    fn from(Enabled { job, tasks }: Enabled) -> Self {
        Self { job: job.0, tasks }
    }
}

impl From<v1::EnabledTasks> for Enabled {
    fn from(read: v1::EnabledTasks) -> Self {
        Self { job: CollectionId(read.job), tasks: read.tasks }
    }
}
