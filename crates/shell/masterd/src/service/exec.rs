//! Commands that users run inside tasks: relayed from and to the task's machine, and recorded.
//!
//! Any replica relays. The response begins before the request is read, so a client that has sent its
//! command never sends it again, and it is never executed twice.

use std::sync::Arc;
use std::time::Duration;

use api::v1;
use api::v1::exec_in_task_request::Message as ToMachine;
use api::v1::exec_output::Output;
use api::v1::exec_request::Message;
use cell::{Cell, ExecEnd, Job, RecordExec, TaskState};
use model::{InstanceId, Span, TaskIndex};
use rpc::service::borglet_client::BorgletClient;
use rpc::transport::Permit;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::caller::Caller;
use crate::caller::tasks::may_touch;
use crate::reads::Reads;
use crate::reads::rejections::{no_such_task, rejected};
use crate::service::door::split;
use crate::service::machines::revoked;
use crate::service::tasks::Tasks;
use crate::service::{Answer, Streamed, gate};
use crate::streams::StreamHolder;

/// Pieces of output, and of input, that wait for a slow reader.
const QUEUE: usize = 4;
/// How long a client may take to send its first message, and a machine to start a command.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the record of an end is tried, and the pause between two attempts.
const RECORD_PATIENCE: Duration = Duration::from_secs(60);
const RECORD_PAUSE: Duration = Duration::from_millis(200);
/// The maximum length of a command in an event.
const SHOWN_CHARACTERS: usize = 200;

type ToClient = mpsc::Sender<Result<v1::ExecOutput, Status>>;

/// A command whose start is recorded.
struct Begun {
    record: RecordExec,
    at: Instant,
    client: BorgletClient<Channel>,
    start: v1::ExecInTaskStart,
    /// Whether the machine may still be believed.
    is_believed: Box<dyn Fn() -> bool + Send + Sync>,
    /// The task, for errors.
    name: String,
    _place: Permit<model::UserName>,
}

impl Tasks {
    /// For the owner of the job, administrators, and users with the capability.
    pub(super) async fn run(
        &self,
        request: Request<Streaming<v1::ExecRequest>>,
    ) -> Answer<Streamed<v1::ExecOutput>> {
        gate::led(&self.door.core).await?;
        let (requests, asks) = split(request);
        let caller = self.door.anyone(&asks).await?;
        let (to_client, stream) = mpsc::channel(QUEUE);
        let (tasks, by) = (self.clone(), caller.clone());
        tokio::spawn(async move {
            Box::pin(tasks.run_command(by, asks, requests, to_client)).await;
        });
        let stream: Streamed<_> = Box::pin(ReceiverStream::new(stream));
        Ok(self.door.while_accepted(caller, Response::new(stream)))
    }

    /// Runs a command to its end or that of its client, and records both ends of it.
    async fn run_command(
        self,
        by: Caller,
        asks: Request<()>,
        mut requests: Streaming<v1::ExecRequest>,
        to_client: ToClient,
    ) {
        // Not abandoned if the client goes away: the start may be recorded.
        let begun = match self.begin(&by, &asks, &mut requests).await {
            Ok(begun) => begun,
            Err(status) => return drop(to_client.send(Err(status)).await),
        };
        let (record, at) = (begun.record.clone(), begun.at);
        let status = relay(begun, requests, to_client).await;
        let took = Span(u64::try_from(at.elapsed().as_micros()).unwrap_or(u64::MAX));
        let record = RecordExec { end: Some(ExecEnd { took, status }), ..record };
        self.record_end(&by, record).await;
    }

