//! Clients with a wrong certificate, or that impersonate somebody: rejected, and counted by cause.

use std::future::Future;
use std::time::{Duration, SystemTime};

use api::v1;
use client::MasterClient;
use hyper::body::{Bytes, Frame};
use replication::v1::replication_client::ReplicationClient;
use rpc::service::borglet_client::BorgletClient;
use rpc::service::enrolment_client::EnrolmentClient;
use rpc::service::scheduling_client::SchedulingClient;
use rpc::{Authority, Credentials, Expect, Identity, JoinToken, Role, Rotating, Validity};
use tonic::codegen::{Service as _, http};
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::borglets::Machine;
use crate::cell::Cell;
use crate::eventually::{PATIENCE, until};
use crate::pages::{Of, metrics, value};

const HOUR: Duration = Duration::from_secs(3_600);

pub(crate) fn authority(cell: &Cell) -> Authority {
    Authority::open(cell.path("cell/master/tls")).expect("the cell's authority")
}

pub(crate) fn issued(cell: &Cell, identity: &str) -> Credentials {
    let identity: Identity = identity.parse().expect("an identity");
    let issue =
        || authority(cell).issue(&identity, Validity::lasting(HOUR)).expect("a certificate");
    // One that begins with `T` may name an incarnation of a task, as if a master had issued it.
    std::iter::repeat_with(issue)
        .find(|issued| issued.serial().first() != Some(&b'T'))
        .expect("the number is random")
}

/// Runs a future in its own runtime.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

pub(crate) fn to(cell: &Cell, of: Of, credentials: Credentials) -> Channel {
    let role = match of {
        Of::Master => Role::Master,
        Of::Borglet => Role::Borglet,
    };
    let credentials = Rotating::new(credentials).expect("credentials");
    let channel = rpc::transport::connect(&of.address(cell), &credentials, &Expect::Role(role));
    channel.expect("an address")
}

/// The number of rejections by cause.
pub(crate) fn refused(cell: &Cell, of: Of, cause: &str) -> u64 {
    let name = match of {
        Of::Master => format!("bourg_requests_refused_total{{cause=\"{cause}\",band=\"none\"}}"),
        Of::Borglet => format!("bourg_borglet_requests_refused_total{{cause=\"{cause}\"}}"),
    };
    let count = value(&metrics(cell, of), &name);
    let count = count.unwrap_or_else(|| panic!("{name} is not counted"));
    count.to_string().parse().expect("a count is whole")
}

#[test]
fn no_role_can_make_the_requests_of_another() {
    let cell = Cell::start();
    let request = || rpc::NewKey::generate().and_then(|key| key.request_pem()).expect("a key");
    let refusals = wait(async {
        let to = |of, identity| to(&cell, of, issued(&cell, identity));
        let mut all: Vec<(&str, &str, Status)> = Vec::new();
        for who in ["borglet/m1", "scheduler/main", "master", "join/borglet/m9", "join/master/2"] {
            let mut client = MasterClient::over(to(Of::Master, who));
            let said = client.jobs.status(v1::StatusRequest::default()).await;
            all.push((who, "status", said.expect_err(who)));
            let said = client.machines.add(v1::AddMachineRequest::default()).await;
            all.push((who, "add a machine", said.expect_err(who)));
        }
        for who in ["user/root", "borglet/m1", "join/borglet/m9"] {
            let mut client = ReplicationClient::new(to(Of::Master, who));
            let said = client.progress(replication::v1::ProgressRequest {}).await;
            all.push((who, "progress", said.expect_err(who)));
            let mut client = SchedulingClient::new(to(Of::Master, who));
            let said = client.propose(v1::ProposeRequest::default()).await;
            all.push((who, "propose", said.expect_err(who)));
        }
        for who in ["user/root", "scheduler/main", "borglet/m1", "join/master/2"] {
            let mut client = EnrolmentClient::new(to(Of::Master, who));
            let (signing_request, address) = (request(), "m1:1".to_owned());
            let said = client
                .enrol(v1::EnrolRequest { signing_request, address, machine: String::new() })
                .await;
            all.push((who, "enrol", said.expect_err(who)));
        }
        for who in ["user/root", "master", "join/borglet/m9"] {
            let mut client = EnrolmentClient::new(to(Of::Master, who));
            let said = client.renew(v1::RenewRequest { signing_request: request() }).await;
            all.push((who, "renew", said.expect_err(who)));
            let said = client.join(v1::JoinRequest { signing_request: request() }).await;
            all.push((who, "join", said.expect_err(who)));
        }
        for (who, what, status) in &all {
            assert_eq!(status.code(), Code::PermissionDenied, "{who}, {what}: {status}");
        }
        all.len() as u64
    });
    assert_eq!(refused(&cell, Of::Master, "wrong_role"), refusals);
    until("it is in the log", || cell.said().contains("of a role without permission"));

    wait(async {
        for who in ["user/root", "borglet/m1", "scheduler/main"] {
            let mut client = BorgletClient::new(to(&cell, Of::Borglet, issued(&cell, who)));
            let status = client.poll(v1::PollRequest::default()).await.expect_err(who);
            assert_eq!(status.code(), Code::PermissionDenied, "{who}: {status}");
        }
    });
    assert_eq!(refused(&cell, Of::Borglet, "wrong_role"), 3);
}

