//! Who asks: challenges, tokens, and the credentials of `docker login`.

use std::fs;
use std::sync::Arc;

use data_encoding::BASE64;
use registry::{
    CredentialSource, ImageReference, RegistryClient, RegistryCredentials, RegistryError,
    RegistrySettings,
};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use crate::support::image::{TestImage, bytes, check_layout};
use crate::support::server::{Answer, TestRequest, TestServer};
use crate::support::{download, impatient, shelf};

fn image() -> TestImage {
    TestImage::new("amd64", &[bytes(1, 1000), bytes(2, 1000), bytes(3, 1000)])
}

fn password(user: &str, password: &str) -> RegistryCredentials {
    RegistryCredentials::Password { user: user.to_owned(), password: password.to_owned() }
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64.encode(format!("{user}:{password}").as_bytes()))
}

fn with(credentials: RegistryCredentials) -> RegistrySettings {
    RegistrySettings { credentials: CredentialSource::Given(credentials), ..impatient() }
}

/// A registry that wants a token of a service: `good`, or what the service's URL says.
async fn guarded(realm: String) -> TestServer {
    TestServer::plain(move |request| match request.header("authorization") {
        Some("Bearer good") => shelf::serve(&image(), request),
        _ => {
            let scope = "repository:team/app:pull";
            let challenge = format!("Bearer realm=\"{realm}\",service=\"s p\",scope=\"{scope}\"");
            Answer::whole(401, r#"{"errors":[{"message":"authentication required"}]}"#)
                .with("WWW-Authenticate", challenge)
        }
    })
    .await
}

/// A token service and a registry that names it.
async fn pair(
    answer: impl Fn(&TestRequest) -> Answer + Send + Sync + 'static,
) -> (TestServer, TestServer) {
    let service = TestServer::plain(answer).await;
    let registry = guarded(format!("http://localhost:{}/token?a=b", service.port())).await;
    (service, registry)
}

async fn fails(settings: RegistrySettings, registry: &TestServer) -> RegistryError {
    let name = format!("{}/team/app", registry.host());
    download(settings, &name, tempdir().unwrap().path()).await.unwrap_err()
}

#[tokio::test]
async fn a_token_is_asked_for_once_and_without_credentials_if_there_are_none() {
    for answer in [json!({ "token": "good" }), json!({ "access_token": "good", "expires_in": 60 })]
    {
        let (service, registry) = pair(move |_| Answer::whole(200, answer.to_string())).await;
        let directory = tempdir().unwrap();
        let name = format!("{}/team/app", registry.host());
        download(impatient(), &name, directory.path()).await.unwrap();
        check_layout(directory.path());
        let asked = service.requests();
        assert_eq!(asked.len(), 1);
        let target = "/token?a=b&service=s+p&scope=repository%3Ateam%2Fapp%3Apull";
        assert_eq!((asked[0].method.as_str(), asked[0].target.as_str()), ("GET", target));
        assert_eq!(asked[0].header("authorization"), None);
    }
}

#[tokio::test]
async fn a_password_goes_to_the_token_service_and_only_the_token_to_the_registry() {
    let (service, registry) = pair(|request| match request.header("authorization") {
        Some(given) if given == basic("ana", "sec:ret") => {
            Answer::whole(200, r#"{"token":"good"}"#)
        }
        _ => Answer::whole(401, r#"{"details":"incorrect username or password"}"#),
    })
    .await;
    let directory = tempdir().unwrap();
    let name = format!("{}/team/app", registry.host());
    download(with(password("ana", "sec:ret")), &name, directory.path()).await.unwrap();
    let sent = registry.requests();
    let others = sent.iter().filter_map(|request| request.header("authorization"));
    assert!(others.into_iter().all(|given| given == "Bearer good"), "{sent:?}");
    let error = fails(with(password("ana", "wrong")), &registry).await.to_string();
    assert!(error.contains("refuses access") && error.contains("incorrect username"), "{error}");
    assert!(error.contains("the user of your credentials may read it"), "{error}");
    let error = fails(impatient(), &registry).await.to_string();
    assert!(error.contains("there are no credentials for it"), "{error}");
    assert_eq!(service.requests().len(), 3);
}

#[tokio::test]
async fn an_identity_token_is_posted() {
    let (service, registry) = pair(|_| Answer::whole(200, r#"{"access_token":"good"}"#)).await;
    let directory = tempdir().unwrap();
    let name = format!("{}/team/app", registry.host());
    let identity = RegistryCredentials::IdentityToken("a&b".to_owned());
    download(with(identity), &name, directory.path()).await.unwrap();
    let asked = service.requests();
    let body = "grant_type=refresh_token&refresh_token=a%26b&client_id=bourg&\
                scope=repository%3Ateam%2Fapp%3Apull&service=s+p";
    assert_eq!((asked[0].method.as_str(), asked[0].body.as_str()), ("POST", body));
    // A service that redirects a posted token somewhere else does not get it sent there.
    let elsewhere = TestServer::plain(|_| Answer::whole(200, r#"{"token":"good"}"#)).await;
    let to = format!("http://{}/", elsewhere.host());
    let (_service, registry) = pair(move |_| Answer::whole(307, "").with("Location", &to)).await;
    fails(with(RegistryCredentials::IdentityToken("a".to_owned())), &registry).await;
    assert_eq!(elsewhere.requests().len(), 0);
}

#[tokio::test]
async fn a_token_that_expires_is_renewed() {
    let given = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let number = Arc::clone(&given);
    let service = TestServer::plain(move |_| {
        let number = number.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Answer::whole(200, json!({ "token": format!("t{number}") }).to_string())
    })
    .await;
    let realm = format!("http://{}/token", service.host());
    // A token is good for manifests or for blobs alone: the first kind of blob request needs another one.
    let registry = TestServer::plain(move |request| {
        let blob = request.target.contains("/blobs/");
        match request.header("authorization") {
            Some("Bearer t0") if !blob => shelf::serve(&image(), request),
            Some("Bearer t1") if blob => shelf::serve(&image(), request),
            _ => {
                Answer::whole(401, "").with("WWW-Authenticate", format!("Bearer realm=\"{realm}\""))
            }
        }
    })
    .await;
    let directory = tempdir().unwrap();
    download(impatient(), &format!("{}/team/app", registry.host()), directory.path())
        .await
        .unwrap();
    check_layout(directory.path());
    assert_eq!(service.requests().len(), 2);
}

#[tokio::test]
async fn bad_token_services_are_errors() {
    let table = [
        (Answer::whole(200, "<html>"), "did not answer with JSON"),
        (Answer::whole(200, "{}"), "answered without a token"),
        (Answer::whole(200, r#"{"token":""}"#), "answered without a token"),
        (Answer::whole(200, r#"{"token":"a\nb"}"#), "is no token"),
        (
            Answer::whole(200, "x".repeat((1 << 20) + 1)),
            "the maximum of the answer of a token service",
        ),
        (Answer::whole(404, ""), "/token answered 404"),
        (Answer::whole(500, ""), "/token answered 500"),
        (Answer::whole(200, r#"{"token":"bad"}"#), "refuses access"),
    ];
    for (answer, expected) in table {
        let (_service, registry) = pair(move |_| answer.clone()).await;
        let error = fails(impatient(), &registry).await.to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[tokio::test]
async fn credentials_are_not_sent_to_bad_token_services() {
    let service = TestServer::plain(|_| Answer::whole(200, r#"{"token":"good"}"#)).await;
    let table = ["ftp://a/b", "", "x", "file:///etc/passwd"].map(str::to_owned);
    let with_user = format!("http://ana:secret@{}/", service.host());
    for realm in table.into_iter().chain([with_user]) {
        let registry = guarded(realm.clone()).await;
        let error = fails(with(password("ana", "secret")), &registry).await;
        assert!(matches!(error, RegistryError::Token { .. }), "{realm}: {error}");
    }
    // A registry with TLS that names a service without.
    let realm = format!("Bearer realm=\"http://{}/\"", service.host());
    let (registry, _) =
        TestServer::tls(move |_| Answer::whole(401, "").with("WWW-Authenticate", &realm)).await;
    let error = fails(with(password("ana", "secret")), &registry).await.to_string();
    assert!(error.contains("its token service is on http"), "{error}");
    assert_eq!(service.requests().len(), 0);
}

#[tokio::test]
async fn a_password_with_a_line_break_is_no_second_header() {
    let registry = TestServer::plain(|request| match request.header("authorization") {
        Some(given) if given == basic("ana", "a\r\nX-Evil: 1") => shelf::serve(&image(), request),
        Some(_) => Answer::whole(403, ""),
        None => Answer::whole(401, "").with("WWW-Authenticate", "Basic realm=\"x\""),
    })
    .await;
    let directory = tempdir().unwrap();
    let settings = with(password("ana", "a\r\nX-Evil: 1"));
    download(settings, &format!("{}/app", registry.host()), directory.path()).await.unwrap();
    assert!(registry.requests().iter().all(|request| request.header("x-evil").is_none()));
    let identity = RegistryCredentials::IdentityToken("a".to_owned());
    let error = fails(with(identity), &registry).await.to_string();
    assert!(error.contains("it asks for a password"), "{error}");
}

fn written(config: &[u8]) -> (TempDir, RegistrySettings) {
    let directory = tempdir().unwrap();
    fs::write(directory.path().join("config.json"), config).unwrap();
    let credentials = CredentialSource::Docker(directory.path().to_owned());
    (directory, RegistrySettings { credentials, ..impatient() })
}

/// The credentials with which a registry is asked that wants a password, if any.
async fn sent(config: impl Fn(&str) -> Value) -> Result<Option<String>, RegistryError> {
    let registry = TestServer::plain(|request| match request.header("authorization") {
        Some(_) => Answer::whole(200, image().manifest),
        None => Answer::whole(401, "").with("WWW-Authenticate", "Basic realm=\"x\""),
    })
    .await;
    let (_directory, settings) = written(config(&registry.host()).to_string().as_bytes());
    let image: ImageReference = format!("{}/app", registry.host()).parse().unwrap();
    match RegistryClient::new(settings)?.resolve(&image).await {
        Ok(_) | Err(RegistryError::Denied { with_credentials: false, .. }) => {}
        Err(error) => return Err(error),
    }
    let requests = registry.requests().into_iter().rev();
    Ok(requests.filter_map(|request| request.header("authorization").map(str::to_owned)).next())
}

#[tokio::test]
async fn the_credentials_of_docker_login_are_found() {
    let ana = BASE64.encode(b"ana:secret");
    let found = Some(basic("ana", "secret"));
    type Config<'a> = Box<dyn Fn(&str) -> Value + 'a>;
    let of = |key: fn(&str) -> String, entry: Value| -> Config<'_> {
        Box::new(move |host| json!({ "auths": { key(host): entry } }))
    };
    let table: Vec<(Config<'_>, Option<String>)> = vec![
        (of(str::to_owned, json!({ "auth": ana })), found.clone()),
        (of(|host| format!("https://{host}"), json!({ "auth": ana })), found.clone()),
        (of(|host| format!("http://{host}/v1/"), json!({ "auth": ana })), found.clone()),
        (of(str::to_owned, json!({ "auth": format!("{ana}\0") })), found.clone()),
        (of(str::to_owned, json!({ "username": "ana", "password": "secret" })), found.clone()),
        (
            of(str::to_owned, json!({ "auth": BASE64.encode(b"ana:a:b") })),
            Some(basic("ana", "a:b")),
        ),
        (of(str::to_owned, json!({})), None),
        (of(str::to_owned, json!({ "email": "x" })), None),
        // Of others.
        (of(|host| format!("{host}0"), json!({ "auth": ana })), None),
        (of(|host| format!("x.{host}"), json!({ "auth": ana })), None),
        (of(|_| "127.0.0.1".to_owned(), json!({ "auth": ana })), None),
        (of(|_| "https://index.docker.io/v1/".to_owned(), json!({ "auth": ana })), None),
        (of(|_| String::new(), json!({ "auth": ana })), None),
        (Box::new(|_| json!({})), None),
        (Box::new(|_| json!({ "HttpHeaders": { "a": "b" }, "currentContext": "x" })), None),
        // What Docker writes comes before what people write.
        (
            Box::new(|host| {
                let other = BASE64.encode(b"other:secret");
                json!({ "auths": { format!("http://{host}"): { "auth": other }, host: { "auth": ana } } })
            }),
            found.clone(),
        ),
    ];
    for (config, expected) in table {
        let shown = config("HOST").to_string();
        assert_eq!(sent(config).await.expect(&shown), expected, "{shown}");
    }
}

#[tokio::test]
async fn a_file_that_docker_did_not_write_is_named_without_what_is_in_it() {
    let key = "127.0.0.1";
    for (config, expected) in [
        ("secret".to_owned(), "line 1, column 1 is no JSON"),
        (r#"{"auths":["secret"]}"#.to_owned(), "is no JSON of Docker's settings"),
        (format!(r#"{{"x":"secret{}"}}"#, "y".repeat(1 << 20)), "more than 1048576 bytes"),
    ] {
        let registry = TestServer::plain(|_| {
            Answer::whole(401, "").with("WWW-Authenticate", "Basic realm=\"x\"")
        })
        .await;
        let (_directory, settings) = written(config.as_bytes());
        let error = fails(settings, &registry).await.to_string();
        assert!(error.contains(expected) && error.contains("config.json"), "{error}");
        assert!(!error.contains("secret"), "{key}: {error}");
    }
    for auth in ["sec*ret", &BASE64.encode(b"secret"), &BASE64.encode(&[0xff, b':'])] {
        let error = sent(|host| json!({ "auths": { host: { "auth": auth } } })).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains("has an `auth`") && !error.contains("ret"), "{error}");
    }
    // No file, and a path that is not a directory.
    for path in ["/nonexistent", "/dev/null"] {
        let registry = guarded("http://127.0.0.1:1/".to_owned()).await;
        let credentials = CredentialSource::Docker(path.into());
        fails(RegistrySettings { credentials, ..impatient() }, &registry).await;
    }
}

#[test]
fn credentials_are_not_printed() {
    let shown = format!("{:?}", with(password("ana", "secret")));
    assert!(shown.contains("ana") && !shown.contains("secret"), "{shown}");
    let shown = format!("{:?}", with(RegistryCredentials::IdentityToken("secret".to_owned())));
    assert!(!shown.contains("secret"), "{shown}");
}
