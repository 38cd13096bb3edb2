//! Clients whose histories are not checked: one runs jobs, one makes small changes all the time,
//! one makes logs grow, and one compares the replicas.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::v1;

use super::clients::{
    ATTEMPT, Caller, ClientSettings, Outcome, Probe, Shared, USUAL, description, start,
};
use super::network::Host;
use super::starts::counted;
use crate::jobs;

/// A client whose jobs run and end, each of their tasks once.
pub(crate) async fn runner(shared: Arc<Shared>) {
    let mut caller = Caller::new(&shared);
    for number in 0.. {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let submits = shared.goes_on();
        if submits && let Some(id) = caller.request_id().await {
            submit_one_that_runs(&shared, &mut caller, number, id).await;
        }
        let outstanding = shared.state().ran.clone();
        for job in outstanding {
            if has_run(&shared, &mut caller, &job).await {
                let mut state = shared.state();
                state.ran.retain(|other| *other != job);
                *state.counts.entry(("job that runs", "finished")).or_default() += 1;
            }
        }
        if !submits && shared.state().ran.is_empty() {
            return;
        }
    }
}

async fn submit_one_that_runs(
    shared: &Arc<Shared>,
    caller: &mut Caller,
    number: u32,
    id: v1::RequestId,
) {
    let job = format!("run-{number}");
    // Every other one needs a certificate of a master, whichever there are by now.
    let spec = v1::JobSpec {
        tasks: 2,
        cmd: counted("sleep 0.3"),
        cpu_milli: 10,
        api: number.is_multiple_of(2),
        ..description(&job, 0)
    };
    let request = v1::SubmitRequest { id: Some(id), spec: Some(spec) };
    let done =
        caller.ask(USUAL, request, async |mut client, request| client.jobs.submit(request).await);
    match done.await {
        Outcome::Done(_) => {
            shared.count("job that runs", "acknowledged");
            shared.state().ran.push(job);
        }
        Outcome::Refused(status) => shared.is_wrong(format!("{job}: {}", status.message())),
        Outcome::Unknown => shared.count("job that runs", "not known"),
    }
}

/// Whether an acknowledged job has finished.
async fn has_run(shared: &Arc<Shared>, caller: &mut Caller, job: &str) -> bool {
    let address = v1::JobAddress { user: String::new(), job: job.to_owned() };
    let request =
        v1::StatusRequest { jobs: vec![address], tasks: true, ..v1::StatusRequest::default() };
    let how = ClientSettings { consistent: true, ..USUAL };
    let answer = caller
        .ask(how, request, async |mut client, request| client.jobs.status(request).await)
        .await;
    let jobs = match answer {
        Outcome::Done(found) => found.jobs,
        Outcome::Refused(status) => {
            shared.is_wrong(format!("{job} was acknowledged: {}", status.message()));
            return true;
        }
        Outcome::Unknown => return false,
    };
    let finished = |found: &&v1::JobStatus| found.state() == v1::JobState::Finished;
    let Some(found) = jobs.first().filter(finished) else { return false };
    for task in &found.tasks {
        shared.state().finished.push(format!("{job}/{}", task.index));
        // If a Borglet was killed before it had started anything, there is another incarnation.
        if task.generation > 1 {
            shared.count("task that runs", "given another incarnation");
        }
    }
    true
}

/// The number of requests of 3 MB that exceed the room of a log.
const LARGE: u32 = 24;

/// A client whose requests are large and rejected, while logs are to grow: each is a record, and
/// changes nothing.
pub(crate) async fn grower(shared: Arc<Shared>) {
    let mut caller = Caller::new(&shared);
    let mut left = LARGE;
    while shared.goes_on() {
        let grows = shared.is_growing();
        left = if grows { left.saturating_sub(1) } else { LARGE };
        if left == 0 || !grows {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        }
        // The program of a live job cannot change.
        for cmd in [vec!["true".to_owned()], vec!["false".to_owned()]] {
            let Some(id) = caller.request_id().await else { continue };
            let mut spec = description("large", 0);
            if cmd[0] == "false" {
                jobs::lengthen(&mut spec);
            }
            spec.cmd = cmd;
            let request = v1::SubmitRequest { id: Some(id), spec: Some(spec) };
            let how = ClientSettings { attempt: Duration::from_secs(2), ..USUAL };
            let done = caller
                .ask(how, request, async |mut client, request| client.jobs.submit(request).await);
            let outcome = match done.await {
                Outcome::Done(_) => "acknowledged",
                Outcome::Refused(_) => "refused, as it has to be",
                Outcome::Unknown => "not known",
            };
            shared.count("a large change in vain", outcome);
        }
    }
}

