//! Uploads, reads and collections over real sockets, with certificates of a cell.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::{Duration, SystemTime};

use api::v1;
use api::v1::upload_request::What;
use package::manifest::Layer;
use rpc::Authority;
use rpc::statement::Verifier;
use support::package::{Package, chunk, package};
use support::{
    Cell, GIB, HOUR, Server, Uploading, code, fetch, may_read, may_upload, micros, push,
};
use tonic::Code;

#[tokio::test]
async fn a_package_is_uploaded_and_read() {
    let cell = Cell::new();
    let server = Server::start(&cell);
    let mut ana = server.client(cell.credentials("user/ana"));
    // Small chunks, and a manifest in pieces.
    let package = Package::image((0..1_100).map(|n| chunk(n, 2_000)), 30);
    let (receipt, sent) = push(&mut ana, cell.begin("ana"), &package).await.unwrap();
    assert_eq!(sent, package.digests().len());
    let verifier = Verifier::new(cell.authority.ca_pem()).unwrap();
    let receipt = verifier.verify::<v1::Receipt>(&receipt, SystemTime::now()).unwrap();
    assert_eq!(receipt.signer.to_string(), "packages/p1");
    let receipt = receipt.message;
    assert_eq!(receipt.manifest, package.manifest.as_bytes());
    assert_eq!((&*receipt.user, receipt.bytes_stored), ("ana", package.size()));
    assert_eq!((receipt.entries, receipt.bytes_unpacked), (1_100, 2_200_000));
    assert_eq!(
        (receipt.kind(), &receipt.architectures[..]),
        (v1::PackageKind::Image, &["amd64".to_owned()][..])
    );
    assert!(receipt.until > micros(SystemTime::now() + 11 * HOUR));

    for holder in ["user/ana", "borglet/m1", "task/ana/web/0"] {
        let mut client = server.client(cell.credentials(holder));
        let right = cell.right(holder, may_read(package.manifest));
        for digests in package.digests().chunks(1_024) {
            let chunks = fetch(&mut client, right.clone(), digests).await.unwrap();
            assert!(chunks.iter().map(Vec::as_slice).eq(digests.iter().map(|d| package.bytes(d))));
        }
    }
    // Nothing is sent twice, and the receipt is there again.
    let (_, sent) = push(&mut ana, cell.begin("ana"), &package).await.unwrap();
    assert_eq!(sent, 0);
}

#[tokio::test]
async fn an_upload_continues_after_the_server_was_killed() {
    let cell = Cell::new();
    let server = Server::start(&cell);
    let package = package(0..280, 1 << 18);
    let mut ana = server.client(cell.credentials("user/ana"));
    let mut upload = Uploading::begin(&mut ana, cell.begin("ana")).await.unwrap();
    let missing = upload.offer(&package.digests()).await.unwrap();
    assert_eq!(missing.len(), 282);
    upload.data(missing.iter().take(260).map(|digest| package.bytes(digest))).await;
    let mut stored = 0;
    while stored < 50 << 20 {
        match upload.next().await.unwrap() {
            v1::upload_response::What::Stored(v1::UploadStored { bytes }) => stored = bytes,
            other => panic!("{other:?}"),
        }
    }
    server.kill();

    let server = Server::start(&cell);
    let mut ana = server.client(cell.credentials("user/ana"));
    let mut upload = Uploading::begin(&mut ana, cell.begin("ana")).await.unwrap();
    let missing = upload.offer(&package.digests()).await.unwrap();
    assert!(missing.len() < 80, "{}", missing.len());
    // Not before it is complete.
    let early = upload.commit(package.manifest).await;
    assert_eq!(code(&early), Code::FailedPrecondition, "{early:?}");
    let (_, sent) = push(&mut ana, cell.begin("ana"), &package).await.unwrap();
    assert!(sent < 80);
    // An upload that ends without a commit keeps what was sent.
    let other = support::package::package(100..110, 1_000);
    let upload = Uploading::begin(&mut ana, cell.begin("ana")).await.unwrap();
    let digests = other.digests();
    upload.data(digests.iter().map(|digest| other.bytes(digest))).await;
    drop(upload);
    let (_, sent) = push(&mut ana, cell.begin("ana"), &other).await.unwrap();
    assert!(sent == 0 || sent == digests.len(), "{sent}");
}

