//! Programs that keep credentials. They are looked for in `PATH`, so each test runs itself once more with another one.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

use registry::{
    CredentialSource, ImageReference, Patience, RegistryClient, RegistryError, RegistrySettings,
};
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::support::impatient;
use crate::support::server::{Answer, TestServer};

/// The variable that says that a test runs itself.
const INNER: &str = "REGISTRY_TEST_PROGRAMS";

/// The directory with Docker's settings in that run.
const DOCKER_CONFIG: &str = "/nonexistent/of-docker";

/// Programs by their names without `docker-credential-`, as scripts of a shell.
const PROGRAMS: [(&str, &str); 8] = [
    (
        "good",
        r#"read -r url; echo "{\"ServerURL\":\"$url\",\"Username\":\"ana\",\"Secret\":\"$1 $url\"}""#,
    ),
    ("token", r#"cat > /dev/null; echo '{"Username":"<token>","Secret":"identity"}'"#),
    ("none", "echo 'credentials not found in native keychain'; exit 1"),
    ("locked", "echo 'the keychain is locked' >&2; exit 3"),
    ("text", "echo secret"),
    ("endless", "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done"),
    ("silent", "exec sleep 1000"),
    ("empty", r#"echo '{"Username":"","Secret":""}'"#),
];

/// Runs the test of this name once more, with these programs in its `PATH`; returns whether this is that run.
fn inner(test: &str) -> bool {
    if env::var_os(INNER).is_some() {
        return true;
    }
    let directory = tempdir().unwrap();
    for (name, script) in PROGRAMS {
        let path = directory.path().join(format!("docker-credential-{name}"));
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut path = directory.path().as_os_str().to_owned();
    path.push(":");
    path.push(env::var_os("PATH").unwrap_or_default());
    let mut again = Command::new(env::current_exe().unwrap());
    again.args(["--exact", &format!("programs::{test}"), "--nocapture"]);
    again.env("DOCKER_CONFIG", DOCKER_CONFIG);
    let output = again.env("PATH", path).env(INNER, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    false
}

/// What a registry that wants a password gets sent.
async fn sent(config: Value, settings: RegistrySettings) -> Result<Option<String>, RegistryError> {
    let server = TestServer::plain(|request| match request.header("authorization") {
        Some(_) => Answer::whole(200, "x"),
        None => Answer::whole(401, "").with("WWW-Authenticate", "Basic realm=\"x\""),
    })
    .await;
    let directory = tempdir().unwrap();
    let config = config.to_string().replace("HOST", &server.host());
    fs::write(directory.path().join("config.json"), config).unwrap();
    let credentials = CredentialSource::Docker(directory.path().to_owned());
    let image: ImageReference = format!("{}/app", server.host()).parse().unwrap();
    let client = RegistryClient::new(RegistrySettings { credentials, ..settings })?;
    match client.resolve(&image).await {
        Ok(_) | Err(RegistryError::Denied { with_credentials: false, .. }) => {}
        Err(error) => return Err(error),
    }
    let requests = server.requests();
    let last = requests.last().and_then(|request| request.header("authorization"));
    let decode = |header: &str| {
        let decoded = data_encoding::BASE64.decode(&header.as_bytes()[6..]).unwrap();
        String::from_utf8(decoded).unwrap().replace(&server.host(), "HOST")
    };
    Ok(last.map(decode))
}

#[test]
fn the_settings_of_a_user_are_found() {
    if inner("the_settings_of_a_user_are_found") {
        let settings = RegistrySettings::from_environment();
        assert_eq!(settings.credentials, CredentialSource::Docker(DOCKER_CONFIG.into()));
        assert!(!settings.insecure);
        RegistryClient::new(settings).unwrap();
    }
}

#[tokio::test]
async fn programs_give_credentials() {
    if !inner("programs_give_credentials") {
        return;
    }
    let own = data_encoding::BASE64.encode(b"own:secret");
    let auths = json!({ "HOST": { "auth": own } });
    let table = [
        (json!({ "credsStore": "good" }), Some("ana:get HOST")),
        (
            json!({ "credHelpers": { "HOST": "good" }, "credsStore": "locked" }),
            Some("ana:get HOST"),
        ),
        (
            json!({ "credHelpers": { "other": "locked" }, "credsStore": "good" }),
            Some("ana:get HOST"),
        ),
        (json!({ "credsStore": "good", "auths": { "HOST": {} } }), Some("ana:get HOST")),
        (json!({ "credsStore": "none" }), None),
        (json!({ "credsStore": "empty" }), None),
        (json!({ "credsStore": "none", "auths": auths }), Some("own:secret")),
        (json!({ "credsStore": "", "auths": auths }), Some("own:secret")),
    ];
    for (config, expected) in table {
        let found = sent(config.clone(), impatient()).await.expect("credentials");
        assert_eq!(found.as_deref(), expected, "{config}");
    }
}

#[tokio::test]
async fn programs_that_fail_are_named() {
    if !inner("programs_that_fail_are_named") {
        return;
    }
    let patience = Patience { helper: Duration::from_secs(2), ..impatient().patience };
    let table = [
        ("locked", "it failed (exit status: 3): the keychain is locked"),
        ("text", "it wrote no JSON with Username and Secret"),
        ("endless", "docker-credential-endless`: it "),
        ("silent", "it did not answer within 2 s"),
        ("missing", "No such file"),
        ("../../bin/sh", "its name may have letters"),
        ("a b", "its name may have letters"),
        ("token", "it asks for a password, and `docker login` has kept a token"),
    ];
    for (name, expected) in table {
        let settings = RegistrySettings { patience, ..impatient() };
        let error = sent(json!({ "credsStore": name }), settings).await.unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains("secret"), "{name}: {error}");
    }
}
