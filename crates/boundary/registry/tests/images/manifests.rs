//! Which variants of an image are chosen, and manifests that cannot be used.

use std::sync::atomic::{AtomicUsize, Ordering};

use registry::{Platforms, RegistryError, RegistrySettings};
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::support::image::{
    OCI_INDEX, OCI_MANIFEST, TestImage, bytes, check_layout, descriptor, on,
};
use crate::support::server::{Answer, Body, TestServer};
use crate::support::{download, download_for, impatient, shelf};

async fn server_of(image: TestImage) -> TestServer {
    TestServer::plain(move |request| shelf::serve(&image, request)).await
}

fn platforms(names: &[&str]) -> Platforms {
    Platforms::Named(names.iter().map(|name| name.parse().unwrap()).collect())
}

/// An index with what indexes have: three variants, another system, a statement about an image, a nested index, an
/// image that has its platform in its configuration alone, and something that is no image.
fn rich() -> TestImage {
    let [amd, arm, armv7, inner, unsaid] =
        [("amd64", 1), ("arm64", 2), ("arm", 3), ("s390x", 4), ("riscv64", 5)].map(
            |(architecture, seed)| {
                TestImage::new(architecture, &[bytes(seed, 3000), bytes(99, 500)])
            },
        );
    let other = TestImage::new("amd64", &[bytes(6, 100)]);
    let statement = TestImage::new("unknown", &[bytes(7, 100)]);
    let chart = TestImage::of_config(
        "application/vnd.cncf.helm.config.v1+json",
        &json!({}),
        &[bytes(8, 10)],
    );
    let nested = TestImage::index(&[(&inner, on("s390x"))]);
    let v7 = json!({ "platform": { "os": "linux", "architecture": "arm", "variant": "v7" } });
    let windows = json!({ "platform": { "os": "windows", "architecture": "amd64" } });
    let unknown = json!({ "platform": { "os": "unknown", "architecture": "unknown" },
        "annotations": { "vnd.docker.reference.type": "attestation-manifest" } });
    TestImage::index(&[
        (&amd, on("amd64")),
        (&arm, json!({ "platform": { "os": "linux", "architecture": "arm64", "variant": "v8" } })),
        (&armv7, v7),
        (&other, windows),
        (&statement, unknown),
        (&nested, json!({})),
        (&unsaid, json!({})),
        (&chart, json!({})),
        // Once more the same.
        (&amd, on("amd64")),
    ])
}

#[tokio::test]
async fn every_variant_for_linux_is_taken_once() {
    let (server, directory) = (server_of(rich()).await, tempdir().unwrap());
    let name = format!("{}/team/app:1.27", server.host());
    let downloaded = download(impatient(), &name, directory.path()).await.unwrap();
    let found: Vec<String> = downloaded.platforms.iter().map(ToString::to_string).collect();
    let expected = ["linux/amd64", "linux/arm/v7", "linux/arm64", "linux/riscv64", "linux/s390x"];
    assert_eq!(found, expected);
    assert_eq!(downloaded.digest, rich().digest());
    let layout = check_layout(directory.path());
    assert_eq!(layout, expected.map(|platform| format!("{platform} 1.27")));
    let digest = rich().blobs.keys().map(ToString::to_string).collect::<Vec<_>>();
    let most = digest.iter().map(|digest| server.count(digest)).max();
    assert_eq!(most, Some(1), "a blob was fetched twice");
}

#[tokio::test]
async fn only_named_platforms_are_fetched() {
    let (server, directory) = (server_of(rich()).await, tempdir().unwrap());
    let name = format!("{}/app", server.host());
    let wanted = platforms(&["linux/arm/v7", "x86_64"]);
    download_for(impatient(), &name, &wanted, directory.path()).await.unwrap();
    assert_eq!(check_layout(directory.path()), ["linux/amd64 latest", "linux/arm/v7 latest"]);
    let error = download_for(impatient(), &name, &platforms(&["arm/v6"]), directory.path()).await;
    let error = error.unwrap_err().to_string();
    let expected = "has no variant for linux/arm/v6: it has linux/amd64, linux/arm/v7, linux/arm64";
    assert!(error.contains(expected), "{error}");
    // The directory is as it was, and without what was not finished.
    assert!(directory.path().join("index.json").exists());
}

#[tokio::test]
async fn an_image_without_an_index_has_the_platform_of_its_configuration() {
    let image = TestImage::new("arm64", &[bytes(1, 10), Vec::new()]);
    let (server, directory) = (server_of(image.clone()).await, tempdir().unwrap());
    let name = format!("{}/app@{}", server.host(), image.digest());
    download(impatient(), &name, directory.path()).await.unwrap();
    assert_eq!(check_layout(directory.path()), ["linux/arm64 -"]);
    let wanted = platforms(&["amd64"]);
    let error = download_for(impatient(), &name, &wanted, directory.path()).await.unwrap_err();
    assert!(
        error.to_string().contains("no variant for linux/amd64: it has linux/arm64"),
        "{error}"
    );
    // A digest that the registry answers with something else.
    let other = TestImage::new("arm64", &[bytes(2, 10)]);
    let name = format!("{}/app@{}", server.host(), other.digest());
    let error = download(impatient(), &name, directory.path()).await.unwrap_err();
    assert!(matches!(error, RegistryError::NotFound { .. }), "{error}");
}

