//! A registry as others run it: the distribution project's, with images that skopeo and umoci have made or copied.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use registry::{
    CredentialSource, ImageReference, Platforms, RegistryClient, RegistryError, RegistrySettings,
};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use crate::support::image::{TestImage, bytes, check_layout, on};
use crate::support::{SOON, download, download_for, impatient};

/// A process of `docker-registry` with a configuration and a directory of its own.
struct DistributionRegistry {
    process: Child,
    host: String,
    requests: Receiver<String>,
    _directory: TempDir,
}

impl DistributionRegistry {
    /// Starts it with more settings of `http`, and with the others given.
    fn start(http: Value, others: Value) -> Self {
        let directory = tempdir().unwrap();
        let mut config = json!({
            "version": 0.1,
            "log": { "level": "info" },
            "storage": { "filesystem": { "rootdirectory": directory.path().join("images") } },
            "http": { "addr": "127.0.0.1:0", "secret": "of a test" },
        });
        merge(&mut config["http"], http);
        merge(&mut config, others);
        // JSON is YAML.
        let path = directory.path().join("config.yml");
        fs::write(&path, config.to_string()).unwrap();
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(&path).stderr(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("docker-registry is installed");
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let listening = lines.find_map(|line| {
            let line = line.unwrap();
            let (_, rest) = line.split_once("listening on ")?;
            Some(rest.split(['"', ',']).next().unwrap().to_owned())
        });
        let host = listening.expect("docker-registry listens");
        // It writes more than pipes hold: errors here, and requests there.
        let (sender, requests) = mpsc::channel();
        thread::spawn(move || lines.for_each(drop));
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // A test that has ended reads no more.
                let _ended = sender.send(line);
            }
        });
        Self { process, host, requests, _directory: directory }
    }

    /// Waits until it has answered a request with a status.
    fn wait_for_status(&self, status: u16) {
        let text = format!("\" {status} ");
        while !self.requests.recv_timeout(SOON).expect(&text).contains(&text) {}
    }

    fn name(&self, image: &str) -> String {
        format!("{}/{image}", self.host)
    }

    /// Copies an image of an OCI layout into it.
    fn push(&self, layout: &Path, tag: &str, image: &str, more: &[&str]) {
        let from = format!("oci:{}:{tag}", layout.display());
        let to = format!("docker://{}", self.name(image));
        let mut command = Command::new("skopeo");
        command.args(["--insecure-policy", "copy", "--dest-tls-verify=false"]);
        run(command.args(more).args([&from, &to]));
    }
}

impl Drop for DistributionRegistry {
    fn drop(&mut self) {
        self.process.kill().expect("it is a child");
        self.process.wait().expect("it is a child");
    }
}

fn merge(into: &mut Value, more: Value) {
    let Value::Object(more) = more else { panic!("{more} is no object") };
    into.as_object_mut().unwrap().extend(more);
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// An image for two architectures, of which each has a layer of its own and one that both have.
fn two() -> TestImage {
    let [amd, arm] = [("amd64", 1), ("arm64", 2)].map(|(architecture, seed)| {
        TestImage::new(architecture, &[bytes(9, 100_000), bytes(seed, 3_000_000)])
    });
    TestImage::index(&[(&amd, on("amd64")), (&arm, on("arm64"))])
}

/// The layout of [`two`], with the tag `1`.
fn layout() -> TempDir {
    let directory = tempdir().unwrap();
    two().write(directory.path(), "1");
    directory
}

#[tokio::test]
async fn an_image_comes_back_as_it_was_pushed() {
    let registry = DistributionRegistry::start(json!({}), json!({}));
    registry.push(layout().path(), "1", "team/app:1.27", &["--all", "--preserve-digests"]);
    let directory = tempdir().unwrap();
    let name = registry.name("team/app:1.27");
    let downloaded = download(impatient(), &name, directory.path()).await.unwrap();
    assert_eq!(downloaded.digest, two().digest());
    assert_eq!(check_layout(directory.path()), ["linux/amd64 1.27", "linux/arm64 1.27"]);
    for (digest, blob) in two().blobs {
        let path = directory.path().join("blobs/sha256").join(digest.digits());
        assert_eq!(fs::read(path).unwrap(), blob);
    }
    let image: ImageReference = name.parse().unwrap();
    let client = RegistryClient::new(impatient()).unwrap();
    assert_eq!(client.resolve(&image).await, Ok(two().digest()));

    // One platform, by digest, and others read it.
    let directory = tempdir().unwrap();
    let name = registry.name(&format!("team/app:any@{}", two().digest()));
    let wanted = Platforms::Named(vec!["arm64".parse().unwrap()]);
    download_for(impatient(), &name, &wanted, directory.path()).await.unwrap();
    assert_eq!(check_layout(directory.path()), ["linux/arm64 any"]);
    let mut command = Command::new("skopeo");
    let shown = run(command.args(["inspect", &format!("oci:{}:any", directory.path().display())]));
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["Architecture"], "arm64");
    assert_eq!(shown["Layers"].as_array().unwrap().len(), 2);

    for missing in ["team/app:1.28", "team/other:1.27"] {
        let error =
            download(impatient(), &registry.name(missing), directory.path()).await.unwrap_err();
        assert!(matches!(error, RegistryError::NotFound { .. }), "{error}");
        assert!(error.to_string().contains("the server says: manifest unknown"), "{error}");
    }
}

