//! Steps of services.

use std::sync::Arc;

use cell::{DeleteService, Service, SetService};

use super::updates::Change;

/// A service of few names is set or deleted.
pub(super) fn of_services(which: u64) -> Change {
    let owner = "ana".parse().expect("a name");
    let name = ["all", "front"][usize::from(which & 1 == 0)].parse().expect("a name");
    if which % 5 == 4 {
        return Change::Request(DeleteService { owner, name }.into());
    }
    let port = ["http", "rpc"][usize::from(which & 2 == 0)].parse().expect("a name");
    let labels = ["app", "app=web,!canary"][usize::from(which & 4 == 0)].parse().expect("labels");
    let users = (which & 8 == 0).then(|| "ben".parse().expect("a name")).into_iter().collect();
    let service = Service { owner, name, port, labels, users };
    Change::Request(SetService(Arc::new(service)).into())
}
