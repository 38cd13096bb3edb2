//! The tasks behind services, for programs that do not know BNS: `/sd/services/USER/NAME` for
//! Prometheus' HTTP service discovery, and Envoy's endpoint discovery service (EDS) as REST-JSON.
//!
//! Every replica answers from its own names, under the same rules as [`super::service_discovery`].

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use bns::{Stage, TaskRecord};
use cell::{Job, Service as CellService};
use model::{CellName, JobName, UserName};
use process::health;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::names::Names;
use crate::service::health::Monitoring;
use crate::service::service_discovery::{answered, in_json};

/// The path of a service's targets.
pub(crate) const TARGETS: &str = "/sd/services/{user}/{name}";
/// The path to which Envoy posts its requests.
pub(crate) const ENDPOINTS: &str = "/v3/discovery:endpoints";
/// The maximum length of a request, in bytes.
const REQUEST_BYTES_MAX: usize = 1 << 20;
/// The maximum number of services in a request.
const RESOURCES_MAX: usize = 1_000;
/// The type of the resources of endpoint discovery.
const ASSIGNMENT: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";

/// A group of targets, in Prometheus' format.
#[derive(Debug, Serialize)]
struct TargetGroup<'a> {
    targets: [String; 1],
    labels: EndpointLabels<'a>,
}

#[derive(Debug, Serialize)]
struct EndpointLabels<'a> {
    cell: &'a str,
    service: String,
    user: &'a str,
    job: &'a str,
    task: String,
    machine: &'a str,
    serves: &'static str,
}

/// What Envoy asks; other fields of its request are of no interest here. It may write them in either
/// case of the JSON of protobuf.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DiscoveryRequest {
    #[serde(alias = "versionInfo")]
    version_info: String,
    #[serde(alias = "resourceNames")]
    resource_names: Vec<String>,
    #[serde(alias = "typeUrl")]
    type_url: String,
}

/// The page with the targets of a service.
pub(crate) async fn targets(
    State(monitoring): State<Monitoring>,
    Path((user, name)): Path<(String, String)>,
) -> Response {
    let bad =
        |error: model::NameError| health::plain(StatusCode::BAD_REQUEST, format!("{error}\n"));
    let (owner, name) = match (UserName::new(&user), JobName::new(&name)) {
        (Ok(owner), Ok(name)) => (owner, name),
        (Err(error), _) | (_, Err(error)) => return bad(error),
    };
    answered(&monitoring.door, move |names| match names.cell.service(&owner, &name) {
        Some(service) => page(&groups(names, service)),
        None => {
            let why = format!("there is no service {owner}/{name}\n");
            health::plain(StatusCode::NOT_FOUND, why)
        }
    })
    .await
}

/// `POST /v3/discovery:endpoints`
pub(crate) async fn endpoints(State(monitoring): State<Monitoring>, body: Body) -> Response {
    let refused = |status, why: String| health::plain(status, format!("{why}\n"));
    let Ok(bytes) = to_bytes(body, REQUEST_BYTES_MAX).await else {
        let why = format!("the request is incomplete, or has more than {REQUEST_BYTES_MAX} bytes");
        return refused(StatusCode::PAYLOAD_TOO_LARGE, why);
    };
    let request = match DiscoveryRequest::parse(&bytes) {
        Ok(request) => request,
        Err(why) => return refused(StatusCode::BAD_REQUEST, why),
    };
    answered(&monitoring.door, move |names| {
        let resources: Vec<Value> =
            request.resource_names.iter().map(|name| assignment(names, name)).collect();
        // The version follows from the contents, so it is the same at every replica.
        let version = match version(&resources) {
            Ok(version) => version,
            Err(error) => return refused(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        };
        if version == request.version_info {
            return StatusCode::NOT_MODIFIED.into_response();
        }
        page(&json!({
            "version_info": version,
            "type_url": ASSIGNMENT,
            "resources": resources,
        }))
    })
    .await
}

impl DiscoveryRequest {
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let request: Self = serde_json::from_slice(bytes)
            .map_err(|error| format!("the request is no DiscoveryRequest in JSON: {error}"))?;
        let has = request.resource_names.len();
        if has > RESOURCES_MAX {
            return Err(format!(
                "resource_names: has {has} services, at most {RESOURCES_MAX} are allowed"
            ));
        }
        if !request.type_url.is_empty() && request.type_url != ASSIGNMENT {
            return Err(format!(
                "type_url: '{}' is not served here, only {ASSIGNMENT}",
                request.type_url.escape_debug()
            ));
        }
        Ok(request)
    }
}