#[tokio::test]
async fn a_read_needs_a_right_to_that_package() {
    let cell = Cell::new();
    let server = Server::start(&cell);
    let mut ana = server.client(cell.credentials("user/ana"));
    let (ours, other) = (package(0..10, 1_000), package(5..15, 1_000));
    for package in [&ours, &other] {
        push(&mut ana, cell.begin("ana"), package).await.unwrap();
    }
    let (inside, outside) = (ours.digests(), other.digests());
    let outside: Vec<_> = outside.into_iter().filter(|digest| !inside.contains(digest)).collect();
    let me = "borglet/m1";
    let read = may_read(ours.manifest);
    let now = SystemTime::now();
    let signed = |by: &str| {
        let (what, until) = (Some(read.clone()), micros(now + HOUR));
        let right = v1::Right { what, holder: me.to_owned(), until };
        // In release builds anybody can call it; so can other programs.
        let mut statement = rpc::statement::sign(&cell.credentials("master"), &right).unwrap();
        if by != "master" {
            let receipt = v1::Receipt { until, ..v1::Receipt::default() };
            let other = rpc::statement::sign(&cell.credentials(by), &receipt).unwrap();
            statement.certificate = other.certificate;
        }
        Some(statement)
    };
    let foreign = tempfile::tempdir().unwrap();
    let foreign = Authority::create(foreign.path(), "cc").unwrap();
    let foreign_cell = Cell { authority: foreign, ..Cell::new() };
    let many = vec![inside[0]; 1_025];
    let absent = may_read(package(90..91, 5).manifest);
    for (what, right, digests, expected) in [
        ("right", cell.right(me, read.clone()), &inside[..], Code::Ok),
        ("signed by a master", signed("master"), &inside[..1], Code::Ok),
        ("nothing", cell.right(me, read.clone()), &[], Code::Ok),
        ("no right", None, &inside[..1], Code::PermissionDenied),
        (
            "expired",
            cell.right_until(me, read.clone(), now - Duration::from_secs(1)),
            &inside[..1],
            Code::PermissionDenied,
        ),
        (
            "another holder's",
            cell.right("borglet/m2", read.clone()),
            &inside[..1],
            Code::PermissionDenied,
        ),
        ("its user's", cell.right("user/ana", read.clone()), &inside[..1], Code::PermissionDenied),
        ("outside", cell.right(me, read.clone()), &outside[..1], Code::PermissionDenied),
        (
            "partly outside",
            cell.right(me, read.clone()),
            &[inside[0], outside[0]],
            Code::PermissionDenied,
        ),
        ("to upload", cell.right(me, may_upload("ana", GIB)), &inside[..1], Code::PermissionDenied),
        ("signed by a store", signed("packages/p1"), &inside[..1], Code::PermissionDenied),
        (
            "of a foreign cell",
            foreign_cell.right(me, read.clone()),
            &inside[..1],
            Code::PermissionDenied,
        ),
        ("too many", cell.right(me, read.clone()), &many, Code::InvalidArgument),
        ("absent package", cell.right(me, absent), &inside[..1], Code::FailedPrecondition),
    ] {
        let mut client = server.client(cell.credentials(me));
        let read = fetch(&mut client, right, digests).await;
        assert_eq!(code(&read), expected, "{what}: {read:?}");
    }
}

