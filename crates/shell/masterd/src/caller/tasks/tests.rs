use std::sync::Arc;

use cell::{AddMachine, AddUser, Assignment, Mutation, Observation, Op, RequestId, RevokeUser};
use model::{
    Band, Bytes, Capability, CellName, End, JobName, KernelFeature, MachineId, MachineReport,
    MilliCores, PortRange, Resources, SessionId,
};
use spec::{Kind, TaskSpec};

use super::*;

const SECOND: u64 = 1_000_000;

/// A change of a description.
type Change = fn(&mut JobSpec);

/// A cell whose operations happen at given seconds.
struct Told {
    cell: Cell,
    sequence: u64,
}

fn user(name: &str) -> UserName {
    UserName::new(name).expect("a name")
}

fn machine(name: &str) -> MachineName {
    MachineName::new(name).expect("a name")
}

fn incarnation(text: &str) -> InstanceId {
    text.parse().expect("an instance")
}

fn spec(name: &str, api: bool) -> JobSpec {
    let mut task = TaskSpec::of(vec!["sleep".to_owned()]);
    task.api = api;
    JobSpec::of(JobName::new(name).expect("a name"), Band::Free.usual(), 1, task)
}

impl Told {
    /// Two machines; jobs 1 and 2 of ana, of which only the first wants certificates: each runs on
    /// m1 since second 10.
    fn new() -> Self {
        let mut told = Self { cell: Cell::empty(), sequence: 0 };
        let name = CellName::new("cc").expect("a name");
        told.apply(1, &Op::Bootstrap { name, administrator: user("root") });
        for by in ["root", "ana"] {
            told.apply(1, &Op::OpenSession { user: user(by) });
        }
        let capacity =
            Resources { cpu: MilliCores(9_000), ram: Bytes(9 << 30), ..Resources::default() };
        for (id, name) in [(1, "m1"), (2, "m2")] {
            let address = "m:1".to_owned();
            told.request(
                1,
                "root",
                Mutation::AddMachine(AddMachine { name: machine(name), address }),
            );
            let ports = PortRange { first: 31_000, last: 31_009 };
            let report = MachineReport { capacity, ports, ..MachineReport::default() };
            let op = Op::DescribeMachine { machine: MachineId(id), report: Arc::new(report) };
            told.apply(1, &op);
        }
        for (name, api) in [("asks", true), ("mute", false)] {
            told.request(9, "ana", Mutation::Submit(Arc::new(spec(name, api))));
        }
        for instance in ["1-0-1", "2-0-1"] {
            told.place(10, instance);
        }
        told
    }

    fn apply(&mut self, second: u64, op: &Op) {
        self.cell.apply(Time(second * SECOND), op);
    }

    fn request(&mut self, second: u64, by: &str, mutation: Mutation) {
        self.sequence += 1;
        let session = SessionId(if by == "root" { 1 } else { 2 });
        let id = RequestId { session, sequence: self.sequence };
        self.apply(second, &Op::Request { id, by: user(by), mutation });
    }

    fn place(&mut self, second: u64, instance: &str) {
        self.apply(
            second,
            &Op::assign(vec![Assignment {
                address: None,
                instance: incarnation(instance),
                machine: MachineId(1),
                alloc: None,
                ports: Vec::new(),
                victims: Vec::new(),
            }]),
        );
    }

    fn ends(&mut self, second: u64, instance: &str, end: End) {
        let observations = vec![Observation::Ended {
            instance: incarnation(instance),
            end,
            usage: model::FinalUsage::UNMEASURED,
        }];
        self.apply(second, &Op::Observe { machine: MachineId(1), observations });
    }

    /// The result for a certificate of an incarnation, issued to a user in a second.
    fn shown(&self, by: &str, instance: &str, issued: u64) -> Option<Cause> {
        let (instance, issued) = (incarnation(instance), Time(issued * SECOND));
        let serial = serial_of(instance, issued);
        match accepted(&self.cell, &user(by), serial, issued, self.cell.time()) {
            Ok(found) => {
                assert_eq!(found, instance);
                None
            }
            Err(denied) => Some(denied.cause),
        }
    }

    fn asked(&self, of: &str, instance: &str) -> Option<Cause> {
        certifiable(&self.cell, &machine(of), incarnation(instance))
            .err()
            .map(|denied| denied.cause)
    }
}

#[test]
fn a_serial_number_says_for_which_incarnation_it_was_issued() {
    let now = Time(1_700_000_000 * SECOND);
    for text in ["1-0-1", "18446744073709551615-4294967295-4294967295", "258-772-5"] {
        let serial = serial_of(incarnation(text), now);
        assert_eq!(instance_of(serial), Some(incarnation(text)));
        assert_eq!(Serial::from_bytes(&serial.0), Some(serial), "it is one of a certificate");
        assert_ne!(
            serial,
            serial_of(incarnation(text), Time(now.0 + SECOND)),
            "the next is another one"
        );
    }
    for other in [&[][..], &[1], &[0x40; 16], &[0x7f; 20]] {
        let serial = Serial::from_bytes(other).expect("a number");
        assert_eq!(instance_of(serial), None, "{serial}");
    }
}