#[tokio::test]
async fn an_image_for_other_systems_has_no_variant() {
    let config = json!({ "os": "windows", "architecture": "amd64" });
    let kind = "application/vnd.docker.container.image.v1+json";
    let image = TestImage::of_config(kind, &config, &[bytes(1, 10)]);
    let (server, directory) = (server_of(image).await, tempdir().unwrap());
    let name = format!("{}/app", server.host());
    let error = download(impatient(), &name, directory.path()).await.unwrap_err().to_string();
    assert!(error.contains("has no variant for Linux: it has none for Linux"), "{error}");
}

/// The error of a download of what a registry has under a name.
async fn refused(image: TestImage, settings: RegistrySettings) -> String {
    let (server, directory) = (server_of(image).await, tempdir().unwrap());
    let name = format!("{}/app", server.host());
    let error = download(settings, &name, directory.path()).await.unwrap_err().to_string();
    assert!(!directory.path().join("index.json").exists());
    error
}

#[tokio::test]
async fn manifests_that_cannot_be_used_are_refused() {
    let plain = |media_type: &str, manifest: &Value| TestImage::of_manifest(media_type, manifest);
    let text = |manifest: &[u8]| TestImage {
        manifest: manifest.to_vec(),
        media_type: OCI_MANIFEST.to_owned(),
        ..TestImage::default()
    };
    let config = descriptor("application/vnd.oci.image.config.v1+json", b"{}");
    let layer = |digest: &str, size: i64| json!({ "schemaVersion": 2, "config": config, "layers": [{ "digest": digest, "size": size }] });
    let layers: Vec<Value> = (0..501).map(|_| descriptor("x", b"y")).collect();
    let long_type = descriptor(&"x".repeat(256), b"y");
    let many: Vec<Value> = (0..1001).map(|_| descriptor("x", b"y")).collect();
    let [chart, empty] =
        ["application/vnd.cncf.helm.config.v1+json", "application/vnd.oci.empty.v1+json"]
            .map(|kind| TestImage::of_config(kind, &json!({}), &[]));
    let old = "application/vnd.docker.distribution.manifest.v1+prettyjws";
    let table = [
        (text(b""), "is no manifest of an image: EOF"),
        (text(b"<html>"), "is no manifest of an image"),
        (text(b"[]"), "is no manifest of an image"),
        (text(b"{}"), "it has not the parts of that type"),
        (text(&[0xff, 0xfe]), "is no manifest of an image"),
        (text("[".repeat(100_000).as_bytes()), "is no manifest of an image"),
        (plain(old, &json!({ "schemaVersion": 1 })), "has the schema 1"),
        (plain("", &json!({ "schemaVersion": 1, "fsLayers": [] })), "has the schema 1"),
        (plain(OCI_INDEX, &json!({ "config": config, "layers": [] })), "not the parts"),
        (plain(OCI_MANIFEST, &json!({ "manifests": [] })), "not the parts"),
        (plain("", &json!({ "manifests": [], "config": config, "layers": [] })), "not the parts"),
        (plain(OCI_MANIFEST, &json!({ "config": config, "layers": layers })), "has 501 layers"),
        (plain(OCI_INDEX, &json!({ "manifests": many })), "names 1001 manifests"),
        (plain(OCI_MANIFEST, &layer("sha512:00", 1)), "no SHA-256 digest"),
        (plain(OCI_MANIFEST, &layer("sha256:../../etc/passwd", 1)), "no SHA-256 digest"),
        (plain(OCI_MANIFEST, &layer("sha256:", 1)), "no SHA-256 digest"),
        (plain(OCI_MANIFEST, &layer("x", -1)), "is no manifest of an image"),
        (plain(OCI_INDEX, &json!({ "manifests": [] })), "has no variant for Linux"),
        (
            plain(OCI_INDEX, &json!({ "manifests": [long_type] })),
            "with a type of 256 bytes, of at most 255",
        ),
        (chart, "is no image of a container: it has the type 'application/vnd.cncf.helm"),
        (empty, "is no image of a container"),
    ];
    for (image, expected) in table {
        let error = refused(image.clone(), impatient()).await;
        assert!(error.contains(expected), "{expected}: {error}");
        assert!(error.len() < 1000, "{error}");
    }
}

#[tokio::test]
async fn a_configuration_that_is_none_is_refused() {
    let kind = "application/vnd.oci.image.config.v1+json";
    let error = refused(TestImage::of_config(kind, &json!([1]), &[]), impatient()).await;
    assert!(error.contains("has a configuration that is none of an image"), "{error}");
    let large = json!({ "os": "linux", "x": "y".repeat(4 << 20) });
    let error = refused(TestImage::of_config(kind, &large, &[]), impatient()).await;
    assert!(error.contains("has a configuration of 41943"), "{error}");
}