#[tokio::test]
async fn nobody_gets_a_chunk_by_knowing_its_digest() {
    let cell = Cell::new();
    let server = Server::start(&cell);
    let mut ana = server.client(cell.credentials("user/ana"));
    let mut ben = server.client(cell.credentials("user/ben"));
    let package = package(0..10, 1_000);
    push(&mut ana, cell.begin("ana"), &package).await.unwrap();
    // Known, and yet missing.
    let mut upload = Uploading::begin(&mut ben, cell.begin("ben")).await.unwrap();
    assert_eq!(upload.offer(&package.digests()).await.unwrap(), package.digests());
    let manifest = package.manifest;
    let tree: Vec<_> =
        package.digests().into_iter().filter(|d| package.bytes(d).len() != 1_000).collect();
    upload.data(tree.iter().map(|digest| package.bytes(digest))).await;
    let refused = upload.commit(manifest).await;
    assert_eq!(code(&refused), Code::FailedPrecondition, "{refused:?}");
    // With a right to read it, its chunks need not be sent, and new ones do.
    let right = cell.right("user/ben", may_upload("ben", GIB));
    let base = cell.right("user/ben", may_read(manifest)).unwrap();
    let begin = What::Begin(v1::UploadBegin { right, bases: vec![base.clone()] });
    let larger = support::package::package(0..12, 1_000);
    let (_, sent) = push(&mut ben, begin, &larger).await.unwrap();
    assert_eq!(sent, 4, "two chunks, a tree and a manifest");
    // Now they are possessed by both.
    let (_, sent) = push(&mut ben, cell.begin("ben"), &larger).await.unwrap();
    assert_eq!(sent, 0);
    // A right to read of somebody else is no base.
    let mut eva = server.client(cell.credentials("user/eva"));
    let right = cell.right("user/eva", may_upload("eva", GIB));
    let begin = What::Begin(v1::UploadBegin { right, bases: vec![base] });
    let refused = push(&mut eva, begin, &larger).await.map(drop);
    assert_eq!(code(&refused), Code::PermissionDenied, "{refused:?}");
}

#[tokio::test]
async fn an_upload_stays_within_its_right() {
    let cell = Cell::new();
    let server = Server::start(&cell);
    let package = package(0..10, 1_000);
    let size = package.size();
    let begin = |right| What::Begin(v1::UploadBegin { right, bases: Vec::new() });
    let of = |holder: &str, user: &str, bytes_max| {
        begin(cell.right(holder, may_upload(user, bytes_max)))
    };
    let expired = SystemTime::now() - Duration::from_secs(1);
    let expired = cell.right_until("user/ana", may_upload("ana", GIB), expired);
    for (what, begin, expected) in [
        ("no right", begin(None), Code::PermissionDenied),
        ("expired", begin(expired), Code::PermissionDenied),
        ("of another holder", of("user/ben", "ana", GIB), Code::PermissionDenied),
        ("no user", of("user/ana", "No Name", GIB), Code::InvalidArgument),
        (
            "to read",
            begin(cell.right("user/ana", may_read(package.manifest))),
            Code::PermissionDenied,
        ),
        ("too small", of("user/ana", "ana", size - 1), Code::ResourceExhausted),
        ("no begin", What::Offer(v1::UploadOffer::default()), Code::InvalidArgument),
        ("for its user", of("user/ana", "group", size), Code::Ok),
        ("enough", of("user/ana", "ana", size), Code::Ok),
    ] {
        let mut client = server.client(cell.credentials("user/ana"));
        let pushed = push(&mut client, begin, &package).await.map(drop);
        assert_eq!(code(&pushed), expected, "{what}: {pushed:?}");
    }
    let data = |chunks: Vec<Vec<u8>>, more| What::Data(v1::UploadData { chunks, more });
    let manifest = package.manifest.as_bytes().to_vec();
    for (what, request, expected) in [
        ("begin twice", cell.begin("ben"), Code::InvalidArgument),
        ("an empty chunk", data(vec![Vec::new()], false), Code::InvalidArgument),
        (
            "too much at once",
            data(vec![chunk(0, 1 << 19), chunk(1, (1 << 19) + 1)], false),
            Code::InvalidArgument,
        ),
        (
            "half a digest",
            What::Offer(v1::UploadOffer { digests: vec![0; 33] }),
            Code::InvalidArgument,
        ),
        (
            "a long offer",
            What::Offer(v1::UploadOffer { digests: vec![0; 16_385 * 32] }),
            Code::InvalidArgument,
        ),
        ("no manifest", What::Commit(v1::UploadCommit::default()), Code::InvalidArgument),
        (
            "what is not there",
            What::Commit(v1::UploadCommit { manifest }),
            Code::FailedPrecondition,
        ),
    ] {
        let mut client = server.client(cell.credentials("user/ben"));
        let mut upload = Uploading::begin(&mut client, cell.begin("ben")).await.unwrap();
        upload.send(request).await;
        let next = upload.next().await;
        assert_eq!(code(&next), expected, "{what}: {next:?}");
    }
    // A chunk that never ends, and a commit before its end.
    let mut client = server.client(cell.credentials("user/ben"));
    let mut upload = Uploading::begin(&mut client, cell.begin("ben")).await.unwrap();
    for number in 0..17 {
        upload.send(data(vec![chunk(number, 1 << 20)], true)).await;
    }
    assert_eq!(code(&upload.next().await), Code::InvalidArgument);
    let mut upload = Uploading::begin(&mut client, cell.begin("ben")).await.unwrap();
    upload.send(data(vec![chunk(0, 10)], true)).await;
    assert_eq!(code(&upload.commit(package.manifest).await), Code::InvalidArgument);
    // Bytes that are no manifest.
    let wrong = Package::new([b"x".to_vec()]);
    let tree = wrong.layer.digest;
    let mut upload = Uploading::begin(&mut client, cell.begin("ben")).await.unwrap();
    upload.data(wrong.digests().iter().map(|digest| wrong.bytes(digest))).await;
    assert_eq!(code(&upload.commit(tree).await), Code::FailedPrecondition);
}

