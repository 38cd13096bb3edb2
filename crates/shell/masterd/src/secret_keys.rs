//! The keys with which secrets are sealed. They are in a file of each replica, in no log and no checkpoint.
//!
//! The newest key seals, once every replica has it. The others are kept as long as the cell has something that they
//! have sealed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, ensure};
use api::v1;
use model::{SEALED_NONCE_BYTES, Sealed, SecretKeyId, SecretName, UserName};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use rpc::service::enrolment_client::EnrolmentClient;
use rpc::{Expect, Role, Rotating};
use tonic::Request;

use crate::handle::Core;

/// The name of the file, beside those of the cell's authority.
const FILE: &str = "secrets.keys";
/// The bytes of a key.
const KEY_BYTES: usize = 32;
/// The maximum number of keys of a replica.
const KEYS_MAX: usize = 64;
/// The maximum size of the file, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// How long a key is kept that nothing needs: longer than any request with it may take.
const UNNEEDED_KEPT: Duration = Duration::from_secs(60);
/// How long another replica may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The keys of a replica. Clones share them.
#[derive(Clone)]
pub(crate) struct SecretKeys(Arc<Inner>);

struct Inner {
    path: PathBuf,
    credentials: Rotating,
    held: Mutex<HeldKeys>,
}

/// What is in the file, and what is known of the other replicas.
#[derive(Default)]
struct HeldKeys {
    keys: BTreeMap<SecretKeyId, HeldKey>,
    /// The key that every replica has.
    shared: Option<SecretKeyId>,
    /// The keys that nothing needs any more, and since when.
    unneeded: BTreeMap<SecretKeyId, Instant>,
}

#[derive(Clone)]
struct HeldKey {
    key: [u8; KEY_BYTES],
    /// In microseconds since 1970.
    created: u64,
}

impl SecretKeys {
    /// The keys in a directory.
    pub(crate) fn open(directory: &Path, credentials: Rotating) -> anyhow::Result<Self> {
        let path = directory.join(FILE);
        let keys = read(&path)?;
        let held = Mutex::new(HeldKeys { keys, ..HeldKeys::default() });
        Ok(Self(Arc::new(Inner { path, credentials, held })))
    }

    /// Whether there is a key of that id.
    pub(crate) fn has(&self, id: SecretKeyId) -> bool {
        self.held().keys.contains_key(&id)
    }

    /// Seals a content of a user's secret with the newest key, which every replica has.
    pub(crate) async fn seal(
        &self,
        core: &Core,
        owner: &UserName,
        name: &SecretName,
        content: &[u8],
    ) -> anyhow::Result<Sealed> {
        let newest = self.newest();
        let id = match newest {
            Some(id) if self.held().shared == Some(id) => id,
            Some(id) => self.introduce(core, id).await?,
            None => self.renew(core).await?,
        };
        let key = self.held().keys.get(&id).cloned().context("the key is gone: try again")?;
        seal(id, &key, owner, name, content)
    }

    /// The content of a user's secret.
    pub(crate) fn open_sealed(
        &self,
        owner: &UserName,
        name: &SecretName,
        sealed: &Sealed,
    ) -> anyhow::Result<Vec<u8>> {
        let key = self.held().keys.get(&sealed.key).cloned();
        let key = key.with_context(|| {
            format!(
                "this master does not have key {} of secret {owner}/{name}: set the secret again, or give the master \
                 the file {FILE} of the cell that the state is from",
                sealed.key
            )
        })?;
        let nonce = Nonce::assume_unique_for_key(sealed.nonce);
        let mut bytes = sealed.bytes.to_vec();
        let opened = cipher(&key)?.open_in_place(nonce, Aad::from(of(owner, name)), &mut bytes);
        let length = opened.map(|content| content.len());
        let length = length.map_err(|_| {
            anyhow::anyhow!("secret {owner}/{name} is not what key {} has sealed", sealed.key)
        })?;
        bytes.truncate(length);
        Ok(bytes)
    }

    /// Makes a new key, which every replica has then.
    pub(crate) async fn renew(&self, core: &Core) -> anyhow::Result<SecretKeyId> {
        let (mut id, mut key) = ([0; 8], [0; KEY_BYTES]);
        let random = SystemRandom::new();
        let filled = random.fill(&mut id).and_then(|()| random.fill(&mut key));
        filled.map_err(|_| anyhow::anyhow!("this machine has no random numbers"))?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
        let id = SecretKeyId(id);
        {
            let mut held = self.held();
            ensure!(
                held.keys.len() < KEYS_MAX,
                "there are {KEYS_MAX} keys already: wait until the secrets are sealed with the newest"
            );
            // Newer than every other one, whatever the clock says.
            let last = held.keys.values().map(|key| key.created).max().unwrap_or_default();
            let created = now.max(last.saturating_add(1));
            held.keys.insert(id, HeldKey { key, created });
            write(&self.0.path, &held.keys)?;
        }
        self.introduce(core, id).await
    }

