//! Images in all forms become the same package; what is wrong with one is named.

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::path::Path;

use package::archive::{ImportLimits, ImportOptions, import};
use package::directory::Packed;
use package::{Form, ImageConfig, MemoryChunks, Verified, unpack, verify};
use serde_json::{Value, json};

use crate::image::{Files, gzip, saved, zstd};
use crate::listing::{Compare, list};

const LAYERS: [&str; 2] = [
    "d bin\nf755 bin/tool old\nf gone x\nd opt\nf opt/a x",
    "f bin/tool new\nf .wh.gone\nd opt\nf opt/.wh..wh..opq\nh opt/link bin/tool",
];

fn plain(bytes: &[u8]) -> Vec<u8> {
    bytes.to_vec()
}

fn imported(source: &Path, options: &ImportOptions) -> Result<(Packed, MemoryChunks), String> {
    let mut chunks = MemoryChunks::new();
    let packed = import(source, options, &mut chunks).map_err(|error| error.to_string())?;
    Ok((packed, chunks))
}

fn named(name: &str) -> ImportOptions {
    ImportOptions { image: Some(name.to_owned()), ..ImportOptions::default() }
}

fn with(mut value: Value, key: &str, change: Value) -> Value {
    value[key] = change;
    value
}

#[test]
fn an_image_in_any_form_is_the_same_package() {
    let directory = tempfile::tempdir().unwrap();
    let mut packages = Vec::new();
    for compress in [plain, gzip, zstd, |bytes: &[u8]| [gzip(bytes), gzip(b"")].concat()] {
        let mut files = Files::default();
        let image = files.image("amd64", &LAYERS, compress);
        let files = files.layout(&[image]);
        let layout = tempfile::tempdir().unwrap();
        files.write(layout.path());
        packages.push(imported(layout.path(), &ImportOptions::default()).unwrap());
        for compress in [plain, gzip, zstd] {
            let archive = files.archive_at(directory.path(), compress);
            packages.push(imported(&archive, &ImportOptions::default()).unwrap());
        }
    }
    for compress in [plain, gzip] {
        let archive = saved(&[(&["tool:1"], &LAYERS)]).archive_at(directory.path(), compress);
        packages.push(imported(&archive, &ImportOptions::default()).unwrap());
    }
    for (packed, chunks) in &packages[1..] {
        assert_eq!(packed, &packages[0].0);
        assert_eq!(chunks, &packages[0].1);
    }
    let (packed, mut chunks) = packages.remove(0);
    let variant = &packed.manifest.variants[0];
    assert_eq!((&variant.architecture[..], variant.layers.len()), ("amd64", 2));
    let text = |text: &str| text.to_owned();
    let expected = ImageConfig {
        entrypoint: vec![text("/bin/tool")],
        cmd: vec![],
        env: vec![text("PATH=/bin")],
        working_dir: text("/srv"),
        user: text("7"),
        stop_signal: text("SIGINT"),
        labels: [(text("a"), text("1")), (text("b"), text("2"))].into(),
        exposed_ports: vec![text("53/udp"), text("80/tcp")],
    };
    assert_eq!(variant.config.as_ref(), Some(&expected));
    // Layer by layer, into one root.
    let root = tempfile::tempdir().unwrap();
    let opened = File::open(root.path()).unwrap();
    for layer in &variant.layers {
        unpack(layer, &mut chunks, opened.as_fd(), Form::Plain).unwrap();
    }
    let found = list(root.path(), Compare { attributes: false });
    let names: Vec<&str> = found.keys().map(|path| path.to_str().unwrap()).collect();
    assert_eq!(names, ["bin", "bin/tool", "opt", "opt/link"]);
    assert_eq!(fs::read(root.path().join("opt/link")).unwrap(), b"new");
    assert_eq!(found[Path::new("opt/link")], "= bin/tool");
    // Everything is there, and nothing else.
    let bytes: usize = chunks.iter().map(|(_, bytes)| bytes.len()).sum();
    let verified = verify(packed.digest, &mut chunks).unwrap();
    let Verified { stored, entries, is_image, architectures, chunks: found, .. } = verified;
    // Each chunk of the first layer is needed, but those of files that later members replace.
    assert_eq!((entries, is_image, architectures), (10, true, vec![text("amd64")]));
    let lengths = (stored + packed.bytes.len() as u64, found + 1);
    assert_eq!(lengths, (bytes as u64, chunks.len() as u64));
}

