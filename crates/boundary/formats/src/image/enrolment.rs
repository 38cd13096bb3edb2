//! Join tokens and machines' certificates in an image.

use std::sync::Arc;

use api::{At, Malformed, read};
use cell::{Admission, Credentials, Image, Token, TokenUse};
use model::{MachineName, Serial, Time};

use super::user::{act, act_of};
use crate::v1;
use v1::image_head::{
    Admitted, Credentials as CredentialsMessage, Enrolment, RevokedMachine, Token as TokenMessage,
    TokenUse as TokenUseMessage,
};

type Tokens = Vec<(Serial, Arc<Token>)>;
type Revoked = Vec<(MachineName, Arc<Credentials>)>;

/// `None` if there are none.
pub(super) fn enrolment(image: &Image) -> Option<Enrolment> {
    if image.tokens.is_empty() && image.revoked_machines.is_empty() {
        return None;
    }
    let revoked = |(name, said): &(MachineName, Arc<Credentials>)| RevokedMachine {
        name: name.to_string(),
        credentials: Some(said.as_ref().into()),
    };
    Some(Enrolment {
        tokens: image.tokens.iter().map(token).collect(),
        revoked: image.revoked_machines.iter().map(revoked).collect(),
    })
}

/// The tokens, and the revoked names.
pub(super) fn enrolment_of(head: Option<Enrolment>) -> Result<(Tokens, Revoked), Malformed> {
    let Enrolment { tokens, revoked } = head.unwrap_or_default();
    let token = |(position, token)| token_of(token).element(position).field("tokens");
    let tokens = tokens.into_iter().enumerate().map(token).collect::<Result<_, _>>()?;
    let name = |(position, name)| revoked_of(name).element(position).field("revoked");
    let revoked = revoked.into_iter().enumerate().map(name).collect::<Result<_, _>>()?;
    Ok((tokens, revoked))
}

fn revoked_of(read: RevokedMachine) -> Result<(MachineName, Arc<Credentials>), Malformed> {
    let said = read::message(read.credentials, "credentials")?;
    Ok((read::name(&read.name, "name")?, Arc::new(said)))
}

fn token((serial, token): &(Serial, Arc<Token>)) -> TokenMessage {
    let all = token.many.iter().flat_map(|many| &many.admitted);
    TokenMessage {
        serial: serial.to_string(),
        machine: token.machine.to_string(),
        issued: Some(act(&token.issued)),
        expires: token.expires.0,
        used: token.used.map(Into::into),
        most: token.many.as_ref().map(|many| many.most),
        admitted: all.map(|(machine, used)| admitted(machine, *used)).collect(),
    }
}

fn admitted(machine: &MachineName, used: TokenUse) -> Admitted {
    Admitted { machine: machine.to_string(), r#use: Some(used.into()) }
}

fn admitted_of(read: Admitted) -> Result<(MachineName, TokenUse), Malformed> {
    Ok((read::name(&read.machine, "machine")?, read::message(read.r#use, "use")?))
}

fn token_of(read: TokenMessage) -> Result<(Serial, Arc<Token>), Malformed> {
    let used = |(position, used)| admitted_of(used).element(position).field("admitted");
    let admitted = read.admitted.into_iter().enumerate().map(used).collect::<Result<_, _>>()?;
    let token = Token {
        machine: read::name(&read.machine, "machine")?,
        issued: act_of(read::required(read.issued, "issued")?).field("issued")?,
        expires: Time(read.expires),
        used: read::optional(read.used, "used")?,
        many: read.most.map(|most| Admission { most, admitted }),
    };
    Ok((read::serial(&read.serial, "serial")?, Arc::new(token)))
}

impl From<TokenUse> for TokenUseMessage {
    fn from(TokenUse { key, certificate }: TokenUse) -> Self {
        Self { key: key.to_string(), certificate: Some(certificate.into()) }
    }
}

impl TryFrom<TokenUseMessage> for TokenUse {
    type Error = Malformed;

    fn try_from(used: TokenUseMessage) -> Result<Self, Malformed> {
        let certificate = read::message(used.certificate, "certificate")?;
        Ok(Self { key: read::key(&used.key, "key")?, certificate })
    }
}

impl From<&Credentials> for CredentialsMessage {
    fn from(said: &Credentials) -> Self {
        Self {
            certificates: said.certificates.iter().map(|known| (*known).into()).collect(),
            revoked: said.revoked.as_ref().map(act),
        }
    }
}

impl TryFrom<CredentialsMessage> for Credentials {
    type Error = Malformed;

    fn try_from(read: CredentialsMessage) -> Result<Self, Malformed> {
        Ok(Self {
            certificates: read::list(read.certificates, "certificates")?,
            revoked: read.revoked.map(act_of).transpose().field("revoked")?,
        })
    }
}
