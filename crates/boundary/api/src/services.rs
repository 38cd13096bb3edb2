//! Services: `services.proto`.

use std::collections::BTreeSet;

use model::{JobName, LabelQuery, Service, UserName};

use crate::error::{At, Fault, Malformed};
use crate::{read, v1};

impl From<&Service> for v1::Service {
    fn from(service: &Service) -> Self {
        Self {
            user: service.owner.to_string(),
            name: service.name.to_string(),
            port: service.port.to_string(),
            labels: service.labels.to_string(),
            users: service.users.iter().map(ToString::to_string).collect(),
        }
    }
}

impl TryFrom<v1::Service> for Service {
    type Error = Malformed;

    fn try_from(service: v1::Service) -> Result<Self, Malformed> {
        let labels = service.labels.parse::<LabelQuery>().map_err(Fault::from).field("labels")?;
        let user = |(position, user): (usize, &String)| {
            user.parse::<UserName>().map_err(Fault::from).element(position).field("users")
        };
        let users = service.users.iter().enumerate().map(user);
        Ok(Self {
            owner: read::name(&service.user, "user")?,
            name: read::name(&service.name, "name")?,
            port: read::name(&service.port, "port")?,
            labels,
            users: users.collect::<Result<BTreeSet<_>, _>>()?,
        })
    }
}

/// The message of a service's name.
pub fn name(owner: &UserName, name: &JobName) -> v1::ServiceName {
    v1::ServiceName { user: owner.to_string(), name: name.to_string() }
}

/// A service's owner and name.
pub fn named(name: &v1::ServiceName) -> Result<(UserName, JobName), Malformed> {
    Ok((read::name(&name.user, "user")?, read::name(&name.name, "name")?))
}
