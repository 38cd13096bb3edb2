//! Removal of what is not needed, and nothing else.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::HashSet;
use std::fs;
use std::time::{Duration, SystemTime};

use model::Digest;
use package_store::{Collected, Error, PackageStore};
use support::{DAY, Directory, HOUR, chunk, digest, has, named, upload, user};

/// Collects all but these.
async fn collect(store: &PackageStore, live: impl IntoIterator<Item = u64>) -> Collected {
    let live: HashSet<Digest> = live.into_iter().map(named).collect();
    let plan = store.collect(|digest| live.contains(digest), DAY, true).await.unwrap();
    let done = store.collect(|digest| live.contains(digest), DAY, false).await.unwrap();
    assert_eq!(plan, done);
    done
}

#[tokio::test]
async fn packs_are_removed_rewritten_or_left() {
    for (live, removed, rewritten, packs) in [
        (0..0, 1, 0, 0),
        (50..60, 1, 0, 0),
        (0..1, 0, 1, 1),
        (0..4, 0, 1, 1),
        (0..5, 0, 0, 1),
        (0..10, 0, 0, 1),
    ] {
        let dir = Directory::new();
        let store = dir.open().await;
        upload(&store, "ana", 0..10).await;
        let young = collect(&store, []).await;
        assert_eq!(young, Collected::default(), "nothing is younger than a day");
        dir.later(DAY + HOUR);
        let before = store.bytes();
        let plan = collect(&store, live.clone()).await;
        let counts = (plan.removed.len(), plan.rewritten.len(), dir.packs().len());
        assert_eq!(counts, (removed, rewritten, packs), "{live:?}");
        if removed + rewritten > 0 {
            assert!(before - store.bytes() <= plan.bytes && plan.bytes <= before);
        }
        for store in [&store, &dir.open().await] {
            for number in 0..10 {
                let kept = live.contains(&number) || removed + rewritten == 0;
                assert_eq!(has(store, number).await, kept, "{live:?} {number}");
                assert_eq!(store.has_of(&user("ana"), &named(number)), kept);
            }
        }
        assert_eq!(
            collect(&store, live).await,
            Collected::default(),
            "there is nothing left to do"
        );
    }
}

#[tokio::test]
async fn chunks_of_two_users_keep_one_copy_and_both_owners() {
    let dir = Directory::new();
    let store = dir.open().await;
    upload(&store, "ana", 0..20).await;
    upload(&store, "ben", 0..20).await;
    dir.later(DAY + HOUR);
    let before = store.bytes();
    let plan = collect(&store, 0..20).await;
    assert_eq!((plan.removed.len(), plan.rewritten.len()), (0, 1));
    assert!(
        plan.bytes > before / 3 && store.bytes() < before * 2 / 3,
        "{} {before}",
        store.bytes()
    );
    for store in [&store, &dir.open().await] {
        for number in 0..20 {
            assert!(has(store, number).await);
            let both = ["ana", "ben"].map(|of| store.has_of(&user(of), &named(number)));
            assert_eq!(both, [true, true]);
        }
    }
    // A duplicate of the same user ends without a trace.
    dir.later(DAY);
    let again = dir.dir.path().join("again");
    fs::rename(dir.dir.path().join("packs"), &again).unwrap();
    upload(&dir.open().await, "ana", 0..20).await;
    for pack in fs::read_dir(&again).unwrap() {
        let pack = pack.unwrap();
        fs::rename(pack.path(), dir.dir.path().join("packs").join(pack.file_name())).unwrap();
    }
    dir.later(DAY + HOUR);
    collect(&store, 0..20).await;
    assert!(dir.packs().len() <= 3);
    for number in 0..20 {
        assert!(has(&store, number).await);
    }
    assert!(store.totals().chunks <= 60);
}

#[tokio::test]
async fn a_collection_that_ended_early_leaves_duplicates_at_most() {
    let dir = Directory::new();
    let store = dir.open().await;
    upload(&store, "ana", 0..10).await;
    dir.later(DAY + HOUR);
    let old = dir.packs().remove(0);
    let bytes = fs::read(&old).unwrap();
    collect(&store, 0..3).await;
    // It ended after the new pack was written: the old one is still there.
    fs::write(&old, bytes).unwrap();
    assert_eq!(dir.packs().len(), 2);
    let restarted = dir.open().await;
    assert!(has(&restarted, 0).await && has(&restarted, 9).await);
    collect(&restarted, 0..3).await;
    assert_eq!(dir.packs().len(), 1);
    for number in 0..10 {
        assert_eq!(has(&restarted, number).await, number < 3);
    }
}

#[tokio::test]
async fn a_process_reads_on_while_another_collects() {
    let dir = Directory::new();
    let (one, two) = (dir.open().await, dir.open().await);
    upload(&one, "ana", 0..10).await;
    two.refresh().await.unwrap();
    dir.later(DAY + HOUR);
    assert_eq!(collect(&one, 0..3).await.rewritten.len(), 1);
    assert!(has(&two, 0).await, "it is in a new pack");
    assert!(!has(&two, 9).await);
}

