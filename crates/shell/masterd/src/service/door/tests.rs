//! Requests to a core that never reads its queue, and without a leader.

use std::pin::Pin;
use std::task::Poll;

use cell::{AddMachine, AddReplica, DrainMachine, Kill, SetAttributes, SetPlatform};
use model::{GcuFactor, KeyDigest, MachineName, ReplicaId, Serial, SessionId, Span, TaskSelection};
use spec::{JobSpec, TaskSpec};

use super::*;
use crate::service::test_services::TestServices;

type Asking = Pin<Box<dyn Future<Output = Result<(LogIndex, Outcome), Status>>>>;

impl TestServices {
    fn ask(&self, ask: Request, bytes: usize) -> Asking {
        let door = self.door.clone();
        Box::pin(async move { door.ask(ask, bytes).await })
    }

    /// The numbers of counted requests and bytes.
    fn counted(&self) -> (usize, usize) {
        self.door.core.admission().waiting()
    }

    /// Empties the queue.
    fn take(&mut self) -> usize {
        std::iter::from_fn(|| self.from_all.try_recv().ok()).count()
    }
}

/// The immediate answer; `None` while it waits.
async fn told(asking: &mut Asking) -> Option<Result<(), Status>> {
    std::future::poll_fn(|context| {
        Poll::Ready(match asking.as_mut().poll(context) {
            Poll::Ready(answer) => Some(answer.map(drop)),
            Poll::Pending => None,
        })
    })
    .await
}

fn request(by: &str, mutation: Mutation) -> Request {
    let id = RequestId { session: SessionId(1), sequence: 1 };
    Request::Mutate(id, Caller::of(by), mutation)
}

fn kill(by: &str) -> Request {
    let (owner, job) = (by.parse().expect("a name"), "web".parse().expect("a name"));
    request(by, Mutation::Kill(Kill { owner, job, tasks: TaskSelection::All, now: false }))
}

#[tokio::test]
async fn a_repeated_request_waiting_for_a_leader_counts_once() {
    let mut held = TestServices::new(80);
    let mut waiting: Vec<Asking> = Vec::new();
    for user in 0..70 {
        let mut asking = held.ask(kill(&format!("user{user}")), 1_000);
        assert!(told(&mut asking).await.is_none(), "it waits for a leader");
        waiting.push(asking);
    }
    assert_eq!(held.counted(), (70, 70_000));
    let refused = told(&mut held.ask(kill("ana"), 1_000)).await.expect("an answer");
    let refused = refused.expect_err("there is no room for more");
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert_eq!(held.take(), 0, "nobody leads");

    held.elect(Some(ReplicaId(1)));
    for asking in &mut waiting {
        assert!(told(asking).await.is_none(), "it waits for its answer");
    }
    assert_eq!(held.counted(), (70, 70_000), "each counts as before");
    drop(waiting);
    assert_eq!(held.counted(), (70, 70_000), "the core has them still");
    assert_eq!(held.take(), 70);
    assert_eq!(held.counted(), (0, 0));
}

#[tokio::test]
async fn a_request_counts_for_what_its_message_takes() {
    let held = TestServices::new(80);
    let id = || Some(RequestId { session: SessionId(1), sequence: 1 }.into());
    for (bytes, counts) in [(10, SMALL_BYTES), (3 << 20, 3 << 20)] {
        let (door, by) = (held.door.clone(), Caller::of("root"));
        let (machine, reason) = ("m1".parse().expect("a name"), "soon".to_owned());
        let drain = Mutation::DrainMachine(DrainMachine::of(machine, reason));
        let id = id();
        let mut asking: Asking = Box::pin(async move {
            let (index, reply) = door.mutate(id, by, drain, bytes).await?;
            Ok((index, Outcome::Request(Ok(reply))))
        });
        assert!(told(&mut asking).await.is_none(), "it waits for a leader");
        assert_eq!(held.counted(), (1, counts));
    }
    assert_eq!(held.counted(), (0, 0));
}