/// Compares the replicas: the state of one at an index must be that of another at the same index.
pub(crate) async fn compare(shared: Arc<Shared>) {
    let mut caller = Caller::new(&shared);
    let mut compared = 0;
    while !shared.ends() {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let Some((one, status)) = state(&mut caller, None).await else { continue };
        let (index, digest) = (status.index, status.state_hash);
        if status.violations > 0 {
            shared.is_wrong(format!("the cell contradicts itself at index {index}"));
        }
        // If the other is behind, or has dropped that history, there is nothing to compare.
        let Some((other, past)) = state(&mut caller, Some(index)).await else { continue };
        if other == one || past.index != index {
            continue;
        }
        compared += 1;
        shared.count("index of two replicas", "compared");
        if past.state_hash != digest {
            shared.is_wrong(format!("replicas differ at index {index}"));
        }
    }
    if compared == 0 {
        shared.is_wrong("no two replicas could be compared".to_owned());
    }
}

/// The state of the next replica that answers, now or at an index, and which replica it is.
async fn state(caller: &mut Caller, at: Option<u64>) -> Option<(usize, v1::CellStatusResponse)> {
    caller.turns();
    let at = at.map(|index| v1::Moment { at: Some(v1::moment::At::Index(index)) });
    let (how, asked) = (
        ClientSettings { patience: ATTEMPT, ..USUAL },
        v1::CellStatusRequest { at, state_hash: true },
    );
    let answer =
        caller.ask(how, asked, async |mut client, request| client.cell.status(request).await).await;
    match answer {
        Outcome::Done(status) => Some((caller.at, status)),
        Outcome::Refused(_) | Outcome::Unknown => None,
    }
}

/// Makes a small change every tenth of a second.
pub(crate) async fn probe(shared: Arc<Shared>) {
    let mut first = Caller::new(&shared);
    let mut number: u64 = 0;
    let good = Rc::new(Cell::new(0));
    let mut interval = tokio::time::interval(Duration::from_millis(100));
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while shared.goes_on() {
        interval.tick().await;
        let Some(id) = first.request_id().await else { continue };
        number += 1;
        let set = [("probe".to_owned(), number.to_string())].into();
        let change = v1::change_machine_request::SetAttributes { set, unset: Vec::new() };
        let request = v1::ChangeMachineRequest {
            id: Some(id),
            machine: "m21".to_owned(),
            change: Some(v1::change_machine_request::Change::SetAttributes(change)),
        };
        let mut caller = first.beside(good.get());
        let good = Rc::clone(&good);
        tokio::task::spawn_local(async move {
            let at = caller.shared.began.elapsed();
            let begun = Instant::now();
            let attempt = Duration::from_millis(250);
            let how =
                ClientSettings { consistent: false, attempt, patience: Duration::from_secs(1) };
            let done = caller.ask(how, request, async |mut client, request| {
                client.machines.change(request).await
            });
            let took = match done.await {
                Outcome::Done(_) => Some(begun.elapsed()),
                Outcome::Refused(_) | Outcome::Unknown => None,
            };
            good.set(caller.at);
            caller.shared.state().probes.push(Probe { at, took });
        });
    }
    // The last ones may be answered or not.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
}

/// Whether all replicas are up to date and equal. Equality at equal indexes is checked all the
/// time.
pub(crate) fn agree(shared: &Arc<Shared>, hosts: impl Iterator<Item = Host>) -> bool {
    let place = |host| shared.places.iter().position(|place| *place == host);
    let places: Vec<usize> = hosts.filter_map(place).collect();
    let (told, heard) = std::sync::mpsc::channel();
    let asks = start(shared, async move |shared| {
        let mut caller = Caller::new(&shared);
        for place in places {
            caller.at = place;
            let how = ClientSettings { patience: ATTEMPT, ..USUAL };
            let asked = v1::CellStatusRequest { at: None, state_hash: true };
            let answer = caller
                .ask(how, asked, async |mut client, request| client.cell.status(request).await)
                .await;
            let said = match answer {
                Outcome::Done(status) if caller.at == place => {
                    Some((status.index, status.state_hash))
                }
                _ => None,
            };
            let _asker_is_gone = told.send(said);
        }
    });
    asks.join().expect("a client does not panic");
    let said: Vec<_> = heard.iter().collect();
    said.iter().all(|one| one.is_some() && *one == said[0])
}