#[tokio::test]
async fn a_download_continues_with_a_range() {
    let registry = DistributionRegistry::start(json!({}), json!({}));
    let image = TestImage::new("amd64", &[bytes(1, 3_000_000)]);
    let layout = tempdir().unwrap();
    image.write(layout.path(), "1");
    // Otherwise skopeo compresses it, and it is another layer.
    registry.push(layout.path(), "1", "app", &["--preserve-digests"]);
    let directory = tempdir().unwrap();
    let partial = directory.path().join("partial");
    fs::create_dir(&partial).unwrap();
    fs::write(partial.join(image.layers[0].digits()), &image.layer(0)[..1_234_567]).unwrap();
    download(impatient(), &registry.name("app"), directory.path()).await.unwrap();
    check_layout(directory.path());
    registry.wait_for_status(206);
}

#[tokio::test]
async fn docker_manifests_are_read() {
    let registry = DistributionRegistry::start(json!({}), json!({}));
    registry.push(layout().path(), "1", "app:list", &["--all", "--format", "v2s2"]);
    let directory = tempdir().unwrap();
    download(impatient(), &registry.name("app:list"), directory.path()).await.unwrap();
    assert_eq!(check_layout(directory.path()), ["linux/amd64 list", "linux/arm64 list"]);
    let index = fs::read_to_string(directory.path().join("index.json")).unwrap();
    assert!(index.contains("application/vnd.docker.distribution.manifest.v2+json"), "{index}");
}

#[tokio::test]
async fn an_image_of_umoci_is_unpacked_by_umoci_again() {
    let (made, root) = (tempdir().unwrap(), tempdir().unwrap());
    fs::write(root.path().join("hello"), "hello\n").unwrap();
    let layout = made.path().join("layout");
    let image = format!("{}:1", layout.display());
    let umoci = |arguments: &[&str]| run(Command::new("umoci").args(arguments));
    umoci(&["init", "--layout", layout.to_str().unwrap()]);
    umoci(&["new", "--image", &image]);
    umoci(&["config", "--image", &image, "--config.cmd", "/hello", "--os", "linux"]);
    let file = root.path().join("hello");
    umoci(&["insert", "--rootless", "--image", &image, file.to_str().unwrap(), "/hello"]);

    let registry = DistributionRegistry::start(json!({}), json!({}));
    registry.push(&layout, "1", "hello:1", &[]);
    let directory = tempdir().unwrap();
    download(impatient(), &registry.name("hello:1"), directory.path()).await.unwrap();
    check_layout(directory.path());
    let (image, bundle) = (format!("{}:1", directory.path().display()), made.path().join("bundle"));
    umoci(&["unpack", "--rootless", "--image", &image, bundle.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(bundle.join("rootfs/hello")).unwrap(), "hello\n");
}

/// The file of a user `ana` with the password `secret`.
fn users(directory: &Path) -> PathBuf {
    let text = run(Command::new("htpasswd").args(["-Bbn", "ana", "secret"]));
    let path = directory.join("users");
    fs::write(&path, text).unwrap();
    path
}

#[tokio::test]
async fn a_registry_with_users_wants_a_password() {
    let directory = tempdir().unwrap();
    let htpasswd = json!({ "realm": "test", "path": users(directory.path()) });
    let auth = json!({ "auth": { "htpasswd": htpasswd } });
    let registry = DistributionRegistry::start(json!({}), auth);
    registry.push(layout().path(), "1", "app:1", &["--all", "--dest-creds", "ana:secret"]);
    // As `docker login` writes them.
    let login = |password: &str| {
        let home = tempdir().unwrap();
        let file = home.path().join("config.json");
        let mut command = Command::new("skopeo");
        command.args(["login", "--tls-verify=false", "--username", "ana", "--password", password]);
        run(command.arg("--authfile").arg(&file).arg(&registry.host));
        home
    };
    let home = login("secret");
    let docker = |home: &TempDir| RegistrySettings {
        credentials: CredentialSource::Docker(home.path().to_owned()),
        ..impatient()
    };
    let name = registry.name("app:1");
    let into = tempdir().unwrap();
    download(docker(&home), &name, into.path()).await.unwrap();
    check_layout(into.path());

    let error = download(impatient(), &name, tempdir().unwrap().path()).await.unwrap_err();
    assert!(error.to_string().contains("(401): there are no credentials for it"), "{error}");
    let config = fs::read_to_string(home.path().join("config.json")).unwrap();
    let [good, bad] =
        [&b"ana:secret"[..], b"ana:wrong"].map(|text| data_encoding::BASE64.encode(text));
    fs::write(home.path().join("config.json"), config.replace(&good, &bad)).unwrap();
    let error = download(docker(&home), &name, tempdir().unwrap().path()).await.unwrap_err();
    assert!(error.to_string().contains("check the name, and that the user"), "{error}");
}

#[tokio::test]
async fn a_registry_with_tls_is_trusted_by_its_authority() {
    let directory = tempdir().unwrap();
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| directory.path().join(name));
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let tls = json!({ "tls": { "certificate": certificate, "key": key } });
    let registry = DistributionRegistry::start(tls, json!({}));
    registry.push(layout().path(), "1", "app:1", &["--all"]);
    let name = registry.name("app:1");
    let strict = RegistrySettings { insecure: false, ..impatient() };
    let trusting = RegistrySettings { ca_file: Some(certificate), ..strict.clone() };
    for settings in [trusting, impatient()] {
        let into = tempdir().unwrap();
        download(settings, &name, into.path()).await.unwrap();
        check_layout(into.path());
    }
    let error = download(strict, &name, tempdir().unwrap().path()).await.unwrap_err();
    assert!(matches!(error, RegistryError::Tls { .. }), "{error}");
}