#[test]
fn a_key_is_certified_for_requesting_tasks_on_the_same_machine_only() {
    let mut told = Told::new();
    assert_eq!(told.asked("m1", "1-0-1"), None);
    assert_eq!(told.asked("m2", "1-0-1"), Some(Cause::WrongIdentity));
    assert_eq!(told.asked("m3", "1-0-1"), Some(Cause::WrongIdentity));
    assert_eq!(told.asked("m1", "2-0-1"), Some(Cause::WrongRole));
    for nobody in ["1-0-2", "1-1-1", "3-0-1"] {
        assert_eq!(told.asked("m1", nobody), Some(Cause::Ended), "{nobody}");
    }
    told.request(20, "root", Mutation::RevokeUser(RevokeUser { user: user("ana") }));
    assert_eq!(told.asked("m1", "1-0-1"), None, "what she runs, runs on");
    told.ends(30, "1-0-1", End::Exited { code: 0 });
    assert_eq!(told.asked("m1", "1-0-1"), Some(Cause::Ended));
}

#[test]
fn a_certificate_is_accepted_as_long_as_its_incarnation_is_placed() {
    let mut told = Told::new();
    assert_eq!(told.shown("ana", "1-0-1", 11), None);
    assert_eq!(told.shown("root", "1-0-1", 11), Some(Cause::WrongIdentity));
    assert_eq!(told.shown("ana", "2-0-1", 11), Some(Cause::WrongRole));
    assert_eq!(told.shown("ana", "1-0-2", 11), Some(Cause::Ended));
    told.ends(12, "1-0-1", End::Exited { code: 1 });
    assert_eq!(told.shown("ana", "1-0-1", 11), Some(Cause::Ended), "it failed");
    told.place(60, "1-0-2");
    assert_eq!(told.shown("ana", "1-0-1", 11), Some(Cause::Ended), "another incarnation runs");
    assert_eq!(told.shown("ana", "1-0-2", 61), None);
    let forged = Serial::from_bytes(&[0x41; 16]).expect("a number");
    let denied = accepted(&told.cell, &user("ana"), forged, Time(61 * SECOND), Time(62 * SECOND));
    assert_eq!(denied.expect_err("it names nobody").cause, Cause::BadCertificate);
}

#[test]
fn a_certificate_falls_with_those_of_its_user() {
    let mut told = Told::new();
    told.request(20, "root", Mutation::RevokeUser(RevokeUser { user: user("ana") }));
    for issued in [11, 20, 21] {
        assert_eq!(told.shown("ana", "1-0-1", issued), Some(Cause::Revoked), "{issued}");
    }
    let serial = Serial::from_bytes(&[9]).expect("a number");
    let validity = model::Span::from_secs(3_600);
    told.request(30, "root", Mutation::AddUser(AddUser { user: user("ana"), serial, validity }));
    for (issued, cause) in [(11, Some(Cause::Revoked)), (20, Some(Cause::Revoked)), (21, None)] {
        assert_eq!(told.shown("ana", "1-0-1", issued), cause, "{issued}");
    }
}

#[test]
fn a_task_does_with_its_users_jobs_what_takes_no_capability() {
    let told = Told::new();
    let job = told.cell.job(CollectionId(1)).expect("a job");
    assert_eq!(may_touch(&user("ana"), &job.owner, &job.spec.name), Ok(()));
    let said = may_touch(&user("root"), &job.owner, &job.spec.name).expect_err("another's");
    assert_eq!(said, "a task of root may do nothing with ana/asks: only with jobs of root");

    let submit = |change: Change| {
        let mut spec = spec("new", true);
        change(&mut spec);
        may_submit(&user("ana"), &spec).err().unwrap_or_default()
    };
    let into = |spec: &mut JobSpec, set: &str| {
        spec.kind = Kind::Job { alloc_set: Some(set.parse().expect("a job")) };
    };
    assert_eq!(submit(|_| {}), "");
    assert_eq!(submit(|spec| spec.priority = Band::Production.usual()), "", "quota is for all");
    let refused: [(Change, &str); 2] = [
        (|spec| spec.estimation = false, "estimation: false"),
        (|spec| spec.task.kernel_features = [KernelFeature::NetRaw].into(), "kernelFeatures"),
    ];
    for (change, action) in refused {
        assert!(submit(change).contains(action), "{}", submit(change));
    }
    for (set, refused) in [("room", false), ("ana/room", false), ("ben/room", true)] {
        let mut spec = spec("new", false);
        into(&mut spec, set);
        assert_eq!(may_submit(&user("ana"), &spec).is_err(), refused, "{set}");
    }
    assert!(!told.cell.may(&user("ana"), Capability::AdministerJobs));
}
