//! Names of other jobs in launches, and tasks that have to read them again.

use std::collections::BTreeMap;

use super::*;

#[test]
fn names_are_filled_in_once_they_are_known() {
    let mut desired = desired(0, 31_000);
    let spec = Arc::make_mut(&mut desired.spec);
    spec.cmd.push("${bns.db.address}".to_owned());
    spec.env.insert("DB".to_owned(), "at ${bns.db.address} $${bns.db.host}".to_owned());
    let launch = Launch::new(desired, None, 200_000);
    assert!(launch.asks_master());
    assert_eq!(launch.argv[3], "${bns.db.address}");
    let names = [("bns.db.address".to_owned(), "10.0.0.7:5432".to_owned())];
    let launch = launch.told(BTreeMap::from(names));
    assert_eq!(launch.argv, ["serve", "31000", "0", "10.0.0.7:5432"]);
    let db = launch.env.iter().find(|(name, _)| name == "DB").map(|(_, value)| value.as_str());
    assert_eq!(db, Some("at 10.0.0.7:5432 ${bns.db.host}"));
    assert!(!Launch::new(super::desired(0, 31_000), None, 200_000).asks_master());
}

#[test]
fn a_file_is_complete_once_all_its_names_are_known() {
    let mut desired = desired(0, 31_000);
    let spec = Arc::make_mut(&mut desired.spec);
    for (path, text) in [
        ("/a", "${task.index} $${bns.no.host}"),
        ("/b", "${bns.db.host}"),
        ("/c", "${bns.db.host} ${bns.web.host}"),
    ] {
        let content = spec::FileContent::Text(text.into());
        let file = spec::TaskFile { content, mode: spec::FileMode::default() };
        spec.files.insert(path.to_owned(), file);
    }
    let launch = Launch::new(desired, None, 200_000);
    let complete = |launch: &Launch| launch.files().map(|file| file.is_complete).collect();
    let known: Vec<bool> = complete(&launch);
    assert_eq!(known, [true, false, false]);
    let launch = launch.told([("bns.db.host".to_owned(), "10.0.0.7".to_owned())].into());
    let known: Vec<bool> = complete(&launch);
    assert_eq!(known, [true, true, false]);
}

#[test]
fn a_running_task_reads_again_once_for_each_time_that_it_is_told() {
    let mut world = World::new();
    let told = |reads_again| Desired { reads_again, ..sized(0, 64) };
    let reads = |world: &mut World, index, reads_again| {
        let mut effects = Vec::new();
        let order = order(index, vec![told(reads_again)]);
        world.borglet.obey(world.now, order, &mut effects).expect("a newer order");
        effects.iter().filter(|effect| matches!(effect, Effect::ReadAgain(_))).count()
    };
    assert_eq!(reads(&mut world, 5, 0), 0);
    assert_eq!(reads(&mut world, 6, 1), 0, "it does not run yet");
    world.input(Input::Started(instance(0)));
    assert_eq!(reads(&mut world, 7, 1), 1);
    assert_eq!(reads(&mut world, 7, 1), 0, "it does already");
    assert_eq!(reads(&mut world, 8, 0), 0);
    assert_eq!(reads(&mut world, 9, 2), 1);
}

#[test]
fn numbers_begin_again_with_a_restored_cell() {
    let mut world = World::new();
    let told = || Desired { reads_again: 1, ..sized(0, 64) };
    let reads = |world: &mut World, order: Order| {
        let mut effects = Vec::new();
        world.borglet.obey(world.now, order, &mut effects).expect("a newer order");
        effects.iter().filter(|effect| matches!(effect, Effect::ReadAgain(_))).count()
    };
    assert_eq!(reads(&mut world, order(5, vec![sized(0, 64)])), 0);
    world.input(Input::Started(instance(0)));
    assert_eq!(reads(&mut world, order(6, vec![told()])), 1);
    let restored = |index| {
        let order = order(index, vec![told()]);
        let restore_epoch = RestoreEpoch { counter: 1, random: 5 };
        Order { stamp: Stamp { restore_epoch, ..order.stamp }, ..order }
    };
    assert_eq!(reads(&mut world, restored(4)), 1, "it was told of something else");
    assert_eq!(reads(&mut world, restored(5)), 0);
}
