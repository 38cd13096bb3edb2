//! Conversions of the messages between replicas: `replication.proto`.
//!
//! A snapshot's message does not contain the cell: the cell follows in chunks, and the receiver
//! adds it back once it has all of them ([`message`]).

use std::sync::Arc;

use cell::{Cell, Op};
use master::{Reachability, Second, Spread};
use model::{DirectoryId, Level, LogIndex, MachineId, ReplicaId, RestoreEpoch, Term};
use replica::{Body, Consensus, ConsensusKind, LogEntry, Message, Snapshot};

use api::{At, Fault, Malformed};

use crate::v1;
use v1::replica_message::{self as wire, Kind};

impl From<&Message> for v1::ReplicaMessage {
    fn from(message: &Message) -> Self {
        let body = match &message.body {
            Body::Consensus(consensus) => wire::Body::Consensus((&**consensus).into()),
            Body::Heard { proposals, reachabilities } => {
                wire::Body::Heard(heard(proposals, reachabilities))
            }
            Body::Active(spread) => wire::Body::Active((&**spread).into()),
            Body::BeginAnew(machines) => {
                let machines = machines.iter().map(|machine| machine.0).collect();
                wire::Body::BeginAnew(wire::BeginAnew { machines })
            }
            Body::Describe { address, level } => wire::Body::Describe(wire::Description {
                address: address.to_string(),
                level: level.0,
            }),
        };
        Self {
            from: message.from.0,
            to: message.to.0,
            restore_epoch: message.restore_epoch.counter,
            restore_random: message.restore_epoch.random,
            body: Some(body),
            directory: message.directory.0,
        }
    }
}

impl TryFrom<v1::ReplicaMessage> for Message {
    type Error = Malformed;

    fn try_from(message: v1::ReplicaMessage) -> Result<Self, Malformed> {
        self::message(message, None)
    }
}

/// Converts a message; `cell` is the cell that followed it if it is a snapshot.
///
/// # Errors
/// When this build does not know the message, or its cell is missing.
pub fn message(message: v1::ReplicaMessage, cell: Option<Cell>) -> Result<Message, Malformed> {
    let body = match message.body.ok_or(Fault::UnknownKind).field("body")? {
        wire::Body::Consensus(message) => {
            Body::Consensus(Box::new(consensus(message, cell).field("consensus")?))
        }
        wire::Body::Heard(said) => {
            let reachabilities = reachabilities(&said);
            let proposals = said.proposals.into_iter().enumerate();
            let proposals = proposals.map(|(position, op)| Op::try_from(op).element(position));
            let proposals = proposals.collect::<Result<_, Malformed>>().field("proposals")?;
            Body::Heard { proposals, reachabilities }
        }
        wire::Body::Active(spread) => Body::Active(Arc::new(spread.into())),
        wire::Body::BeginAnew(wire::BeginAnew { machines }) => {
            Body::BeginAnew(machines.into_iter().map(MachineId).collect())
        }
        wire::Body::Describe(wire::Description { address, level }) => {
            Body::Describe { address: address.into(), level: Level(level) }
        }
    };
    let (from, to) = (ReplicaId(message.from), ReplicaId(message.to));
    let (counter, random) = (message.restore_epoch, message.restore_random);
    let restore_epoch = RestoreEpoch { counter, random };
    let directory = DirectoryId(message.directory);
    Ok(Message { from, to, restore_epoch, directory, body })
}

impl From<&Spread> for wire::Active {
    fn from(spread: &Spread) -> Self {
        let ids = |of: &[ReplicaId]| of.iter().map(|replica| replica.0).collect();
        let second = |Second { machine, by, reached }: &Second| wire::Second {
            machine: machine.0,
            by: ids(by),
            reached: *reached,
        };
        Self { replicas: ids(&spread.active), seconds: spread.seconds.iter().map(second).collect() }
    }
}

impl From<wire::Active> for Spread {
    fn from(spread: wire::Active) -> Self {
        let ids = |of: Vec<u64>| of.into_iter().map(ReplicaId).collect();
        let second = |wire::Second { machine, by, reached }| Second {
            machine: MachineId(machine),
            by: ids(by),
            reached,
        };
        let mut seconds: Vec<_> = spread.seconds.into_iter().map(second).collect();
        seconds.sort_by_key(|second| second.machine);
        Self { active: ids(spread.replicas), seconds }
    }
}