#[test]
fn each_platform_is_a_variant() {
    let mut files = Files::default();
    let arm = files.image("arm64", &["f arm x"], gzip);
    let amd = files.image("amd64", &["f amd x"], gzip);
    let missing = json!({
        "mediaType": "application/vnd.oci.image.manifest.v1+json", "size": 5,
        "digest": format!("sha256:{}", "1".repeat(64)),
        "platform": {"os": "linux", "architecture": "riscv64"},
    });
    let unknown = json!({"os": "unknown", "architecture": "unknown"});
    let attestation = with(files.blob("manifest.v1+json", b"{}"), "platform", unknown);
    let inner = files.index(&[arm.clone(), attestation, missing, amd.clone()]);
    let index = files.index(&[inner]);
    let name = json!({"org.opencontainers.image.ref.name": "tool:1"});
    let directory = tempfile::tempdir().unwrap();
    let nested = files.clone().layout(&[with(index, "annotations", name)]);
    let linux = json!({"os": "linux"});
    let flat = files.layout(&[with(arm, "platform", linux.clone()), with(amd, "platform", linux)]);
    let mut packages = Vec::new();
    for (files, compress) in [(&nested, plain as fn(&[u8]) -> _), (&nested, gzip), (&flat, plain)] {
        let archive = files.archive_at(directory.path(), compress);
        let (packed, _) = imported(&archive, &ImportOptions::default()).unwrap();
        let variants: Vec<&str> =
            packed.manifest.variants.iter().map(|variant| &variant.architecture[..]).collect();
        assert_eq!(variants, ["amd64", "arm64"]);
        packages.push(packed.digest);
        let only = |name: &str| ImportOptions {
            architectures: vec![name.to_owned()],
            ..ImportOptions::default()
        };
        let (one, _) = imported(&archive, &only("arm64")).unwrap();
        assert_eq!(one.manifest.variants, packed.manifest.variants[1..]);
        let error = imported(&archive, &only("s390x")).unwrap_err();
        assert_eq!(error, "the image is not for s390x: it is for linux/arm64, linux/amd64");
    }
    assert_eq!((packages[0], packages[1]), (packages[1], packages[2]));
}

#[test]
fn one_of_several_images_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let docker = saved(&[(&["a:1", "a:latest"], &["f a x"]), (&["b:1"], &["f b x"])]);
    let mut files = Files::default();
    let name = |name: &str| json!({"io.containerd.image.name": format!("docker.io/library/{name}"), "org.opencontainers.image.ref.name": "1"});
    let a = with(files.image("amd64", &["f a x"], plain), "annotations", name("a:1"));
    let b = with(files.image("amd64", &["f b x"], plain), "annotations", name("b:1"));
    let layout = files.layout(&[a, b]);
    for (files, all) in
        [(docker, "a:1, b:1"), (layout, "docker.io/library/a:1, docker.io/library/b:1")]
    {
        let archive = files.archive_at(directory.path(), plain);
        let error = imported(&archive, &ImportOptions::default()).unwrap_err();
        assert_eq!(error, format!("there are 2 images: name one of them: {all}"));
        let error = imported(&archive, &named("c")).unwrap_err();
        assert_eq!(error, format!("there is no image 'c': there are {all}"));
        let (packed, mut chunks) = imported(&archive, &named("b:1")).unwrap();
        let root = tempfile::tempdir().unwrap();
        let opened = File::open(root.path()).unwrap();
        let layer = &packed.manifest.variants[0].layers[0];
        unpack(layer, &mut chunks, opened.as_fd(), Form::Plain).unwrap();
        assert!(root.path().join("b").exists() && !root.path().join("a").exists());
    }
}

/// Changes the bytes of a blob under its name.
fn damaged(mut files: Files, is: impl Fn(&[u8]) -> bool) -> Files {
    let blob = |(name, bytes): &(&String, &mut Vec<u8>)| name.starts_with("blobs") && is(bytes);
    let (_, bytes) = files.0.iter_mut().find(blob).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    files
}

