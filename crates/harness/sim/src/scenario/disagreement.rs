//! A scheduler with an outdated copy of the cell.

use cell::EventKind;
use model::Span;
use replica::Codec;

use super::stage::{Parameters, Stage, WorldSetup};
use crate::network::{Node, Nodes, Trouble};

pub(super) const ABOUT: &str = "In Nomad a scheduler whose view of a node differs from the \
leader's plans for it again and again, and the leader rejects that again and again (\"plan for \
node rejected\", hashicorp/nomad issue 9506, 2020). Here the scheduler freezes, is cut off, and \
receives everything up to eight seconds late, while jobs come and go, machines are drained and a \
second scheduler takes what is free. The number of rejections has to be bounded; and after the \
faults they have to agree within seconds, with no further rejections.";

const MINUTE: Span = Span::from_secs(60);

pub(super) fn play<C: Codec>(parameters: Parameters<C>) -> Stage<C> {
    let mut stage = Stage::new(parameters, WorldSetup::of(12));
    let mut names = 0;
    for trouble in 0..3 {
        stage.world.rival_begins(Span::from_millis(500));
        let (begin, refused) = (stage.world.now(), stage.world.counts().refused);
        let number = match trouble {
            0 => {
                stage.world.freeze_scheduler(true);
                None
            }
            1 => Some(stage.disturb(Nodes::One(Node::Scheduler), Trouble::Cut)),
            _ => {
                let late = Trouble::Delay(Span::from_secs(8));
                Some(stage.disturb(Nodes::One(Node::Scheduler), late))
            }
        };
        meanwhile(&mut stage, &mut names);
        stage.world.rival_ends();
        stage.world.freeze_scheduler(false);
        number.into_iter().for_each(|number| stage.world.network.calm(number));
        stage.check_agreement();
        let refused = stage.world.counts().refused - refused;
        let what = match trouble {
            0 => "rejected assignments of a frozen scheduler",
            1 => "rejected assignments of a scheduler that was cut off",
            _ => "rejected assignments of a scheduler that receives everything late",
        };
        // Each incarnation of a task once.
        let incarnations =
            stage.task_events(begin, |_, kind| matches!(kind, EventKind::Submit { .. }));
        stage.figure(what, refused, incarnations);
    }
    stage
}

/// A minute in which the cell changes without the scheduler knowing.
fn meanwhile<C: Codec>(stage: &mut Stage<C>, names: &mut usize) {
    let end = stage.world.age() + MINUTE;
    while stage.world.age() < end && stage.world.violation().is_none() {
        *names += 1;
        stage.submit(&format!("j{names}"), 110, 6, 1, "for=20 heeds=100");
        if *names > 4 && names.is_multiple_of(3) {
            stage.ask(&format!("kill ana/j{}", *names - 4));
        }
        let machine = *names % 12;
        stage.ask(&match names.is_multiple_of(2) {
            true => format!("drain m{machine} repair"),
            false => format!("undrain m{machine}"),
        });
        stage.passes(Span::from_secs(3));
    }
}

impl<C: Codec> Stage<C> {
    /// The disturbance is over.
    fn check_agreement(&mut self) {
        for machine in 0..12 {
            self.ask(&format!("undrain m{machine}"));
        }
        self.wait_until_settled(
            "seconds until scheduler and master agree and everything that fits is placed",
            20,
        );
        let refused = self.world.counts().refused;
        self.submit("after", 100, 12, 1, "for=1");
        self.passes(Span::from_secs(10));
        let refused = self.world.counts().refused - refused;
        self.figure("rejected assignments once they agree", refused, 0);
    }
}