fn heard(proposals: &[Op], reachabilities: &[(MachineId, Reachability)]) -> wire::Heard {
    let of = |wanted| {
        let those = reachabilities.iter().filter(move |(_, reachability)| *reachability == wanted);
        those.map(|(machine, _)| machine.0).collect()
    };
    wire::Heard {
        proposals: proposals.iter().map(Into::into).collect(),
        unknown: of(Reachability::Unknown),
        answer: of(Reachability::Answers),
        doubtful: of(Reachability::Doubtful),
        silent: of(Reachability::Silent),
    }
}

fn reachabilities(said: &wire::Heard) -> Vec<(MachineId, Reachability)> {
    let all = [
        (&said.unknown, Reachability::Unknown),
        (&said.answer, Reachability::Answers),
        (&said.doubtful, Reachability::Doubtful),
        (&said.silent, Reachability::Silent),
    ];
    let each = |(machines, reachability): (&Vec<u64>, Reachability)| {
        machines.iter().map(|machine| (MachineId(*machine), reachability)).collect::<Vec<_>>()
    };
    all.into_iter().flat_map(each).collect()
}

impl From<&Consensus> for wire::Consensus {
    fn from(message: &Consensus) -> Self {
        Self {
            kind: Kind::from(message.kind).into(),
            term: message.term.0,
            log_term: message.log_term.0,
            index: message.index.0,
            entries: message.entries.iter().map(Into::into).collect(),
            commit: message.commit.0,
            commit_term: message.commit_term.0,
            reject: message.reject,
            reject_hint: message.reject_hint.0,
            context: message.context.to_vec(),
            snapshot_term: message.snapshot.as_ref().map_or(0, |snapshot| snapshot.term.0),
        }
    }
}

fn consensus(message: wire::Consensus, cell: Option<Cell>) -> Result<Consensus, Malformed> {
    let kind = match Kind::try_from(message.kind) {
        Ok(kind) => ConsensusKind::try_from(kind).map_err(|()| Fault::UnknownKind),
        Err(_) => Err(Fault::UnknownKind),
    };
    let kind = kind.field("kind")?;
    let snapshot = match kind {
        ConsensusKind::Snapshot => {
            let cell = cell.ok_or(Fault::Missing).field("image")?;
            Some(Snapshot { term: Term(message.snapshot_term), cell })
        }
        _ => None,
    };
    let entries: Vec<LogEntry> = message.entries.into_iter().map(Into::into).collect();
    // Consensus assumes consecutive entries.
    let follow = |pair: &[LogEntry]| match pair {
        [one, next] => one.index.0.checked_add(1) == Some(next.index.0),
        _ => true,
    };
    if !entries.windows(2).all(follow) {
        return Err(Fault::Contradiction("entries that are not consecutive")).field("entries");
    }
    Ok(Consensus {
        kind,
        term: Term(message.term),
        log_term: Term(message.log_term),
        index: LogIndex(message.index),
        entries,
        commit: LogIndex(message.commit),
        commit_term: Term(message.commit_term),
        snapshot,
        reject: message.reject,
        reject_hint: LogIndex(message.reject_hint),
        context: message.context.into(),
    })
}

impl From<&LogEntry> for v1::LogEntry {
    fn from(entry: &LogEntry) -> Self {
        Self {
            term: entry.term.0,
            index: entry.index.0,
            level: entry.level.0,
            record: entry.data.clone(),
        }
    }
}

impl From<v1::LogEntry> for LogEntry {
    fn from(entry: v1::LogEntry) -> Self {
        Self {
            term: Term(entry.term),
            index: LogIndex(entry.index),
            level: Level(entry.level),
            data: entry.record,
        }
    }
}

macro_rules! kinds {
    ($($ours:ident = $wire:ident,)*) => {
        impl From<ConsensusKind> for Kind {
            fn from(kind: ConsensusKind) -> Self {
                match kind {
                    $(ConsensusKind::$ours => Self::$wire,)*
                }
            }
        }

        impl TryFrom<Kind> for ConsensusKind {
            type Error = ();

            fn try_from(kind: Kind) -> Result<Self, ()> {
                match kind {
                    $(Kind::$wire => Ok(Self::$ours),)*
                    Kind::Unspecified => Err(()),
                }
            }
        }
    };
}

kinds! {
    Append = Append,
    AppendResponse = AppendResponse,
    RequestVote = RequestVote,
    RequestVoteResponse = RequestVoteResponse,
    RequestPreVote = RequestPreVote,
    RequestPreVoteResponse = RequestPreVoteResponse,
    Snapshot = Snapshot,
    Heartbeat = Heartbeat,
    HeartbeatResponse = HeartbeatResponse,
    TimeoutNow = TimeoutNow,
    TransferLeader = TransferLeader,
    ReadIndex = ReadIndex,
    ReadIndexResponse = ReadIndexResponse,
}
