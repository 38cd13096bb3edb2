//! Services.

use std::sync::Arc;

use cell::{DeleteService, EventKind, Image, Mutation, Rejection, Reply, Service, SetService};

use super::name;

fn service(owner: &str, users: &[&str]) -> Arc<Service> {
    let labels = "app=web,tier!=canary,gpu,!spare".parse().expect("a label query");
    let users = users.iter().map(|user| name(user)).collect();
    Arc::new(Service { owner: name(owner), name: name("front"), port: name("http"), labels, users })
}

/// Each mutation.
pub(super) fn mutations() -> Vec<Mutation> {
    vec![
        SetService(service("ana", &[])).into(),
        SetService(service("ana", &["ben", "eve"])).into(),
        DeleteService { owner: name("ana"), name: name("web") }.into(),
    ]
}

/// Each event.
pub(super) fn events() -> Vec<EventKind> {
    vec![
        EventKind::ServiceSet { service: service("ana", &[]), replaced: false },
        EventKind::ServiceSet { service: service("ana", &["ben", "eve"]), replaced: true },
        EventKind::ServiceDeleted { owner: name("ana"), name: name("web") },
    ]
}

/// The answers of a session about services.
pub(super) fn answers() -> Vec<Result<Reply, Rejection>> {
    let (user, job) = (name("ana"), name("web"));
    vec![
        Ok(Reply::ServiceSet { before: None }),
        Ok(Reply::ServiceSet { before: Some(service("ana", &["ben"])) }),
        Err(Rejection::NoSuchService { user: name("ana"), name: name("web") }),
        Err(Rejection::NameOfJob { user: name("ana"), name: name("web") }),
        Err(Rejection::OnEveryMachine { owner: name("ana"), name: name("web") }),
        Err(Rejection::GangTooLarge {
            tasks: 12,
            limit: super::resources(4_000, 1 << 30, 0, 0),
            fits: 9,
            machines: 3,
        }),
        Err(Rejection::NameOfService { user, name: job }),
    ]
}

/// Adds services of two users, one of which is a prefix of the other.
pub(super) fn put_into(image: &mut Image) {
    image.services = vec![service("ana", &["ben"]), service("ana-b", &[])];
}
