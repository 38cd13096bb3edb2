//! Who is signed in: links that sign a browser in once, and the sessions of browsers.
//!
//! Both are in memory only: after a restart everybody signs in again. A session has the certificate with
//! which it was begun, so it ends with that certificate: by expiry here, and by revocation at the master,
//! which rejects its next request.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use data_encoding::BASE64URL_NOPAD;
use rpc::Identity;
use rpc::transport::Peer;

/// How long a link can be used.
const LINK_VALIDITY: Duration = Duration::from_secs(5 * 60);
/// How long a session lasts at most, and without a request.
const SESSION_MAX: Duration = Duration::from_secs(12 * 3_600);
const IDLE_MAX: Duration = Duration::from_secs(3_600);
/// The most unused links, and sessions: in all, and of one user, whose oldest gives way to a new one.
const LINKS_MAX: usize = 1_024;
const LINKS_OF_ONE: usize = 8;
const SESSIONS_MAX: usize = 4_096;
const SESSIONS_OF_ONE: usize = 32;

/// A secret of a link or a session, as it is in an address or a cookie.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(bytes: [u8; 32]) -> Self {
        Self(BASE64URL_NOPAD.encode(&bytes))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    /// Omits it, since debug output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// What is kept of a secret: who reads the memory of the process, or its dump, cannot sign in with it.
/// Looked up by hash, so that the time of a comparison tells nothing either.
type Digest = [u8; 32];

fn digest(secret: &str) -> Digest {
    blake3::hash(secret.as_bytes()).into()
}

/// A user's session in one browser.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// Who signed in, with the certificate.
    pub(crate) peer: Peer,
    /// The user's name.
    pub(crate) user: String,
    /// What forms of this session contain, so that another site cannot send them.
    pub(crate) csrf: Secret,
    pub(crate) id: Digest,
    ends: SystemTime,
    used: SystemTime,
    /// What the last action did, until a page has shown it.
    said: Option<Said>,
}

/// What an action did, or why it was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) is_bad: bool,
}

/// A link that signs a browser in once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInLink {
    /// The address to open.
    pub address: String,
    /// When it expires unused.
    pub expires: SystemTime,
}

#[derive(Debug)]
struct Unused {
    digest: Digest,
    peer: Peer,
    user: String,
    expires: SystemTime,
}

/// Why somebody cannot sign in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSignIn {
    /// The peer is a machine, a task, or another process: only users sign in.
    NoUser,
    /// There are too many links or sessions.
    Full,
    /// The operating system gave no random bytes.
    NoRandom,
}

impl fmt::Display for NoSignIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoUser => "only users sign in to Sigma: use a user's own certificate",
            Self::Full => {
                "too many users are signed in to Sigma at this replica: try another one, or later"
            }
            Self::NoRandom => "the operating system gave no random bytes",
        })
    }
}

impl std::error::Error for NoSignIn {}

/// The links and sessions of one Sigma. Clones share their state.
#[derive(Clone, Debug)]
pub struct Sessions(Arc<SessionStore>);

#[derive(Debug)]
struct SessionStore {
    /// `https://HOST:PORT`.
    origin: String,
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    /// The oldest first.
    links: Vec<Unused>,
    sessions: HashMap<Digest, Session>,
}

impl Sessions {
    /// For a Sigma that browsers reach at `origin`, `https://HOST:PORT`.
    #[must_use]
    pub fn new(origin: String) -> Self {
        Self(Arc::new(SessionStore { origin, all: Mutex::default() }))
    }