/// Messages of masters and schedulers may be large.
#[test]
fn an_unpermitted_call_is_refused_before_its_message_is_read() {
    let cell = Cell::start();
    wait(async {
        for (of, path) in [
            (Of::Borglet, "/bourg.v1.Borglet/Poll"),
            (Of::Master, "/bourg.v1.Scheduling/Propose"),
            (Of::Master, "/bourg.v1.Replication/Forward"),
        ] {
            let never = tokio_stream::pending::<Result<Frame<Bytes>, Status>>();
            let body = tonic::body::Body::new(http_body_util::StreamBody::new(never));
            let request = http::Request::post(path).header("content-type", "application/grpc");
            let mut channel = to(&cell, of, issued(&cell, "user/root"));
            std::future::poll_fn(|context| channel.poll_ready(context))
                .await
                .expect("a connection");
            let answer = channel.call(request.body(body).expect("a request"));
            let answer = tokio::time::timeout(PATIENCE, answer).await.expect("it does not wait");
            let answer = answer.expect("an answer");
            assert_eq!(answer.headers()["grpc-status"], "7", "{path}: permission denied");
        }
    });
}

#[test]
fn one_call_names_a_thousand_at_most() {
    let cell = Cell::start();
    wait(async {
        let mut client = MasterClient::over(to(&cell, Of::Master, issued(&cell, "user/root")));
        let jobs = vec![v1::JobAddress::default(); 1_001];
        let asked = v1::StatusRequest { jobs, ..v1::StatusRequest::default() };
        let status = client.jobs.status(asked).await.expect_err("that is one too many");
        assert_eq!(status.message(), "names: has 1001 jobs, at most 1000 are allowed");
        let names = vec![String::new(); 1_001];
        let asked = v1::MachinesRequest { names, ..v1::MachinesRequest::default() };
        let status = client.machines.list(asked).await.expect_err("that is one too many");
        assert_eq!(status.message(), "names: has 1001 machines, at most 1000 are allowed");
    });
}

