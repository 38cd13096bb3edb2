//! Servers that fail, limit, redirect and refuse.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use registry::{
    BlobDigest, CredentialSource, ImageReference, Patience, ProxyChoice, RegistryClient,
    RegistryCredentials, RegistryError, RegistrySettings,
};
use tempfile::tempdir;

use crate::support::image::{TestImage, bytes, check_layout};
use crate::support::server::{Answer, Body, TestServer};
use crate::support::{download, impatient, shelf};

fn image() -> TestImage {
    TestImage::new("amd64", &[bytes(1, 1000), bytes(2, 1000)])
}

async fn resolve(settings: RegistrySettings, name: &str) -> Result<BlobDigest, RegistryError> {
    let image: ImageReference = name.parse().expect(name);
    RegistryClient::new(settings)?.resolve(&image).await
}

fn ana() -> CredentialSource {
    let (user, password) = ("ana".to_owned(), "secret".to_owned());
    CredentialSource::Given(RegistryCredentials::Password { user, password })
}

/// Settings for servers with TLS whose certificates are these.
fn trusting(certificates: &[&str]) -> (RegistrySettings, tempfile::TempDir) {
    let directory = tempdir().unwrap();
    let path = directory.path().join("ca.pem");
    fs::write(&path, certificates.concat()).unwrap();
    (RegistrySettings { insecure: false, ca_file: Some(path), ..impatient() }, directory)
}

#[tokio::test]
async fn what_passes_is_tried_again() {
    for status in [429, 500, 502, 503] {
        let asked = AtomicUsize::new(0);
        let server =
            TestServer::plain(move |request| match asked.fetch_add(1, Ordering::Relaxed) % 3 {
                0 => Answer::whole(status, "").with("Retry-After", "0"),
                1 => Answer::whole(status, "").with("Retry-After", "Thu, 01 Jan 1970 00:00:00 GMT"),
                _ => shelf::serve(&image(), request),
            })
            .await;
        let directory = tempdir().unwrap();
        let name = format!("{}/app", server.host());
        download(impatient(), &name, directory.path()).await.unwrap();
        check_layout(directory.path());
    }
}

