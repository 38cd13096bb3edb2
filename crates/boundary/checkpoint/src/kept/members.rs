//! The master's replicas, and machines that join by themselves.

use cell::{AddReplica, IssueReplicaToken, IssueToken, MemberChange, RemoveReplica, RevokeMachine};
use model::{DirectoryId, KeyDigest, MachineName, ReplicaId, Serial};

use super::*;

fn serial(byte: u8) -> Serial {
    Serial([byte; Serial::BYTES])
}

fn name(text: &str) -> MachineName {
    text.parse().expect("a name")
}

impl KeptHistory {
    /// A replica of each kind, and one that was removed.
    pub(super) fn replicas(&mut self) {
        let describe = |replica, address: &str, level| Op::DescribeReplica {
            replica: ReplicaId(replica),
            address: address.to_owned(),
            level: Level(level),
            directory: DirectoryId(replica << 32),
        };
        let change = |replica, to| Op::ChangeMember { replica: ReplicaId(replica), to };
        self.apply(&describe(1, "master-1.example:7800", 2));
        for id in 2..=5 {
            let address = format!("master-{id}.example:7800");
            self.does("root", Mutation::AddReplica(AddReplica { address }));
        }
        for id in [2, 3, 4] {
            self.apply(&change(id, MemberChange::Learner));
        }
        self.apply(&change(2, MemberChange::Voter));
        self.apply(&describe(2, "master-2.example:7801", 3));
        self.does("root", Mutation::RemoveReplica(RemoveReplica { replica: ReplicaId(3) }));
        self.does("root", Mutation::RemoveReplica(RemoveReplica { replica: ReplicaId(4) }));
        self.apply(&change(4, MemberChange::Out));
        self.may_not("root", Mutation::RemoveReplica(RemoveReplica { replica: ReplicaId(9) }));
    }

    /// A token that waits, a machine that joined and renewed its certificate, one that was
    /// revoked, and a replica that joined.
    pub(super) fn enrolment(&mut self) {
        let day = Span::from_secs(86_400);
        let token = |machine: &str, byte| {
            Mutation::IssueToken(IssueToken {
                machine: name(machine),
                serial: serial(byte),
                validity: Span::from_secs(3_600),
                most: None,
            })
        };
        let enrol = |byte: u8| Op::Enrol {
            token: serial(byte),
            key: KeyDigest([byte; KeyDigest::BYTES]),
            machine: None,
            address: format!("m{byte}.example:7801"),
            certificate: serial(byte + 100),
            validity: day,
        };
        self.does("root", token("waits", 10));
        self.does("root", token("joined", 11));
        self.apply(&enrol(11));
        self.apply(&Op::RenewMachine {
            machine: name("joined"),
            old: serial(111),
            certificate: serial(112),
            validity: day,
        });
        self.does("root", token("stolen", 12));
        self.apply(&enrol(12));
        self.does("root", Mutation::RevokeMachine(RevokeMachine { machine: name("stolen") }));
        self.apply(&enrol(12));
        let validity = Span::from_secs(3_600);
        let replica = ReplicaId(5);
        self.does(
            "root",
            Mutation::IssueReplicaToken(IssueReplicaToken {
                replica,
                serial: serial(13),
                validity,
            }),
        );
        let join = |byte| Op::JoinReplica {
            replica,
            token: serial(13),
            key: KeyDigest([byte; KeyDigest::BYTES]),
        };
        self.apply(&join(1));
        self.apply(&join(2));
    }
}