    /// Checks a command and records its start.
    async fn begin(
        &self,
        by: &Caller,
        asks: &Request<()>,
        requests: &mut Streaming<v1::ExecRequest>,
    ) -> Result<Begun, Status> {
        let invalid = |why: &str| Status::invalid_argument(why.to_owned());
        let first = timeout(PATIENCE, requests.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("no start was sent"))??;
        let Some(Message::Start(start)) = first.and_then(|first| first.message) else {
            return Err(invalid("the first message is not a start"));
        };
        let execution = start.execution.ok_or_else(|| invalid("no command is given"))?;
        let index = TaskIndex(start.task);
        let mut view = self.door.core.view();
        // It may have started a moment ago, and this replica may not know it yet.
        let is_known = {
            let reads = Reads::of(&view, by);
            reads
                .find(&start.job.clone().unwrap_or_default())
                .is_ok_and(|job| placed(&view.cell, job, index).is_ok())
        };
        if !is_known {
            view = gate::newest(&self.door.core).await?;
        }
        let reads = Reads::of(&view, by);
        let job = reads.find(&start.job.unwrap_or_default())?;
        self.door.own(by, asks, || may_touch(&by.user, &job.owner, &job.spec.name))?;
        view.cell.may_exec(&by.user, job).map_err(|why| rejected(&view.cell, &why))?;
        let (instance, machine) = placed(&view.cell, job, index)?;
        let name = format!("{}/{}/{index}", job.owner, job.spec.name);
        let place =
            self.commands.begin(StreamHolder { user: &by.user, asker: by.asker(&view.cell) })?;
        let client = self
            .agents
            .client_for_command(machine)
            .map_err(|error| Status::aborted(error.to_string()))?;
        let (core, id, was) = (self.door.core.clone(), machine.id, revoked(machine));
        let is_believed = Box::new(move || core.view().cell.machine(id).map(revoked) == Some(was));
        let record = RecordExec { instance, command: shown(&execution.argv), end: None };
        let administrator = view.cell.is_administrator(&by.user);
        drop(view);
        let at = Instant::now();
        self.door.record(by, record.clone().into()).await?;
        let start = v1::ExecInTaskStart {
            instance: Some(instance.into()),
            execution: Some(execution),
            user: by.user.to_string(),
            administrator,
        };
        Ok(Begun { record, at, client, start, is_believed, name, _place: place })
    }

    /// Records the end of a command, also over a change of the leader.
    async fn record_end(&self, by: &Caller, record: RecordExec) {
        let until = Instant::now() + RECORD_PATIENCE;
        loop {
            match self.door.record(by, record.clone().into()).await {
                Ok(()) => return,
                Err(status)
                    if matches!(status.code(), Code::Unavailable | Code::ResourceExhausted)
                        && Instant::now() < until =>
                {
                    sleep(RECORD_PAUSE).await;
                }
                Err(status) => {
                    let (user, instance) = (&by.user, record.instance);
                    tracing::warn!(
                        "the end of a command of {user} in instance {instance} is not recorded: {}",
                        status.message()
                    );
                    return;
                }
            }
        }
    }
}

/// The incarnation of a task that runs, and its machine.
fn placed<'a>(
    cell: &'a Cell,
    job: &Job,
    index: TaskIndex,
) -> Result<(InstanceId, &'a Arc<cell::Machine>), Status> {
    let name = format!("{}/{}", job.owner, job.spec.name);
    if job.spec.kind.is_alloc_set() {
        return Err(Status::invalid_argument(format!(
            "{name} is an alloc set, which runs nothing itself: bourg status {name} shows the jobs \
             in it"
        )));
    }
    let Some(task) = job.task(index) else { return Err(no_such_task(job)) };
    let state = match &task.state {
        TaskState::Running(placement) => {
            let found = job.instance(index).zip(cell.machine(placement.machine));
            return found.ok_or_else(|| Status::aborted(format!("the machine of {name} is gone")));
        }
        TaskState::Queued { .. } if !job.is_behind_others() => "waits in the batch queue",
        TaskState::Queued { .. } => "waits for other jobs",
        TaskState::Pending { .. } => "is pending",
        TaskState::Dead { .. } => "has ended",
    };
    Err(Status::failed_precondition(format!(
        "{name}/{index} does not run, it {state}: bourg status {name} shows more"
    )))
}

