//! Grants and settings of quota, users' capabilities, and the details of insufficient quota.

use std::collections::BTreeSet;

use api::{At, Fault, Malformed, read};
use cell::{Image, Metering, Oversold, Shortfall};
use model::{Band, Capability, GrantId, UserName};

use crate::v1;
use v1::image_head;
use v1::rejection;

/// `None` if the settings are those of a new cell.
pub(super) fn head(image: &Image) -> Option<image_head::Quota> {
    let (metering, last_grant) = (image.metering, image.last_grant);
    let new = metering == Metering::default() && last_grant == GrantId(0);
    (!new || !image.grants.is_empty()).then_some(image_head::Quota {
        metered: metering.on,
        best_effort_batch_percent: metering.best_effort_batch_percent,
        mid_percent: metering.mid_percent,
        last_grant: last_grant.0,
        grants: image.grants.len() as u64,
    })
}

pub(super) fn of_head(quota: Option<&image_head::Quota>) -> (Metering, GrantId) {
    quota.map_or((Metering::default(), GrantId(0)), |quota| {
        let metering = Metering {
            on: quota.metered,
            best_effort_batch_percent: quota.best_effort_batch_percent,
            mid_percent: quota.mid_percent,
        };
        (metering, GrantId(quota.last_grant))
    })
}

pub(super) fn capabilities(image: &Image) -> Vec<image_head::Capabilities> {
    let of_user = |(user, held): &(UserName, BTreeSet<Capability>)| image_head::Capabilities {
        user: user.to_string(),
        held: held.iter().map(ToString::to_string).collect(),
    };
    image.capabilities.iter().map(of_user).collect()
}

pub(super) fn capabilities_of(
    read: &[image_head::Capabilities],
) -> Result<Vec<(UserName, BTreeSet<Capability>)>, Malformed> {
    let of_user = |(position, of): (usize, &image_head::Capabilities)| {
        let user = read::name(&of.user, "user").element(position)?;
        Ok((user, read::set(&of.held, "held").element(position)?))
    };
    let all: Result<_, Malformed> = read.iter().enumerate().map(of_user).collect();
    all.field("capabilities")
}

impl From<&Shortfall> for rejection::Shortfall {
    fn from(short: &Shortfall) -> Self {
        Self {
            user: short.user.to_string(),
            band: short.band.to_string(),
            job: short.job.to_string(),
            asked: Some((&short.asked).into()),
            had: Some((&short.had).into()),
            others: Some((&short.others).into()),
            granted: Some((&short.granted).into()),
            tasks: short.tasks,
            tasks_that_pass: short.tasks_that_pass,
            bands_that_pass: short.bands_that_pass.iter().map(Band::to_string).collect(),
        }
    }
}

impl TryFrom<rejection::Shortfall> for Shortfall {
    type Error = Malformed;

    fn try_from(short: rejection::Shortfall) -> Result<Self, Malformed> {
        let bands = short.bands_that_pass.iter().enumerate();
        let bands: Result<_, Malformed> = bands
            .map(|(position, band)| {
                let known = Band::ALL.into_iter().find(|known| known.name() == band);
                known.ok_or(Fault::UnknownKind).element(position).field("bandsThatPass")
            })
            .collect();
        Ok(Self {
            user: read::name(&short.user, "user")?,
            band: read::band(&short.band, "band")?,
            job: read::name(&short.job, "job")?,
            asked: read::message(short.asked, "asked")?,
            had: read::message(short.had, "had")?,
            others: read::message(short.others, "others")?,
            granted: read::message(short.granted, "granted")?,
            tasks: short.tasks,
            tasks_that_pass: short.tasks_that_pass,
            bands_that_pass: bands?,
        })
    }
}

impl From<&Oversold> for rejection::Oversold {
    fn from(oversold: &Oversold) -> Self {
        Self {
            band: oversold.band.to_string(),
            asked: Some((&oversold.asked).into()),
            left: Some((&oversold.left).into()),
            capacity: Some((&oversold.capacity).into()),
            percent: oversold.percent,
        }
    }
}

impl TryFrom<rejection::Oversold> for Oversold {
    type Error = Malformed;

    fn try_from(oversold: rejection::Oversold) -> Result<Self, Malformed> {
        Ok(Self {
            band: read::band(&oversold.band, "band")?,
            asked: read::message(oversold.asked, "asked")?,
            left: read::message(oversold.left, "left")?,
            capacity: read::message(oversold.capacity, "capacity")?,
            percent: oversold.percent,
        })
    }
}
