//! Reads of past moments. A master does not rebuild them itself: it starts a child process that
//! reads its data directory, without a lock and without changing anything, rebuilds the cell as it
//! was, and answers one question (design, section 3). So a question about the past costs the
//! serving process neither memory nor time, and its failure affects nothing else.
//!
//! The child writes its answers one after the other, each preceded by its length in four bytes,
//! little-endian. Each question has one answer, except for a checkpoint, which is sent in pieces.

use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use api::v1;
use api::v1::moment::At;
use api::v1::past_answer::{Answer, Refused};
use api::v1::past_question::Question;
use cell::Cell;
use checkpoint::Origin;
use model::{Level, LogIndex, Term, Time, UserName};
use prost::Message;
use rpc::transport::{Permit, Turn, Turns};
use store::history::{History, Start};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdout};
use tokio::sync::mpsc;
use tonic::{Code, Status};

use crate::chunks;
use crate::reads::Reads;
use crate::streams::{StreamHolder, Streams};

/// The name of the hidden command that the child runs.
pub const COMMAND: &str = "answer-from-the-past";
/// The timeout for an answer.
const TIME_MAX: Duration = Duration::from_secs(60);
/// The maximum number of moments that are rebuilt at once, one for each user.
const AT_ONCE: usize = 2;
/// The maximum number of moments that are rebuilt or wait for their turn, shared by users.
const WAITING_MAX: usize = 64;
/// The maximum length of an answer.
const ANSWER_BYTES_MAX: u32 = 256 << 20;

/// Answers questions about the past.
#[derive(Clone)]
pub(super) struct Past {
    directory: PathBuf,
    waiting: Streams,
    turns: Turns<UserName>,
}

/// A turn to rebuild a moment, until it is dropped.
pub(super) struct Rebuilding {
    _waiting: Permit<UserName>,
    _turn: Turn<UserName>,
}

impl Past {
    /// For a data directory.
    pub(super) fn of(directory: &Path) -> Self {
        let waiting = Streams::new("read-past-moments", WAITING_MAX);
        Self { directory: directory.to_owned(), waiting, turns: Turns::new(AT_ONCE) }
    }

    /// The limits on those who wait or have a turn.
    pub(super) fn waiting(&self) -> &Streams {
        &self.waiting
    }

    /// Waits for a turn of a user to read the past.
    pub(super) async fn turn(&self, holder: StreamHolder<'_>) -> Result<Rebuilding, Status> {
        let waiting = self.waiting.begin(holder)?;
        let turn = tokio::time::timeout(TIME_MAX, self.turns.of(holder.user)).await;
        let turn = turn.map_err(|_| {
            Status::resource_exhausted(
                "other questions about the past have taken all the time: try again later",
            )
        })?;
        Ok(Rebuilding { _waiting: waiting, _turn: turn })
    }

    /// Answers a question about a moment.
    pub(super) async fn ask(
        &self,
        _turn: Rebuilding,
        question: v1::PastQuestion,
    ) -> Result<Answer, Status> {
        let answered = async {
            let (mut child, mut answers) = self.child(&question).await?;
            let answer = next(&mut answers).await?;
            ended(&mut child).await?;
            Ok(answer)
        };
        let answer = in_time(answered).await?;
        answered_or_refused(answer)
    }

    /// Requests the pieces of a checkpoint, and sends each one as soon as it arrives.
    pub(super) async fn pieces(
        &self,
        user: &UserName,
        newest: LogIndex,
        at: v1::Moment,
        to_client: &mpsc::Sender<Result<v1::SaveCheckpointResponse, Status>>,
    ) -> Result<(), Status> {
        let asked = Question::Checkpoint(v1::SaveCheckpointRequest { at: Some(at) });
        let (user, newest) = (user.to_string(), newest.0);
        let question = v1::PastQuestion {
            user,
            at: Some(at),
            newest,
            question: Some(asked),
            administers_jobs: false,
        };
        let (mut child, mut answers) = in_time(self.child(&question)).await?;
        while let Some(answer) = in_time(next(&mut answers)).await? {
            match answered_or_refused(Some(answer))? {
                Answer::Checkpoint(piece) => {
                    if !chunks::send(to_client, piece).await {
                        return Ok(());
                    }
                }
                _ => return Err(Status::internal("not a piece of a checkpoint")),
            }
        }
        in_time(ended(&mut child)).await
    }

