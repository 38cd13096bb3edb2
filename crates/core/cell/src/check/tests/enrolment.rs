//! A cell whose machine has enrolled, corrupted; and uses of tokens that no operation performs.

use event::{Event, EventKind, Subject};
use imbl::OrdMap;
use model::{KeyDigest, Span};

use super::*;
use crate::{Admission, Applied, Credentials, DecisionChecker, IssueToken, RevokeMachine, Token};

fn serial(number: u8) -> Serial {
    Serial([number; Serial::BYTES])
}

fn name(text: &str) -> MachineName {
    MachineName::new(text).expect("a name")
}

fn enrol(token: u8) -> Op {
    let (key, validity) = (KeyDigest([1; KeyDigest::BYTES]), Span::from_secs(60));
    let (token, certificate) = (serial(token), serial(9));
    Op::Enrol { token, key, machine: None, address: "m1:1".to_owned(), certificate, validity }
}

/// Machine m1 has used token 1, token 2 is unused, and m9 is a revoked name.
fn enrolled() -> Cell {
    let mut cell = valid_cell();
    let issue = |token| {
        Mutation::IssueToken(IssueToken {
            machine: name("m1"),
            serial: serial(token),
            validity: Span::from_secs(60),
            most: None,
        })
    };
    let revoke = Mutation::RevokeMachine(RevokeMachine { machine: name("m9") });
    for (sequence, mutation) in (10..).zip([issue(1), issue(2), revoke]) {
        let id = RequestId { session: SessionId(1), sequence };
        cell.apply(Time(9), &Op::Request { id, by: user("ana"), mutation });
    }
    cell.apply(Time(9), &enrol(1));
    assert_eq!((cell.tokens().count(), cell.check()), (2, vec![]));
    cell
}

fn credentials(cell: &mut Cell) -> &mut Credentials {
    Arc::make_mut(machine(cell).credentials.as_mut().expect("it enrolled"))
}

fn token(cell: &mut Cell, number: u8) -> &mut Token {
    Arc::make_mut(cell.tokens.by_serial.get_mut(&serial(number)).expect("a token"))
}

fn revoked() -> Option<Act> {
    Some(Act { at: Time(10), by: user("ana") })
}

#[test]
fn every_corruption_of_enrolment_is_named() {
    type Corrupt = fn(&mut Cell);
    let cases: &[(Corrupt, &[&str])] = &[
        (
            |cell| credentials(cell).revoked = revoked(),
            &[
                "certificate 0909090909090909090909090909090909090909 of machine m1 ends before it begins, \
               or is from before it was revoked",
            ],
        ),
        (
            |cell| credentials(cell).certificates[0].expires = Time(8),
            &[
                "certificate 0909090909090909090909090909090909090909 of machine m1 ends before it begins, \
               or is from before it was revoked",
            ],
        ),
        (
            |cell| credentials(cell).certificates.clear(),
            &["machine m1 has a credentials record but was neither certified nor revoked"],
        ),
        (
            |cell| {
                let certificate = credentials(cell).certificates[0];
                credentials(cell).certificates = vec![certificate; 9];
            },
            &["9 certificates of a machine, the maximum is 8"],
        ),
        (
            |cell| token(cell, 1).machine = name("m7"),
            &[
                "join token 0101010101010101010101010101010101010101 was used by a machine that does not \
               exist, or ends before it begins",
            ],
        ),
        (
            |cell| token(cell, 2).issued.at = Time(1 << 50),
            &[
                "join token 0202020202020202020202020202020202020202 was used by a machine that does not \
               exist, or ends before it begins",
            ],
        ),
        (
            |cell| {
                let admitted = OrdMap::from_iter([
                    (name("m1"), token(cell, 1).used.expect("it was used")),
                    (name("m12"), token(cell, 1).used.expect("it was used")),
                ]);
                token(cell, 2).many = Some(Admission { most: 1, admitted });
            },
            &["2 machines that a token admitted, the maximum is 1"],
        ),
        (
            |cell| cell.tokens.by_expiry.clear(),
            &[
                "join token 0101010101010101010101010101010101010101 is not in the order of expiry \
                 exactly once",
                "join token 0202020202020202020202020202020202020202 is not in the order of expiry \
                 exactly once",
            ],
        ),
        (
            |cell| drop(cell.tokens.by_serial.remove(&serial(2))),
            &["join token 0202020202020202020202020202020202020202 is not in the order of expiry \
               exactly once"],
        ),
        (
            |cell| {
                let said = Arc::new(Credentials { revoked: revoked(), ..Credentials::default() });
                cell.revoked_machines.insert(name("m1"), said);
            },
            &["m1 is wrongly recorded as a revoked name that no machine has"],
        ),
        (
            |cell| {
                let certificates = credentials(cell).certificates.clone();
                let said = Arc::new(Credentials { certificates, revoked: None });
                cell.revoked_machines.insert(name("m8"), said);
            },
            &["m8 is wrongly recorded as a revoked name that no machine has"],
        ),
    ];
    for (corrupt, expected) in cases {
        let mut cell = enrolled();
        corrupt(&mut cell);
        let says: Vec<String> = cell.check().iter().map(ToString::to_string).collect();
        assert_eq!(says, *expected);
    }
}

#[test]
fn a_token_is_used_once() {
    let says = |before: &Cell, cell: &Cell, applied: &Applied| -> Vec<String> {
        let violations = DecisionChecker::from(before).after(cell, applied);
        violations.iter().map(ToString::to_string).collect()
    };
    let again = |token| {
        format!(
            "a machine enrolled with join token {}, which had been used, or is not recorded as used so",
            serial(token)
        )
    };
    let before = enrolled();
    let mut cell = before.clone();
    let applied = cell.apply(Time(9), &enrol(2));
    assert_eq!(says(&before, &cell, &applied), [""; 0]);
    assert_eq!(says(&cell, &cell, &applied), [again(2)], "it was used before");
    assert_eq!(says(&before, &before, &applied), [again(2)], "its use is not recorded");
    let mut other = applied.clone();
    let certificate = Certificate { serial: serial(8), issued: Time(9), expires: Time(99) };
    let kind = EventKind::MachineEnrolled { token: serial(2), certificate };
    other.events = vec![Event {
        subject: Subject::Machine(MACHINE),
        kind,
        usage: model::FinalUsage::UNMEASURED,
    }];
    assert_eq!(says(&before, &cell, &other), [again(2)], "for another certificate");
}
