//! Who may do what: certificates, owners, files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use proto::v1;
use rpc::service::borglet_client::BorgletClient;
use rpc::{Authority, Credentials, Expect, Identity, Role, Validity};

use crate::cell::Cell;
use crate::http;

const HOUR: Duration = Duration::from_secs(3_600);

/// Makes a client directory for someone with a certificate of an authority.
fn client_directory(cell: &Cell, name: &str, authority: &Authority, identity: &Identity) {
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
    assert_ne!(ended.code, 0, "a certificate of another authority of the same name");

    let authority = Authority::open(cell.path("cell/master/tls")).expect("the cell's authority");
    let scheduler = Identity::Scheduler("main".to_owned());
    client_directory(&cell, "scheduler", &authority, &scheduler);
    let said = cell.fails(3, "bourg --cell ./scheduler status");
    assert!(said.contains("scheduler/main may not ask that"), "{said}");

    let borglet = cell.ok("bourg machines -o address").trim().to_owned();
    let root = Credentials::read(cell.path("cell/client"), "user").expect("a certificate");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let refused = runtime.expect("a runtime").block_on(async {
        let channel = rpc::transport::connect(&borglet, &root, &Expect::Role(Role::Borglet));
        let mut client = BorgletClient::new(channel.expect("an address"));
        client.poll(v1::PollRequest::default()).await.expect_err("a Borglet obeys the master only")
    });
    assert_eq!(refused.code(), tonic::Code::PermissionDenied, "{refused}");
    assert!(refused.message().contains("user/root is not it"), "{refused}");
}

#[test]
fn there_is_no_plaintext_and_no_readable_key() {
    let cell = Cell::start();
    let client = fs::read_to_string(cell.path("cell/client/cell.toml")).expect("it is there");
    let master = client.split('"').find(|word| word.starts_with("127.")).expect("an address");
    for address in [master, cell.ok("bourg machines -o address").trim()] {
        let answer = http::get(address, "/").unwrap_or_default();
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
    assert_eq!(keys, 4, "of the authority, the Borglet, the scheduler and the user");
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
