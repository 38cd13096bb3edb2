//! Another kind of client: gRPC's own for Python, which knows Bourg only from the server's
//! reflection.

use serde_json::{Value, json};

use crate::cell::Cell;
use crate::pages::Of;
use crate::tools::needs;

/// Debian's Python, for which its packages are built; another one may come first in the search
/// path.
const PYTHON: &str = "/usr/bin/python3";
const GRPC: &str = "/usr/lib/python3/dist-packages/grpc/__init__.py";
const PROTOBUF: &str = "/usr/lib/python3/dist-packages/google/protobuf/__init__.py";

#[test]
fn a_client_in_python_finds_services_by_reflection_and_calls_them() {
    needs(PYTHON, "python3");
    needs(GRPC, "python3-grpcio");
    needs(PROTOBUF, "python3-protobuf");
    let cell = Cell::start();
    cell.write("reflection.py", include_str!("reflection.py"));
    let (address, name) = (Of::Master.address(&cell), Of::Master.server_name());
    // Common clients for Python only support the older version.
    for version in ["v1", "v1alpha"] {
        let line = format!("{PYTHON} reflection.py {version} {address} {name} cell/client");
        let said: Value = serde_json::from_str(&cell.ok(&line)).expect("it says JSON");
        finds(&said);
    }
}

/// The results of a client.
#[track_caller]
fn finds(said: &Value) {
    let services = [
        "bourg.v1.Access",
        "bourg.v1.Cell",
        "bourg.v1.Enrolment",
        "bourg.v1.History",
        "bourg.v1.Jobs",
        "bourg.v1.Locks",
        "bourg.v1.Machines",
        "bourg.v1.Names",
        "bourg.v1.Packages",
        "bourg.v1.Quota",
        "bourg.v1.Replicas",
        "bourg.v1.Replication",
        "bourg.v1.Scheduling",
        "bourg.v1.Secrets",
        "bourg.v1.Services",
        "bourg.v1.Tasks",
        "bourg.v1.Updates",
        "bourg.v1.Usage",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    ];
    assert_eq!(said["services"], json!(services));
    let health = said["health"].as_object().expect("what it says of each");
    assert_eq!(health.len(), 1 + services.len());
    assert!(health.values().all(|is| *is == "SERVING"), "{health:?}");
    assert_eq!(said["unknown"], json!("NOT_FOUND"));
    let is = &said["cell"];
    assert_eq!((&is["name"], &is["user"]), (&json!("dev"), &json!("root")));
    assert_eq!((&is["machinesUp"], &is["schedulers"]), (&json!(1), &json!(1)));
}
