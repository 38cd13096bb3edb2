//! The image of a cell, and the hash of its state: `image.proto`.
//!
//! An image is written part by part, so that a checkpoint of a large cell is never in memory twice.
//! The same cell always gives the same bytes; the state hash is computed over them, and so is equal
//! on every replica and after every replay. The same parts as JSON, one per line, are for people to
//! read and edit ([`write_image_json`], [`read_image_json`]).

mod answer;
mod enrolment;
mod hash;
mod job;
mod json;
mod machine;
mod notices;
mod queue;
mod quota;
mod rejection;
mod replicas;
mod user;

pub use hash::{StateHash, StateHasher, state_hash};
pub use json::{ImageJsonError, LINE_BYTES_MAX, NotAPart, read_image_json, write_image_json};

use std::sync::Arc;

use api::{At, Fault, Malformed, read};
use cell::{Image, LEVEL, LastBackup, Rescheduling};
use model::{
    CollectionId, GcuFactor, Level, LockSessionId, LogIndex, MachineId, PackingPolicy, Reclamation,
    SessionId, Time, UserName,
};
use prost::Message;
use spec::LogSettings;

use crate::v1;
use v1::image_head::{self, Rescheduling as HeadRescheduling};
use v1::image_part::Part;

/// Writes an image: the head, then machines, jobs, sessions, grants and lock sessions by id, files by
/// path, services, packages, secrets and runtimes, each preceded by its length. `out` receives one part after the other.
pub fn write_image(image: &Image, out: &mut impl FnMut(&[u8])) {
    for part in parts(image) {
        out(&part.encode_length_delimited_to_vec());
    }
}

/// Reads an image. Contradictions between its objects are reported by [`cell::Cell::from_image`].
///
/// # Errors
/// If the image has a level that this build does not know, is incomplete, or contains something
/// invalid. The level is checked first.
pub fn read_image(bytes: &[u8]) -> Result<Image, Malformed> {
    let mut parts = Parts { rest: bytes, position: 0 };
    let mut assembly = Assembly::begin(parts.next()?)?;
    while let Some(part) = parts.next()? {
        let position = parts.position - 1;
        assembly.add(part).element(position).field("parts")?;
    }
    assembly.finish()
}

/// The parts of an image, created one after the other.
fn parts(image: &Image) -> impl Iterator<Item = v1::ImagePart> {
    let machines = image.machines.iter().map(|machine| Part::Machine(machine.as_ref().into()));
    let jobs = image.jobs.iter().map(|job| Part::Job(job.as_ref().into()));
    let session = |(id, session): &(SessionId, Arc<_>)| Part::Session((*id, &**session).into());
    let lock_session =
        |(id, session): &(LockSessionId, Arc<_>)| Part::LockSession((*id, &**session).into());
    let all = std::iter::once_with(|| Part::Head(head(image)))
        .chain(machines)
        .chain(jobs)
        .chain(image.sessions.iter().map(session))
        .chain(image.grants.iter().map(|grant| Part::Grant(grant.as_ref().into())))
        .chain(image.lock_sessions.iter().map(lock_session))
        .chain(image.files.iter().map(|file| Part::File(crate::locks::file_message(file))))
        .chain(image.services.iter().map(|service| Part::Service(service.as_ref().into())))
        .chain(image.packages.iter().map(|package| Part::Package(package.as_ref().into())))
        .chain(image.secrets.iter().map(|secret| Part::Secret(secret.as_ref().into())))
        .chain(image.runtimes.iter().map(|kept| Part::Runtimes(queue::runtimes(kept))));
    all.map(|part| v1::ImagePart { part: Some(part) })
}

