//! Readers of names that move from replica to replica, while the job that they follow grows and
//! shrinks. What a reader has is always what the cell was at the index that it has heard.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::v1;
use rpc::service::names_client::NamesClient;
use rpc::{Expect, Role, Rotating};
use tonic::Code;
use tonic::transport::Channel;

use super::clients::{ATTEMPT, Caller, Outcome, Shared, USUAL, description};
use super::world::endpoint;
use crate::random::Random;

/// The job.
const JOB: &str = "named";
/// The most tasks that it has.
const TASKS: u64 = 4;
/// For how long a reader stays with a replica.
const STAY_MS: u64 = 1_500;

/// A client that resizes the job.
pub(crate) async fn resizer(shared: Arc<Shared>, mut random: Random) {
    let mut caller = Caller::new(&shared);
    while shared.goes_on() {
        let Some(id) = caller.request_id().await else { continue };
        let cmd = ["sleep", "1d"].map(str::to_owned).to_vec();
        let spec = v1::JobSpec { cmd, cpu_milli: 10, ..description(JOB, 0) };
        let request = v1::SubmitRequest { id: Some(id), spec: Some(spec) };
        let done = caller
            .ask(USUAL, request, async |mut client, request| client.jobs.submit(request).await);
        match done.await {
            Outcome::Done(_) => break,
            Outcome::Refused(status) if status.code() == Code::AlreadyExists => break,
            Outcome::Refused(status) => shared.is_wrong(format!("{JOB}: {}", status.message())),
            Outcome::Unknown => {}
        }
    }
    while shared.goes_on() {
        tokio::time::sleep(Duration::from_millis(random.below(600))).await;
        let Some(id) = caller.request_id().await else { continue };
        let tasks = u32::try_from(1 + random.below(TASKS)).expect("few");
        let resize = v1::update_request::Resize { job: JOB.to_owned(), tasks };
        let request = v1::UpdateRequest {
            id: Some(id),
            change: Some(v1::update_request::Change::Resize(resize)),
            ..v1::UpdateRequest::default()
        };
        let done = caller
            .ask(USUAL, request, async |mut client, request| client.updates.open(request).await);
        match done.await {
            Outcome::Done(_) => shared.count("resize", "acknowledged"),
            Outcome::Refused(status) => {
                shared.is_wrong(format!("{JOB} is not resized: {}", status.message()));
            }
            Outcome::Unknown => shared.count("resize", "not known"),
        }
    }
}

/// A client that follows the job's names, now at one replica and now at another, and compares what it
/// has with the past of the cell.
pub(crate) async fn reader(shared: Arc<Shared>, mut random: Random) {
    let clients = clients(&shared);
    let mut reader = Reader { index: 0, record: None };
    let mut compared = 0;
    while !shared.ends() {
        let mut client = clients[random.below_usize(clients.len())].clone();
        let stays = Duration::from_millis(random.below(STAY_MS));
        reader.follow(&shared, &mut client, stays).await;
        let mut other = clients[random.below_usize(clients.len())].clone();
        if let Some(truth) = at(&mut other, reader.index).await {
            compared += 1;
            shared.count("names of a reader", "compared");
            let has = reader.record.clone().map(|record| as_shown(&record));
            if has != truth.as_ref().map(as_shown) {
                let index = reader.index;
                shared.is_wrong(format!("at index {index} a reader has {has:?}, not {truth:?}"));
                return;
            }
        }
    }
    if compared == 0 {
        shared.is_wrong("what a reader of names has could never be compared".to_owned());
    }
}

fn clients(shared: &Shared) -> Vec<NamesClient<Channel>> {
    let credentials = Rotating::new(shared.user.clone()).expect("a certificate");
    let client = |host: &_| {
        let expect = Expect::Role(Role::Master);
        let channel = rpc::transport::connect(&endpoint(*host), &credentials, &expect);
        NamesClient::new(channel.expect("an address"))
    };
    shared.places.iter().map(client).collect()
}

fn query() -> Option<v1::NameQuery> {
    let job = v1::JobAddress { user: String::new(), job: JOB.to_owned() };
    Some(v1::NameQuery { jobs: vec![job], labels: String::new() })
}

/// What a record says of the job: since when is not compared, because a reader of changes may know an
/// earlier operation.
fn as_shown(record: &v1::NameRecord) -> v1::NameRecord {
    v1::NameRecord { changed: 0, ..record.clone() }
}

/// The record as of an index, if the replica can tell.
async fn at(client: &mut NamesClient<Channel>, index: u64) -> Option<Option<v1::NameRecord>> {
    let at = Some(v1::Moment { at: Some(v1::moment::At::Index(index)) });
    let asked = client.get(v1::GetNamesRequest { query: query(), at });
    let answer = tokio::time::timeout(ATTEMPT, asked).await.ok()?.ok()?.into_inner();
    (index > 0 && answer.index == index).then(|| answer.records.into_iter().next())
}

/// What a reader has.
struct Reader {
    /// The index as of which its record is true.
    index: u64,
    record: Option<v1::NameRecord>,
}

impl Reader {
    /// Goes on with the watch at a replica for a while.
    async fn follow(
        &mut self,
        shared: &Shared,
        client: &mut NamesClient<Channel>,
        stays: Duration,
    ) {
        let until = Instant::now() + stays;
        let left = || until.saturating_duration_since(Instant::now());
        let request = v1::WatchNamesRequest { query: query(), after: self.index };
        let watched = tokio::time::timeout(ATTEMPT, client.watch(request)).await;
        let mut changes = match watched {
            Ok(Ok(changes)) => changes.into_inner(),
            Ok(Err(status)) if status.code() == Code::OutOfRange => {
                shared.is_wrong(format!("no replica was restored, and: {}", status.message()));
                return;
            }
            Ok(Err(_)) | Err(_) => return,
        };
        // What belongs to an index that is not complete is not kept.
        let mut record = self.record.clone();
        while let Ok(Ok(Some(change))) = tokio::time::timeout(left(), changes.message()).await {
            if change.index < self.index {
                let (index, after) = (change.index, self.index);
                shared.is_wrong(format!("names after {after} are answered as of {index}"));
            }
            if change.complete || !change.gone.is_empty() {
                record = None;
            }
            record = change.records.into_iter().next().or(record);
            if !change.more {
                (self.index, self.record) = (change.index, record.clone());
            }
        }
    }
}
