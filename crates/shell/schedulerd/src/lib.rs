//! The scheduler's process: follows the master, runs passes, proposes what it plans.

mod arguments;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use cell::Cell;
use model::{InstanceId, Level, LogIndex, Time};
use process::clock::Clock;
use process::renewal::{self, Masters, Renewed};
use process::{notify, shutdown};
use proto::v1;
use rpc::service::scheduling_client::SchedulingClient;
use rpc::{Credentials, Expect, Role, Rotating};
use scheduler::{Plan, Scheduler};
use tonic::Streaming;
use tonic::transport::Channel;

pub use arguments::{SchedulerArgs, start};

/// How a scheduler is started.
#[derive(Clone, Debug)]
struct Options {
    /// Where its certificate is.
    pub(crate) credentials: PathBuf,
    /// The name of its files there.
    pub(crate) stem: String,
    /// Where the master's replicas answer: one of them at least.
    pub(crate) masters: Vec<String>,
}

/// The wait before a master that does not answer is asked again.
const RETRY: Duration = Duration::from_millis(100);
/// The wait after a refusal: the copy may have to catch up before the same plan makes sense.
const REFUSED_REST: model::Span = model::Span::from_millis(20);
/// How long a proposal may take.
const PROPOSAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a scheduler until it is told to stop.
fn run(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let credentials = Rotating::new(Credentials::read(&options.credentials, &options.stem)?)?;
        let files = (&*options.credentials, &*options.stem);
        let given = || Masters::new(options.masters.clone());
        let renewed = Renewed::new(&credentials, files, given(), false);
        let mut renewed = std::pin::pin!(renewed.run());
        let expect = Expect::Role(Role::Master);
        let client = |master: &String| {
            let channel = rpc::transport::connect(master, &credentials, &expect)?;
            let most = rpc::transport::MAX_STREAM_MESSAGE_BYTES;
            Ok::<_, rpc::Error>(SchedulingClient::new(channel).max_decoding_message_size(most))
        };
        // An address that is none is said at once.
        options.masters.iter().try_for_each(|master| client(master).map(drop))?;
        let mut stop = std::pin::pin!(async {
            shutdown::requested().await;
            notify::stopping();
        });
        let mut masters = given();
        let mut copy: Option<Scheduler> = None;
        // One that is lost, or knows of no leader, is left for the next.
        for turn in 0_usize.. {
            let all = masters.all();
            let master = all.get(turn % all.len().max(1)).context("no master is given")?;
            // Dialled anew each time: a connection is good for as long as the certificate that it
            // began with.
            let followed = async { follow(client(master)?, &mut copy).await };
            tokio::select! {
                () = &mut stop => break,
                never = &mut renewed => match never {},
                ended = followed => {
                    let Err(error) = ended;
                    tracing::info!("{error:#}: the master is followed anew");
                }
            }
            // Its copy says where the replicas are that came since.
            if let Some(lost) = copy.take() {
                masters.told(renewal::addresses(lost.cell()));
            }
            tokio::select! {
                () = &mut stop => break,
                never = &mut renewed => match never {},
                () = tokio::time::sleep(RETRY) => {}
            }
        }
        Ok(())
    })
}

/// What a proposal gave: the instances it was about, and the answer.
type Judged = (Vec<InstanceId>, Result<v1::ProposeResponse, tonic::Status>);

/// Follows the master with a copy until it is lost.
async fn follow(
    mut client: SchedulingClient<Channel>,
    copy: &mut Option<Scheduler>,
) -> anyhow::Result<std::convert::Infallible> {
    let explained = |status: tonic::Status| anyhow::anyhow!(rpc::transport::explain(&status));
    let mut stream = client.follow(v1::FollowRequest {}).await.map_err(explained)?.into_inner();
    // The cell's clock is the master's: ours, which may be set otherwise, only counts on from it.
    let (cell, mut clock) = first_copy(&mut stream).await?;
    let scheduler = copy.insert(Scheduler::new(cell));
    notify::ready();
    tracing::info!("follows the master from index {}", scheduler.cell().index());
    let mut proposal = None;
    let mut next = None;
    let mut rest_until = clock.now();
    loop {
        if proposal.is_none() && clock.now() < rest_until {
            next = Some(next.map_or(rest_until, |next: Time| next.min(rest_until)));
        } else if proposal.is_none() {
            let plan = scheduler.pass(clock.now());
            next = plan.next;
            if !plan.assignments.is_empty() {
                tracing::debug!("proposes {} at {}", plan.assignments.len(), plan.made_at);
                proposal = Some(Box::pin(propose(client.clone(), plan)));
            }
        }
        // Nothing is due before a proposal is judged: what is overdue by then would be so at once, and
        // again.
        let due = next.filter(|_| proposal.is_none()).map(|next: Time| clock.instant(next));
        tokio::select! {
            message = stream.message() => {
                apply(scheduler, &mut clock, message.map_err(explained)?)?;
                // Whatever else is there already belongs to the same pass.
                while let Some(message) = ready(&mut stream).await {
                    apply(scheduler, &mut clock, message.map_err(explained)?)?;
                }
            }
            judged = async { match &mut proposal {
                Some(proposal) => proposal.await,
                None => std::future::pending().await,
            } } => {
                proposal = None;
                if let Err(status) = &judged.1 {
                    let lost = [tonic::Code::Unavailable, tonic::Code::Unauthenticated];
                    anyhow::ensure!(
                        !lost.contains(&status.code()),
                        "a proposal was not judged: {}",
                        rpc::transport::explain(status)
                    );
                }
                if settle(scheduler, judged) {
                    rest_until = clock.now() + REFUSED_REST;
                }
            }
            () = async { match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            } } => {}
        }
    }
}

