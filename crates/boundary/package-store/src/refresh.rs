//! Listing packs, and reading the footers of those that are new.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

use model::{Beyond, SharedBound};
use tokio::task::JoinSet;

use crate::index::{Index, Pack};
use crate::objects::{Listed, Objects};
use crate::pack::{Footer, PackId, Tail};
use crate::{Error, StoreResult};

/// How many footers are read at once.
const READS: usize = 16;

/// How much of a pack's end is read at first, in bytes: the footer of most packs.
const FIRST_READ_BYTES: u64 = 32 << 10;

/// Lists the packs, adds new ones to the index, and forgets those that are gone.
pub(crate) async fn refresh(
    objects: &Objects,
    index: &Arc<RwLock<Index>>,
    packs_max: usize,
    chunks_max: SharedBound,
) -> StoreResult<()> {
    let known: Vec<PackId> = read(index).packs().map(|pack| pack.id).collect();
    let listed = objects.list(packs_max).await?;
    let names: HashSet<String> = listed.iter().map(|listed| listed.name.clone()).collect();
    let packs: HashSet<PackId> = listed.iter().filter_map(|one| one.id.clone().ok()).collect();
    let mut new = {
        let index = read(index);
        let is_new = |listed: &Listed| match &listed.id {
            Ok(id) => !index.has_pack(*id) && !index.is_aside(&listed.name, listed.size),
            Err(_) => !index.is_aside(&listed.name, listed.size),
        };
        listed.into_iter().filter(is_new).collect::<Vec<_>>().into_iter()
    };
    let mut reads = JoinSet::new();
    loop {
        while reads.len() < READS
            && let Some(listed) = new.next()
        {
            let objects = objects.clone();
            reads.spawn(async move {
                let footer = footer(&objects, &listed).await;
                (listed, footer)
            });
        }
        let Some(done) = reads.join_next().await else { break };
        let (listed, footer) = done.map_err(|error| Error::Object {
            action: "read the footer of",
            object: "a pack".to_owned(),
            location: objects.location(),
            why: error.to_string(),
        })?;
        match footer? {
            Found::Pack(pack) => {
                let mut index = index.write().unwrap_or_else(PoisonError::into_inner);
                let all = (index.entry_count() + pack.footer.entries.len()) as u64;
                if all > chunks_max.max() {
                    let beyond = Beyond::Bound { all, max: chunks_max.max() };
                    return Err(Error::Chunks { beyond, location: objects.location() });
                }
                index.insert(*pack);
                index.not_aside(&listed.name);
            }
            Found::Aside(why) => {
                let mut index = index.write().unwrap_or_else(PoisonError::into_inner);
                if index.set_aside(&listed.name, listed.size, &why) {
                    let location = objects.location();
                    tracing::warn!("{} in the store {location} is set aside: {why}", listed.name);
                }
            }
            Found::Gone => {}
        }
    }
    let mut index = index.write().unwrap_or_else(PoisonError::into_inner);
    index.keep_listed(&known, &packs, &names);
    Ok(())
}

pub(crate) fn read(index: &RwLock<Index>) -> std::sync::RwLockReadGuard<'_, Index> {
    index.read().unwrap_or_else(PoisonError::into_inner)
}

/// What a listed object is.
enum Found {
    Pack(Box<Pack>),
    Aside(String),
    /// It was deleted since.
    Gone,
}

async fn footer(objects: &Objects, listed: &Listed) -> StoreResult<Found> {
    let id = match &listed.id {
        Ok(id) => *id,
        Err(why) => return Ok(Found::Aside(why.clone())),
    };
    if listed.size == 0 {
        return Ok(Found::Aside("it is empty".to_owned()));
    }
    let mut length = FIRST_READ_BYTES;
    loop {
        let Some(tail) = objects.tail(id, length).await? else { return Ok(Found::Gone) };
        match Footer::read(id, listed.size, &tail) {
            Ok(Tail::Footer(footer)) => {
                let size = listed.size;
                return Ok(Found::Pack(Box::new(Pack { id, footer, size })));
            }
            Ok(Tail::Longer(needed)) if needed > length => length = needed,
            Ok(Tail::Longer(_)) => {
                return Ok(Found::Aside("it is shorter than its footer says".to_owned()));
            }
            Err(why) => return Ok(Found::Aside(why)),
        }
    }
}
