//! Quota and certificates, as the cell keeps them: `cell.proto`.

use model::{Certificate, Grant, GrantId, Time};

use crate::error::Malformed;
use crate::{read, v1};

impl From<&Grant> for v1::Grant {
    fn from(grant: &Grant) -> Self {
        Self {
            id: grant.id.0,
            user: grant.user.to_string(),
            band: grant.band.to_string(),
            amount: Some((&grant.amount).into()),
            from: grant.from.0,
            until: grant.until.map(|until| until.0),
            by: grant.by.to_string(),
        }
    }
}

impl TryFrom<v1::Grant> for Grant {
    type Error = Malformed;

    fn try_from(grant: v1::Grant) -> Result<Self, Malformed> {
        Ok(Self {
            id: GrantId(grant.id),
            user: read::name(&grant.user, "user")?,
            band: read::band(&grant.band, "band")?,
            amount: read::message(grant.amount, "amount")?,
            from: Time(grant.from),
            until: grant.until.map(Time),
            by: read::name(&grant.by, "by")?,
        })
    }
}

impl From<Certificate> for v1::UserCertificate {
    fn from(Certificate { serial, issued, expires }: Certificate) -> Self {
        Self { serial: serial.to_string(), issued: issued.0, expires: expires.0 }
    }
}

impl TryFrom<v1::UserCertificate> for Certificate {
    type Error = Malformed;

    fn try_from(certificate: v1::UserCertificate) -> Result<Self, Malformed> {
        let (issued, expires) = (Time(certificate.issued), Time(certificate.expires));
        Ok(Self { serial: read::serial(&certificate.serial, "serial")?, issued, expires })
    }
}
