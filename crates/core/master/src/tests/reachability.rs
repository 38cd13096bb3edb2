//! The reachabilities that a link shard reports: changes, and all of them when messages may be
//! lost.

use super::*;

impl World {
    fn answers(&mut self) {
        self.now = self.now + Span::from_millis(5);
        self.reported(false, 3, &[]);
    }

    fn is_served_by(&mut self, active: &[ReplicaId]) {
        let partition = Partition::of(ReplicaId(1), active.to_vec());
        self.shard.serve(self.now, &self.cell, Some(partition));
    }
}

#[test]
fn contacts_are_differences_and_all_of_them_after_a_new_leader() {
    type Happens = fn(&mut World);
    let rows: [(&str, Happens, &[Reachability]); 17] = [
        ("it is new", |_| {}, &[Reachability::Unknown]),
        ("nothing", |_| {}, &[]),
        ("its first answer", World::answers, &[Reachability::Answers]),
        ("another one", World::answers, &[]),
        ("a poll fails", World::failed, &[Reachability::Doubtful]),
        ("another three", |world| (0..3).for_each(|_| world.failed()), &[]),
        ("the fifth", World::failed, &[Reachability::Silent]),
        ("the sixth", World::failed, &[]),
        ("another leader", |world| world.term(4), &[Reachability::Silent]),
        ("nothing", |_| {}, &[]),
        (
            "it begins anew",
            |world| world.shard.begin_anew(&[M1, MachineId(9)]),
            &[Reachability::Unknown],
        ),
        ("a poll fails", World::failed, &[Reachability::Doubtful]),
        ("it answers", World::answers, &[Reachability::Answers]),
        (
            "a while, and an answer",
            |world| {
                world.now = world.now + Span::from_secs(10);
                world.answers();
            },
            &[Reachability::Answers],
        ),
        ("another replica polls it", |world| world.is_served_by(&[ReplicaId(2)]), &[]),
        ("it comes back", |world| world.is_served_by(&[ReplicaId(1)]), &[Reachability::Unknown]),
        (
            "nobody is said to poll it",
            |world| {
                world.answers();
                world.shard.serve(world.now, &world.cell, None);
            },
            &[],
        ),
    ];
    let mut world = World::new();
    for (what, happens, expected) in rows {
        happens(&mut world);
        let said: Vec<Reachability> = world
            .shard
            .contacts_changed()
            .into_iter()
            .map(|(_, reachability)| reachability)
            .collect();
        assert_eq!(said, expected, "{what}");
    }
    assert_eq!(world.shard.reachabilities(), []);
}

#[test]
fn all_contacts_are_there_for_whoever_asks() {
    let mut world = World::new();
    assert_eq!(world.shard.reachabilities(), [(M1, Reachability::Unknown)]);
    world.shard.contacts_changed();
    world.answers();
    assert_eq!(world.shard.reachabilities(), [(M1, Reachability::Answers)]);
    assert_eq!(world.shard.contacts_changed(), [(M1, Reachability::Answers)]);
}