#[tokio::test]
async fn users_share_the_slots() {
    let cell = Cell::new();
    let server = Server::start(&cell);
    let mut ana = server.client(cell.credentials("user/ana"));
    let mut open = Vec::new();
    let full = loop {
        match Uploading::begin(&mut ana, cell.begin("ana")).await {
            Ok(upload) => open.push(upload),
            Err(full) => break full,
        }
    };
    assert_eq!((full.code(), open.len()), (Code::ResourceExhausted, 14), "{full}");
    let mut ben = server.client(cell.credentials("user/ben"));
    let package = package(0..10, 1_000);
    push(&mut ben, cell.begin("ben"), &package).await.unwrap();
    // Tasks of a user have no slots of their own.
    let mut task = server.client(cell.credentials("task/ana/web/0"));
    let right = cell.right("task/ana/web/0", may_upload("ana", GIB));
    let begin = What::Begin(v1::UploadBegin { right, bases: Vec::new() });
    let refused = push(&mut task, begin, &package).await.map(drop);
    assert_eq!(code(&refused), Code::ResourceExhausted);
}

async fn collect(
    server: &Server,
    cell: &Cell,
    who: &str,
    requests: Vec<v1::CollectRequest>,
) -> Result<v1::CollectResponse, tonic::Status> {
    let mut client = server.client(cell.credentials(who));
    let requests = tokio_stream::iter(requests);
    client.collect(requests).await.map(tonic::Response::into_inner)
}

