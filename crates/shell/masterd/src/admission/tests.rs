//! The policy as a table, and a core whose queue is filled as each line says.

use cell::{AddMachine, GrantQuota, Kill, MeterQuota, Op};
use model::{
    Bytes, MachineId, MachineReport, MilliCores, PortRange, Resources, Serial, SessionId,
    TaskSelection,
};
use replica::Input;
use spec::{JobSpec, TaskSpec};
use tokio::sync::mpsc::Receiver;

use super::*;
use crate::caller::Caller;
use crate::handle::{Core, NotTaken};
use crate::message::Message;

const BATCH: RequestClass = RequestClass::Submission(Band::BestEffortBatch);
const FREE: RequestClass = RequestClass::Submission(Band::Free);
const MID: RequestClass = RequestClass::Submission(Band::Mid);
const MONITORING: RequestClass = RequestClass::Submission(Band::Monitoring);
const PRODUCTION: RequestClass = RequestClass::Submission(Band::Production);

#[test]
fn the_least_important_is_refused_first() {
    let limits = AdmissionLimits { requests: 80, bytes: 8_000 };
    let taken = |requests, bytes| {
        let all = [FREE, BATCH, MID, PRODUCTION, MONITORING, RequestClass::Change];
        let is = |asked: &RequestClass| excess(*asked, Load { requests, bytes }, limits).is_none();
        all.map(|asked| if is(&asked) { 'x' } else { '-' }).iter().collect::<String>()
    };
    // Free, best-effort batch, mid, production, monitoring, anything else.
    for (requests, bytes, expected) in [
        (0, 0, "xxxxxx"),
        (19, 0, "xxxxxx"),
        (20, 0, "-xxxxx"),
        (39, 0, "-xxxxx"),
        (40, 0, "---xxx"),
        (59, 0, "---xxx"),
        (60, 0, "-----x"),
        (69, 0, "-----x"),
        (70, 0, "------"),
        (80, 0, "------"),
        (usize::MAX - 1, 0, "------"),
        (1, 1_999, "xxxxxx"),
        (1, 2_000, "-xxxxx"),
        (1, 4_000, "---xxx"),
        (1, 6_000, "-----x"),
        (1, 7_000, "------"),
    ] {
        assert_eq!(taken(requests, bytes), expected, "{requests} requests of {bytes} bytes");
    }
}

#[test]
fn the_suggested_wait_follows_the_backlog_and_its_rate() {
    for (excess, per_second, ms) in [
        (1, 10_000, 50),
        (1_000, 10_000, 100),
        (1_000, 1_000, 1_000),
        (1_000, 1, 5_000),
        (1, 0, 5_000),
        (usize::MAX, u64::MAX, 50),
    ] {
        assert_eq!(retry_after(excess, per_second).as_millis(), ms, "{excess} at {per_second}/s");
    }
}

fn user(name: &str) -> Option<Principal> {
    Some(Principal::User(UserName::new(name).expect("a name")))
}

#[test]
fn waiting_requests_count_twice_against_their_principal() {
    let admission = Admission::new(AdmissionLimits { requests: 80, bytes: 80_000 });
    let mut held: Vec<Counted> = Vec::new();
    let token = Some(Principal::Certificate(Serial([7; Serial::BYTES])));
    // As many changes as are accepted of each principal, of seven eighths of 80 requests.
    for (principal, taken) in [
        (user("ana"), 35),
        (user("ana"), 0),
        (token.clone(), 18),
        (user("cy"), 9),
        (user("ana"), 0),
        (token, 0),
        (user("di"), 4),
    ] {
        let before = held.len();
        while let Ok(counted) = admission.admit(RequestClass::Change, principal.clone(), 1) {
            held.push(counted);
        }
        assert_eq!(held.len() - before, taken, "{principal:?}");
    }
    // Ana gets an error; the next principal finds room, and so does a scheduler.
    let said =
        admission.admit(RequestClass::Change, user("ana"), 1).expect_err("too much").to_string();
    assert!(said.starts_with("35 requests of yours are waiting already"), "{said}");
    held.extend(admission.admit(RequestClass::Change, user("eve"), 1));
    held.extend(admission.admit(RequestClass::Change, None, 1));
    assert_eq!(admission.waiting(), (68, 68));
    // After all answers, no principal is remembered.
    held.clear();
    assert_eq!(admission.lock().of_parties.len(), 0);
    assert_eq!(admission.waiting(), (0, 0));
    // One large request counts like many.
    held.extend(admission.admit(RequestClass::Change, user("ana"), 35_000));
    let said =
        admission.admit(RequestClass::Change, user("ana"), 1).expect_err("too much").to_string();
    assert!(said.starts_with("1 requests of yours are waiting already"), "{said}");
    held.extend(admission.admit(RequestClass::Change, user("eve"), 1));
    assert_eq!(held.len(), 2);
}

