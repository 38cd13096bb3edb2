//! Machines that can run no tasks.

use super::*;

const OK: Result<(), String> = Ok(());

/// A task of a job; each has an owner of its own but for the last two.
fn of_job(job: u64) -> Desired {
    let mut desired = sized(0, 64);
    desired.user =
        UserName::new(["ana", "ben", "eva", "mal"][usize::try_from(job.min(4) - 1).unwrap()])
            .unwrap();
    desired.instance.collection = CollectionId(job);
    desired.ports.clear();
    desired
}

fn no(reason: &str) -> Result<(), String> {
    Err(reason.to_owned())
}

impl World {
    fn probed(probed: Result<(), String>) -> Self {
        let world = Self::new();
        Self { borglet: world.borglet.with_probe(world.now, probed), ..world }
    }

    fn not_ready(&self) -> Option<String> {
        self.borglet.report().machine.not_ready.clone()
    }

    fn cannot_set_up(&mut self, job: u64, reason: &str) -> String {
        let instance = of_job(job).instance;
        self.input(Input::SetUpFailed(instance, reason.to_owned()))
    }
}

#[test]
fn a_failed_set_up_is_no_job_failure_and_triggers_a_probe() {
    let mut world = World::probed(OK);
    world.obey(5, vec![of_job(1)]);
    assert_eq!(world.cannot_set_up(1, "no jail"), "probe");
    let why = "its machine could not set it up: no jail";
    assert_eq!(world.state(), format!("0: Ended(Lost {{ reason: \"{why}\" }})"));
    assert_eq!(world.not_ready(), None, "it may be this task");
    assert_eq!(world.input(Input::Probed(OK)), "");
    assert_eq!((world.not_ready(), world.borglet.next_tick()), (None, None));
}

#[test]
fn a_machine_is_not_ready_until_its_probe_works() {
    for begin in [World::probed(no("noexec")), {
        let mut world = World::probed(OK);
        world.obey(5, vec![of_job(1)]);
        world.cannot_set_up(1, "noexec, too");
        world.input(Input::Probed(no("noexec")));
        world
    }] {
        let mut world = begin;
        assert_eq!(world.not_ready().as_deref(), Some("noexec"));
        assert_eq!(world.after(9_999), "");
        assert_eq!(world.after(1), "probe");
        assert_eq!(world.after(60_000), "", "one at a time");
        world.input(Input::Probed(no("still")));
        assert_eq!(world.not_ready().as_deref(), Some("still"));
        assert_eq!(world.after(10_000), "probe");
        world.input(Input::Probed(OK));
        assert_eq!((world.not_ready(), world.borglet.next_tick()), (None, None));
    }
}

#[test]
fn consecutive_set_up_failures_of_several_users_blame_the_machine() {
    let mut world = World::probed(OK);
    world.obey(5, vec![of_job(1), of_job(2), of_job(3)]);
    assert_eq!(world.cannot_set_up(1, "a"), "probe");
    world.input(Input::Probed(OK));
    assert_eq!(world.cannot_set_up(2, "b"), "");
    assert_eq!(world.not_ready().as_deref(), Some("b"));
    assert_eq!(world.cannot_set_up(3, "c"), "");
    assert_eq!(world.after(10_000), "probe");
    assert_eq!(world.not_ready().as_deref(), Some("b"));
    world.input(Input::Probed(OK));
    assert_eq!(world.not_ready(), None);
}

#[test]
fn failed_set_ups_of_one_user_take_no_machine_from_others() {
    let mut world = World::probed(OK);
    world.obey(5, (4..10).map(of_job).collect());
    for job in 4..10 {
        assert_eq!(world.cannot_set_up(job, "its own fault"), "probe");
        world.input(Input::Probed(OK));
        assert_eq!(world.not_ready(), None);
    }
    world.obey(6, (1..10).map(of_job).collect());
    world.cannot_set_up(1, "another's, too");
    assert_eq!(world.not_ready().as_deref(), Some("another's, too"));
}

#[test]
fn a_task_that_starts_between_shows_that_the_machine_can() {
    let mut world = World::probed(OK);
    world.obey(5, vec![of_job(1), of_job(2), of_job(3)]);
    world.cannot_set_up(1, "a");
    world.input(Input::Probed(OK));
    world.input(Input::Started(of_job(2).instance));
    assert_eq!(world.cannot_set_up(3, "c"), "probe");
    assert_eq!(world.not_ready(), None);
}

#[test]
fn an_order_that_cannot_be_kept_is_a_reason_for_a_probe() {
    let mut world = World::probed(OK);
    assert_eq!(world.input(Input::OrderNotKept), "probe");
    assert_eq!(world.input(Input::OrderNotKept), "", "one at a time");
    world.input(Input::Probed(no("read-only")));
    assert_eq!(world.input(Input::OrderNotKept), "");
    assert_eq!(world.after(10_000), "probe");
}

#[test]
fn a_stopped_task_is_stopped_however_its_set_up_ended() {
    let mut world = World::probed(OK);
    world.obey(5, vec![of_job(1)]);
    world.obey(6, vec![]);
    world.cannot_set_up(1, "a");
    assert_eq!(world.state(), "0: Ended(Stopped)");
}