#[tokio::test]
async fn a_master_collects_what_no_package_needs() {
    let cell = Cell::new();
    let server = Server::start(&cell);
    let mut ana = server.client(cell.credentials("user/ana"));
    let (kept, gone) = (package(0..10, 10_000), package(5..30, 10_000));
    for package in [&kept, &gone] {
        push(&mut ana, cell.begin("ana"), package).await.unwrap();
    }
    let manifests = kept.manifest.as_bytes().to_vec();
    let all = |plan_only| {
        let complete = v1::CollectRequest { complete: true, ..Default::default() };
        vec![
            v1::CollectRequest { manifests: manifests.clone(), plan_only, complete: false },
            complete,
        ]
    };
    let status = |who: &str| {
        let mut client = server.client(cell.credentials(who));
        async move { client.store_status(v1::StoreStatusRequest {}).await }
    };
    for who in ["user/ana", "borglet/m1", "packages/p2", "scheduler/main"] {
        let refused = collect(&server, &cell, who, all(false)).await;
        assert_eq!(code(&refused), Code::PermissionDenied, "{who}");
        assert_eq!(code(&status(who).await), Code::PermissionDenied, "{who}");
    }
    let before = status("master").await.unwrap().into_inner();
    assert_eq!((before.packs, before.chunks), (2, 12 + 22));
    // What is young stays.
    let young = collect(&server, &cell, "master", all(false)).await.unwrap();
    assert_eq!(young, v1::CollectResponse::default());
    cell.later(25 * HOUR);
    let mut early = all(false);
    early.pop();
    let early = collect(&server, &cell, "master", early).await;
    assert_eq!(code(&early), Code::FailedPrecondition);
    let plan = collect(&server, &cell, "master", all(true)).await.unwrap();
    assert_eq!(status("master").await.unwrap().into_inner(), before);
    let done = collect(&server, &cell, "master", all(false)).await.unwrap();
    assert_eq!((done, plan.removed, plan.rewritten), (plan, 1, 0));
    let right = cell.right("user/ana", may_read(kept.manifest));
    let read = fetch(&mut ana, right, &kept.digests()).await.unwrap();
    assert_eq!(read.len(), 12);
    // What was removed is sent again.
    let (_, sent) = push(&mut ana, cell.begin("ana"), &gone).await.unwrap();
    assert_eq!(sent, 22);
}

#[tokio::test]
async fn bytes_that_are_a_chunk_too_are_still_a_tree() {
    let cell = Cell::new();
    let server = Server::start(&cell);
    let mut ana = server.client(cell.credentials("user/ana"));
    let inner = package(0..10, 10_000);
    // Its chunks are the manifest and the tree of the other package, in both orders of their digests.
    let outer: Vec<_> = (100..108)
        .map(|n| Package::new(inner.structure().into_iter().chain([chunk(n, 5)])))
        .collect();
    for package in outer.iter().chain([&inner]) {
        push(&mut ana, cell.begin("ana"), package).await.unwrap();
    }
    cell.later(25 * HOUR);
    let digests = outer.iter().chain([&inner]).map(|package| *package.manifest.as_bytes());
    let manifests = digests.flatten().collect();
    let all = v1::CollectRequest { manifests, plan_only: false, complete: true };
    collect(&server, &cell, "master", vec![all]).await.unwrap();
    let right = cell.right("user/ana", may_read(inner.manifest));
    let read = fetch(&mut ana, right, &inner.digests()).await.unwrap();
    assert_eq!(read.len(), 12);
    // A package that has a tree as a chunk first is complete only with what the tree refers to.
    let absent = package(50..60, 1_000);
    let over = Package::over(absent.structure().into_iter().skip(1), absent.layer.clone());
    let refused = push(&mut ana, cell.begin("ana"), &over).await.map(drop);
    assert_eq!(code(&refused), Code::FailedPrecondition, "{refused:?}");
    // With the rest it is complete.
    push(&mut ana, cell.begin("ana"), &absent).await.unwrap();
    push(&mut ana, cell.begin("ana"), &over).await.unwrap();
}

#[tokio::test]
async fn a_manifest_says_the_truth_about_its_layers() {
    let cell = Cell::new();
    let server = Server::start(&cell);
    let mut ana = server.client(cell.credentials("user/ana"));
    let package = package(0..10, 1_000);
    push(&mut ana, cell.begin("ana"), &package).await.unwrap();
    let layer = package.layer.clone();
    for lie in [
        Layer { entries: 11, ..layer.clone() },
        Layer { unpacked: 0, ..layer.clone() },
        Layer { stored: 1, ..layer.clone() },
        Layer { digest: package.manifest, ..layer.clone() },
        Layer { tree: Vec::new(), ..layer.clone() },
    ] {
        let over = Package::over([chunk(0, 1_000)], lie.clone());
        let refused = push(&mut ana, cell.begin("ana"), &over).await.map(drop);
        assert_eq!(code(&refused), Code::FailedPrecondition, "{lie:?}: {refused:?}");
    }
}
