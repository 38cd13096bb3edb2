//! How machines join, get certificates, and lose them.

use std::sync::Arc;

use cell::{
    Act, Admission, Credentials, EventKind, Image, IssueReplicaToken, IssueToken, Mutation,
    NotAdmitted, Op, Rejection, ReplicaToken, Reply, RevokeMachine, Token, TokenUse,
};
use model::{KeyDigest, MachineId, ReplicaId, Serial, Span, Time};

use super::{certificate, name};

pub(super) fn serial(number: u8) -> Serial {
    Serial::from_bytes(&[number]).expect("short enough")
}

fn key() -> KeyDigest {
    KeyDigest([0xa5; KeyDigest::BYTES])
}

pub(super) fn ops() -> Vec<Op> {
    let (address, validity) = ("10.0.0.1:4711".to_owned(), Span::from_secs(30 * 86_400));
    let (machine, certificate) = (name("m1"), certificate().serial);
    vec![
        Op::Enrol {
            token: serial(7),
            key: key(),
            machine: Some(name("m12")),
            address,
            certificate,
            validity,
        },
        Op::RenewMachine { machine, old: serial(8), certificate, validity },
        Op::JoinReplica { replica: ReplicaId(2), token: serial(7), key: key() },
    ]
}

pub(super) fn requests() -> Vec<Mutation> {
    let (serial, validity) = (serial(7), Span::from_secs(3_600));
    vec![
        Mutation::IssueToken(IssueToken { machine: name("m1"), serial, validity, most: Some(100) }),
        Mutation::RevokeMachine(RevokeMachine { machine: name("m1") }),
        Mutation::IssueReplicaToken(IssueReplicaToken { replica: ReplicaId(2), serial, validity }),
    ]
}

pub(super) fn events_of_the_cell() -> Vec<EventKind> {
    vec![
        EventKind::TokenIssued { machine: name("m3"), token: certificate(), most: Some(100) },
        EventKind::MachineRevoked { machine: name("m9") },
        EventKind::ReplicaTokenIssued { replica: ReplicaId(2), token: certificate() },
        EventKind::ReplicaJoined { replica: ReplicaId(2), token: serial(7) },
    ]
}

pub(super) fn events_of_a_machine() -> Vec<EventKind> {
    let certificate = certificate();
    vec![
        EventKind::MachineEnrolled { token: serial(7), certificate },
        EventKind::MachineRenewed { certificate },
        EventKind::MachineRevoked { machine: name("m3") },
    ]
}

fn answers() -> Vec<Result<Reply, Rejection>> {
    let (machine, certificate) = (MachineId(3), certificate());
    vec![
        Ok(Reply::TokenIssued(certificate)),
        Ok(Reply::Enrolled { machine, certificate }),
        Ok(Reply::MachineRenewed(certificate)),
        Ok(Reply::MachineRevoked { known: false }),
        Err(Rejection::NoSuchToken(serial(7))),
        Err(Rejection::TokenExpired(name("m1"))),
        Err(Rejection::TokenUsed(name("m1"))),
        not_admitted(NotAdmitted::Name),
        not_admitted(NotAdmitted::Known),
        not_admitted(NotAdmitted::Spent { most: 100 }),
        Err(Rejection::ReplicaTokenUsed(ReplicaId(2))),
        Err(Rejection::TokenValidity(Span(59_000_000))),
        Err(Rejection::MachineRevoked(name("m1"))),
    ]
}

fn not_admitted(why: NotAdmitted) -> Result<Reply, Rejection> {
    Err(Rejection::NotAdmitted { machine: name("n1"), token: name("m"), why })
}

/// Adds enrolment: m3 has joined with one of two tokens, m2 was revoked, and so were two names
/// without a machine, of which one got a certificate since. Of the replicas without a vote, one has
/// joined with a token, and one has a token.
pub(super) fn put_into(image: &mut Image) {
    let act = |at| Act { at: Time(at), by: name("root") };
    let token = |used| {
        let (machine, expires) = (name("m3"), Time(3_600_000_090));
        Arc::new(Token { machine, issued: act(90), expires, used, many: None })
    };
    let used = TokenUse { key: key(), certificate: certificate() };
    let mut many = Token::clone(&token(None));
    let admitted = [(name("m31"), used), (name("m32"), used)].into_iter().collect();
    many.many = Some(Admission { most: 100, admitted });
    image.tokens = vec![
        (serial(7), token(Some(used))),
        (serial(9), token(None)),
        (serial(10), Arc::new(many)),
    ];
    let said = |certificates, revoked| Arc::new(Credentials { certificates, revoked });
    for machine in &mut image.machines {
        Arc::make_mut(machine).credentials = match machine.id.0 {
            2 => Some(said(Vec::new(), Some(act(91)))),
            3 => Some(said(vec![certificate(), certificate()], Some(act(89)))),
            _ => None,
        };
    }
    for (replica, used) in image.replicas.iter_mut().skip(2).zip([Some(key()), None]) {
        replica.token = Some(ReplicaToken { certificate: certificate(), used });
    }
    image.revoked_machines = vec![
        (name("m8"), said(Vec::new(), Some(act(92)))),
        (name("m9"), said(vec![certificate()], Some(act(80)))),
    ];
    let session = &mut image.sessions[0].1;
    Arc::make_mut(session).answers = (2..).zip(answers()).collect();
}
