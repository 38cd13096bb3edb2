//! A leader that learns of a higher term in the middle of a step.

use super::*;

/// A message of consensus from one replica to another.
fn says(from: ReplicaId, to: ReplicaId, says: Consensus) -> Message {
    let body = Body::Consensus(Box::new(says));
    let directory = DirectoryId(from.0);
    Message { from, to, restore_epoch: RestoreEpoch::NEVER, directory, body }
}

fn consensus(message: &Message) -> Option<&Consensus> {
    match &message.body {
        Body::Consensus(consensus) => Some(consensus),
        _ => None,
    }
}

/// Three replicas; the first leads in term 1, and has not heard yet that another one has its last
/// record. Returns that answer.
fn before_an_answer() -> (Cluster, Message) {
    let mut cluster = Cluster::of(3);
    cluster.agree();
    let name = MachineName::new("m1").expect("a name");
    let mutation = Mutation::AddMachine(AddMachine { name, address: "m1:1".to_owned() });
    let request = RequestId { session: SessionId(1), sequence: 1_000 };
    let host = cluster.hosts.get_mut(&id(1)).expect("a host");
    host.outputs.clear();
    host.inbox.push(Input::Request(Ticket(1), request, user(), mutation));
    let answer = |cluster: &Cluster| {
        let last = cluster.hosts[&id(1)].disk.entries.last().map(|entry| entry.index);
        let is = |message: &&Message| {
            message.to == id(1)
                && consensus(message).is_some_and(|it| {
                    it.kind == ConsensusKind::AppendResponse && Some(it.index) == last
                })
        };
        cluster.network.iter().find(is).cloned()
    };
    let before = cluster.cell(id(1)).index();
    cluster.turn();
    cluster.until("one answers", |cluster| answer(cluster).is_some());
    assert_eq!(cluster.cell(id(1)).index(), before, "nothing is committed yet");
    let late = answer(&cluster).expect("an answer");
    cluster.network.clear();
    (cluster, late)
}

/// Messages by which a replica learns of a higher term.
fn of_a_higher_term() -> Vec<Consensus> {
    let transfer = &b"CampaignTransfer"[..];
    let kinds = [
        (ConsensusKind::Heartbeat, Bytes::new()),
        (ConsensusKind::Append, Bytes::new()),
        (ConsensusKind::AppendResponse, Bytes::new()),
        (ConsensusKind::HeartbeatResponse, Bytes::new()),
        (ConsensusKind::RequestVote, Bytes::from_static(transfer)),
    ];
    let of = |(kind, context)| Consensus { kind, context, term: Term(9), ..Consensus::default() };
    kinds.into_iter().map(of).collect()
}

/// Followers would take it for the leader of a term in which it was not elected.
#[test]
fn a_deposed_leader_sends_no_messages_as_leader_of_another_term() {
    for higher in of_a_higher_term() {
        let (mut cluster, late) = before_an_answer();
        let kind = higher.kind;
        let host = cluster.hosts.get_mut(&id(1)).expect("a host");
        host.inbox.push(Input::Received(late));
        host.inbox.push(Input::Received(says(id(3), id(1), higher)));
        cluster.cut = [id(2), id(3)].into();
        let as_leader = |it: &&Consensus| {
            let leads = [ConsensusKind::Append, ConsensusKind::Heartbeat, ConsensusKind::Snapshot];
            leads.contains(&it.kind) && it.term > Term(1)
        };
        for _ in 0..5 {
            // What it says may wait for its disk.
            cluster.turn();
            let sent = cluster.network.iter().filter(|message| message.from == id(1));
            let wrong: Vec<_> = sent.filter_map(consensus).filter(as_leader).collect();
            assert!(wrong.is_empty(), "after {kind:?}: {wrong:?}");
        }
        assert_eq!(cluster.hosts[&id(1)].replica.as_ref().map(Replica::term), Some(Term(9)));
        assert_eq!(cluster.leader(), None, "after {kind:?}");
    }
}

#[test]
fn a_deposed_leader_refuses_requests_for_a_leader() {
    for higher in of_a_higher_term() {
        let (mut cluster, _) = before_an_answer();
        let kind = higher.kind;
        let request = RequestId { session: SessionId(1), sequence: 1_001 };
        let name = MachineName::new("m2").expect("a name");
        let mutation = Mutation::AddMachine(AddMachine { name, address: "m2:1".to_owned() });
        let host = cluster.hosts.get_mut(&id(1)).expect("a host");
        host.inbox.push(Input::Received(says(id(3), id(1), higher)));
        host.inbox.push(Input::Request(Ticket(2), request, user(), mutation));
        host.inbox.push(Input::Transfer(Some(id(2))));
        cluster.turn();
        let host = &cluster.hosts[&id(1)];
        let refused = |ticket| {
            host.outputs.iter().find_map(|output| match output {
                Output::Refused(Ticket(of), refusal) if *of == ticket => Some(*refusal),
                _ => None,
            })
        };
        assert_eq!(refused(1), Some(Refusal::Unknown), "proposed before {kind:?}");
        assert_eq!(refused(2), Some(Refusal::NotLeading), "asked after {kind:?}");
        let now = cluster.now;
        assert!(host.replica.as_ref().is_some_and(|replica| replica.progress(now).is_empty()));
        let transfers = cluster.network.iter().filter_map(consensus);
        let transfers = transfers.filter(|it| it.kind == ConsensusKind::TransferLeader);
        assert_eq!(transfers.count(), 0, "after {kind:?}");
    }
}