fn head(image: &Image) -> v1::ImageHead {
    let platform = |(name, factor): &(String, GcuFactor)| (name.clone(), factor.milli());
    v1::ImageHead {
        level: image.level.0,
        name: image.name.as_ref().map(ToString::to_string).unwrap_or_default(),
        administrators: image.administrators.iter().map(ToString::to_string).collect(),
        platforms: image.platforms.iter().map(platform).collect(),
        index: image.index.0,
        time: image.time.0,
        last_collection: image.last_collection.0,
        last_machine: image.last_machine.0,
        last_session: image.last_session.0,
        machines: image.machines.len() as u64,
        jobs: image.jobs.len() as u64,
        sessions: image.sessions.len() as u64,
        last_lock_session: image.last_lock_session.0,
        lock_sessions: image.lock_sessions.len() as u64,
        files: image.files.len() as u64,
        files_changed: image.files_changed.0,
        services: image.services.len() as u64,
        packages: image.packages.len() as u64,
        secrets: image.secrets.len() as u64,
        queue: queue::settings(image),
        share_weights: queue::weights(image),
        runtimes: image.runtimes.len() as u64,
        rescheduling: rescheduling(&image.rescheduling),
        notices: notices::counts(&image.notices),
        notice_max: (image.notice_max != cell::bounds::NOTICE_MAX_DEFAULT)
            .then(|| api::duration(image.notice_max)),
        logs: (image.logs != LogSettings::default()).then(|| (&image.logs).into()),
        reclamation: reclamation(image.reclamation),
        packing: packing(image.packing),
        bootstrapped: image.bootstrapped.map(|at| at.0),
        last_backup: image.last_backup.as_ref().map(backup),
        users: image.users.iter().map(user::user).collect(),
        quota: quota::head(image),
        capabilities: quota::capabilities(image),
        replicas: replicas::replicas(image),
        enrolment: enrolment::enrolment(image),
    }
}

