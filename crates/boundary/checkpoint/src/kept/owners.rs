//! Users, what they may have, and room that they share.

use cell::{AddUser, GrantQuota, MeterQuota, Oversell, RevokeQuota, RevokeUser, SetCapability};
use model::Serial;
use spec::{Kind, TaskSpec};

use super::*;

impl KeptHistory {
    /// A user who was added, and one who was revoked and added again.
    pub(super) fn users(&mut self) {
        let day = Span::from_secs(86_400);
        let add = |name: &str, serial: u8| {
            Mutation::AddUser(AddUser {
                user: user(name),
                serial: Serial([serial; Serial::BYTES]),
                validity: day,
            })
        };
        self.does("root", add("eve", 1));
        self.does("root", add("zoe", 2));
        self.does("root", Mutation::RevokeUser(RevokeUser { user: user("zoe") }));
        self.does("root", add("zoe", 3));
        self.may_not("root", Mutation::RevokeUser(RevokeUser { user: user("root") }));
    }

    /// An alloc with a task in it, and one that had to leave with its own.
    pub(super) fn allocs(&mut self) {
        self.submit("room", 2, |job| {
            job.kind = Kind::AllocSet { users: [user("ben")].into() };
            job.task = TaskSpec { limit: job.task.limit.times(2), ..TaskSpec::of(Vec::new()) };
        });
        self.submit("inside", 2, |job| {
            job.kind = Kind::Job { alloc_set: Some(reference("room")) };
        });
        let incarnation = |history: &Self, name: &str, index| {
            let name = JobName::new(name).expect("a name");
            let job = history.cell.job_named(&user("ana"), &name).expect("submitted");
            job.instance(TaskIndex(index)).expect("a task")
        };
        self.add("m8", "127.0.0.1:8");
        let report = Arc::clone(&self.cell.machine(self.machine("m1")).expect("there").report);
        self.apply(&Op::DescribeMachine { machine: self.machine("m8"), report });
        for (index, machine) in [(0, "m1"), (1, "m8")] {
            let alloc = incarnation(self, "room", index);
            self.assign(&alloc.to_string(), machine, "");
            let (instance, machine) = (incarnation(self, "inside", index), self.machine(machine));
            let ports = self.cell.job(instance.collection).expect("there").ports(TaskIndex(index));
            let ports = self.cell.machine(machine).expect("there").free_ports(ports.len(), &[]);
            let (alloc, victims) = (Some(alloc), Vec::new());
            let inside = Assignment { address: None, instance, alloc, machine, ports, victims };
            let placed = self.apply(&Op::assign(vec![inside])).outcome;
            assert_eq!(placed, Outcome::Assigned(vec![Ok(())]));
        }
        self.apply(&Op::MachineSilent { machine: self.machine("m8") });
        self.may_not(
            "ben",
            Mutation::Submit(job("lost", 1, |job| {
                job.kind = Kind::Job { alloc_set: Some("ana/web".parse().expect("a job")) };
            })),
        );
    }

    /// Grants, what may be oversold, capabilities, and what is refused for want of them.
    pub(super) fn quota(&mut self) {
        let amount = Resources { cpu: MilliCores(500), ram: Bytes(1 << 30), ..<_>::default() };
        let grant = |band, until| {
            Mutation::GrantQuota(GrantQuota { user: user("ana"), band, amount, from: None, until })
        };
        self.does("root", grant(Band::Production, None));
        self.does("root", grant(Band::Mid, Some(self.now + Span::from_secs(9_000))));
        self.does("root", grant(Band::Mid, None));
        self.does("root", Mutation::RevokeQuota(RevokeQuota { grant: GrantId(3) }));
        self.does("root", Mutation::Oversell(Oversell { band: Band::Mid, percent: 150 }));
        self.does("root", Mutation::MeterQuota(MeterQuota { on: true }));
        for (capability, granted) in [
            (Capability::DrainMachines, true),
            (Capability::GrantQuota, true),
            (Capability::GrantQuota, false),
        ] {
            let user = user("ben");
            self.does("root", Mutation::SetCapability(SetCapability { user, capability, granted }));
        }
        let much = |job: &mut JobSpec| {
            job.priority = Band::Production.usual();
            job.task.limit.cpu = MilliCores(9_000);
        };
        self.may_not("ben", Mutation::Submit(job("much", 2, much)));
        let amount = Resources { cpu: MilliCores(1 << 30), ..amount };
        let (user, band) = (user("ana"), Band::Production);
        let oversold =
            Mutation::GrantQuota(GrantQuota { user, band, amount, from: None, until: None });
        self.may_not("root", oversold);
        self.may_not("root", Mutation::RevokeQuota(RevokeQuota { grant: GrantId(99) }));
    }
}
