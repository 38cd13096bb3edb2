//! The image of a cell, and the hash of its state: `image.proto`.
//!
//! An image is written part by part, so that a snapshot of a large cell never stands in memory
//! twice. The same cell always gives the same bytes; the state hash is taken over them, and so is
//! equal on every replica and after every replay.

mod answer;
mod hash;
mod object;

pub use hash::{StateHash, state_hash};

use std::sync::Arc;

use cell::{Image, LEVEL};
use model::{CollectionId, LogIndex, MachineId, SessionId, Time, UserName};
use prost::Message;

use crate::error::{At, Fault, Malformed};
use crate::{read, v1};
use v1::image_part::Part;

/// Writes an image: the head, then machines, jobs and sessions by id, each preceded by its length.
/// `out` is given one part after the other.
pub fn write_image(image: &Image, out: &mut impl FnMut(&[u8])) {
    let mut part = |part| {
        out(&v1::ImagePart { part: Some(part) }.encode_length_delimited_to_vec());
    };
    part(Part::Head(head(image)));
    for machine in &image.machines {
        part(Part::Machine(machine.as_ref().into()));
    }
    for job in &image.jobs {
        part(Part::Job(job.as_ref().into()));
    }
    for (id, session) in &image.sessions {
        part(Part::Session(v1::SessionImage::from((*id, session.as_ref()))));
    }
}

/// Reads an image. What is wrong between its objects is for [`cell::Cell::from_image`] to say.
///
/// # Errors
/// Where the image is of a level that this build does not know, is not whole, or holds something
/// that cannot be. The level is looked at first.
pub fn read_image(bytes: &[u8]) -> Result<Image, Malformed> {
    let mut parts = Parts { rest: bytes, position: 0 };
    let Some(Part::Head(head)) = parts.next()? else {
        return Err(Fault::Missing).field("head");
    };
    let counts = [("machines", head.machines), ("jobs", head.jobs), ("sessions", head.sessions)];
    let mut image = image_of(&head).field("head")?;
    let mut last = (0, 0);
    while let Some(part) = parts.next()? {
        let position = parts.position - 1;
        let place = place(&part);
        if place <= last {
            return Err(Fault::OutOfOrder).element(position).field("parts");
        }
        last = place;
        add(&mut image, part).element(position).field("parts")?;
    }
    let are = [image.machines.len(), image.jobs.len(), image.sessions.len()];
    for ((kind, said), are) in counts.into_iter().zip(are) {
        let are = are as u64;
        if said != are {
            return Err(Fault::Count { said, are }).field(kind).field("head");
        }
    }
    Ok(image)
}

fn head(image: &Image) -> v1::ImageHead {
    v1::ImageHead {
        level: LEVEL.0,
        name: image.name.as_ref().map(ToString::to_string).unwrap_or_default(),
        administrators: image.administrators.iter().map(ToString::to_string).collect(),
        index: image.index.0,
        time: image.time.0,
        last_collection: image.last_collection.0,
        last_machine: image.last_machine.0,
        last_session: image.last_session.0,
        machines: image.machines.len() as u64,
        jobs: image.jobs.len() as u64,
        sessions: image.sessions.len() as u64,
    }
}

/// What the head says, with no object yet.
fn image_of(head: &v1::ImageHead) -> Result<Image, Malformed> {
    let (level, known) = (head.level, LEVEL.0);
    if level == 0 {
        let (is, least, most) = (0, 1, known.into());
        return Err(Fault::OutOfRange { is, least, most }).field("level");
    }
    if level > known {
        return Err(Fault::TooNew { level, known }).field("level");
    }
    let administrator = |(position, user): (usize, &String)| {
        user.parse::<UserName>().map_err(Fault::from).element(position).field("administrators")
    };
    let administrators = head.administrators.iter().enumerate().map(administrator);
    Ok(Image {
        name: read::optional_name(&head.name, "name")?,
        administrators: administrators.collect::<Result<_, _>>()?,
        index: LogIndex(head.index),
        time: Time(head.time),
        last_collection: CollectionId(head.last_collection),
        last_machine: MachineId(head.last_machine),
        last_session: SessionId(head.last_session),
        ..Image::default()
    })
}

/// Where a part stands: its kind, then its id. Each part must stand after the one before it.
fn place(part: &Part) -> (u8, u64) {
    match part {
        Part::Head(_) => (0, 0),
        Part::Machine(machine) => (1, machine.id),
        Part::Job(job) => (2, job.id),
        Part::Session(session) => (3, session.id),
    }
}

fn add(image: &mut Image, part: Part) -> Result<(), Malformed> {
    match part {
        Part::Head(_) => return Err(Fault::OutOfOrder.into()),
        Part::Machine(machine) => {
            image.machines.push(Arc::new(machine.try_into().field("machine")?));
        }
        Part::Job(job) => image.jobs.push(Arc::new(job.try_into().field("job")?)),
        Part::Session(session) => {
            let id = SessionId(session.id);
            image.sessions.push((id, Arc::new(session.try_into().field("session")?)));
        }
    }
    Ok(())
}

/// The parts of an image, one after the other.
struct Parts<'a> {
    rest: &'a [u8],
    /// How many have been read.
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