    /// Where browsers reach it.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.0.origin
    }

    /// A link that signs the peer in, once.
    ///
    /// # Errors
    /// [`NoSignIn`].
    pub fn link(&self, peer: Peer) -> Result<SignInLink, NoSignIn> {
        let token = Secret::new(rpc::web::secret().map_err(|_| NoSignIn::NoRandom)?);
        let expires = self.lock().add_link(&token, peer, SystemTime::now())?;
        let address = format!("{}/sign-in/{}", self.0.origin, token.as_str());
        Ok(SignInLink { address, expires })
    }

    /// The user of a link, without using it.
    pub(crate) fn whose(&self, token: &str) -> Option<String> {
        self.lock().whose(token, SystemTime::now())
    }

    /// Uses a link: the secret of the new session, for a cookie.
    pub(crate) fn sign_in(&self, token: &str) -> Result<Option<Secret>, NoSignIn> {
        let Some(peer) = self.lock().take_link(token, SystemTime::now()) else { return Ok(None) };
        self.begin(peer).map(Some)
    }

    /// Begins a session of a peer that has shown its certificate.
    pub(crate) fn begin(&self, peer: Peer) -> Result<Secret, NoSignIn> {
        let secret = || Ok(Secret::new(rpc::web::secret().map_err(|_| NoSignIn::NoRandom)?));
        let (id, csrf) = (secret()?, secret()?);
        self.lock().begin(&id, csrf, peer, SystemTime::now())?;
        Ok(id)
    }

    /// The session of a cookie.
    pub(crate) fn session(&self, id: &str) -> Option<Session> {
        self.lock().session(&digest(id), SystemTime::now(), true)
    }

    /// The same session later, if it has not ended. Watching is no use of it.
    pub(crate) fn still(&self, session: &Session) -> bool {
        self.lock().session(&session.id, SystemTime::now(), false).is_some()
    }

    /// Keeps what an action did for the next page of the session.
    pub(crate) fn say(&self, session: &Session, said: Said) {
        if let Some(session) = self.lock().sessions.get_mut(&session.id) {
            session.said = Some(said);
        }
    }

    /// What the last action did, once.
    pub(crate) fn said(&self, session: &Session) -> Option<Said> {
        self.lock().sessions.get_mut(&session.id)?.said.take()
    }

    /// Ends a session.
    pub(crate) fn end(&self, session: &Session) {
        self.lock().sessions.remove(&session.id);
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.0.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of a peer that may sign in.
fn user(peer: &Peer) -> Result<String, NoSignIn> {
    match &peer.identity {
        Identity::User(user) => Ok(user.clone()),
        _ => Err(NoSignIn::NoUser),
    }
}

impl All {
    fn add_link(
        &mut self,
        token: &Secret,
        peer: Peer,
        now: SystemTime,
    ) -> Result<SystemTime, NoSignIn> {
        let user = user(&peer)?;
        self.links.retain(|link| now < link.expires);
        if self.links.iter().filter(|link| link.user == user).count() >= LINKS_OF_ONE
            && let Some(oldest) = self.links.iter().position(|link| link.user == user)
        {
            self.links.remove(oldest);
        }
        if self.links.len() >= LINKS_MAX {
            return Err(NoSignIn::Full);
        }
        let expires = (now + LINK_VALIDITY).min(peer.expires);
        self.links.push(Unused { digest: digest(token.as_str()), peer, user, expires });
        Ok(expires)
    }

    fn whose(&self, token: &str, now: SystemTime) -> Option<String> {
        let digest = digest(token);
        let mut links = self.links.iter();
        links.find(|link| link.digest == digest && now < link.expires).map(|link| link.user.clone())
    }

    fn take_link(&mut self, token: &str, now: SystemTime) -> Option<Peer> {
        let digest = digest(token);
        self.links.retain(|link| now < link.expires);
        let found = self.links.iter().position(|link| link.digest == digest)?;
        Some(self.links.remove(found).peer)
    }

    fn begin(
        &mut self,
        id: &Secret,
        csrf: Secret,
        peer: Peer,
        now: SystemTime,
    ) -> Result<(), NoSignIn> {
        let user = user(&peer)?;
        self.sessions.retain(|_, session| !session.is_over(now));
        let of_user = || self.sessions.values().filter(|session| session.user == user);
        if of_user().count() >= SESSIONS_OF_ONE
            && let Some(oldest) = of_user().min_by_key(|session| session.used)
        {
            let oldest = oldest.id;
            self.sessions.remove(&oldest);
        }
        if self.sessions.len() >= SESSIONS_MAX {
            return Err(NoSignIn::Full);
        }
        let id = digest(id.as_str());
        let ends = (now + SESSION_MAX).min(peer.expires);
        self.sessions.insert(id, Session { peer, user, csrf, id, ends, used: now, said: None });
        Ok(())
    }

    fn session(&mut self, id: &Digest, now: SystemTime, is_use: bool) -> Option<Session> {
        let session = self.sessions.get_mut(id)?;
        if session.is_over(now) {
            self.sessions.remove(id);
            return None;
        }
        if is_use {
            session.used = now;
        }
        Some(session.clone())
    }
}

impl Session {
    fn is_over(&self, now: SystemTime) -> bool {
        let idle = now.duration_since(self.used).unwrap_or_default();
        now >= self.ends || idle >= IDLE_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
    }

    fn peer(identity: &str, expires: u64) -> Peer {
        Peer {
            identity: identity.parse().expect("an identity"),
            serial: vec![1],
            issued: at(0),
            expires: at(expires),
            address: ([127, 0, 0, 1], 1).into(),
        }
    }

    fn secret(number: usize) -> Secret {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        Secret::new(bytes)
    }

    #[test]
    fn a_link_is_used_once_and_in_time() {
        let mut all = All::default();
        let expires = all.add_link(&secret(1), peer("user/ana", 9_999), at(0)).expect("a link");
        assert_eq!(expires, at(300));
        assert_eq!(all.whose(secret(1).as_str(), at(299)), Some("ana".to_owned()));
        assert_eq!(all.whose(secret(1).as_str(), at(300)), None);
        assert_eq!(all.whose(secret(2).as_str(), at(0)), None);
        assert!(all.take_link(secret(2).as_str(), at(1)).is_none());
        assert!(all.take_link(secret(1).as_str(), at(1)).is_some());
        assert!(all.take_link(secret(1).as_str(), at(1)).is_none(), "only once");
        all.add_link(&secret(3), peer("user/ana", 9_999), at(0)).expect("a link");
        assert!(all.take_link(secret(3).as_str(), at(300)).is_none(), "too late");
        let expires = all.add_link(&secret(4), peer("user/ana", 60), at(0));
        assert_eq!(expires, Ok(at(60)), "not longer than the certificate");
    }

    #[test]
    fn only_users_sign_in() {
        for (identity, result) in [
            ("user/ana", Ok(())),
            ("task/ana/web/0", Err(NoSignIn::NoUser)),
            ("borglet/m1", Err(NoSignIn::NoUser)),
            ("scheduler/main", Err(NoSignIn::NoUser)),
            ("master", Err(NoSignIn::NoUser)),
        ] {
            let mut all = All::default();
            let link = all.add_link(&secret(1), peer(identity, 9_999), at(0));
            assert_eq!(link.map(drop), result, "{identity}");
            let begun = all.begin(&secret(1), secret(2), peer(identity, 9_999), at(0));
            assert_eq!(begun, result, "{identity}");
        }
    }

    #[test]
    fn a_session_ends_when_idle_after_twelve_hours_or_with_its_certificate() {
        for (expires, uses, last) in [
            // Idle.
            (999_999, &[][..], 3_600),
            (999_999, &[3_000][..], 6_600),
            // Used every hour.
            (
                999_999,
                &[
                    3_500, 7_000, 10_500, 14_000, 17_500, 21_000, 24_500, 28_000, 31_500, 35_000,
                    38_500, 42_000,
                ],
                43_200,
            ),
            // The certificate.
            (100, &[][..], 100),
        ] {
            let mut all = All::default();
            all.begin(&secret(1), secret(2), peer("user/ana", expires), at(0)).expect("a session");
            let id = digest(secret(1).as_str());
            for used in uses {
                assert!(all.session(&id, at(*used), true).is_some(), "{used}");
            }
            assert!(all.session(&id, at(last - 1), false).is_some(), "{last}");
            assert!(all.session(&id, at(last), true).is_none(), "{last}");
            assert!(all.sessions.is_empty());
        }
    }

    #[test]
    fn links_and_sessions_are_bounded() {
        let mut all = All::default();
        for number in 0..=LINKS_OF_ONE {
            all.add_link(&secret(number), peer("user/ana", 9_999), at(0)).expect("a link");
        }
        assert_eq!(all.links.len(), LINKS_OF_ONE);
        assert_eq!(all.whose(secret(0).as_str(), at(0)), None, "the oldest gives way");
        for number in 0..=SESSIONS_OF_ONE {
            let ana = peer("user/ana", 9_999);
            all.begin(&secret(number), secret(0), ana, at(number as u64)).expect("a session");
        }
        assert_eq!(all.sessions.len(), SESSIONS_OF_ONE);
        assert!(all.session(&digest(secret(0).as_str()), at(40), false).is_none());
        let others = SESSIONS_MAX - SESSIONS_OF_ONE;
        for number in 0..others {
            let other = peer(&format!("user/u{number}"), 9_999);
            all.begin(&secret(1_000 + number), secret(0), other, at(40)).expect("a session");
        }
        let full = all.begin(&secret(9), secret(0), peer("user/eva", 9_999), at(40));
        assert_eq!(full, Err(NoSignIn::Full));
        let later = all.begin(&secret(9), secret(0), peer("user/eva", 9_999), at(4_000));
        assert_eq!(later, Ok(()), "those that ended have made room");
    }
}
