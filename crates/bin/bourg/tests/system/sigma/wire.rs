//! What the server answers to requests that no page makes, by curl, which trusts the authority of the cell.

use std::collections::BTreeMap;

use super::{link, origin, own};
use crate::cell::Cell;
use crate::eventually::eventually;
use crate::tools::needs;

/// The headers of every response.
const PROTECTED: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src \
         'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    ("x-frame-options", "DENY"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
];

#[derive(Debug)]
struct Answer {
    status: u16,
    headers: BTreeMap<String, String>,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// An answer; each has what protects it.
#[track_caller]
fn curl(cell: &Cell, how: &str, address: &str) -> Answer {
    needs("curl", "curl");
    let address = own(address);
    let line = format!(
        "curl --silent --show-error --include --path-as-is --cacert cell/client/user.ca.pem {how} \
         '{address}'"
    );
    let said = eventually("the server answers", || {
        let ended = cell.types(&line);
        // It gives up if the answer is there, and the stream is closed, before all of the request is sent.
        let early = ended.code == 92;
        assert!(early || ended.code == 0, "$ {line}\n{}", ended.stderr);
        (!early).then_some(ended.stdout)
    });
    let (head, body) = said.split_once("\r\n\r\n").unwrap_or((&said, ""));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let answer = Answer { status: status.expect("a status"), headers, body: body.to_owned() };
    for (name, value) in PROTECTED {
        assert_eq!(answer.header(name), value, "{address}: {name}");
    }
    answer
}

#[test]
fn every_answer_is_protected_and_data_of_the_cell_needs_a_session() {
    let cell = Cell::start();
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let first = link(&cell, None);
    let at = origin(&first);
    let to = |path: &str| format!("{at}{path}");

    // To look at a link is not to use it.
    for _ in 0..2 {
        let asked = curl(&cell, "", &first);
        assert_eq!((asked.status, asked.header("set-cookie")), (200, ""));
        assert_eq!(asked.header("cache-control"), "no-store");
    }
    let used = curl(&cell, "--request POST --cookie-jar jar", &first);
    assert_eq!((used.status, used.header("location")), (303, "/"));
    let cookie = used.header("set-cookie");
    let (pair, attributes) = cookie.split_once("; ").expect("attributes");
    let port = at.rsplit_once(':').expect("a port").1;
    let secret = pair.strip_prefix(&format!("__Host-bourg-sigma-{port}=")).expect("its name");
    assert_eq!(secret.len(), 43, "256 bits");
    assert_eq!(attributes, "Path=/; Secure; HttpOnly; SameSite=Strict");
    for how in ["--request POST", "--request POST --cookie jar", ""] {
        let again = curl(&cell, how, &first);
        assert_eq!((again.status, again.header("set-cookie")), (401, ""), "{how}");
        assert!(again.body.contains("This link has been used"), "{}", again.body);
    }
    let guessed =
        curl(&cell, "--request POST", &to("/sign-in/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"));
    assert_eq!(guessed.status, 401);

    // With the session, without one, and with a wrong one.
    let reads = [
        "/",
        "/jobs",
        "/jobs/~/hello",
        "/jobs/~/hello/0/logs",
        "/machines",
        "/users",
        "/events",
        "/jobs/~/hello/0/logs/download",
        "/jobs/~/hello/0/outputs",
        "/search?q=hello",
        "/live?page=/jobs",
        "/jobs/~/nothing",
        "/nothing",
        "/%2e%2e/etc/passwd",
        "/../etc/passwd",
        "/.env",
    ];
    let own = "--cookie jar --max-time 5";
    for (path, status) in [
        ("/", 200),
        ("/jobs", 200),
        ("/jobs/~/hello/0/logs/download", 200),
        ("/search?q=hello", 303),
        ("/help", 200),
        ("/jobs/~/nothing", 404),
        ("/machines/nothing", 404),
        ("/nothing", 404),
        ("/%2e%2e/etc/passwd", 404),
        ("/../etc/passwd", 404),
        ("/.env", 404),
        ("/assets/nothing", 404),
        ("/assets/../server.rs", 404),
        ("/?at=soon", 400),
        ("/?of=everything", 400),
        ("/?at=1000000", 404),
        ("/users?at=2100-01-01", 400),
        // The past does not change.
        ("/live?page=/%3Fat%3D1m", 404),
    ] {
        let answer = curl(&cell, own, &to(path));
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        if !path.starts_with("/assets") {
            assert_eq!(answer.header("cache-control"), "no-store", "{path}");
        }
    }
    let long = format!("/jobs?q={}", "x".repeat(5_000));
    assert_eq!(curl(&cell, own, &to(&long)).status, 404);
    let wrong = format!("--header 'cookie: __Host-bourg-sigma-{port}={}'", "A".repeat(43));
    let other = format!("--header 'cookie: session={secret}; bourg-sigma-{port}={secret}'");
    for how in ["", &wrong, &other] {
        for path in reads {
            let answer = curl(&cell, how, &to(path));
            assert_eq!(answer.status, 401, "{how} {path}: {}", answer.body);
            assert!(!answer.body.contains("hello"), "{how} {path}: {}", answer.body);
        }
        for path in ["/do", "/sign-out", "/terminal", "/terminal/1/keys"] {
            let answer = curl(&cell, &format!("{how} --data what=kill-job"), &to(path));
            assert_eq!(answer.status, 401, "{how} {path}: {}", answer.body);
        }
    }

    // Styles and scripts are for all, and compressed for who can read that.
    let page = curl(&cell, own, &to("/"));
    let style = page.body.split('"').find(|text| text.starts_with("/assets/sigma.css"));
    let style = to(style.expect("a page has a style"));
    let plain = curl(&cell, "", &style);
    assert_eq!((plain.status, plain.header("content-encoding")), (200, ""));
    assert!(plain.header("cache-control").contains("immutable"), "{plain:?}");
    let small = curl(&cell, "--header 'accept-encoding: gzip' --output - --compressed", &style);
    assert_eq!((small.header("content-encoding"), &small.body), ("gzip", &plain.body));

    // Other sites, other methods, and too much.
    let csrf = page.body.split_once("name=\"csrf\" value=\"").expect("a token").1;
    let csrf = csrf.split('"').next().expect("it ends");
    let kill = format!(
        "{own} --data csrf={csrf} --data what=kill-job --data user=root --data job=hello --data back=/"
    );
    for header in [
        "origin: https://example.org",
        "origin: null",
        "origin: http://127.0.0.1",
        "sec-fetch-site: cross-site",
        "sec-fetch-site: same-site",
        "sec-fetch-site: none",
    ] {
        let answer = curl(&cell, &format!("{kill} --header '{header}'"), &to("/do"));
        assert_eq!(answer.status, 403, "{header}");
        assert!(answer.body.contains("another site sent this"), "{}", answer.body);
        let answer =
            curl(&cell, &format!("--request POST --header '{header}'"), &link(&cell, None));
        assert_eq!((answer.status, answer.header("set-cookie")), (403, ""), "{header}");
    }
    let from_elsewhere = curl(&cell, "--header 'sec-fetch-site: cross-site'", &to("/jobs"));
    assert!(from_elsewhere.body.contains("Continue"), "a link on another site leads on");
    assert!(!from_elsewhere.body.contains("hello"));
    for to_elsewhere in ["//example.org/x", "/\\example.org/x"] {
        let how = format!("{own} --header 'sec-fetch-site: cross-site'");
        for how in [how.as_str(), "--header 'sec-fetch-site: cross-site'"] {
            let answer = curl(&cell, how, &to(to_elsewhere));
            assert!(!answer.body.contains("example.org"), "{to_elsewhere}: {}", answer.body);
        }
    }
    let plain =
        curl(&cell, &format!("{own} --header 'accept-encoding: gzip;q=0, *;q=0'"), &to("/jobs"));
    assert_eq!(plain.header("content-encoding"), "");

    // What pages share is the same for everybody, except where it is about the caller.
    cell.ok("bourg user add eva");
    let other = link(&cell, Some("eva"));
    assert_eq!(curl(&cell, "--request POST --cookie-jar other", &other).status, 303);
    let events = to("/events?job=hello&last=77");
    let hello = super::own("/jobs/~/hello");
    assert!(curl(&cell, own, &events).body.contains(&hello));
    let of_eva = curl(&cell, "--cookie other", &events);
    assert!(!of_eva.body.contains(&hello), "{}", of_eva.body);
    cell.ok("head -c 100000 /dev/zero | tr '\\0' x > large");
    for path in ["/do", "/terminal/1/keys", "/sign-out"] {
        let large = curl(&cell, &format!("{own} --data @large"), &to(path));
        assert!((400..=413).contains(&large.status), "{path}: {large:?}");
    }
    for (method, path, status) in [
        ("DELETE", "/jobs/~/hello", 405),
        ("PUT", "/", 405),
        ("POST", "/jobs", 405),
        ("GET", "/do", 405),
        ("OPTIONS", "/do", 405),
    ] {
        let answer = curl(&cell, &format!("{own} --request {method}"), &to(path));
        assert_eq!(answer.status, status, "{method} {path}");
    }
    assert_eq!(cell.ok("bourg status hello -o counts.healthy"), "3\n", "it was not killed");
    // And what a page of its own would send.
    let killed = curl(&cell, &kill, &to("/do"));
    assert_eq!((killed.status, killed.header("location")), (303, "/"));
    cell.job("hello", "is killed", |job| job["state"] == "killed");

    // After signing out the cookie is worth nothing.
    let out = curl(&cell, &format!("{own} --data csrf={csrf}"), &to("/sign-out"));
    assert!(
        out.header("set-cookie")
            .contains("=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0")
    );
    assert_eq!(curl(&cell, own, &to("/jobs")).status, 401);
}
