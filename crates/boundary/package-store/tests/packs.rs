//! Chunks in packs: durable, possessed, and recognized when they are damaged.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::time::Duration;

use bytes::Bytes;
use model::SharedBound;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use package_store::{Error, PackageStore, Settings, StoreLocation};
use support::{Directory, chunk, digest, has, named, upload, user};

#[tokio::test]
async fn a_restarted_process_knows_the_chunks_and_who_uploaded_them() {
    let dir = Directory::new();
    let store = dir.open().await;
    upload(&store, "ana", 0..100).await;
    upload(&store, "ben", 50..150).await;
    let numbers = [149, 3, 4, 60, 3, 0];
    let read = store.get_many(&numbers.map(named)).await.unwrap();
    assert_eq!(read, numbers.map(|number| chunk(number, 1_000)));
    let missing = store.get_many(&[named(3), named(150)]).await;
    assert!(matches!(missing, Err(Error::NotFound { .. })), "{missing:?}");
    for store in [store, dir.open().await] {
        for (of, number, possessed) in [
            ("ana", 0, true),
            ("ana", 99, true),
            ("ana", 100, false),
            ("ben", 0, false),
            ("ben", 99, true),
        ] {
            assert_eq!(store.has_of(&user(of), &named(number)), possessed, "{of} {number}");
        }
        assert!(has(&store, 0).await && has(&store, 149).await && !has(&store, 150).await);
        let totals = store.totals();
        assert_eq!((totals.packs, totals.chunks, totals.aside.len()), (2, 200, 0));
        let sizes = dir.packs().iter().map(|pack| pack.metadata().unwrap().len()).sum::<u64>();
        assert_eq!(store.bytes(), sizes);
    }
}

#[tokio::test]
async fn a_large_upload_takes_several_packs_and_little_is_lost_without_a_seal() {
    let dir = Directory::new();
    let store = dir.open().await;
    let mut upload = store.upload(user("ana"));
    let chunks: Vec<_> = (0..70).map(|number| chunk(number, 1 << 20)).collect();
    for bytes in &chunks {
        assert_eq!(upload.put(digest(bytes), bytes.clone()).await.unwrap(), 1 << 20);
        // Sent twice, stored once.
        assert_eq!(upload.put(digest(bytes), bytes.clone()).await.unwrap(), 0);
    }
    drop(upload);
    let restarted = dir.open().await;
    let is_there = |bytes: &&Bytes| restarted.has_of(&user("ana"), &digest(bytes));
    assert_eq!(chunks.iter().filter(is_there).count(), 58, "two full packs of 29 MiB");
    assert!(dir.packs().iter().all(|pack| pack.metadata().unwrap().len() <= 32 << 20));
    // The rest is sent again.
    let mut upload = restarted.upload(user("ana"));
    for bytes in &chunks {
        upload.put(digest(bytes), bytes.clone()).await.unwrap();
    }
    upload.seal().await.unwrap();
    assert_eq!(dir.packs().len(), 3);
    let largest = chunk(0, 16 << 20);
    let mut upload = restarted.upload(user("ana"));
    upload.put(digest(&largest), largest.clone()).await.unwrap();
    upload.seal().await.unwrap();
    assert_eq!(restarted.get(&digest(&largest)).await.unwrap(), largest);
}

#[tokio::test]
async fn what_is_put_has_its_digest_and_a_length() {
    let dir = Directory::new();
    let mut upload = dir.open().await.upload(user("ana"));
    let wrong = upload.put(named(1), chunk(2, 1_000)).await;
    assert!(matches!(wrong, Err(Error::WrongDigest { .. })), "{wrong:?}");
    for length in [0, (16 << 20) + 1] {
        let bytes = chunk(1, length);
        let refused = upload.put(digest(&bytes), bytes).await;
        assert!(matches!(refused, Err(Error::Length { .. })), "{refused:?}");
    }
    upload.seal().await.unwrap();
    assert!(dir.packs().is_empty(), "an empty pack is not written");
}