/// A cell with a machine, where ana has a grant for all of it in production.
fn cell_with_a_grant() -> Cell {
    let mut cell = Cell::empty();
    let root = UserName::new("root").expect("a name");
    let mut now = Time(0);
    let mut apply = |op: Op| {
        now = Time(now.0 + 1);
        cell.apply(now, &op).outcome
    };
    apply(Op::Bootstrap { name: "lab".parse().expect("a name"), administrator: root.clone() });
    apply(Op::OpenSession { user: root.clone() });
    let mut sequence = 0;
    let mut request = |mutation| {
        sequence += 1;
        let id = cell::RequestId { session: SessionId(1), sequence };
        Op::Request { id, by: root.clone(), mutation }
    };
    let (name, address) = ("m1".parse().expect("a name"), "127.0.0.1:1".to_owned());
    apply(request(Mutation::AddMachine(AddMachine { name, address })));
    let amount = Resources { cpu: MilliCores(1_000), ram: Bytes(1 << 30), ..<_>::default() };
    let (ports, attributes) = (PortRange::default(), <_>::default());
    let report =
        Arc::new(MachineReport { capacity: amount, ports, attributes, ..MachineReport::default() });
    apply(Op::DescribeMachine { machine: MachineId(1), report });
    let (user, band) = ("ana".parse().expect("a name"), Band::Production);
    apply(request(Mutation::GrantQuota(GrantQuota {
        user,
        band,
        amount,
        from: None,
        until: None,
    })));
    apply(request(Mutation::MeterQuota(MeterQuota { on: true })));
    assert_eq!(cell.grants().count(), 1);
    cell
}

#[test]
fn a_request_without_quota_in_its_band_counts_as_free() {
    let metered = cell_with_a_grant();
    assert!(metered.metering().on);
    for (cell, user, priority, expected) in [
        (&Cell::empty(), "bo", "production", PRODUCTION),
        (&metered, "ana", "production", PRODUCTION),
        (&metered, "ana", "mid", FREE),
        (&metered, "ana", "free", FREE),
        (&metered, "bo", "production", FREE),
    ] {
        let asked = RequestClass::of(&ask(user, Some(priority)), cell, Time(100));
        assert_eq!(asked, expected, "{user} in {priority}");
    }
    // A task in an alloc is charged nothing, and a kill stays a kill.
    let Request::Mutate(id, by, Mutation::Submit(mut spec)) = ask("bo", Some("mid")) else {
        panic!("a job")
    };
    let alloc_set = Some("ana/room".parse().expect("an alloc set"));
    Arc::make_mut(&mut spec).kind = spec::Kind::Job { alloc_set };
    let inside = Request::Mutate(id, by, Mutation::Submit(spec));
    assert_eq!(RequestClass::of(&inside, &metered, Time(100)), MID);
    assert_eq!(RequestClass::of(&ask("bo", None), &metered, Time(100)), RequestClass::Change);
}

/// A user's job of a priority, or a kill without one.
fn ask(user: &str, priority: Option<&str>) -> Request {
    let id = cell::RequestId { session: SessionId(1), sequence: 1 };
    let mutation = match priority {
        Some(priority) => {
            let priority = priority.parse().expect("a priority");
            let name = "web".parse().expect("a name");
            let task = TaskSpec::of(vec!["sleep".to_owned()]);
            Mutation::Submit(Arc::new(JobSpec::of(name, priority, 1, task)))
        }
        None => Mutation::Kill(Kill {
            owner: user.parse().expect("a name"),
            job: "web".parse().expect("a name"),
            tasks: TaskSelection::All,
            now: false,
        }),
    };
    Request::Mutate(id, Caller::of(user), mutation)
}

/// Sends a request to a core that answers nobody: the immediate error for the client; `None` if the
/// request was accepted.
async fn told(core: &Core, ask: Request) -> Option<String> {
    let core = core.clone();
    let mut asked = Box::pin(async move { core.ask(ask, 100).await.map(drop) });
    let refused = std::future::poll_fn(|context| {
        std::task::Poll::Ready(match asked.as_mut().poll(context) {
            std::task::Poll::Ready(Err(NotTaken::Overloaded(shed))) => Some(shed.to_string()),
            std::task::Poll::Ready(other) => panic!("{other:?}"),
            std::task::Poll::Pending => None,
        })
    });
    refused.await
}

fn held(from_all: &mut Receiver<Message>) -> usize {
    let mut messages = 0;
    while from_all.try_recv().is_ok() {
        messages += 1;
    }
    messages
}

#[tokio::test]
async fn a_flood_of_free_jobs_leaves_room_for_production_kills_and_machines() {
    let (core, mut from_all) = Core::stalled(80);
    let mut shed = 0;
    // The limit per user does not matter here: there are many.
    for user in 0..1_000 {
        if let Some(said) = told(&core, ask(&format!("user{user}"), Some("free"))).await {
            assert!(said.contains("rejects jobs in the free band for a moment"), "{said}");
            shed += 1;
        }
    }
    let refused = core.admission().refused().filter(|(_, count)| *count > 0);
    let refused: Vec<(Option<Band>, u64)> = refused.collect();
    assert_eq!((shed, refused), (980, vec![(Some(Band::Free), 980)]), "a quarter of 80 was taken");
    assert_eq!(core.view().cell.index().0, 0, "it is read as always");
    for user in 0..40 {
        assert_eq!(told(&core, ask(&format!("user{user}"), Some("production"))).await, None);
    }
    let said = told(&core, ask("ana", Some("production"))).await.expect("three quarters are taken");
    assert!(said.contains("rejects jobs for a moment"), "{said}");
    for user in 0..10 {
        assert_eq!(told(&core, ask(&format!("killer{user}"), None)).await, None, "a kill");
    }
    let said = told(&core, ask("ana", None)).await.expect("the rest is the machines'");
    assert!(said.ends_with("try again in 5000 ms"), "nothing is ever answered: {said}");
    // All these clients are gone, but their requests still wait for the core.
    for _ in 0..10 {
        let report = Input::Persisted(0);
        assert!(core.to_core().try_send(Message::Input(report)).is_ok(), "a machine's report");
    }
    assert_eq!(held(&mut from_all), 80);
    // The core has taken and answered everything: there is room again.
    assert_eq!(told(&core, ask("ana", Some("free"))).await, None);
}
