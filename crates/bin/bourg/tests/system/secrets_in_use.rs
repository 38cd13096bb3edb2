//! Secrets that real programs use, and where what is in them is not.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::cell::Cell;
use crate::eventually::until;
use crate::pages::{Of, page};
use crate::tools::needs;

/// A web server with TLS. Its key is a secret, its certificate is not.
const SITE: &str = r"daemon off;
pid /tmp/nginx.pid;
error_log stderr;
events {}
http {
  access_log off;
  client_body_temp_path /tmp/body; proxy_temp_path /tmp/proxy; fastcgi_temp_path /tmp/fastcgi;
  uwsgi_temp_path /tmp/uwsgi; scgi_temp_path /tmp/scgi;
  server {
    listen ${port.https} ssl;
    ssl_certificate /etc/site.pem;
    ssl_certificate_key /etc/site.key;
    location / { return 200 'hello over tls\n'; }
  }
}
";

const JOB: &str =
    "(import 'borg.libsonnet').service('site', cmd=['/usr/sbin/nginx', '-c', '/etc/site.conf']) {
  ports: ['https'],
  healthCheck: { tcp: 'https' },
  files: { '/etc/site.conf': importstr 'site.conf', '/etc/site.pem': importstr 'site.pem' },
  secrets: { '/etc/site.key': 'site-key' },
  cpu: 0.1,
  ram: '64 MiB',
}";

/// Makes a key and a certificate of it.
fn make_key(cell: &Cell) {
    needs("openssl", "openssl");
    cell.ok(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=site.example \
         -addext subjectAltName=DNS:site.example -keyout site.key -out site.pem 2>&1",
    );
}

/// The page of the site, by a client that trusts only its certificate.
fn says(cell: &Cell) -> String {
    let line = "port=$(bourg status site -o tasks.0.ports.0.port); curl --silent --show-error --cacert site.pem \
                --resolve site.example:$port:127.0.0.1 https://site.example:$port/";
    cell.types(line).stdout
}

/// The files below a directory that contain a text.
fn found(directory: &Path, text: &[u8], files: &mut Vec<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            found(&path, text, files);
        } else if kind.is_file() && has(&fs::read(&path).unwrap_or_default(), text) {
            files.push(path.display().to_string());
        }
    }
}

