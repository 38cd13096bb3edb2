//! A scheduler whose copy of the cell is old.

use cell::EventKind;
use model::Span;
use replica::Codec;

use super::stage::{Cast, Scene, Stage};
use crate::network::{Node, Nodes, Trouble};

pub(super) const ABOUT: &str = "In Nomad a scheduler whose view of a node differs from the leader's \
plans for it again and again, and the leader rejects that again and again (\"plan for node rejected\", \
hashicorp/nomad issue 9506, 2020). Here the scheduler stands still, is cut off, and hears everything \
up to eight seconds late, while jobs come and go, machines are drained and a second scheduler takes \
what is free. What the master refuses is bounded; and when the trouble is over they agree within \
seconds, and nothing is refused any more.";

const MINUTE: Span = Span::from_secs(60);

pub(super) fn play<C: Codec>(cast: Cast<C>) -> Stage<C> {
    let mut stage = Stage::set(cast, Scene::of(12));
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
        stage.comes_to_agree();
        let refused = stage.world.counts().refused - refused;
        let what = match trouble {
            0 => "refused assignments of one that stood still",
            1 => "refused assignments of one that was cut off",
            _ => "refused assignments of one that hears late",
        };
        // Each life of a task once.
        let lives = stage.happened(begin, |_, kind| matches!(kind, EventKind::Submit { .. }));
        stage.figure(what, refused, lives);
    }
    stage
}

/// A minute in which the cell changes under the scheduler.
fn meanwhile<C: Codec>(stage: &mut Stage<C>, names: &mut usize) {
    let end = stage.world.age() + MINUTE;
    while stage.world.age() < end && stage.world.violation().is_none() {
        *names += 1;
        stage.submit(&format!("j{names}"), 110, (6, 1), "for=20 heeds=100");
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
    /// The trouble is over.
    fn comes_to_agree(&mut self) {
        for machine in 0..12 {
            self.ask(&format!("undrain m{machine}"));
        }
        self.rests("seconds until they agree and all that fits is placed", 20);
        let refused = self.world.counts().refused;
        self.submit("after", 100, (12, 1), "for=1");
        self.passes(Span::from_secs(10));
        let refused = self.world.counts().refused - refused;
        self.figure("refused assignments once they agree", refused, 0);
    }
}