fn page(value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(json) => in_json(json),
        Err(error) => health::plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

/// The host and the port of a task behind a service.
fn address(task: &TaskRecord<'_>) -> Option<(String, u16)> {
    let (_, port) = task.ports().next()?;
    Some((task.host.to_string(), port))
}

/// The tasks behind a service that run and are not being stopped, as targets.
fn groups<'a>(names: Names<'a>, service: &'a CellService) -> Vec<TargetGroup<'a>> {
    let cell = names.cell.name().map(CellName::as_str).unwrap_or_default();
    let tasks = bns::service_tasks(names.cell, names.changes, service);
    let running = tasks.filter(|(_, task)| task.stage == Stage::Running);
    let group = |(job, task): (&'a Arc<Job>, TaskRecord<'a>)| {
        let (host, port) = address(&task)?;
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let labels = EndpointLabels {
            cell,
            service: format!("{}/{}", service.owner, service.name),
            user: job.owner.as_str(),
            job: job.spec.name.as_str(),
            task: task.index.to_string(),
            machine: task.machine.as_str(),
            serves: if task.serves() { "true" } else { "false" },
        };
        Some(TargetGroup { targets: [format!("{host}:{port}")], labels })
    };
    running.filter_map(group).collect()
}

/// The resource of a service by its name `USER/NAME`; without endpoints if there is none.
fn assignment(names: Names<'_>, resource: &str) -> Value {
    let service = resource.split_once('/').and_then(|(user, name)| {
        names.cell.service(&UserName::new(user).ok()?, &JobName::new(name).ok()?)
    });
    let tasks = service.map(|service| bns::service_tasks(names.cell, names.changes, service));
    let endpoint = |(_, task): (&Arc<Job>, TaskRecord<'_>)| {
        let (host, port) = address(&task)?;
        let health = match task.stage {
            Stage::Starting => return None,
            Stage::Stopping => "DRAINING",
            Stage::Running if task.serves() => "HEALTHY",
            Stage::Running => "UNHEALTHY",
        };
        Some(json!({
            "endpoint": { "address": { "socket_address": { "address": host, "port_value": port } } },
            "health_status": health,
        }))
    };
    let endpoints: Vec<Value> = tasks.into_iter().flatten().filter_map(endpoint).collect();
    let localities =
        if endpoints.is_empty() { json!([]) } else { json!([{ "lb_endpoints": endpoints }]) };
    json!({ "@type": ASSIGNMENT, "cluster_name": resource, "endpoints": localities })
}

/// A version that differs whenever the resources do.
fn version(resources: &[Value]) -> Result<String, serde_json::Error> {
    // FNV-1a, 64 bits: the same in every build.
    let text = serde_json::to_vec(resources)?;
    let hash = text.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Ok(format!("{hash:016x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_in_both_spellings_and_bounded() {
        for text in [
            r#"{"version_info":"7","resource_names":["ana/web"],"node":{"id":"e"}}"#,
            r#"{"versionInfo":"7","resourceNames":["ana/web"]}"#,
        ] {
            let request = DiscoveryRequest::parse(text.as_bytes()).expect(text);
            assert_eq!((request.version_info.as_str(), request.resource_names.len()), ("7", 1));
        }
        let many = json!({ "resource_names": vec!["ana/web"; 1_001] }).to_string();
        for (text, says) in [
            ("", "no DiscoveryRequest in JSON: EOF"),
            ("[1", "no DiscoveryRequest in JSON"),
            (r#"{"resource_names":7}"#, "invalid type: integer `7`"),
            (r#"{"type_url":"x"}"#, "'x' is not served here"),
            (many.as_str(), "has 1001 services, at most 1000"),
        ] {
            let said = DiscoveryRequest::parse(text.as_bytes()).expect_err(text);
            assert!(said.contains(says), "{said}");
        }
    }
}
