//! Downloads that break: where they continue, and that nothing incomplete or wrong gets a name.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use registry::{BlobDigest, Patience, RegistryError, RegistrySettings};
use tempfile::{TempDir, tempdir};
use tokio::sync::Barrier;

use crate::support::image::{TestImage, bytes, check_layout, on};
use crate::support::server::{Answer, Body, TestRequest, TestServer};
use crate::support::{SOON, download, impatient, shelf};

const LENGTH: usize = 200_000;

/// An image with one large layer.
fn image() -> TestImage {
    let image = TestImage::new("amd64", &[bytes(1, LENGTH)]);
    TestImage::index(&[(&image, on("amd64"))])
}

fn layer() -> Vec<u8> {
    bytes(1, LENGTH)
}

fn digest() -> BlobDigest {
    BlobDigest::of(&layer())
}

/// A server that answers for the layer with what a test says: the number of the request, from 0, and the request.
async fn server(
    layer: impl Fn(usize, &TestRequest) -> Answer + Send + Sync + 'static,
) -> TestServer {
    let (image, asked, digest) = (image(), AtomicUsize::new(0), digest().to_string());
    TestServer::plain(move |request| match request.target.contains(&digest) {
        true => layer(asked.fetch_add(1, Ordering::Relaxed), request),
        false => shelf::serve(&image, request),
    })
    .await
}

/// The layer from the wanted byte on, of which only so many bytes are sent.
fn cut(request: &TestRequest, sent: usize) -> Answer {
    let (from, layer) = (shelf::first(request), layer());
    let end = (from + sent).min(layer.len());
    let body = Body::Announced((layer.len() - from) as u64, layer[from..end].to_vec());
    let status = if from == 0 { 200 } else { 206 };
    let range = format!("bytes {from}-{}/{}", layer.len() - 1, layer.len());
    Answer::new(status, body).with("Content-Range", range)
}

fn name(server: &TestServer) -> String {
    format!("{}/app", server.host())
}

/// From which bytes on the layer was asked for.
fn begins(server: &TestServer) -> Vec<usize> {
    let requests = server.requests().into_iter();
    let of_layer = requests.filter(|request| request.target.contains(&digest().to_string()));
    of_layer.map(|request| shelf::first(&request)).collect()
}

fn partial(directory: &Path) -> PathBuf {
    directory.join("partial").join(digest().digits())
}

fn assert_unnamed(directory: &TempDir) {
    assert!(!directory.path().join("blobs/sha256").join(digest().digits()).exists());
    assert!(!directory.path().join("index.json").exists());
}

#[tokio::test]
async fn a_blob_that_breaks_continues_behind_what_is_there() {
    let server = server(|_, request| cut(request, 70_000)).await;
    let directory = tempdir().unwrap();
    download(impatient(), &name(&server), directory.path()).await.unwrap();
    check_layout(directory.path());
    assert_eq!(begins(&server), [0, 70_000, 140_000]);
}

#[tokio::test]
async fn attempts_that_bring_nothing_come_to_an_end() {
    let broken =
        server(|_, request| cut(request, if shelf::first(request) == 0 { 70_000 } else { 0 }))
            .await;
    let directory = tempdir().unwrap();
    let error = download(impatient(), &name(&broken), directory.path()).await.unwrap_err();
    assert!(matches!(error, RegistryError::Connection { .. }), "{error}");
    assert_eq!(begins(&broken), [0, 70_000, 70_000, 70_000]);
    assert_unnamed(&directory);
    assert_eq!(fs::read(partial(directory.path())).unwrap(), &layer()[..70_000]);
    // Another process continues there.
    let whole = server(|_, request| shelf::ranged(&layer(), request)).await;
    download(impatient(), &name(&whole), directory.path()).await.unwrap();
    check_layout(directory.path());
    assert_eq!(begins(&whole), [70_000]);
    // And the next has nothing to do.
    download(impatient(), &name(&whole), directory.path()).await.unwrap();
    assert_eq!((begins(&whole).len(), whole.count("/blobs/")), (1, 1));
}