    /// The process that answers a question, and the stream of its answers.
    async fn child(&self, question: &v1::PastQuestion) -> anyhow::Result<(Child, ChildStdout)> {
        // The running program, even if the file was replaced since.
        let mut child = tokio::process::Command::new("/proc/self/exe")
            .arg0("bourg")
            .arg(COMMAND)
            .arg(&self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start a process of this program")?;
        let mut asks = child.stdin.take().context("the child has no stdin")?;
        asks.write_all(&question.encode_to_vec()).await?;
        let answers = child.stdout.take().context("the child has no stdout")?;
        Ok((child, answers))
    }
}

async fn in_time<T>(work: impl Future<Output = anyhow::Result<T>>) -> Result<T, Status> {
    let done = tokio::time::timeout(TIME_MAX, work).await.map_err(|_| {
        let seconds = TIME_MAX.as_secs();
        Status::deadline_exceeded(format!(
            "the state at that moment was not rebuilt within {seconds} s"
        ))
    })?;
    done.map_err(|error| Status::internal(format!("cannot read past states: {error:#}")))
}

/// The child's next answer; `None` after the last one.
async fn next(answers: &mut ChildStdout) -> anyhow::Result<Option<v1::PastAnswer>> {
    let length = match answers.read_u32_le().await {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        length => length?,
    };
    anyhow::ensure!(length <= ANSWER_BYTES_MAX, "an answer of {length} bytes is too long");
    let mut bytes = Vec::new();
    answers.take(length.into()).read_to_end(&mut bytes).await?;
    anyhow::ensure!(bytes.len() as u64 == u64::from(length), "an answer is cut off");
    Ok(Some(v1::PastAnswer::decode(bytes.as_slice())?))
}

async fn ended(child: &mut Child) -> anyhow::Result<()> {
    let status = child.wait().await?;
    anyhow::ensure!(status.success(), "the process that reads it ended with {status}");
    Ok(())
}

fn answered_or_refused(answer: Option<v1::PastAnswer>) -> Result<Answer, Status> {
    match answer.and_then(|answer| answer.answer) {
        Some(Answer::Refused(Refused { code, message })) => {
            Err(Status::new(Code::from_i32(code), message))
        }
        Some(answer) => Ok(answer),
        None => Err(Status::internal("no answer from the process that reads the past")),
    }
}

/// The child's work: reads a question and answers it.
pub fn answer(directory: &Path) -> anyhow::Result<()> {
    let mut question = Vec::new();
    std::io::stdin().lock().read_to_end(&mut question)?;
    let question = v1::PastQuestion::decode(question.as_slice())?;
    let answer = match answered(directory, question) {
        Ok(Answered::Whole(answer)) => *answer,
        Ok(Answered::Pieces(cell, origin)) => {
            return chunks::pieces(&cell, origin, |piece| {
                say(Answer::Checkpoint(v1::SaveCheckpointResponse { piece: Some(piece) }))
            });
        }
        Err(status) => {
            let (code, message) = (i32::from(status.code()), status.message().to_owned());
            Answer::Refused(Refused { code, message })
        }
    };
    say(answer)
}

fn say(answer: Answer) -> anyhow::Result<()> {
    let answer = v1::PastAnswer { answer: Some(answer) }.encode_to_vec();
    let length = u32::try_from(answer.len()).context("an answer is too long")?;
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&length.to_le_bytes())?;
    stdout.write_all(&answer)?;
    Ok(stdout.flush()?)
}

/// The kind of answer.
enum Answered {
    Whole(Box<Answer>),
    /// The pieces of this cell.
    Pieces(Box<Cell>, Origin),
}