    /// Gives all keys to every other replica. Without it, a key could be lost with one disk.
    async fn introduce(&self, core: &Core, id: SecretKeyId) -> anyhow::Result<SecretKeyId> {
        for address in addresses(core) {
            self.share(&address).await.with_context(|| {
                format!("the master at {address} does not have the key of secrets yet: try again when it answers")
            })?;
        }
        self.held().shared = Some(id);
        Ok(id)
    }

    /// Gives all keys to a replica, and takes those that it has.
    async fn share(&self, address: &str) -> anyhow::Result<()> {
        let expect = Expect::Role(Role::Master);
        let channel = rpc::transport::connect(address, &self.0.credentials, &expect)?;
        let mut request = Request::new(v1::ShareSecretKeysRequest { keys: self.messages() });
        request.set_timeout(PATIENCE);
        let answer = EnrolmentClient::new(channel).share_secret_keys(request).await;
        let answer = answer.map_err(|status| anyhow::anyhow!(rpc::transport::explain(&status)))?;
        self.merge(answer.into_inner().keys)
    }

    /// The keys as messages to another replica.
    pub(crate) fn messages(&self) -> Vec<v1::SecretKey> {
        let message = |(id, key): (&SecretKeyId, &HeldKey)| v1::SecretKey {
            id: id.0.to_vec(),
            key: key.key.to_vec(),
            created: key.created,
        };
        self.held().keys.iter().map(message).collect()
    }

    /// Takes the keys of another replica. They are durable then.
    pub(crate) fn merge(&self, keys: Vec<v1::SecretKey>) -> anyhow::Result<()> {
        let mut held = self.held();
        let before = held.keys.len();
        for v1::SecretKey { id, key, created } in keys {
            let id = api::secret::key_id(&id)?;
            let key = <[u8; KEY_BYTES]>::try_from(key.as_slice()).context("a key has 32 bytes")?;
            if held.keys.len() < KEYS_MAX {
                held.keys.entry(id).or_insert(HeldKey { key, created });
            }
        }
        if held.keys.len() > before {
            write(&self.0.path, &held.keys)?;
        }
        Ok(())
    }

    /// Gets keys that this replica misses: from its file, which an operator may have put back, and from the other
    /// replicas.
    pub(crate) async fn fetch(&self, core: &Core, needed: &BTreeSet<SecretKeyId>) {
        let has_all = || needed.iter().all(|id| self.has(*id));
        if has_all() {
            return;
        }
        match read(&self.0.path) {
            Ok(found) => {
                let mut held = self.held();
                for (id, key) in found {
                    if needed.contains(&id) && held.keys.len() < KEYS_MAX {
                        held.keys.entry(id).or_insert(key);
                    }
                }
            }
            Err(error) => tracing::warn!("cannot read the keys of secrets again: {error:#}"),
        }
        if has_all() {
            return;
        }
        for address in addresses(core) {
            if let Err(error) = self.share(&address).await {
                tracing::warn!("cannot get the keys of secrets from {address}: {error:#}");
            }
        }
    }

    /// Deletes keys that nothing has needed for so long that no request with them is under way.
    pub(crate) fn forget(&self, needed: &BTreeSet<SecretKeyId>) {
        let newest = self.newest();
        let mut held = self.held();
        let HeldKeys { keys, unneeded, .. } = &mut *held;
        let is_needed = |id: &SecretKeyId| Some(*id) == newest || needed.contains(id);
        unneeded.retain(|id, _| keys.contains_key(id) && !is_needed(id));
        let before = keys.len();
        keys.retain(|id, _| {
            is_needed(id)
                || unneeded.entry(*id).or_insert_with(Instant::now).elapsed() < UNNEEDED_KEPT
        });
        if keys.len() < before
            && let Err(error) = write(&self.0.path, keys)
        {
            tracing::error!("cannot delete old keys of secrets: {error:#}");
        }
    }

    /// The key that seals.
    fn newest(&self) -> Option<SecretKeyId> {
        let held = self.held();
        let newest = held.keys.iter().max_by_key(|(id, key)| (key.created, **id));
        newest.map(|(id, _)| *id)
    }

