//! Services.

use std::sync::Arc;

use cell::{DeleteService, Mutation, Service, SetService};
use model::{Address, JobName, TaskSelection, UserName};

use crate::ScriptError;
use crate::words::{user, value};

/// The mutation that the words stand for, if it is about services, and the service's owner.
pub(crate) fn mutation(words: &[&str]) -> Result<Option<(UserName, Mutation)>, ScriptError> {
    Ok(Some(match words {
        ["service", name, port, labels, users @ ..] => {
            let (owner, name) = named(name)?;
            let port = value(port, "a port name such as http")?;
            let labels = value(labels, "labels such as app=web")?;
            let users = users.iter().map(|name| user(name)).collect::<Result<_, _>>()?;
            let service = Service { owner: owner.clone(), name, port, labels, users };
            (owner, SetService(Arc::new(service)).into())
        }
        ["delete-service", name] => {
            let (owner, name) = named(name)?;
            (owner.clone(), DeleteService { owner, name }.into())
        }
        _ => return Ok(None),
    }))
}

fn named(text: &str) -> Result<(UserName, JobName), ScriptError> {
    match text.parse()? {
        Address { user: Some(owner), job, tasks: TaskSelection::All } => Ok((owner, job)),
        _ => Err(ScriptError::NoUser(text.to_owned())),
    }
}