#[test]
fn certificates_that_are_not_valid_are_refused_and_counted_by_cause() {
    let cell = Cell::start();
    let user = Identity::User("root".to_owned());
    let now = SystemTime::now();
    let past = Validity { from: now - 2 * HOUR, until: now - HOUR };
    let expired = authority(&cell).issue(&user, past).expect("a certificate");
    cell.ok("mkdir foreign");
    let stranger = Authority::create(cell.path("foreign"), "dev").expect("another authority");
    let foreign = stranger.issue(&user, Validity::lasting(HOUR)).expect("a certificate");
    // A client with another authority's certificate that trusts this one.
    let ours = authority(&cell).ca_pem().to_owned();
    let (certificate, key) = (foreign.certificate_pem().to_owned(), foreign.key_pem().to_owned());
    let foreign = Credentials::from_pem(certificate, key, ours).expect("credentials");
    for of in [Of::Master, Of::Borglet] {
        for (credentials, cause) in [(&expired, "expired"), (&foreign, "wrong_authority")] {
            let before = refused(&cell, of, cause);
            let status = wait(async {
                let mut client = MasterClient::over(to(&cell, of, credentials.clone()));
                client.jobs.status(v1::StatusRequest::default()).await.expect_err(cause)
            });
            assert!(rpc::transport::is_distrust(&status), "{cause}: {status}");
            assert_eq!(refused(&cell, of, cause), before + 1, "{of:?}, {cause}");
        }
    }
    // A certificate that expires soon causes a warning.
    let soon = Validity { from: now - 40 * HOUR, until: now + HOUR };
    let soon = authority(&cell).issue(&user, soon).expect("a certificate");
    cell.ok("mkdir soon && cp cell/client/cell.toml soon");
    soon.write(cell.path("soon"), "user").expect("it can be written");
    let said = cell.types("bourg --cell ./soon cell").stderr;
    assert!(said.contains("the certificate in ./soon expires in 59 m"), "{said}");
    // Tokens: one that has expired, and one that the cell has not issued.
    let identity: Identity = "join/borglet/m1".parse().expect("an identity");
    let masters = vec![Of::Master.address(&cell)];
    for (validity, why) in
        [(past, "which is not valid now"), (Validity::lasting(HOUR), "is unknown: it has expired")]
    {
        let credentials = authority(&cell).issue(&identity, validity).expect("a certificate");
        let token = JoinToken::new(masters.clone(), credentials).expect("a token");
        let line = format!("bourg borglet --dir m1 --listen 127.0.0.1:0 --join {token}");
        let said = cell.fails(1, &line);
        assert!(said.contains(why) || said.contains("has expired"), "{said}");
    }
    assert_eq!(refused(&cell, Of::Master, "revoked"), 1, "the one that is not known");
}

#[test]
fn a_machine_speaks_for_itself_only() {
    let cell = Cell::start_with(&["--poll-interval", "200ms", "--missed-polls", "2"]);
    let mut machines = Vec::new();
    for (name, shows, cause, why) in [
        ("m2", "borglet/m1", "wrong_identity", "belongs to borglet/m1 instead of borglet/m2"),
        ("m3", "master", "wrong_identity", "belongs to master instead of borglet/m3"),
        ("m4", "user/root", "bad_certificate", "its certificate is unusable"),
    ] {
        let mut machine = Machine::in_its_directory(&cell, name);
        let shown = issued(&cell, shows);
        shown.write(machine.directory(), "borglet").expect("it can be written");
        machine.start_again();
        cell.ok(&format!("bourg machine add {name} {}", machine.address()));
        until(&format!("{shows} is no {name}"), || {
            cell.ok(&format!("bourg machine show {name}")).contains(why)
        });
        assert_eq!(cell.ok(&format!("bourg machine show {name} -o state")), "joining\n");
        assert!(refused(&cell, Of::Master, cause) > 0, "{cause}");
        machines.push(machine);
    }
    until("it is in the log", || cell.said().contains("with the certificate of another identity"));
}

#[test]
fn an_order_of_before_is_refused_and_counted() {
    let cell = Cell::start();
    cell.ok("bourg run $EXAMPLES/hello.bcl");
    let tasks = cell.tasks("hello");
    // As from a master that did not notice an election, or a restoration.
    let answer = wait(async {
        let mut client = BorgletClient::new(to(&cell, Of::Borglet, issued(&cell, "master")));
        let stamp = Some(v1::Stamp { index: 1, ..v1::Stamp::default() });
        let order = Some(v1::Order { stamp, ..v1::Order::default() });
        let asked = v1::PollRequest { order, ..v1::PollRequest::default() };
        client.poll(asked).await.expect("it is answered").into_inner()
    });
    assert!(answer.order_refused);
    let refused = value(&metrics(&cell, Of::Borglet), "bourg_borglet_orders_refused_total");
    assert_eq!(refused, Some(1.0));
    assert_eq!(cell.tasks("hello"), tasks, "nothing was stopped");
    until("it is in the log", || cell.said().contains("WARN the order is stamped"));
}
