//! Access control: certificates, owners, files.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use api::v1;
use rpc::service::borglet_client::BorgletClient;
use rpc::{Authority, Credentials, Expect, Identity, Rotating, Validity};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::cell::{Cell, Role};
use crate::eventually::PATIENCE;
use crate::http;
use crate::pages::Of;
use crate::security::refused;

const HOUR: Duration = Duration::from_secs(3_600);

/// Makes a client directory for someone with a certificate of an authority.
pub(crate) fn client_directory(
    cell: &Cell,
    name: &str,
    authority: &Authority,
    identity: &Identity,
) {
    fs::create_dir(cell.path(name)).expect("a client directory");
    let credentials = authority.issue(identity, Validity::lasting(HOUR)).expect("a certificate");
    credentials.write(cell.path(name), "user").expect("it can be written");
    cell.ok(&format!("cp cell/client/cell.toml {name}/"));
}

#[test]
fn a_user_acts_on_what_they_own() {
    let cell = Cell::start();
    let authority = Authority::open(cell.path("cell/master/tls")).expect("the cell's authority");
    client_directory(&cell, "eve", &authority, &Identity::User("eve".to_owned()));
    cell.ok("bourg run $EXAMPLES/hello.bcl");

    assert_eq!(cell.ok("bourg --cell ./eve cell -o user"), "eve\n");
    assert_eq!(cell.ok("bourg --cell ./eve status -o name"), "root/hello\n");
    let said = cell.fails(3, "bourg --cell ./eve kill root/hello");
    assert!(said.contains("eve"), "{said}");
    let said = cell.fails(3, "bourg --cell ./eve logs root/hello");
    assert!(said.contains("eve may not read the logs of root/hello"), "{said}");
    assert_eq!(cell.ok("bourg status -o counts.healthy"), "3\n", "all still run");

    // All of the machine is granted to root; it is taken away here.
    cell.ok("bourg quota revoke 3");
    cell.ok("bourg quota grant eve best-effort-batch cpu=2 ram=256MiB");
    cell.ok("bourg --cell ./eve run $EXAMPLES/batch.bcl");
    cell.job("eve/pi", "is finished", |job| job["state"] == "finished");
    assert_eq!(cell.ok("bourg --cell ./eve status pi -o user"), "eve\n", "a job has an owner");
    assert_eq!(cell.ok("bourg --cell ./eve logs pi | wc -l").trim(), "4");
    assert_eq!(cell.ok("bourg logs eve/pi | wc -l").trim(), "4", "an administrator may");
    let said = cell.fails(2, "bourg status pi");
    assert!(said.contains("there is no job root/pi"), "{said}");
    cell.ok("bourg kill eve/pi");
}

#[test]
fn only_certificates_of_the_cell_are_taken_and_only_for_their_role() {
    let cell = Cell::start();
    fs::create_dir(cell.path("tls")).expect("a directory");
    let stranger = Authority::create(cell.path("tls"), "dev").expect("another authority");
    client_directory(&cell, "stranger", &stranger, &Identity::User("root".to_owned()));
    let ended = cell.types("bourg --cell ./stranger status");
    assert_eq!(ended.code, 6, "a certificate of another authority of the same name");
    assert!(
        ended.stderr.contains("next: check that the client directory is of this cell"),
        "{}",
        ended.stderr
    );
    let said = cell.fails(6, "bourg --cell ./stranger events --follow");
    assert!(said.contains("its certificate was issued by another authority"), "{said}");

    let authority = Authority::open(cell.path("cell/master/tls")).expect("the cell's authority");
    let long_ago = SystemTime::now() - 2 * HOUR;
    let past = Validity { from: long_ago, until: long_ago + HOUR };
    let expired = authority.issue(&Identity::User("root".to_owned()), past).expect("a certificate");
    fs::create_dir(cell.path("expired")).expect("a client directory");
    expired.write(cell.path("expired"), "user").expect("it can be written");
    let said = cell.fails(6, "cp cell/client/cell.toml expired/; bourg --cell ./expired status");
    assert!(said.contains("error: the certificate in ./expired has expired"), "{said}");

    let scheduler = Identity::Scheduler("main".to_owned());
    client_directory(&cell, "scheduler", &authority, &scheduler);
    let said = cell.fails(3, "bourg --cell ./scheduler status");
    assert!(said.contains("scheduler/main may not do that"), "{said}");

    let borglet = cell.ok("bourg machines -o address").trim().to_owned();
    let root = Credentials::read(cell.path("cell/client"), "user").expect("a certificate");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let refused = runtime.expect("a runtime").block_on(async {
        let root = Rotating::new(root).expect("credentials");
        let channel = rpc::transport::connect(&borglet, &root, &Expect::Role(rpc::Role::Borglet));
        let mut client = BorgletClient::new(channel.expect("an address"));
        client.poll(v1::PollRequest::default()).await.expect_err("a Borglet obeys the master only")
    });
    assert_eq!(refused.code(), tonic::Code::PermissionDenied, "{refused}");
    assert!(refused.message().contains("not of user/root"), "{refused}");
}