#[tokio::test]
async fn what_stays_is_an_error_with_the_words_of_the_server() {
    let text = r#"{"errors":[{"code":"X","message":"come \u001b[31mback"}]}"#;
    let server = TestServer::plain(move |_| Answer::whole(500, text)).await;
    let name = format!("{}/app:1", server.host());
    let error = download(impatient(), &name, tempdir().unwrap().path()).await.unwrap_err();
    let expected = "/v2/app/manifests/1 answered 500 (the server says: come \\u{1b}[31mback): the server fails";
    assert!(error.to_string().contains(expected), "{error}");
    assert_eq!(server.requests().len(), 4);

    let server = TestServer::plain(move |_| Answer::whole(429, "")).await;
    let name = format!("{}/app:1", server.host());
    let error = download(impatient(), &name, tempdir().unwrap().path()).await.unwrap_err();
    assert!(
        error.to_string().contains("limits the rate of requests (429): try again later"),
        "{error}"
    );
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn a_long_wait_is_an_error_at_once() {
    for after in ["3600", "18446744073709551615", "Fri, 31 Dec 9999 23:59:59 GMT"] {
        let server =
            TestServer::plain(move |_| Answer::whole(429, "").with("Retry-After", after)).await;
        let name = format!("{}/app:1", server.host());
        let error = resolve(impatient(), &name).await.unwrap_err();
        assert!(error.to_string().contains("(429) and asks to wait "), "{error}");
        // One HEAD: nothing was tried again.
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn the_words_of_a_server_are_bounded() {
    for body in [
        Body::Endless,
        Body::Whole(format!(r#"{{"errors":[{{"message":"{}"}}]}}"#, "x".repeat(60_000)).into()),
    ] {
        let server = TestServer::plain(move |_| Answer::new(404, body.clone())).await;
        let name = format!("{}/app:1", server.host());
        let error = download(impatient(), &name, tempdir().unwrap().path()).await.unwrap_err();
        assert!(error.to_string().len() < 600, "{error}");
        assert!(matches!(error, RegistryError::NotFound { .. }), "{error}");
    }
}

#[tokio::test]
async fn what_is_not_there_or_not_allowed_is_said_with_what_to_do() {
    let table = [
        (
            404,
            "has no image 127.0.0.1:",
            "if the image is private, log in with `docker login 127.0.0.1:",
        ),
        (403, "refuses access to 127.0.0.1:", "there are no credentials for it"),
        (401, "cannot get a token", "neither Basic nor Bearer"),
        (400, "answered 400", "no registry, or a proxy"),
        (204, "answered 204", "no registry, or a proxy"),
    ];
    for (status, what, advice) in table {
        let server = TestServer::plain(move |_| Answer::whole(status, "")).await;
        let name = format!("{}/app:1.27", server.host());
        let of_download =
            download(impatient(), &name, tempdir().unwrap().path()).await.unwrap_err();
        let of_resolve = resolve(impatient(), &name).await.unwrap_err();
        for error in [of_download.to_string(), of_resolve.to_string()] {
            assert!(error.contains(what) && error.contains(advice), "{status}: {error}");
        }
    }
}

#[tokio::test]
async fn a_digest_is_resolved_by_its_header_or_by_the_manifest() {
    let digest = image().digest();
    let whole = TestServer::plain(|request| shelf::serve(&image(), request)).await;
    assert_eq!(resolve(impatient(), &format!("{}/app", whole.host())).await, Ok(digest));
    let methods: Vec<String> = whole.requests().into_iter().map(|request| request.method).collect();
    assert_eq!(methods, ["HEAD"]);
    // Without the header; without HEAD.
    let bare = TestServer::plain(|_| Answer::whole(200, image().manifest)).await;
    assert_eq!(resolve(impatient(), &format!("{}/app", bare.host())).await, Ok(digest));
    let get = TestServer::plain(|request| match request.method.as_str() {
        "HEAD" => Answer::whole(405, ""),
        _ => shelf::serve(&image(), request),
    })
    .await;
    assert_eq!(resolve(impatient(), &format!("{}/app", get.host())).await, Ok(digest));
    // A registry that answers with another one.
    let pinned = format!("{}/app@{}", whole.host(), BlobDigest::of(b"other"));
    assert!(matches!(resolve(impatient(), &pinned).await, Err(RegistryError::NotFound { .. })));
    let pinned = format!("{}/app@{}", bare.host(), BlobDigest::of(b"other"));
    assert!(matches!(resolve(impatient(), &pinned).await, Err(RegistryError::WrongDigest { .. })));
}

#[tokio::test]
async fn redirects_lead_to_blobs_without_credentials() {
    let storage = TestServer::plain(|request| shelf::serve(&image(), request)).await;
    let to = format!("http://localhost:{}", storage.port());
    let server = TestServer::plain(move |request| match request.target.contains("/blobs/") {
        true => Answer::whole(307, "")
            .with("Location", format!("{to}{}?signature=x#part", request.target)),
        false if request.header("authorization").is_none() => {
            Answer::whole(401, "").with("WWW-Authenticate", "Basic realm=\"x\"")
        }
        false => shelf::serve(&image(), request),
    })
    .await;
    let settings = RegistrySettings { credentials: ana(), ..impatient() };
    let directory = tempdir().unwrap();
    download(settings, &format!("{}/app", server.host()), directory.path()).await.unwrap();
    check_layout(directory.path());
    let sent = storage.requests();
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|request| request.header("authorization").is_none()), "{sent:?}");
    assert!(sent.iter().all(|request| request.target.ends_with("?signature=x")), "{sent:?}");
    let own = server.requests();
    let with = own.iter().filter(|request| request.header("authorization").is_some()).count();
    assert_eq!((own.len(), with), (5, 4), "{own:?}");
}

#[tokio::test]
async fn credentials_do_not_come_back_over_another_host() {
    let (back, to) = (Arc::new(OnceLock::new()), Arc::new(OnceLock::new()));
    let answer = Arc::clone(&back);
    let other = TestServer::plain(move |_| {
        let back: &String = answer.get().expect("it is set before the first request");
        Answer::whole(302, "").with("Location", back)
    })
    .await;
    let answer = Arc::clone(&to);
    let server = TestServer::plain(move |request| {
        let to: &String = answer.get().expect("it is set before the first request");
        match request.header("authorization") {
            None => Answer::whole(401, "").with("WWW-Authenticate", "Basic realm=\"x\""),
            Some(_) => Answer::whole(302, "").with("Location", to),
        }
    })
    .await;
    to.set(format!("http://{}/", other.host())).unwrap();
    back.set(format!("http://{}/secret", server.host())).unwrap();
    let settings = RegistrySettings { credentials: ana(), ..impatient() };
    let error = resolve(settings, &format!("{}/app", server.host())).await.unwrap_err();
    assert!(matches!(error, RegistryError::Denied { .. }), "{error}");
    let requests = server.requests().into_iter();
    let secret: Vec<_> = requests.filter(|request| request.target == "/secret").collect();
    assert!(!secret.is_empty());
    assert!(secret.iter().all(|request| request.header("authorization").is_none()), "{secret:?}");
}

#[tokio::test]
async fn redirects_that_lead_nowhere_are_refused() {
    let table = [
        ("", "more redirects in a row"),
        ("/elsewhere", "more redirects in a row"),
        ("ftp://a/b", "no URL of HTTP"),
        ("http://", "it is no URL"),
        ("http://[::g]/", "it is no URL"),
        ("http://ana:secret@127.0.0.1/", "a user or a password"),
        ("file:///etc/passwd", "no URL of HTTP"),
    ];
    for (location, expected) in table {
        let server =
            TestServer::plain(move |_| Answer::whole(302, "").with("Location", location)).await;
        let name = format!("{}/app", server.host());
        let error = download(impatient(), &name, tempdir().unwrap().path()).await.unwrap_err();
        assert!(matches!(error, RegistryError::Redirect { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{location}: {error}");
        assert!(server.requests().len() <= 6);
    }
}

#[tokio::test]
async fn https_is_not_left() {
    let plain = TestServer::plain(|request| shelf::serve(&image(), request)).await;
    let to = format!("http://{}/", plain.host());
    let (server, certificate) =
        TestServer::tls(move |_| Answer::whole(302, "").with("Location", &to)).await;
    let name = format!("{}/app", server.host());
    let (trusting, _directory) = trusting(&[&certificate]);
    for settings in [trusting, impatient()] {
        let error = resolve(settings, &name).await.unwrap_err();
        assert!(error.to_string().contains("it leads from https to http"), "{error}");
    }
    assert_eq!(plain.requests().len(), 0);
}

#[tokio::test]
async fn a_certificate_has_to_be_trusted() {
    let (server, certificate) = TestServer::tls(|request| shelf::serve(&image(), request)).await;
    let name = format!("{}/app", server.host());
    let (trusting, directory) = trusting(&[&certificate]);
    let digest = image().digest();
    assert_eq!(resolve(trusting.clone(), &name).await, Ok(digest));
    assert_eq!(
        resolve(trusting.clone(), &format!("localhost:{}/app", server.port())).await,
        Ok(digest)
    );
    assert_eq!(resolve(impatient(), &name).await, Ok(digest));
    let strict = RegistrySettings { ca_file: None, ..trusting.clone() };
    let error = resolve(strict.clone(), &name).await.unwrap_err();
    assert!(matches!(error, RegistryError::Tls { .. }), "{error}");
    assert!(error.to_string().contains("--registry-ca"), "{error}");
    // A server without TLS is not asked without it.
    let plain = TestServer::plain(|request| shelf::serve(&image(), request)).await;
    let error = resolve(strict.clone(), &format!("{}/app", plain.host())).await.unwrap_err();
    assert!(matches!(error, RegistryError::Tls { .. }), "{error}");
    assert_eq!(plain.requests().len(), 0);
    // Files that have no certificates.
    let other = directory.path().join("other");
    for text in ["", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        fs::write(&other, text).unwrap();
        let settings = RegistrySettings { ca_file: Some(other.clone()), ..strict.clone() };
        let error = RegistryClient::new(settings).unwrap_err().to_string();
        assert!(error.contains("give a file with certificates in PEM"), "{error}");
    }
    let settings = RegistrySettings { ca_file: Some(directory.path().join("none")), ..strict };
    assert!(RegistryClient::new(settings).is_err());
}

#[tokio::test]
async fn older_and_newer_tls_are_spoken() {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let serve = |request: &_| shelf::serve(&image(), request);
        let (server, certificate) = TestServer::tls_of(&[version], serve).await;
        let name = format!("{}/app", server.host());
        let (trusting, _directory) = trusting(&[&certificate]);
        for settings in [trusting, impatient()] {
            assert_eq!(resolve(settings, &name).await, Ok(image().digest()), "{version:?}");
        }
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let server = TestServer::plain(|_| Answer::whole(200, "")).await;
    let name = format!("{}/app", server.host());
    drop(server);
    for insecure in [true, false] {
        let settings = RegistrySettings { insecure, ..impatient() };
        let error = resolve(settings, &name).await.unwrap_err();
        assert!(matches!(error, RegistryError::Connection { .. }), "{error}");
        assert!(error.to_string().contains("refused"), "{error}");
    }
    let error = resolve(impatient(), "no-such-host.invalid/app").await.unwrap_err();
    assert!(error.to_string().contains("no-such-host.invalid"), "{error}");
}

#[tokio::test]
async fn a_server_that_says_nothing_is_left() {
    let server = TestServer::plain(|_| Answer::new(200, Body::Silent)).await;
    let (stall, connect) = (Duration::from_millis(100), Duration::from_millis(100));
    let patience = Patience { stall, connect, attempts: 2, ..impatient().patience };
    let settings = RegistrySettings { patience, ..impatient() };
    let error = resolve(settings, &format!("{}/app", server.host())).await.unwrap_err();
    assert!(matches!(error, RegistryError::Stalled { .. }), "{error}");
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn requests_go_through_a_proxy() {
    // A proxy without tunnels: the registry behind it is asked without TLS.
    let proxy = TestServer::plain(|request| match request.method.as_str() {
        "CONNECT" => Answer::whole(403, ""),
        _ => shelf::serve(&image(), request),
    })
    .await;
    let url = format!("http://ana:secret@{}", proxy.host());
    let settings = RegistrySettings { proxy: ProxyChoice::Url(url), ..impatient() };
    assert_eq!(resolve(settings.clone(), "registry.invalid/app").await, Ok(image().digest()));
    let requests = proxy.requests();
    let seen: Vec<String> =
        requests.iter().map(|request| format!("{} {}", request.method, request.target)).collect();
    let expected =
        ["CONNECT registry.invalid:443", "HEAD http://registry.invalid/v2/app/manifests/latest"];
    assert_eq!(seen, expected);
    let with = |request: &_| {
        let request: &crate::support::server::TestRequest = request;
        request.header("proxy-authorization") == Some("Basic YW5hOnNlY3JldA==")
    };
    assert!(requests.iter().all(with), "{requests:?}");
    let strict = RegistrySettings { insecure: false, ..settings };
    let error = resolve(strict.clone(), "registry.invalid/app").await.unwrap_err().to_string();
    assert!(error.contains("does not let through") && !error.contains("secret"), "{error}");
    for bad in ["", "127.0.0.1:1", "https://127.0.0.1:1", "socks5://127.0.0.1:1", "http://"] {
        let proxy = ProxyChoice::Url(bad.to_owned());
        let error = RegistryClient::new(RegistrySettings { proxy, ..strict.clone() }).unwrap_err();
        assert!(error.to_string().contains("cannot use the proxy"), "{bad}: {error}");
    }
}