#[tokio::test]
async fn a_pack_that_is_cut_off_or_foreign_is_set_aside() {
    let dir = Directory::new();
    upload(&dir.open().await, "ana", 0..10).await;
    let good = dir.packs().remove(0);
    upload(&dir.open().await, "ben", 10..20).await;
    let bad = dir.packs().into_iter().find(|pack| *pack != good).unwrap();
    let whole = fs::read(&bad).unwrap();
    for (name, bytes) in [("README", &b"hello"[..]), ("0.pack", b""), ("x.pack", &whole)] {
        fs::write(good.with_file_name(name), bytes).unwrap();
    }
    // As after a crash on a disk that does not sync.
    for length in (0..whole.len()).step_by(whole.len() / 20).chain([whole.len() - 1]) {
        fs::write(&bad, &whole[..length]).unwrap();
        let store = dir.open().await;
        assert!(has(&store, 0).await && !has(&store, 10).await, "{length}");
        let totals = store.totals();
        assert_eq!((totals.packs, totals.aside.len()), (1, 4), "{length}: {totals:?}");
        // Restored, it is found again without a restart.
        fs::write(&bad, &whole).unwrap();
        assert!(has(&store, 10).await, "{length}");
        assert_eq!(store.totals().aside.len(), 3);
    }
    // The pack of another user under its name is not that pack.
    fs::copy(&good, &bad).unwrap();
    let store = dir.open().await;
    assert!(!store.has_of(&user("ben"), &named(10)) && !has(&store, 10).await);
}

#[tokio::test]
async fn wrong_bytes_are_an_error_that_names_the_pack_unless_another_pack_has_the_chunk() {
    let dir = Directory::new();
    let store = dir.open().await;
    upload(&store, "ana", 0..10).await;
    let pack = dir.packs().remove(0);
    let mut bytes = fs::read(&pack).unwrap();
    bytes[8 + 3_500] ^= 1;
    fs::write(&pack, bytes).unwrap();
    assert!(has(&store, 2).await && has(&store, 4).await);
    let many = store.get_many(&[named(2), named(3)]).await.unwrap_err();
    assert!(matches!(many, Error::WrongBytes { .. }), "{many}");
    let error = store.get(&named(3)).await.unwrap_err();
    let Error::WrongBytes { pack: named_pack, digest, .. } = &error else { panic!("{error}") };
    assert_eq!(*digest, named(3));
    assert!(pack.to_string_lossy().contains(&named_pack.to_string()), "{error}");
    // It can be uploaded again, even by the user who has it.
    assert!(!store.has_of(&user("ana"), &named(3)));
    upload(&store, "ana", [3]).await;
    assert!(has(&store, 3).await && has(&dir.open().await, 3).await);
}

#[tokio::test]
async fn processes_that_share_a_directory_see_each_other() {
    let dir = Directory::new();
    let (one, two) = (dir.open().await, dir.open().await);
    upload(&one, "ana", 0..10).await;
    assert!(has(&two, 0).await);
    upload(&two, "ana", 10..20).await;
    assert!(!one.has_of(&user("ana"), &named(10)));
    one.refresh().await.unwrap();
    assert!(one.has_of(&user("ana"), &named(10)));
}

#[tokio::test]
async fn users_share_the_index() {
    let dir = Directory::new();
    let settings = Settings { chunks_max: SharedBound::new(160), ..dir.settings() };
    let store = PackageStore::open(&dir.location(), settings).await.unwrap();
    upload(&store, "ana", 0..70).await;
    let mut more = store.upload(user("ana"));
    let refused = more.put(named(70), chunk(70, 1_000)).await;
    assert!(matches!(refused, Err(Error::Chunks { .. })), "{refused:?}");
    upload(&store, "ben", 0..35).await;
}

/// A small file system, unmounted at the end.
struct Small(tempfile::TempDir);

impl Small {
    fn mount(size: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = Some(size);
        mount(Some("tmpfs"), dir.path(), Some("tmpfs"), MsFlags::empty(), options).unwrap();
        Self(dir)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        umount2(self.0.path(), MntFlags::MNT_DETACH).unwrap();
    }
}

