//! Secrets in the log: `log.proto`.

use api::{At, Malformed, read};
use cell::{ResealSecret, ResealedVersion};

use crate::v1;
use v1::op::reseal_secret::Resealed;

pub(crate) fn resealed(reseal: &ResealSecret) -> v1::op::ResealSecret {
    let version = |version: &ResealedVersion| Resealed {
        number: version.number,
        from: version.from.0.to_vec(),
        sealed: Some((&version.sealed).into()),
    };
    v1::op::ResealSecret {
        user: reseal.owner.to_string(),
        name: reseal.name.to_string(),
        versions: reseal.versions.iter().map(version).collect(),
    }
}

pub(crate) fn reseal(reseal: v1::op::ResealSecret) -> Result<ResealSecret, Malformed> {
    let version = |(position, version): (usize, Resealed)| -> Result<_, Malformed> {
        Ok(ResealedVersion {
            number: version.number,
            from: api::secret::key_id(&version.from).element(position)?,
            sealed: read::message(version.sealed, "sealed").element(position)?,
        })
    };
    let versions = reseal.versions.into_iter().enumerate().map(version);
    Ok(ResealSecret {
        owner: read::name(&reseal.user, "user")?,
        name: read::name(&reseal.name, "name")?,
        versions: versions.collect::<Result<_, Malformed>>().field("versions")?,
    })
}