    fn held(&self) -> MutexGuard<'_, HeldKeys> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The addresses of the replicas, this one included, that are known.
fn addresses(core: &Core) -> Vec<String> {
    let view = core.view();
    let known = view.cell.member_addresses().filter(|address| !address.is_empty());
    known.map(str::to_owned).collect()
}

/// What the seal is bound to: content of one secret cannot be put in the place of another.
fn of(owner: &UserName, name: &SecretName) -> Vec<u8> {
    format!("{owner}/{name}").into_bytes()
}

fn cipher(key: &HeldKey) -> anyhow::Result<LessSafeKey> {
    let key = UnboundKey::new(&CHACHA20_POLY1305, &key.key);
    Ok(LessSafeKey::new(key.map_err(|_| anyhow::anyhow!("a key has 32 bytes"))?))
}

fn seal(
    id: SecretKeyId,
    key: &HeldKey,
    owner: &UserName,
    name: &SecretName,
    content: &[u8],
) -> anyhow::Result<Sealed> {
    let mut nonce = [0; SEALED_NONCE_BYTES];
    let filled = SystemRandom::new().fill(&mut nonce);
    filled.map_err(|_| anyhow::anyhow!("this machine has no random numbers"))?;
    let mut bytes = content.to_vec();
    let unique = Nonce::assume_unique_for_key(nonce);
    let sealed =
        cipher(key)?.seal_in_place_append_tag(unique, Aad::from(of(owner, name)), &mut bytes);
    sealed.map_err(|_| anyhow::anyhow!("the secret cannot be sealed"))?;
    Ok(Sealed { key: id, nonce, bytes: bytes.into() })
}

/// The keys of a file; none if it does not exist.
fn read(path: &Path) -> anyhow::Result<BTreeMap<SecretKeyId, HeldKey>> {
    let damaged = || format!("{} is damaged: restore it from another master", path.display());
    match fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        Ok(found) => ensure!(found.len() <= FILE_BYTES_MAX, damaged()),
    }
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let key = |line: &str| -> Option<(SecretKeyId, HeldKey)> {
        let mut words = line.split(' ');
        let (id, created, key) = (words.next()?, words.next()?, words.next()?);
        let created = created.parse().ok()?;
        Some((SecretKeyId(bytes(id)?), HeldKey { key: bytes(key)?, created }))
    };
    text.lines().map(|line| key(line).with_context(damaged)).collect()
}

/// Bytes in hexadecimal.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    let mut bytes = [0; N];
    if digits.len() != 2 * N || !digits.is_ascii() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

/// Replaces the file, which only its owner reads.
fn write(path: &Path, keys: &BTreeMap<SecretKeyId, HeldKey>) -> anyhow::Result<()> {
    use std::fmt::Write as _;
    let mut text = String::new();
    for (id, HeldKey { key, created }) in keys {
        write!(text, "{id} {created} ")?;
        key.iter().try_for_each(|byte| write!(text, "{byte:02x}"))?;
        text.push('\n');
    }
    let new = path.with_extension("new");
    let written = || -> std::io::Result<()> {
        let mut file =
            File::options().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
    };
    written().with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(created: u64) -> HeldKey {
        HeldKey { key: [7; KEY_BYTES], created }
    }

    #[test]
    fn keys_are_read_back_and_only_their_owner_reads_them() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join(FILE);
        assert!(read(&path).expect("no file").is_empty());
        let keys: BTreeMap<_, _> = [(SecretKeyId([1; 8]), held(5))].into();
        write(&path, &keys).expect("room");
        let back = read(&path).expect("the file");
        let back: Vec<_> = back.into_iter().map(|(id, key)| (id, key.key, key.created)).collect();
        assert_eq!(back, [(SecretKeyId([1; 8]), [7; KEY_BYTES], 5)]);
        let mode = fs::metadata(&path).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::write(&path, "nonsense").expect("room");
        let error = read(&path).err().expect("damaged").to_string();
        assert!(error.contains("is damaged"), "{error}");
    }

    #[test]
    fn what_is_sealed_is_of_one_secret_and_one_key() {
        let user = |name: &str| name.parse::<UserName>().expect("a name");
        let name = |name: &str| name.parse::<SecretName>().expect("a name");
        let sealed = seal(SecretKeyId([1; 8]), &held(1), &user("ana"), &name("tls"), b"hello");
        let sealed = sealed.expect("sealed");
        assert_eq!(sealed.bytes.len(), 5 + 16);
        let other = seal(SecretKeyId([1; 8]), &held(1), &user("ana"), &name("tls"), b"hello");
        assert_ne!(other.expect("sealed").nonce, sealed.nonce);
        let opened = |key: &HeldKey, owner: &str, secret: &str| {
            let mut bytes = sealed.bytes.to_vec();
            let nonce = Nonce::assume_unique_for_key(sealed.nonce);
            let aad = Aad::from(of(&user(owner), &name(secret)));
            let cipher = cipher(key).expect("a key");
            cipher.open_in_place(nonce, aad, &mut bytes).map(|content| content.to_vec()).ok()
        };
        assert_eq!(opened(&held(1), "ana", "tls").as_deref(), Some(&b"hello"[..]));
        assert_eq!(opened(&held(1), "ben", "tls"), None);
        assert_eq!(opened(&held(1), "ana", "other"), None);
        assert_eq!(opened(&HeldKey { key: [8; KEY_BYTES], created: 1 }, "ana", "tls"), None);
    }
}
