//! Secrets. A script has no key: contents are numbers of bytes that mean nothing.

use cell::{DeleteSecret, Mutation, ResealSecret, ResealedVersion, SetSecret};
use model::{Sealed, SecretKeyId, SecretName, UserName};

use crate::ScriptError;
use crate::words::{number, small_number, value};

/// What a secret is called in errors.
const SECRET: &str = "a secret such as ana/tls-key";

fn named(text: &str) -> Result<(UserName, SecretName), ScriptError> {
    let (owner, name) = text.split_once('/').unwrap_or(("", text));
    Ok((value(owner, SECRET)?, value(name, SECRET)?))
}

fn sealed(key: &str, bytes: &str) -> Result<Sealed, ScriptError> {
    let key = SecretKeyId(number(key)?.to_be_bytes());
    let bytes = usize::try_from(number(bytes)?.min(1 << 20)).unwrap_or_default();
    Ok(Sealed { key, nonce: [0; 12], bytes: vec![0; bytes].into() })
}

/// The mutation that the words stand for, if it is about secrets, and the secret's owner.
pub(crate) fn mutation(words: &[&str]) -> Result<Option<(UserName, Mutation)>, ScriptError> {
    Ok(Some(match words {
        ["secret", secret, key, bytes] => {
            let (owner, name) = named(secret)?;
            (owner, SetSecret { name, sealed: sealed(key, bytes)? }.into())
        }
        ["delete-secret", secret] => {
            let (owner, name) = named(secret)?;
            (owner, DeleteSecret(name).into())
        }
        ["reseal-secret", secret, version, from, key, bytes] => {
            let (owner, name) = named(secret)?;
            let from = SecretKeyId(number(from)?.to_be_bytes());
            let (number, sealed) = (small_number(version)?, sealed(key, bytes)?);
            let versions = vec![ResealedVersion { number, from, sealed }];
            (value("root", SECRET)?, ResealSecret { owner, name, versions }.into())
        }
        _ => return Ok(None),
    }))
}
