//! Rules on machines.

use model::HeldPorts;

use super::*;

impl KeptHistory {
    /// A machine of which something holds ports, and a task that broke a rule there.
    pub(super) fn rules(&mut self) {
        self.submit("grabs", 1, |job| job.priority = Band::Free.usual());
        let name = JobName::new("grabs").expect("a name");
        let grabs = self.cell.job_named(&user("ana"), &name).expect("submitted");
        let grabs = grabs.instance(TaskIndex(0)).expect("a task").to_string();
        self.assign(&grabs, "m1", "");
        self.started("m1", &grabs);
        let reason = "it held port 31007, which it was not given".to_owned();
        self.ended("m1", &grabs, End::BrokeRule { reason });
        self.short();
        let machine = self.machine("m1");
        let report = &self.cell.machine(machine).expect("there").report;
        let held = |ports: &str| HeldPorts {
            ports: ports.parse().expect("ports"),
            by: "/system.slice/ssh.service (sshd)".to_owned(),
        };
        let held_ports = vec![held("31008-31010"), held("31012-31012")];
        let report = Arc::new(MachineReport { held_ports, ..MachineReport::clone(report) });
        self.apply(&Op::DescribeMachine { machine, report });
    }

    /// A task that its machine, which ran out of memory, evicted.
    fn short(&mut self) {
        self.submit("slack", 1, |job| {
            job.priority = Band::Free.usual();
            job.task.memory_slack = true;
        });
        let name = JobName::new("slack").expect("a name");
        let slack = self.cell.job_named(&user("ana"), &name).expect("submitted");
        let slack = slack.instance(TaskIndex(0)).expect("a task").to_string();
        self.assign(&slack, "m1", "");
        self.started("m1", &slack);
        let reason = "it used 90 MiB, its limit is 64 MiB".to_owned();
        self.ended("m1", &slack, End::OutOfResources { reason });
    }
}