#[tokio::test]
async fn a_blob_that_begins_anew_for_ever_comes_to_an_end() {
    // The first half is large enough to be progress, and the second is always wrong.
    let large = bytes(5, 3 << 20);
    let one = TestImage::new("amd64", std::slice::from_ref(&large));
    let (image, digest) = (TestImage::index(&[(&one, on("amd64"))]), one.layers[0].to_string());
    let server = TestServer::plain(move |request| {
        let from = shelf::first(request);
        match request.target.contains(&digest) {
            false => shelf::serve(&image, request),
            true if from == 0 => {
                let half = large[..large.len() / 2].to_vec();
                Answer::new(200, Body::Announced(large.len() as u64, half))
            }
            true => shelf::ranged(&bytes(6, large.len()), request),
        }
    })
    .await;
    let directory = tempdir().unwrap();
    let error = download(impatient(), &name(&server), directory.path()).await.unwrap_err();
    assert!(matches!(error, RegistryError::WrongDigest { .. }), "{error}");
    assert_eq!(server.count(&one.layers[0].to_string()), 4);
}

#[tokio::test]
async fn a_registry_that_cannot_continue_sends_all_of_it_again() {
    // No ranges at all; ranges that it refuses; a range that is another one.
    for refusal in 0..3 {
        let server = server(move |number, request| match (number, refusal) {
            (0, _) => cut(request, 70_000),
            (1, 1) => Answer::whole(416, ""),
            (1, 2) => {
                Answer::whole(206, &layer()[9..]).with("Content-Range", "bytes 9-199999/200000")
            }
            _ => Answer::whole(200, layer()),
        })
        .await;
        let directory = tempdir().unwrap();
        download(impatient(), &name(&server), directory.path()).await.unwrap();
        check_layout(directory.path());
    }
}

#[tokio::test]
async fn what_was_there_and_is_wrong_is_fetched_again() {
    let server = server(|_, request| shelf::ranged(&layer(), request)).await;
    for there in [vec![7; 1000], vec![7; LENGTH], vec![7; LENGTH + 1], Vec::new()] {
        let directory = tempdir().unwrap();
        fs::create_dir(directory.path().join("partial")).unwrap();
        fs::write(partial(directory.path()), &there).unwrap();
        download(impatient(), &name(&server), directory.path()).await.unwrap();
        check_layout(directory.path());
    }
    // The same of a blob that has its name, and of a manifest.
    let directory = tempdir().unwrap();
    download(impatient(), &name(&server), directory.path()).await.unwrap();
    let blobs = directory.path().join("blobs/sha256");
    for entry in fs::read_dir(blobs).unwrap() {
        let path = entry.unwrap().path();
        let length = fs::metadata(&path).unwrap().len();
        fs::write(&path, vec![7; usize::try_from(length).unwrap()]).unwrap();
    }
    download(impatient(), &name(&server), directory.path()).await.unwrap();
    check_layout(directory.path());
}

#[tokio::test]
async fn wrong_bytes_get_no_name() {
    let server = server(|_, _| Answer::whole(200, bytes(2, LENGTH))).await;
    let directory = tempdir().unwrap();
    let error = download(impatient(), &name(&server), directory.path()).await.unwrap_err();
    let expected = format!("and not {}", digest());
    assert!(error.to_string().contains(&expected), "{error}");
    assert_unnamed(&directory);
    assert_eq!(begins(&server), [0]);
    assert_eq!(fs::metadata(partial(directory.path())).unwrap().len(), 0);
}

#[tokio::test]
async fn a_body_has_the_length_that_the_manifest_says() {
    let more = [layer(), vec![0]].concat();
    let table = [
        (Body::Whole(more.clone()), 200_001, 1),
        (Body::Chunked(more), 200_001, 1),
        (Body::Chunked(layer()[..100].to_vec()), 100, 4),
        (Body::Whole(Vec::new()), 0, 4),
    ];
    for (body, bytes, attempts) in table {
        let server = server(move |_, _| Answer::new(200, body.clone())).await;
        let directory = tempdir().unwrap();
        let error = download(impatient(), &name(&server), directory.path()).await.unwrap_err();
        let RegistryError::Length { expected: 200_000, found, .. } = error else {
            panic!("{error}")
        };
        assert_eq!((found, begins(&server).len()), (bytes, attempts));
        assert_unnamed(&directory);
    }
}