#[tokio::test]
async fn indexes_are_in_each_other_twice_at_most() {
    let image = TestImage::new("amd64", &[bytes(1, 10)]);
    let twice = TestImage::index(&[(&TestImage::index(&[(&image, json!({}))]), json!({}))]);
    let (server, directory) = (server_of(twice.clone()).await, tempdir().unwrap());
    download(impatient(), &format!("{}/app", server.host()), directory.path()).await.unwrap();
    let thrice = TestImage::index(&[(&twice, json!({}))]);
    let error = refused(thrice, impatient()).await;
    assert!(error.contains("is an index within 2 others"), "{error}");
}

#[tokio::test]
async fn an_index_that_leads_to_itself_ends() {
    // No index can contain its own digest, so the server makes new ones that name the next.
    let made = AtomicUsize::new(0);
    let server = TestServer::plain(move |_| {
        let next =
            descriptor(OCI_INDEX, made.fetch_add(1, Ordering::Relaxed).to_string().as_bytes());
        let manifest = json!({ "schemaVersion": 2, "manifests": [next] });
        Answer::whole(200, manifest.to_string()).with("Content-Type", OCI_INDEX)
    })
    .await;
    let directory = tempdir().unwrap();
    let name = format!("{}/app", server.host());
    let error = download(impatient(), &name, directory.path()).await.unwrap_err();
    assert!(matches!(error, RegistryError::WrongDigest { .. }), "{error}");
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn an_index_cannot_name_manifests_without_end() {
    let names: Vec<Value> =
        (0..300).map(|n: u32| descriptor(OCI_MANIFEST, &n.to_le_bytes())).collect();
    let index = json!({ "schemaVersion": 2, "manifests": names });
    let error = refused(TestImage::of_manifest(OCI_INDEX, &index), impatient()).await;
    assert!(error.contains("leads to more than 256 manifests"), "{error}");
}

#[tokio::test]
async fn an_error_names_some_platforms_of_many() {
    let on = |n: u32| {
        let mut named = descriptor(OCI_MANIFEST, &n.to_le_bytes());
        named["platform"] = json!({ "os": "linux", "architecture": format!("a{n:03}") });
        named
    };
    let index = json!({ "schemaVersion": 2, "manifests": (0..1000).map(on).collect::<Vec<_>>() });
    let server = server_of(TestImage::of_manifest(OCI_INDEX, &index)).await;
    let (directory, name) = (tempdir().unwrap(), format!("{}/app", server.host()));
    let wanted = platforms(&["amd64"]);
    let error = download_for(impatient(), &name, &wanted, directory.path()).await.unwrap_err();
    assert!(error.to_string().ends_with("linux/a018, linux/a019, and 980 others"), "{error}");
}

#[tokio::test]
async fn the_length_of_a_manifest_in_an_index_is_checked() {
    let image = TestImage::new("amd64", &[bytes(1, 10)]);
    for (size, expected) in
        [(1, "were promised"), (5 << 20, "has 5242880 bytes, of at most 4194304")]
    {
        let index = TestImage::index(&[(&image, json!({ "size": size }))]);
        let error = refused(index, impatient()).await;
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn the_sum_of_all_blobs_is_bounded_before_any_is_fetched() {
    let image = TestImage::new("amd64", &[bytes(1, 600), bytes(2, 600)]);
    let index = TestImage::index(&[(&image, on("amd64"))]);
    let (server, directory) = (server_of(index).await, tempdir().unwrap());
    let settings = RegistrySettings { image_bytes_max: 1200, ..impatient() };
    let name = format!("{}/app", server.host());
    let error = download(settings, &name, directory.path()).await.unwrap_err().to_string();
    assert!(error.contains("of at most 1200"), "{error}");
    assert_eq!(server.count("/blobs/"), 0);
    // A sum that does not fit into a number.
    let config = descriptor("application/vnd.oci.image.config.v1+json", b"{}");
    let layers: Vec<Value> = (0..3)
        .map(|n: u8| {
            let mut layer = descriptor("x", &[n]);
            layer["size"] = json!(u64::MAX);
            layer
        })
        .collect();
    let manifest = json!({ "schemaVersion": 2, "config": config, "layers": layers });
    let huge = TestImage::of_manifest(OCI_MANIFEST, &manifest);
    let error = refused(TestImage::index(&[(&huge, on("amd64"))]), impatient()).await;
    assert!(error.contains("18446744073709551615 bytes, of at most"), "{error}");
}

#[tokio::test]
async fn a_manifest_without_an_end_is_left() {
    let long = bytes(1, (4 << 20) + 1);
    for body in [Body::Endless, Body::Whole(long)] {
        let server = TestServer::plain(move |_| Answer::new(200, body.clone())).await;
        let directory = tempdir().unwrap();
        let name = format!("{}/app", server.host());
        let error = download(impatient(), &name, directory.path()).await.unwrap_err().to_string();
        assert!(error.contains("more than 4194304 bytes, the maximum of a manifest"), "{error}");
    }
}