#[tokio::test]
async fn a_mutation_out_of_bounds_is_refused_before_its_proposal() {
    let mut held = TestServices::new(80);
    held.elect(Some(ReplicaId(1)));
    let long = |characters: usize| "x".repeat(characters);
    let machine = || -> MachineName { "m1".parse().expect("a name") };
    let at = |address: &str| {
        Mutation::AddMachine(AddMachine { name: machine(), address: address.to_owned() })
    };
    let replica = |address: &str| Mutation::AddReplica(AddReplica { address: address.to_owned() });
    let set = |changes: &[(String, Option<String>)]| {
        Mutation::SetAttributes(SetAttributes {
            machine: machine(),
            changes: changes.iter().cloned().collect(),
        })
    };
    let many: Vec<_> = (0..100_000).map(|number| (number.to_string(), None)).collect();
    let (name, priority) = ("web".parse().expect("a name"), "free".parse().expect("one"));
    let job = JobSpec::of(name, priority, 1, TaskSpec::of(vec![long(1 << 20)]));
    let megabytes = long(4 << 20);
    for (mutation, says) in [
        (replica(&megabytes), "a replica's address must be 1 to 256 characters"),
        (replica("m 2:7800"), r#""m 2:7800" is not an address to connect to"#),
        (replica("m2/x:7800"), "it has more than a host and a port; write it as HOST:PORT"),
        (replica("a@m2:7800"), "it has more than a host and a port"),
        (replica("m2:0"), "it has no host or no valid port"),
        (at(&megabytes), "a machine's address must be 1 to 256 characters"),
        (
            at("m2\u{7}:7801"),
            "a machine's address must be 1 to 256 characters, none of them a control",
        ),
        (at("https://m2:7801"), "it has more than a host and a port"),
        (at("m2"), "it has no host or no valid port"),
        (
            Mutation::DrainMachine(DrainMachine::of(machine(), megabytes.clone())),
            "a reason must be 1 to 1000 characters",
        ),
        (set(&[(megabytes.clone(), None)]), "an attribute's name must be 1 to 256 characters"),
        (
            set(&[("rack".to_owned(), Some(megabytes.clone()))]),
            "an attribute's value must be 1 to 256 characters",
        ),
        (set(&many), "100000 attributes of m1 in one request: the maximum is 512"),
        (
            Mutation::SetPlatform(SetPlatform {
                platform: megabytes.clone(),
                factor: GcuFactor::ONE,
            }),
            "a platform must be 1 to 256 characters",
        ),
        (Mutation::Submit(Arc::new(job)), "the job description is not valid: cmd: has"),
    ] {
        refuses(&held, request("ana", mutation), says).await;
    }
    let serial = |byte| Serial::from_bytes(&[byte]).expect("a number");
    for (address, says) in
        [(long(257), "a machine's address must be 1 to 256"), ("m 2:1".to_owned(), "HOST:PORT")]
    {
        let (token, certificate, validity) = (serial(1), serial(2), Span::from_secs(60));
        let key = KeyDigest([0; 32]);
        let enrol = Op::Enrol { token, key, machine: None, address, certificate, validity };
        refuses(&held, Request::Enrolment(enrol), says).await;
    }
    assert_eq!(held.take(), 0, "nothing is proposed");
    for mutation in [at("m2:7801"), at("[::1]:7801"), replica("m_2.example:7800")] {
        assert!(told(&mut held.ask(request("ana", mutation), 10)).await.is_none());
        assert_eq!(held.take(), 1);
    }
}

async fn refuses(held: &TestServices, ask: Request, says: &str) {
    let told = told(&mut held.ask(ask, 10)).await;
    let refused = told.unwrap_or_else(|| panic!("it is taken: {says}")).expect_err(says);
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    assert!(refused.message().contains(says), "{}\nis not\n{says}", refused.message());
    assert!(refused.message().len() < 1_000, "{} bytes are said", refused.message().len());
}