/// The cell as it is, and its clock.
async fn first_copy(stream: &mut Streaming<v1::Followed>) -> anyhow::Result<(Cell, Clock)> {
    let mut image = Vec::new();
    let time = loop {
        let message = stream.message().await?.context("the master ended the stream")?;
        match message.what {
            Some(v1::followed::What::Image(piece)) => image.extend_from_slice(&piece),
            Some(v1::followed::What::ImageComplete(_)) => break Time(message.time),
            _ => anyhow::bail!("an operation came before the image was complete"),
        }
    };
    let mut clock = Clock::showing(time);
    let cell = Cell::from_image(proto::image::read_image(&image)?)?;
    clock.advance_to(cell.time());
    Ok((cell, clock))
}

/// The next message, if it is there already.
async fn ready(
    stream: &mut Streaming<v1::Followed>,
) -> Option<Result<Option<v1::Followed>, tonic::Status>> {
    let mut message = std::pin::pin!(stream.message());
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match message.as_mut().poll(context) {
            std::task::Poll::Ready(message) => Some(message),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

fn apply(
    scheduler: &mut Scheduler,
    clock: &mut Clock,
    message: Option<v1::Followed>,
) -> anyhow::Result<()> {
    let message = message.unwrap_or_default();
    let Some(v1::followed::What::Committed(committed)) = message.what else {
        anyhow::bail!("the master ended the stream");
    };
    clock.advance_to(Time(message.time));
    let expected = LogIndex(scheduler.cell().index().0 + 1);
    anyhow::ensure!(
        committed.index == expected.0,
        "record {} came where {expected} was expected",
        committed.index
    );
    if committed.record.is_empty() {
        scheduler.follow(scheduler.cell().time(), &cell::Op::Nothing);
        return Ok(());
    }
    anyhow::ensure!(
        cell::has_level(Level(committed.level)),
        "record {} needs level {}, this program knows {}: start a newer scheduler",
        committed.index,
        committed.level,
        cell::LEVEL
    );
    let (at, op) = proto::log::decode_record(&committed.record)?;
    scheduler.follow(at, &op);
    clock.advance_to(scheduler.cell().time());
    Ok(())
}

async fn propose(mut client: SchedulingClient<Channel>, plan: Plan) -> Judged {
    let instances = plan.assignments.iter().map(|assignment| assignment.instance).collect();
    let mut request = tonic::Request::new(v1::ProposeRequest {
        made_at: plan.made_at.0,
        assignments: plan.assignments.iter().map(Into::into).collect(),
    });
    request.set_timeout(PROPOSAL_TIMEOUT);
    (instances, client.propose(request).await.map(tonic::Response::into_inner))
}

/// Whether anything was refused. One by one, that is for the copy to show: until it has come as far
/// as the master was, the same plan would be refused for the same reason.
fn settle(scheduler: &mut Scheduler, (instances, judged): Judged) -> bool {
    match judged {
        Ok(judged) => {
            for (instance, cause) in instances.iter().zip(&judged.refused) {
                if !cause.is_empty() {
                    tracing::info!("{instance} was refused: {cause}");
                }
            }
            judged.refused.iter().any(|cause| !cause.is_empty())
        }
        Err(status) => {
            tracing::warn!("a proposal failed: {}", rpc::transport::explain(&status));
            scheduler.not_judged(instances);
            true
        }
    }
}