/// Relays a command until it ends, its client is gone, or its machine is. Returns its exit status if
/// it ended by itself.
async fn relay(
    begun: Begun,
    mut requests: Streaming<v1::ExecRequest>,
    to_client: ToClient,
) -> Option<u8> {
    let Begun { mut client, start, is_believed, name, _place, .. } = begun;
    let (to_machine, stream) = mpsc::channel(QUEUE);
    let first = v1::ExecInTaskRequest { message: Some(ToMachine::Start(start)) };
    // The queue is empty.
    let _full = to_machine.try_send(first);
    let failed = |status: &Status| match status.code() {
        Code::FailedPrecondition | Code::InvalidArgument | Code::ResourceExhausted => {
            Status::new(status.code(), format!("{name}: {}", status.message()))
        }
        _ => Status::aborted(format!("{name}: {}", rpc::transport::explain(status))),
    };
    let started = tokio::select! {
        started = timeout(PATIENCE, client.exec_in_task(ReceiverStream::new(stream))) => started,
        () = to_client.closed() => return None,
    };
    let mut outputs = match started {
        Ok(Ok(response)) => response.into_inner(),
        Ok(Err(status)) => {
            let _gone = to_client.send(Err(failed(&status))).await;
            return None;
        }
        Err(_late) => {
            let late = format!("its machine did not start it within {} s", PATIENCE.as_secs());
            let _gone = to_client.send(Err(Status::aborted(format!("{name}: {late}")))).await;
            return None;
        }
    };
    // Ends with an error that is the client's fault; if the client is gone, the output's reader is, too.
    let inputs = async {
        while let Ok(Some(request)) = requests.message().await {
            let Some(Message::Input(input)) = request.message else {
                return Status::invalid_argument("a message is not an input");
            };
            let input = v1::ExecInTaskRequest { message: Some(ToMachine::Input(input)) };
            if to_machine.send(input).await.is_err() {
                break;
            }
        }
        std::future::pending().await
    };
    let relayed = async {
        while let Some(output) = outputs.next().await {
            if !is_believed() {
                return Err(Status::aborted("its machine was revoked: nothing more is relayed"));
            }
            let output = output.map_err(|status| failed(&status))?;
            let exited = match output.output {
                Some(Output::Exited(status)) => u8::try_from(status).ok(),
                _ => None,
            };
            let sent = to_client.send(Ok(output)).await;
            if exited.is_some() || sent.is_err() {
                return Ok(exited);
            }
        }
        Err(Status::aborted(format!("{name}: its machine ended the call")))
    };
    let ended = tokio::select! {
        ended = relayed => ended,
        wrong = inputs => Err(wrong),
        () = to_client.closed() => Ok(None),
    };
    match ended {
        Ok(status) => status,
        Err(status) => {
            let _gone = to_client.send(Err(status)).await;
            None
        }
    }
}

/// A command in an event: as it may be typed, without control characters, shortened.
fn shown(argv: &[String]) -> String {
    if argv.is_empty() {
        return "(shell)".to_owned();
    }
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=:,@%+".contains(c);
    let mut text = String::new();
    for word in argv {
        if !text.is_empty() {
            text.push(' ');
        }
        match !word.is_empty() && word.chars().all(is_plain) {
            true => text.push_str(word),
            false => {
                let word = word.replace('\'', "'\\''");
                let word = word.replace(char::is_control, "\u{fffd}");
                text.push_str(&format!("'{word}'"));
            }
        }
    }
    match text.chars().count() > SHOWN_CHARACTERS {
        true => text.chars().take(SHOWN_CHARACTERS - 1).chain(['…']).collect(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_in_a_line_as_it_may_be_typed() {
        let shown = |words: &[&str]| {
            shown(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(shown(&[]), "(shell)");
        assert_eq!(shown(&["ls", "-l", "/tmp"]), "ls -l /tmp");
        assert_eq!(shown(&["sh", "-c", "it's\n$x", ""]), "sh -c 'it'\\''s\u{fffd}$x' ''");
        let long = shown(&["x".repeat(1_000).as_str()]);
        assert_eq!(long.chars().count(), SHOWN_CHARACTERS);
    }
}