/// Uploads chunks of 1 MiB, each in a pack of its own, until the store refuses one. Returns how many were stored.
async fn fill(store: &PackageStore, of: &str) -> (u64, Error) {
    for number in 0.. {
        let bytes = chunk(number, 1 << 20);
        let mut upload = store.upload(user(of));
        upload.put(digest(&bytes), bytes).await.unwrap();
        if let Err(error) = upload.seal().await {
            return (number, error);
        }
    }
    unreachable!("a disk is never so large")
}

#[tokio::test]
async fn users_share_the_disk() {
    let small = Small::mount("size=16m");
    let location = StoreLocation::Directory(small.0.path().to_owned());
    let store = PackageStore::open(&location, Settings::default()).await.unwrap();
    // An eighth is reserved; each takes half of what the others left, but for what is no chunk.
    for (of, most) in [("ana", 7), ("ben", 4), ("cho", 2)] {
        let (stored, refused) = fill(&store, of).await;
        assert!(matches!(refused, Error::Bytes { .. }), "{of}: {refused}");
        assert!((most - 1..=most).contains(&stored), "{of}: {stored}");
    }
}

#[tokio::test]
async fn a_full_disk_is_an_error_and_nothing_more() {
    let small = Small::mount("size=64m,nr_inodes=16");
    let location = StoreLocation::Directory(small.0.path().to_owned());
    let store = PackageStore::open(&location, Settings::default()).await.unwrap();
    upload(&store, "ana", 0..10).await;
    let others = small.0.path().join("others");
    fs::create_dir(&others).unwrap();
    let mut names = 0..;
    while names.next().is_some_and(|name: u32| fs::write(others.join(name.to_string()), []).is_ok())
    {
    }
    let bytes = chunk(1, 1 << 20);
    let mut large = store.upload(user("ana"));
    large.put(digest(&bytes), bytes).await.unwrap();
    let full = large.seal().await.unwrap_err();
    assert!(matches!(full, Error::Full { .. }), "{full}");
    fs::remove_dir_all(others).unwrap();
    // Nothing of it is left, and there is room for what fits.
    upload(&store, "ana", 10..20).await;
    let restarted = PackageStore::open(&location, Settings::default()).await.unwrap();
    assert!(has(&restarted, 0).await && has(&restarted, 19).await);
    assert_eq!(restarted.totals().aside, Vec::new());
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_an_error() {
    let dir = Directory::new();
    let settings = Settings { timeout: Duration::from_millis(200), ..dir.settings() };
    let store = PackageStore::open(&dir.location(), settings).await.unwrap();
    upload(&store, "ana", 0..10).await;
    let pack = dir.packs().remove(0);
    fs::remove_file(&pack).unwrap();
    // Opening it takes until somebody writes.
    nix::unistd::mkfifo(&pack, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let slow = store.get(&named(0)).await.unwrap_err();
    assert!(matches!(slow, Error::Slow { .. }), "{slow}");
    drop(fs::OpenOptions::new().write(true).open(&pack).unwrap());
}

#[tokio::test]
async fn a_new_directory_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = Directory::new();
    let new = dir.dir.path().join("a/b");
    let location = StoreLocation::Directory(new.clone());
    let store = PackageStore::open(&location, dir.settings()).await.unwrap();
    upload(&store, "ana", 0..10).await;
    assert_eq!(new.metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn a_location_that_cannot_be_used_is_an_error() {
    let dir = Directory::new();
    let file = dir.dir.path().join("file");
    fs::write(&file, "x").unwrap();
    for location in [file.to_str().unwrap(), "/proc/x/y"] {
        let location = StoreLocation::parse(location);
        let error = PackageStore::open(&location, Settings::default()).await.unwrap_err();
        assert!(matches!(error, Error::Location { .. }), "{error}");
    }
    assert_eq!(StoreLocation::parse("s3://b/p"), StoreLocation::Bucket("s3://b/p".to_owned()));
}