#[test]
fn what_is_wrong_with_an_image_is_named() {
    let image = |compress: fn(&[u8]) -> Vec<u8>| {
        let mut files = Files::default();
        let image = files.image("amd64", &LAYERS, compress);
        (files, image)
    };
    let layout = |compress| {
        let (files, image) = image(compress);
        files.layout(&[image])
    };
    let is_manifest = |bytes: &[u8]| bytes.starts_with(b"{\"config\":{\"d");
    let is_config = |bytes: &[u8]| bytes.starts_with(b"{\"architecture");
    let is_layer = |bytes: &[u8]| !bytes.starts_with(b"{");
    let without = |is: &dyn Fn(&[u8]) -> bool| {
        let mut files = layout(plain);
        files.0.retain(|name, bytes| !name.starts_with("blobs") || !is(bytes));
        files
    };
    // A configuration with the digests of other archives.
    let mut other_config = Files::default();
    let config = crate::image::configuration("amd64", &[b"other".to_vec()]).to_string();
    let config = other_config.blob("config.v1+json", config.as_bytes());
    let layer = other_config.blob("layer.v1.tar", &gzip(&crate::layer::archive("f a x")));
    let manifest = json!({"config": config, "layers": [layer.clone()]}).to_string();
    let other_config_image = other_config.blob("manifest.v1+json", manifest.as_bytes());
    let size = with(layer.clone(), "size", json!(5));
    let manifest = json!({"config": config, "layers": [size]}).to_string();
    let other_size = other_config.blob("manifest.v1+json", manifest.as_bytes());
    let manifest = json!({"config": config, "layers": []}).to_string();
    let no_layers = other_config.blob("manifest.v1+json", manifest.as_bytes());
    let helm = with(config.clone(), "mediaType", json!("application/vnd.cncf.helm.config.v1+json"));
    let manifest = json!({"config": helm, "layers": [layer]}).to_string();
    let artifact = other_config.blob("manifest.v1+json", manifest.as_bytes());
    let mut deep = Files::default();
    let mut index = deep.image("amd64", &["f a x"], plain);
    for _ in 0..6 {
        index = deep.index(&[index]);
    }
    let (linked, sha512) = (Files::default(), Files::default());
    let mut linked = linked.layout(&[]);
    linked.add("index.json", "→ a".as_bytes());
    linked.add("a", "→ b".as_bytes());
    linked.add("b", "→ a".as_bytes());
    let sha512 = sha512.layout(&[json!({"digest": "sha512:00", "size": 1})]);
    let bz = |_: &[u8]| b"BZh91AY".to_vec();
    let cut = |bytes: &[u8]| gzip(bytes)[..200].to_vec();
    let bomb = |_: &[u8]| gzip(&vec![0; 2 << 20]);
    let other_bomb = |_: &[u8]| zstd(&vec![0; 2 << 20]);
    let table: Vec<(Files, &str)> = vec![
        (Files::default(), "it has neither index.json nor manifest.json; give an OCI layout"),
        (linked, "it has neither index.json nor manifest.json"),
        (
            layout(plain).layout(&[]),
            "'index.json' of the image is not supported: it names no image",
        ),
        (damaged(layout(plain), is_manifest), "of the image is damaged: expected sha256:"),
        (damaged(layout(plain), is_config), "of the image is damaged: expected sha256:"),
        (damaged(layout(plain), is_layer), "of the image is damaged: expected sha256:"),
        (damaged(layout(gzip), is_layer), "of the image is damaged: expected sha256:"),
        (without(&is_manifest), "the image is incomplete: it has no 'blobs/sha256/"),
        (without(&is_config), "the image is incomplete: it has no 'blobs/sha256/"),
        (without(&is_layer), "the image is incomplete: it has no 'blobs/sha256/"),
        (
            other_config.clone().layout(&[other_config_image]),
            "is damaged: expected sha256:d9298a10",
        ),
        (other_config.clone().layout(&[other_size]), "is damaged: expected 5 bytes, found"),
        (other_config.clone().layout(&[no_layers]), "it has 1 diff_ids for 0 layers"),
        (other_config.layout(&[artifact]), "it is an artifact of type 'application/vnd.cncf.helm"),
        (deep.layout(&[index]), "indexes are nested more than 4 deep"),
        (sha512, "'sha512:00' of the image is not supported: it is named by something else"),
        (layout(bz), "it is compressed with bzip2: use gzip, zstd or no compression"),
        (layout(cut), "the archive cannot be read at byte"),
        (layout(bomb), "more than 1048576 bytes come out of the decompression"),
        (layout(other_bomb), "more than 1048576 bytes come out of the decompression"),
    ];
    let limits = ImportLimits { decompressed: 1 << 20, ..ImportLimits::default() };
    for (files, why) in table {
        let directory = tempfile::tempdir().unwrap();
        let options = ImportOptions { limits, ..ImportOptions::default() };
        for compress in [plain, gzip] {
            let archive = files.archive_at(directory.path(), compress);
            let error = imported(&archive, &options).unwrap_err();
            assert!(error.contains(why), "{error:?} instead of {why:?}");
        }
    }
}

