//! Volumes: an exclusive one has one task at a time.

use model::{VolumeContent, VolumeMark, VolumeMount};

use super::*;

fn with_volume(index: u32, generation: u32, source: &str, exclusive: bool) -> Desired {
    let mut desired = desired(index, 31_000 + u16::try_from(generation).expect("a small number"));
    desired.instance.generation = Generation(generation);
    let owner = Some(desired.user.clone());
    let mark = VolumeMark { first: instance(index), owner, content: VolumeContent::Known };
    desired.volumes = vec![VolumeMount {
        name: "data".parse().expect("a name"),
        source: source.parse().expect("a path"),
        target: "/data".parse().expect("a path"),
        read_only: false,
        exclusive,
        mark,
    }];
    desired
}

/// The machine was silent for so long that the cell has placed the task anew, on the machine of its claim.
#[test]
fn the_next_incarnation_waits_for_the_end_of_the_one_before() {
    let mut world = World::new();
    let first = world.obey(1, vec![with_volume(0, 1, "/srv/data", true)]);
    assert!(first.contains("start 1-0-1"), "{first}");
    world.input(Input::Started(instance(0)));
    let next = world.obey(2, vec![with_volume(0, 2, "/srv/data", true)]);
    assert!(next.contains("terminate 1-0-1") && !next.contains("start 1-0-2"), "{next}");
    let end = Input::Ended(instance(0), End::Exited { code: 0 }, FinalUsage::UNMEASURED);
    let then = world.input(end);
    assert!(then.contains("start 1-0-2"), "{then}");
}

#[test]
fn others_do_not_wait() {
    for (source, exclusive) in [("/srv/other", true), ("/srv/data", false)] {
        let mut world = World::new();
        let first = with_volume(0, 1, "/srv/data", exclusive);
        let started = world.obey(1, vec![first.clone()]);
        assert!(started.contains("start 1-0-1"), "{started}");
        let both = world.obey(2, vec![first, with_volume(1, 2, source, exclusive)]);
        assert!(both.contains("start 1-1-2"), "{source} {exclusive}: {both}");
    }
}