fn answered(directory: &Path, asked: v1::PastQuestion) -> Result<Answered, Status> {
    let invalid = |what: &str| Status::invalid_argument(what.to_owned());
    let user = UserName::new(&asked.user).map_err(|error| invalid(&error.to_string()))?;
    let at = asked.at.and_then(|moment| moment.at).ok_or_else(|| invalid("no moment"))?;
    let (cell, origin) = rebuild(directory, &at, LogIndex(asked.newest))?;
    let now = match at {
        At::Time(time) => Time(time),
        At::Index(_) => cell.time(),
    };
    let administers_jobs = asked.administers_jobs;
    let reads = Reads { cell: &cell, now, me: &user, administers_jobs };
    let answer = match asked.question.ok_or_else(|| invalid("no question"))? {
        Question::Status(asked) => Answer::Status(reads.status(&asked)?),
        Question::Why(asked) => Answer::Why(reads.why(&asked, &Default::default())?),
        Question::Queue(asked) => Answer::Queue(reads.queue(&asked)?),
        Question::Machines(asked) => Answer::Machines(reads.machines(&asked)?),
        Question::Users(_) => Answer::Users(reads.users()),
        Question::Quota(asked) => Answer::Quota(reads.quota(&asked)?),
        Question::Capabilities(asked) => Answer::Capabilities(reads.capabilities(&asked)),
        Question::Secrets(_) => Answer::Secrets(reads.secrets()),
        Question::Packages(asked) => Answer::Packages(reads.packages(&asked)?),
        Question::Services(asked) => Answer::Services(reads.services(asked)?),
        Question::Names(asked) => Answer::Names(reads.names(asked)?),
        Question::Cell(asked) => Answer::Cell(v1::CellStatusResponse {
            term: origin.term.0,
            violations: cell.check().len() as u64,
            ..reads.cell_status(asked.state_hash)
        }),
        Question::Checkpoint(_) => return Ok(Answered::Pieces(Box::new(cell), origin)),
    };
    Ok(Answered::Whole(Box::new(answer)))
}

/// The cell as it was at a moment.
pub fn rebuild(directory: &Path, at: &At, newest: LogIndex) -> Result<(Cell, Origin), Status> {
    let history = History::of_data_directory(directory).map_err(refused)?;
    let index = match at {
        At::Index(index) => *index,
        // A time after the last operation means the state that it left.
        At::Time(time) => history.last_at(*time, time_of).map_err(refused)?.min(newest.0),
    };
    if index > newest.0 {
        return Err(Status::out_of_range(format!(
            "index {index} is not there yet: the newest is {newest}"
        )));
    }
    let mut failed = None;
    for start in history.starts(index).map_err(refused)? {
        match from(&history, &start) {
            Ok(rebuilt) => return Ok(rebuilt),
            Err(error) => failed = Some(error),
        }
    }
    let failed = failed.unwrap_or_else(|| anyhow::anyhow!("there is no checkpoint before it"));
    Err(Status::data_loss(format!("the cell as of index {index} cannot be rebuilt: {failed:#}")))
}

fn from(history: &History, start: &Start<'_>) -> anyhow::Result<(Cell, Origin)> {
    let (mut cell, mut origin) = match start.checkpoint {
        Some(checkpoint) => checkpoint::read(&checkpoint.path)?,
        None => (Cell::empty(), Origin::default()),
    };
    history.for_each(start.records.clone(), |record| {
        let (index, level) = (record.index, record.level);
        anyhow::ensure!(index == cell.index().0 + 1, "a record before {index} is missing");
        anyhow::ensure!(
            record.payload.is_empty() || cell::has_level(Level(level)),
            "record {index} needs level {level}, and this build has up to {}: use a newer bourg",
            cell::LEVEL
        );
        let (at, op) = match record.payload {
            [] => (cell.time(), cell::Op::Nothing),
            payload => formats::log::decode_record(payload)?,
        };
        cell.apply(at, &op);
        origin.term = Term(record.term);
        Ok::<(), anyhow::Error>(())
    })?;
    let (has, wanted) = (cell.index(), start.records.end());
    anyhow::ensure!(has.0 == *wanted, "the log ends with {has}, and not with {wanted}");
    Ok((cell, origin))
}

/// The time of a record; the entry with which a leader begins its term has none.
fn time_of(record: store::log::Record<'_>) -> Result<Option<u64>, store::Error> {
    Ok(formats::log::record_time(record.payload).map(|time| time.0))
}

fn refused(error: store::Error) -> Status {
    match error {
        store::Error::TooEarly { .. } | store::Error::NotYet { .. } => {
            Status::out_of_range(error.to_string())
        }
        error => Status::data_loss(error.to_string()),
    }
}