#[tokio::test]
async fn what_an_upload_relies_on_stays() {
    let dir = Directory::new();
    let (one, two) = (dir.open().await, dir.open().await);
    upload(&one, "ana", 0..10).await;
    dir.later(DAY + HOUR);
    let mut relying = two.upload(user("ana"));
    let there = relying.rely(&[0, 1, 11].map(named)).await.unwrap();
    assert_eq!(there, [true, true, false]);
    collect(&one, []).await;
    for store in [&one, &two, &dir.open().await] {
        let kept = [has(store, 0).await, has(store, 1).await, has(store, 2).await];
        assert_eq!(kept, [true, true, false]);
    }
    // Relied on again, nothing new is written.
    let packs = dir.packs();
    assert_eq!(relying.rely(&[named(0)]).await.unwrap(), [true]);
    assert_eq!(dir.packs(), packs);
    dir.later(DAY + HOUR);
    collect(&one, []).await;
    assert!(!has(&one, 0).await && dir.packs().is_empty());
}

#[tokio::test]
async fn an_upload_does_not_rely_on_what_is_about_to_be_deleted() {
    let dir = Directory::new();
    let store = dir.open().await;
    upload(&store, "ana", 0..10).await;
    upload(&store, "ana", 10..20).await;
    dir.later(DAY + HOUR);
    let doomed = dir.packs().remove(0);
    let first = doomed.file_stem().unwrap().to_str().unwrap();
    fs::write(dir.dir.path().join("collecting"), format!("{first}\n")).unwrap();
    let mut relying = store.upload(user("ana"));
    let digests: Vec<_> = (0..20).map(named).collect();
    let there = relying.rely(&digests).await.unwrap();
    assert_eq!(there.iter().filter(|there| **there).count(), 10);
    // Sent again, they are there.
    for (number, _) in (0..20).zip(there).filter(|(_, there)| !there) {
        let bytes = chunk(number, 1_000);
        relying.put(digest(&bytes), bytes).await.unwrap();
    }
    relying.seal().await.unwrap();
    assert_eq!(relying.rely(&digests).await.unwrap(), [true; 20]);
    assert_eq!(relying.confirm(&digests).await.unwrap(), [true; 20]);
}

#[tokio::test]
async fn one_collection_at_a_time_and_a_dead_one_is_replaced() {
    let dir = Directory::new();
    let store = dir.open().await;
    upload(&store, "ana", 0..10).await;
    dir.later(DAY + HOUR);
    let lock = dir.dir.path().join("collecting");
    fs::write(&lock, "").unwrap();
    let refused = store.collect(|_| false, DAY, false).await;
    assert!(matches!(refused, Err(Error::Collecting { .. })), "{refused:?}");
    assert!(store.collect(|_| false, DAY, true).await.is_ok(), "a plan changes nothing");
    let old = SystemTime::now() - 2 * HOUR;
    fs::File::options().write(true).open(&lock).unwrap().set_modified(old).unwrap();
    assert_eq!(collect(&store, []).await.removed.len(), 1);
    assert!(!lock.exists());
}

#[tokio::test]
async fn small_packs_of_a_user_are_merged() {
    let dir = Directory::new();
    let store = dir.open().await;
    for number in 0..10 {
        upload(&store, "ana", [number]).await;
        dir.later(Duration::from_secs(1));
    }
    upload(&store, "ben", [100]).await;
    dir.later(DAY + HOUR);
    let live: Vec<u64> = (0..10).chain([100]).collect();
    assert_eq!(collect(&store, live.clone()).await.rewritten.len(), 10);
    assert_eq!(dir.packs().len(), 2);
    for number in live {
        assert!(has(&store, number).await);
    }
}

#[tokio::test]
async fn a_pack_with_wrong_bytes_is_not_collected() {
    let dir = Directory::new();
    let store = dir.open().await;
    upload(&store, "ana", 0..10).await;
    dir.later(DAY + HOUR);
    let pack = dir.packs().remove(0);
    let mut bytes = fs::read(&pack).unwrap();
    bytes[8] ^= 1;
    fs::write(&pack, bytes).unwrap();
    let live = HashSet::from([named(0), named(1)]);
    let done = store.collect(|digest| live.contains(digest), DAY, false).await.unwrap();
    assert_eq!((done, dir.packs()), (Collected::default(), vec![pack]));
    assert!(has(&store, 1).await);
}

#[tokio::test]
async fn files_of_interrupted_writes_are_swept() {
    let dir = Directory::new();
    let store = dir.open().await;
    upload(&store, "ana", 0..10).await;
    let staged = dir.dir.path().join("packs/x.pack#1");
    fs::write(&staged, "x").unwrap();
    assert_eq!(dir.open().await.totals().aside, Vec::new(), "it is not an object");
    collect(&store, []).await;
    assert!(staged.exists(), "it may be in progress");
    let old = SystemTime::now() - DAY - HOUR;
    fs::File::options().write(true).open(&staged).unwrap().set_modified(old).unwrap();
    collect(&store, []).await;
    assert!(!staged.exists());
    assert!(has(&store, 0).await);
}
