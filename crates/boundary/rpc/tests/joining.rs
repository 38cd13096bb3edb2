//! Join tokens, and what their holders may do.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use api::v1;
use rpc::service::enrolment_client::EnrolmentClient;
use rpc::service::enrolment_server::{Enrolment, EnrolmentServer};
use rpc::token::{BadToken, MAX_MASTERS, MAX_TOKEN_CHARS};
use rpc::transport::{Cause, Limits, connect, peer};
use rpc::{Credentials, Expect, Identity, JoinToken, Joining, NewKey, Role, Rotating};
use rpc::{SigningRequest, Validity};
use support::{CELL, HOUR, Running, Who, ask, authority, follow, issue, within};
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status};

fn masters() -> Vec<String> {
    vec!["m1.example:7000".to_owned(), "[::1]:7000".to_owned()]
}

fn token(identity: &str) -> JoinToken {
    let (authority, _dir) = authority();
    JoinToken::new(masters(), issue(&authority, identity)).unwrap()
}

#[test]
fn a_token_is_one_line_and_comes_back() {
    for (text, joining) in [
        ("join/borglet/m 1", Joining::Machine("m 1".to_owned())),
        ("join/master/2", Joining::Replica(2)),
    ] {
        let token = token(text);
        let line = token.to_string();
        assert!(line.starts_with("bourg-join-1"), "{line}");
        assert!(line.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_'), "{line}");
        assert!(line.len() < 2_200, "{} characters", line.len());
        for copied in [line.clone(), format!("  {line}\r\n")] {
            let read: JoinToken = copied.parse().unwrap();
            assert_eq!(read.cell(), CELL);
            assert_eq!(read.masters(), masters());
            assert_eq!(*read.credentials().identity(), Identity::Joining(joining.clone()));
            assert_eq!(read.to_string(), line);
            assert!(!format!("{read:?}").contains("PRIVATE"));
        }
    }
}

#[test]
fn a_token_that_was_not_copied_whole_is_refused() {
    let line = token("join/borglet/m1").to_string();
    let refused = |text: &str| text.parse::<JoinToken>().unwrap_err();
    for other in ["", "bourg", "x", "bourg-Join-1AAAA", &line[1..], &line.replace('-', "_")] {
        assert_eq!(refused(other), BadToken::Other, "{other}");
    }
    assert_eq!(refused(&line.replacen('1', "2", 1)), BadToken::Version);
    for end in "bourg-join-".len()..line.len() {
        assert_eq!(refused(&line[..end]), BadToken::Cut { chars: end });
    }
    for more in ["A", "AA", "AAA", "AAAA"] {
        assert_eq!(refused(&format!("{line}{more}")), BadToken::Changed, "{more}");
    }
    let long = format!("{line}{}", "A".repeat(MAX_TOKEN_CHARS));
    assert_eq!(refused(&long), BadToken::TooLong { chars: long.len() });
    for (found, text) in [
        ('\n', format!("{}\n{}", &line[..80], &line[80..])),
        ('…', format!("{}…", &line[..80])),
        ('\u{1b}', format!("{}\u{1b}[2J", &line[..80])),
    ] {
        let error = refused(&text);
        assert_eq!(error, BadToken::Character { found, at: 81 });
        assert!(!error.to_string().contains(char::is_control), "{error:?}");
    }
}

#[test]
fn a_token_with_one_other_character_is_refused() {
    let line = token("join/borglet/m1").to_string();
    for at in "bourg-join-1".len()..line.len() {
        let other = if &line[at..=at] == "A" { "B" } else { "A" };
        let mut changed = line.clone();
        changed.replace_range(at..=at, other);
        let error = changed.parse::<JoinToken>().unwrap_err();
        // An altered length may look like a truncation.
        assert!(matches!(error, BadToken::Changed | BadToken::Cut { .. }), "{at}: {error:?}");
    }
}

#[test]
fn a_token_is_of_a_joining_identity_and_names_masters() {
    let (authority, _dir) = authority();
    let joining = issue(&authority, "join/borglet/m1");
    let many = vec!["m:1".to_owned(); MAX_MASTERS + 1];
    for (masters, credentials, why) in [
        (
            masters(),
            issue(&authority, "user/u"),
            "it is for user/u, which is not a joining identity",
        ),
        (
            masters(),
            issue(&authority, "borglet/m1"),
            "it is for borglet/m1, which is not a joining identity",
        ),
        (vec![], joining.clone(), "it names 0 masters"),
        (many, joining.clone(), "it names 17 masters"),
        (vec!["m1".to_owned()], joining.clone(), "is not an address"),
        (vec!["m1:1\u{1b}".to_owned()], joining.clone(), "is not an address"),
        (vec![format!("{}:1", "x".repeat(300))], joining.clone(), "is not an address"),
    ] {
        let refused = JoinToken::new(masters, credentials).unwrap_err();
        assert!(matches!(refused, BadToken::Unusable { .. }), "{refused:?}");
        assert!(refused.to_string().contains(why), "{why}: {refused}");
    }
}

/// As a master creates one, with a serial number by which the cell recognizes it.
#[test]
fn a_token_is_known_by_its_serial_number() {
    let (authority, _dir) = authority();
    let key = NewKey::generate().unwrap();
    let request = SigningRequest::from_pem(&key.request_pem().unwrap()).unwrap();
    let serial = request.serial(b"token");
    let machine = Identity::Joining(Joining::Machine("m1".to_owned()));
    let certificate = authority.certify(&request, &machine, Validity::lasting(HOUR), &serial);
    let ca = authority.ca_pem().to_owned();
    let credentials = key.credentials(certificate.unwrap(), ca).unwrap();
    let token = JoinToken::new(masters(), credentials).unwrap();
    let read: JoinToken = token.to_string().parse().unwrap();
    assert_eq!(read.credentials().serial(), serial);
}

/// Answers with the identity that joins.
struct TakesIn;

#[tonic::async_trait]
impl Enrolment for TakesIn {
    async fn enrol(
        &self,
        request: Request<v1::EnrolRequest>,
    ) -> Result<Response<v1::EnrolResponse>, Status> {
        let certificate = peer(&request, CELL)?.identity.to_string();
        Ok(Response::new(v1::EnrolResponse { certificate, ..v1::EnrolResponse::default() }))
    }

    async fn renew(
        &self,
        _: Request<v1::RenewRequest>,
    ) -> Result<Response<v1::RenewResponse>, Status> {
        Err(Status::unimplemented("not called"))
    }

    async fn certify_task(
        &self,
        _: Request<v1::CertifyTaskRequest>,
    ) -> Result<Response<v1::CertifyTaskResponse>, Status> {
        Err(Status::unimplemented("not called"))
    }

    async fn join(
        &self,
        _: Request<v1::JoinRequest>,
    ) -> Result<Response<v1::JoinResponse>, Status> {
        Err(Status::unimplemented("not called"))
    }

    async fn open_secrets(
        &self,
        _: Request<v1::OpenSecretsRequest>,
    ) -> Result<Response<v1::OpenSecretsResponse>, Status> {
        Err(Status::unimplemented("not called"))
    }

    async fn share_secret_keys(
        &self,
        _: Request<v1::ShareSecretKeysRequest>,
    ) -> Result<Response<v1::ShareSecretKeysResponse>, Status> {
        Err(Status::unimplemented("not called"))
    }
}

#[tokio::test]
async fn a_join_identity_may_only_enrol() {
    let (authority, _dir) = authority();
    let master = Rotating::new(issue(&authority, "master")).unwrap();
    let routes = Routes::new(Who).add_service(EnrolmentServer::new(TakesIn));
    let any = "127.0.0.1:0".parse().unwrap();
    let running = Running::start_serving(any, &master, Limits::default(), routes);
    let channel = |credentials: &Credentials| {
        let credentials = Rotating::new(credentials.clone()).unwrap();
        connect(&running.endpoint(), &credentials, &Expect::Role(Role::Master)).unwrap()
    };
    for identity in ["join/borglet/m1", "join/master/2", "borglet/m1"] {
        let mut client = EnrolmentClient::new(channel(&issue(&authority, identity)));
        let answer = within(20, client.enrol(v1::EnrolRequest::default())).await.unwrap();
        assert_eq!(answer.into_inner().certificate, identity);
    }
    running.counts(&[]).await;

    let token: JoinToken = JoinToken::new(masters(), issue(&authority, "join/borglet/m1")).unwrap();
    let token: JoinToken = token.to_string().parse().unwrap();
    let channel = channel(token.credentials());
    let refusals = [
        within(20, ask(channel.clone())).await.unwrap_err(),
        within(20, follow(channel.clone())).await.unwrap_err(),
        within(20, support::call(channel.clone(), "/bourg.v1.EnrolmentX/Enrol")).await.unwrap_err(),
        within(20, support::call(channel, "/bourg.v1.Jobs/bourg.v1.Enrolment/Enrol"))
            .await
            .unwrap_err(),
    ];
    for status in refusals {
        assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
        assert!(status.message().starts_with("join/borglet/m1 may only join"));
    }
    running.counts(&[(Cause::WrongRole, 4)]).await;
    running.stop().await.unwrap();
}