fn has(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

#[test]
fn nginx_serves_tls_with_a_key_that_is_a_secret() {
    needs("/usr/sbin/nginx", "nginx");
    needs("curl", "curl");
    let cell = Cell::start();
    cell.write("site.conf", SITE);
    cell.write("site.bcl", JOB);
    make_key(&cell);
    // Without its secret the job is rejected, and nothing runs.
    let refused = cell.fails(2, "bourg run site.bcl");
    assert!(refused.contains("has no secret site-key: set it first"), "{refused}");
    cell.ok("bourg secret set site-key < site.key");
    cell.ok("bourg run site.bcl");
    until("the site answers", || says(&cell) == "hello over tls\n");
    // A line of the key, as it would be in any copy of it.
    let key = fs::read_to_string(cell.path("site.key")).expect("a key");
    let line = key.lines().nth(1).expect("a line of the key").as_bytes().to_vec();
    let mut files = Vec::new();
    found(cell.directory(), &line, &mut files);
    assert!(files.is_empty(), "the key is in {files:?}");

    // Another key and its certificate: the tasks that start then have both.
    make_key(&cell);
    cell.ok("bourg secret set site-key < site.key");
    cell.ok("bourg update site.bcl");
    until("the site answers with the new key", || says(&cell) == "hello over tls\n");
    let said = cell.fails(2, "bourg secret rm no-key");
    assert!(said.contains("you have no secret no-key\nnext: bourg secret list"), "{said}");
}

/// What must be nowhere but in the memory of those who use it.
const SECRET: &str = "peregrine-2207-unmistakable";

#[test]
fn a_secret_is_on_no_page_in_no_answer_and_in_no_core_dump() {
    needs("curl", "curl");
    let cell = Cell::start();
    cell.ok(&format!("printf %s {SECRET} | bourg secret set db"));
    let job = |name: &str, script: &str, rest: &str| {
        let text = format!(
            "{{ name: '{name}', cmd: ['sh', '-c', {script:?}], cpu: 0.1, ram: '16 MiB', priority: 'free', \
             secretEnv: {{ PASSWORD: 'db' }}, secrets: {{ '/etc/db': 'db' }}, {rest} }}"
        );
        cell.write(&format!("{name}.bcl"), text);
    };
    job("login", "test \"$(cat /etc/db)\" = \"$PASSWORD\" && echo same; sleep 1000", "");
    cell.ok("bourg run login.bcl");
    until("the task has read it", || cell.types("bourg logs login/0").stdout == "same\n");
    // It ends with its secret in memory. A core dump, if there were one, would be kept with its outputs.
    let crash = "ulimit -c unlimited 2>/dev/null; echo limit $(ulimit -c); kill -ABRT $$";
    job("crash", crash, "restart: 'never', outputs: ['core']");
    cell.types("bourg run crash.bcl --wait");
    assert_eq!(cell.ok("bourg logs crash/0").trim(), "limit 0");

    let link = cell.ok("bourg sigma open --print").trim().to_owned();
    let origin = link.split_once("/sign-in/").expect("a link").0;
    let curl = "curl --silent --show-error --cacert cell/client/user.ca.pem";
    cell.ok(&format!("{curl} --request POST --cookie-jar jar '{link}'"));
    for place in [
        "/",
        "/jobs",
        "/jobs/~/login",
        "/jobs/~/login/description",
        "/jobs/~/login/0",
        "/jobs/~/login/0/logs",
        "/jobs/~/crash",
        "/jobs/~/crash/0",
        "/events",
        "/users/~",
    ] {
        let place = place.replace('~', "root");
        let shown = cell.ok(&format!("{curl} --fail --cookie jar '{origin}{place}'"));
        assert!(shown.contains("</html>") && !shown.contains(SECRET), "{place}: {shown}");
    }
    for (of, place) in [(Of::Master, "/metrics"), (Of::Borglet, "/metrics")] {
        let (status, text) = page(&cell, of, place);
        assert!(status == 200 && !text.contains(SECRET), "{of:?} {place}: {text}");
    }
    for command in [
        "bourg status login -o yaml",
        "bourg status login -o wide",
        "bourg events --all -o json",
        "bourg secret versions db -o json",
        "bourg machine show $(bourg machines -o name) -o json",
        "bourg bns list -o json",
        "bourg run --print -- true",
    ] {
        let said = cell.ok(command);
        assert!(!said.contains(SECRET), "{command}: {said}");
    }
    // The processes of the cell have it neither among their arguments nor in their environment.
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let of = |file: &str| fs::read(process.path().join(file)).unwrap_or_default();
        let command = String::from_utf8_lossy(&of("cmdline")).into_owned();
        let is_ours = command.contains(&cell.directory().display().to_string());
        assert!(!has(&of("cmdline"), SECRET.as_bytes()), "{command}");
        assert!(!is_ours || !has(&of("environ"), SECRET.as_bytes()), "{command}");
    }
    let mut files = Vec::new();
    found(cell.directory(), SECRET.as_bytes(), &mut files);
    for place in ["/var/crash", "/var/lib/systemd/coredump", "/var/lib/apport/coredump"] {
        found(Path::new(place), SECRET.as_bytes(), &mut files);
    }
    assert!(files.is_empty(), "the secret is in {files:?}");
    assert!(!cell.said().contains(SECRET), "{}", cell.said());
    // What the Borglet keeps of tasks is for nobody else on the machine.
    let tasks = fs::metadata(cell.directory().join("borglet/tasks")).expect("a directory");
    assert_eq!(tasks.permissions().mode() & 0o077, 0, "others may not look into it");
}