#[tokio::test]
async fn a_body_without_an_end_is_left() {
    let server = server(|_, _| Answer::new(200, Body::Endless)).await;
    let directory = tempdir().unwrap();
    let error = download(impatient(), &name(&server), directory.path()).await.unwrap_err();
    assert!(matches!(error, RegistryError::Length { expected: 200_000, .. }), "{error}");
    assert_unnamed(&directory);
}

#[tokio::test]
async fn a_server_that_stalls_is_left_and_asked_again() {
    let stall = Patience { stall: Duration::from_millis(500), ..impatient().patience };
    let settings = RegistrySettings { patience: stall, ..impatient() };
    let bodies = [
        Body::Stalled(LENGTH as u64, layer()[..1000].to_vec()),
        Body::Dripping(LENGTH as u64),
        Body::Silent,
    ];
    for body in bodies {
        let once = body.clone();
        let passing = server(move |number, request| match number {
            0 => Answer::new(200, once.clone()),
            _ => shelf::ranged(&layer(), request),
        })
        .await;
        let connect = Duration::from_millis(500);
        let patience = Patience { connect, ..stall };
        let settings = RegistrySettings { patience, ..settings.clone() };
        let directory = tempdir().unwrap();
        download(settings.clone(), &name(&passing), directory.path()).await.unwrap();
        check_layout(directory.path());
        let patience = Patience { attempts: 1, ..patience };
        let settings = RegistrySettings { patience, ..settings };
        let staying = server(move |_, _| Answer::new(200, body.clone())).await;
        let directory = tempdir().unwrap();
        let error = download(settings, &name(&staying), directory.path()).await.unwrap_err();
        assert!(error.to_string().contains("made no progress for 0.5 s"), "{error}");
        assert_unnamed(&directory);
    }
}

#[tokio::test]
async fn four_blobs_are_fetched_at_once() {
    let layers: Vec<Vec<u8>> = (0..7).map(|seed| bytes(seed, 100)).collect();
    let one = TestImage::new("amd64", &layers);
    let image = TestImage::index(&[(&one, on("amd64"))]);
    for at_once in [4, 5] {
        let (image, barrier) = (image.clone(), Arc::new(Barrier::new(at_once)));
        let server = TestServer::plain(move |request| {
            let digest = request.target.rsplit('/').next().unwrap().parse::<BlobDigest>();
            match digest.ok().and_then(|digest| image.blobs.get(&digest)) {
                Some(blob) => Answer::new(200, Body::Together(Arc::clone(&barrier), blob.clone())),
                None => shelf::serve(&image, request),
            }
        })
        .await;
        let stall = if at_once == 4 { SOON } else { Duration::from_millis(300) };
        let patience = Patience { stall, attempts: 1, ..impatient().patience };
        let settings = RegistrySettings { patience, ..impatient() };
        let directory = tempdir().unwrap();
        let downloaded = download(settings, &name(&server), directory.path()).await;
        match downloaded {
            Ok(_) => assert_eq!(at_once, 4),
            Err(error) => {
                assert_eq!(at_once, 5, "{error}");
                assert!(matches!(error, RegistryError::Stalled { .. }), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn a_directory_is_for_one_download_at_a_time() {
    let server = server(|_, request| shelf::ranged(&layer(), request)).await;
    let directory = tempdir().unwrap();
    let other = File::open(directory.path()).unwrap();
    other.try_lock().unwrap();
    let error = download(impatient(), &name(&server), directory.path()).await.unwrap_err();
    assert!(matches!(error, RegistryError::Busy { .. }), "{error}");
    drop(other);
    download(impatient(), &name(&server), directory.path()).await.unwrap();
    let file = directory.path().join("oci-layout");
    let error = download(impatient(), &name(&server), &file).await.unwrap_err();
    assert!(error.to_string().contains("cannot create"), "{error}");
}

#[tokio::test]
async fn a_download_that_fails_frees_its_directory() {
    let failing = server(|_, _| Answer::whole(403, "")).await;
    let directory = tempdir().unwrap();
    for _ in 0..3 {
        let error = download(impatient(), &name(&failing), directory.path()).await.unwrap_err();
        assert!(matches!(error, RegistryError::Denied { .. }), "{error}");
    }
}