#[test]
fn a_client_without_a_certificate_is_let_in_nowhere() {
    let cell = Cell::start();
    cell.ok("mkdir bare && cp cell/client/cell.toml cell/client/user.ca.pem bare/");
    let said = cell.fails(2, "bourg --cell ./bare status");
    assert!(said.contains("bare/cell.toml is unusable: cannot read ./bare/user.key"), "{said}");

    // A client that trusts the cell but shows no certificate.
    let authority = Authority::open(cell.path("cell/master/tls")).expect("the cell's authority");
    let trusted = CertificateDer::from_pem_slice(authority.ca_pem().as_bytes());
    let mut roots = RootCertStore::empty();
    roots.add(trusted.expect("a certificate")).expect("it can be trusted");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    for (address, name) in addresses(&cell).iter().zip(["master.dev.borg", "borglet.dev.borg"]) {
        let name = name.try_into().expect("a host's name");
        let tls = ClientConnection::new(Arc::clone(&config), name).expect("settings");
        let stream = TcpStream::connect(address).expect("somebody listens");
        let mut stream = StreamOwned::new(tls, stream);
        let refused = stream.read(&mut [0; 100]).expect_err("nothing is said to nobody");
        assert_eq!(refused.to_string(), "received fatal alert: CertificateRequired", "{address}");
    }
    for of in [Of::Master, Of::Borglet] {
        assert_eq!(refused(&cell, of, "no_certificate"), 1, "{of:?}");
    }
}

#[test]
fn garbage_harms_nobody() {
    let mut cell = Cell::start();
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let roles = [Role::Master, Role::Borglet];
    let before = roles.map(|role| cell.pid(role));
    let mut open = Vec::new();
    for address in addresses(&cell) {
        let noise: Vec<u8> = (0..100_000_u32).map(|n| n.wrapping_mul(n).to_le_bytes()[1]).collect();
        let mut long_record = vec![0x16, 3, 1, 0xff, 0xff];
        long_record.resize(70_000, 1);
        let request = b"GET / HTTP/1.1\r\n\r\n".repeat(1_000);
        for garbage in [&noise[..], &long_record, &request, &[0; 5], &[0x16, 3, 1, 0, 5, 1], &[]] {
            let mut stream = TcpStream::connect(&address).expect("somebody listens");
            stream.set_read_timeout(Some(PATIENCE)).expect("a time");
            // It may be closed already while the client still sends.
            let _closed = stream.write_all(garbage);
            let _closed = stream.shutdown(Shutdown::Write);
            let mut answer = Vec::new();
            let _closed = stream.read_to_end(&mut answer);
            assert!(answer.len() < 100, "{} bytes are answered", answer.len());
        }
        // And many that connect and send nothing more.
        open.extend((0..200).map(|_| {
            let mut stream = TcpStream::connect(&address).expect("somebody listens");
            stream.write_all(&[0x16, 3, 1]).expect("it can be written");
            stream
        }));
    }
    assert_eq!(cell.ok("bourg status hello -o counts.healthy"), "3\n");
    cell.ok("bourg run $EXAMPLES/batch.bcl");
    cell.job("pi", "is finished", |job| job["state"] == "finished");
    assert_eq!(roles.map(|role| cell.pid(role)), before, "nobody was started again");
    assert!(!cell.dev().stderr().contains("panicked"), "{}", cell.dev().stderr());
    drop(open);
}

/// The addresses of the master and of the Borglet.
fn addresses(cell: &Cell) -> [String; 2] {
    let client = fs::read_to_string(cell.path("cell/client/cell.toml")).expect("it is there");
    let master = client.split('"').find(|word| word.starts_with("127.")).expect("an address");
    [master.to_owned(), cell.ok("bourg machines -o address").trim().to_owned()]
}

#[test]
fn servers_speak_no_plaintext_and_keys_are_private() {
    let cell = Cell::start();
    for address in addresses(&cell) {
        let answer = http::get(&address, "/").unwrap_or_default();
        assert!(!answer.contains("HTTP/"), "{address} answers in plain text: {answer}");
    }
    let mut keys = 0;
    visit(cell.directory(), &mut |path| {
        let mode = fs::metadata(path).map_or(0, |file| file.permissions().mode() & 0o777);
        if path.extension().is_some_and(|extension| extension == "key") {
            keys += 1;
            assert_eq!(mode, 0o600, "{}", path.display());
        }
        assert_eq!(mode & 0o022, 0, "others can write {}", path.display());
    });
    assert_eq!(keys, 5, "of the authority, the Borglet, the scheduler, the store and the user");
    let mode = fs::metadata(cell.directory()).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

/// Visits all files below a directory.
fn visit(directory: &Path, each: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        match path.is_dir() && !path.is_symlink() {
            true => visit(&path, each),
            false => each(&path),
        }
    }
}