#[test]
fn an_archive_that_is_a_bomb_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let mut files = Files::default();
    files.add("zeros", &vec![0; 3 << 20]);
    let limits = ImportLimits { decompressed: 1 << 20, ..ImportLimits::default() };
    let archive = files.archive_at(directory.path(), gzip);
    let error =
        imported(&archive, &ImportOptions { limits, ..ImportOptions::default() }).unwrap_err();
    assert!(error.contains("more than 1048576 bytes come out of the decompression"), "{error}");
}

#[test]
fn what_is_no_image_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("text");
    fs::write(&path, "no archive, but long enough to be one".repeat(50)).unwrap();
    for (path, why) in [
        (path.as_path(), "text is not a valid archive of images"),
        (directory.path(), "it has neither index.json nor manifest.json"),
        (Path::new("/dev/null"), "it is neither a directory nor a file"),
        (Path::new("/nowhere"), "cannot open /nowhere"),
    ] {
        let error = imported(path, &ImportOptions::default()).unwrap_err();
        assert!(error.contains(why), "{error:?} instead of {why:?}");
    }
}

#[test]
fn the_variant_of_an_architecture_is_in_its_name() {
    let archives = [crate::layer::archive("f a x")];
    // Of the configuration, or only of the index.
    for is_of_index in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let mut files = Files::default();
        let config = crate::image::configuration("arm", &archives);
        let config = if is_of_index { config } else { with(config, "variant", json!("v7")) };
        let config = files.blob("config.v1+json", config.to_string().as_bytes());
        let layer = files.blob("layer.v1.tar", &archives[0]);
        let manifest = json!({"config": config, "layers": [layer]}).to_string();
        let manifest = files.blob("manifest.v1+json", manifest.as_bytes());
        let platform = json!({"os": "linux", "architecture": "arm", "variant": "v7"});
        let manifest = if is_of_index { with(manifest, "platform", platform) } else { manifest };
        files.layout(&[manifest]).write(directory.path());
        for wanted in ["arm/v7", "arm-v7"] {
            let architectures = vec![wanted.to_owned()];
            let options = ImportOptions { architectures, ..ImportOptions::default() };
            let (packed, _) = imported(directory.path(), &options).unwrap();
            assert_eq!(packed.manifest.variants[0].architecture, "arm-v7");
            // As often as it is imported.
            let (again, _) = imported(directory.path(), &options).unwrap();
            assert_eq!(again.digest, packed.digest);
        }
    }
}

#[test]
fn the_names_and_links_of_an_archive_are_bounded_together() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image.tar");
    let mut archive = tar::Builder::new(File::create(&path).unwrap());
    let target = format!("a/{}", "b/".repeat(2_000));
    for number in 0..10_000 {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        archive.append_link(&mut header, format!("link-{number}"), &target).unwrap();
    }
    archive.finish().unwrap();
    let error = imported(&path, &ImportOptions::default()).unwrap_err();
    assert!(error.contains("its names and links are longer than 32 MiB"), "{error}");
}

#[test]
fn an_image_that_no_task_could_start_is_rejected() {
    for (key, value, why) in [
        ("StopSignal", "SIGNOTHING", "its stop signal `SIGNOTHING` is none that a task can handle"),
        ("User", "a b", "its user `a b` is not NAME, NUMBER"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let mut files = Files::default();
        let archives = [crate::layer::archive("f a x")];
        let mut config = crate::image::configuration("amd64", &archives);
        config["config"][key] = json!(value);
        let config = files.blob("config.v1+json", config.to_string().as_bytes());
        let layer = files.blob("layer.v1.tar", &archives[0]);
        let manifest = json!({"config": config, "layers": [layer]}).to_string();
        let manifest = files.blob("manifest.v1+json", manifest.as_bytes());
        files.layout(&[manifest]).write(directory.path());
        let error = imported(directory.path(), &ImportOptions::default()).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}