/// An image that is being read: its parts come in order, and their numbers match the head.
struct Assembly {
    image: Image,
    /// The number of parts of each kind according to the head.
    said: [(&'static str, u64); 10],
    /// The order key of the last part.
    last: (u8, u64, String),
}

impl Assembly {
    /// The first part must be the head.
    fn begin(first: Option<Part>) -> Result<Self, Malformed> {
        let Some(Part::Head(head)) = first else { return Err(Fault::Missing).field("head") };
        let grants = head.quota.as_ref().map_or(0, |quota| quota.grants);
        let said = [
            ("machines", head.machines),
            ("jobs", head.jobs),
            ("sessions", head.sessions),
            ("grants", grants),
            ("lockSessions", head.lock_sessions),
            ("files", head.files),
            ("services", head.services),
            ("packages", head.packages),
            ("secrets", head.secrets),
            ("runtimes", head.runtimes),
        ];
        let last = (0, 0, String::new());
        Ok(Self { image: image_of(head).field("head")?, said, last })
    }

    fn add(&mut self, part: Part) -> Result<(), Malformed> {
        let place = place(&part);
        if place <= self.last {
            return Err(Fault::OutOfOrder.into());
        }
        self.last = place;
        match part {
            Part::Head(_) => return Err(Fault::OutOfOrder.into()),
            Part::Machine(machine) => {
                self.image.machines.push(Arc::new(machine.try_into().field("machine")?));
            }
            Part::Job(job) => self.image.jobs.push(Arc::new(job.try_into().field("job")?)),
            Part::Session(session) => {
                let id = SessionId(session.id);
                let session = Arc::new(session.try_into().field("session")?);
                self.image.sessions.push((id, session));
            }
            Part::Grant(grant) => {
                self.image.grants.push(Arc::new(grant.try_into().field("grant")?));
            }
            Part::LockSession(session) => {
                let id = LockSessionId(session.id);
                let session = Arc::new(session.try_into().field("lockSession")?);
                self.image.lock_sessions.push((id, session));
            }
            Part::Service(service) => {
                self.image.services.push(Arc::new(service.try_into().field("service")?));
            }
            Part::Package(package) => {
                self.image.packages.push(Arc::new(package.try_into().field("package")?));
            }
            Part::Secret(secret) => {
                self.image.secrets.push(Arc::new(secret.try_into().field("secret")?));
            }
            Part::Runtimes(kept) => {
                self.image.runtimes.push(Arc::new(queue::runtimes_of(kept).field("runtimes")?));
            }
            Part::File(file) => {
                self.image.files.push(Arc::new(crate::locks::file(file).field("file")?));
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Image, Malformed> {
        let image = self.image;
        let are = [
            image.machines.len(),
            image.jobs.len(),
            image.sessions.len(),
            image.grants.len(),
            image.lock_sessions.len(),
            image.files.len(),
            image.services.len(),
            image.packages.len(),
            image.secrets.len(),
            image.runtimes.len(),
        ];
        for ((kind, said), are) in self.said.into_iter().zip(are) {
            let are = are as u64;
            if said != are {
                return Err(Fault::Count { said, are }).field(kind).field("head");
            }
        }
        Ok(image)
    }
}

/// The image of a head, without objects.
fn image_of(head: v1::ImageHead) -> Result<Image, Malformed> {
    let (level, known) = (head.level, LEVEL.0);
    if level == 0 {
        let (is, least, most) = (0, 1, known.into());
        return Err(Fault::OutOfRange { is, least, most }).field("level");
    }
    if !cell::has_level(Level(level)) {
        return Err(Fault::TooNew { level, known }).field("level");
    }
    let administrator = |(position, user): (usize, &String)| {
        user.parse::<UserName>().map_err(Fault::from).element(position).field("administrators")
    };
    let administrators = head.administrators.iter().enumerate().map(administrator);
    let (metering, last_grant) = quota::of_head(head.quota.as_ref());
    let platform = |(name, milli): (String, u32)| {
        let factor = read::factor(milli).key(&name).field("platforms")?;
        Ok((name, factor))
    };
    let user = |(position, user)| user::user_of(user).element(position).field("users");
    let users = head.users.into_iter().enumerate().map(user).collect::<Result<_, _>>()?;
    let (last_replica, replicas) = replicas::replicas_of(head.replicas)?;
    let (tokens, revoked_machines) = enrolment::enrolment_of(head.enrolment).field("enrolment")?;
    Ok(Image {
        name: read::optional_name(&head.name, "name")?,
        level: Level(level),
        administrators: administrators.collect::<Result<_, _>>()?,
        platforms: head.platforms.into_iter().map(platform).collect::<Result<_, Malformed>>()?,
        rescheduling: rescheduling_of(head.rescheduling)?,
        notices: notices::notices_of(head.notices.as_ref())?,
        logs: read::optional(head.logs, "logs")?.unwrap_or_default(),
        notice_max: match head.notice_max {
            Some(most) => read::span(Some(most), "noticeMax")?,
            None => cell::bounds::NOTICE_MAX_DEFAULT,
        },
        reclamation: reclamation_of(&head.reclamation)?,
        packing: packing_of(&head.packing)?,
        bootstrapped: head.bootstrapped.map(Time),
        last_backup: head.last_backup.as_ref().map(backup_of).transpose().field("lastBackup")?,
        users,
        queue: read::optional(head.queue, "queue")?.unwrap_or_default(),
        share_weights: queue::weights_of(head.share_weights)?,
        runtimes: Vec::new(),
        metering,
        capabilities: quota::capabilities_of(&head.capabilities)?,
        index: LogIndex(head.index),
        time: Time(head.time),
        last_collection: CollectionId(head.last_collection),
        last_machine: MachineId(head.last_machine),
        last_session: SessionId(head.last_session),
        last_lock_session: LockSessionId(head.last_lock_session),
        files_changed: LogIndex(head.files_changed),
        last_grant,
        replicas,
        last_replica,
        tokens,
        revoked_machines,
        jobs: Vec::new(),
        machines: Vec::new(),
        sessions: Vec::new(),
        grants: Vec::new(),
        lock_sessions: Vec::new(),
        files: Vec::new(),
        services: Vec::new(),
        packages: Vec::new(),
        secrets: Vec::new(),
    })
}

/// Empty if it is the setting of a new cell.
fn reclamation(is: Reclamation) -> String {
    if is == Reclamation::default() { String::new() } else { is.to_string() }
}

fn reclamation_of(read: &str) -> Result<Reclamation, Malformed> {
    match read {
        "" => Ok(Reclamation::default()),
        setting => read::word(setting, "reclamation"),
    }
}

/// Empty if it is the policy of a new cell.
fn packing(is: PackingPolicy) -> String {
    if is == PackingPolicy::default() { String::new() } else { is.to_string() }
}

fn packing_of(read: &str) -> Result<PackingPolicy, Malformed> {
    match read {
        "" => Ok(PackingPolicy::default()),
        policy => read::word(policy, "packing"),
    }
}

fn backup(last: &LastBackup) -> image_head::LastBackup {
    let (index, at, by) = (last.index.0, last.at.0, last.by.to_string());
    image_head::LastBackup { index, at, by }
}

fn backup_of(read: &image_head::LastBackup) -> Result<LastBackup, Malformed> {
    let by = read::name(&read.by, "by")?;
    Ok(LastBackup { index: LogIndex(read.index), at: Time(read.at), by })
}

/// `None` if rescheduling is allowed.
fn rescheduling(is: &Rescheduling) -> Option<HeadRescheduling> {
    match is {
        Rescheduling::Allowed => None,
        Rescheduling::Stopped { since, silent, of } => {
            let (since, silent, of) = (since.0, *silent, *of);
            let stopped = image_head::ReschedulingStopped { since, silent, of };
            Some(HeadRescheduling::ReschedulingStopped(stopped))
        }
        Rescheduling::Resumed { since, by } => {
            let (since, by) = (since.0, by.to_string());
            let resumed = image_head::ReschedulingResumed { since, by };
            Some(HeadRescheduling::ReschedulingResumed(resumed))
        }
    }
}

fn rescheduling_of(read: Option<HeadRescheduling>) -> Result<Rescheduling, Malformed> {
    Ok(match read {
        None => Rescheduling::Allowed,
        Some(HeadRescheduling::ReschedulingStopped(stopped)) => {
            let image_head::ReschedulingStopped { since, silent, of } = stopped;
            Rescheduling::Stopped { since: Time(since), silent, of }
        }
        Some(HeadRescheduling::ReschedulingResumed(resumed)) => Rescheduling::Resumed {
            since: Time(resumed.since),
            by: read::name(&resumed.by, "by").field("reschedulingResumed")?,
        },
    })
}

/// The order key of a part: its kind, then its id. Each part's key must be greater than the
/// previous one's.
fn place(part: &Part) -> (u8, u64, String) {
    let (kind, id) = match part {
        Part::Head(_) => (0, 0),
        Part::Machine(machine) => (1, machine.id),
        Part::Job(job) => (2, job.id),
        Part::Session(session) => (3, session.id),
        Part::Grant(grant) => (4, grant.id),
        Part::LockSession(session) => (5, session.id),
        Part::File(file) => return (6, 0, file.path.clone()),
        // A space is before every character of a name.
        Part::Service(service) => return (7, 0, format!("{} {}", service.user, service.name)),
        Part::Package(package) => return (8, 0, package_order(&package.id)),
        Part::Secret(secret) => return (9, 0, format!("{} {}", secret.user, secret.name)),
        Part::Runtimes(kept) => return (10, 0, format!("{} {}", kept.user, kept.name)),
    };
    (kind, id, String::new())
}

/// The order of packages is that of owner, name and version: a space is before every character of these.
fn package_order(id: &str) -> String {
    id.replacen(['/', '@'], " ", 2)
}

/// The parts of an encoded image, one after the other.
struct Parts<'a> {
    rest: &'a [u8],
    /// The number of parts read.
    position: usize,
}

impl Parts<'_> {
    fn next(&mut self) -> Result<Option<Part>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let part = self.part().element(self.position).field("parts")?;
        self.position += 1;
        Ok(Some(part))
    }

    fn part(&mut self) -> Result<Part, Malformed> {
        let wants = prost::decode_length_delimiter(&mut self.rest)?;
        let cut = Fault::CutOff { is: self.rest.len(), wants };
        let (bytes, rest) = self.rest.split_at_checked(wants).ok_or(cut)?;
        self.rest = rest;
        Ok(v1::ImagePart::decode(bytes)?.part.ok_or(Fault::UnknownKind)?)
    }
}
