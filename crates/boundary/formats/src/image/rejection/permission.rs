//! What a user may not do, and who may.

use api::{At, Fault, Malformed, read};
use cell::{Permission, Permitted};
use model::{Capability, GrantId, LockSessionId, ReplicaId, UserName};

use super::{code, owned};
use crate::v1;
use api::update_action;
use v1::rejection::{self, permission, permitted};

impl From<&Permission> for rejection::Permission {
    fn from(permission: &Permission) -> Self {
        use permission::Permission as Message;
        let message = match permission {
            Permission::OfJob { owner, name, what } => {
                let (owner, name) = (owner.to_string(), name.to_string());
                let what = rejection::JobPermission::from(*what).into();
                Message::OfJob(permission::OfJob { owner, name, what })
            }
            Permission::ControlUpdate { owner, name, action } => {
                let (owner, name) = (owner.to_string(), name.to_string());
                let action = v1::UpdateAction::from(*action).into();
                Message::ControlUpdate(permission::ControlUpdate { owner, name, action })
            }
            Permission::UseCapability { owner, name, capability } => {
                let (owner, name) = (owner.to_string(), name.to_string());
                let capability = capability.to_string();
                Message::UseCapability(permission::UseCapability { owner, name, capability })
            }
            Permission::SubmitWith(capability) => Message::SubmitWith(capability.to_string()),
            Permission::OfService { owner, name, what } => {
                let (owner, name) = (owner.to_string(), name.to_string());
                let what = rejection::ServicePermission::from(*what).into();
                Message::OfService(permission::OfService { owner, name, what })
            }
            Permission::OfPackage { id, what } => {
                let what = rejection::PackagePermission::from(*what).into();
                Message::OfPackage(permission::OfPackage { id: id.to_string(), what })
            }
            Permission::OfMachine { machine, what } => {
                let (machine, what) = (machine.to_string(), *what);
                let what = rejection::MachinePermission::from(what).into();
                Message::OfMachine(permission::OfMachine { machine, what })
            }
            Permission::OfReplica { replica, what } => {
                let what = rejection::ReplicaPermission::from(*what).into();
                Message::OfReplica(permission::OfReplica { replica: replica.0, what })
            }
            Permission::AddReplica { address } => Message::AddReplica(address.clone()),
            Permission::OfUser { user, what } => {
                let what = rejection::UserPermission::from(*what).into();
                Message::OfUser(permission::OfUser { user: user.to_string(), what })
            }
            Permission::SetCapability { user, capability, granted } => {
                let (user, capability) = (user.to_string(), capability.to_string());
                let granted = *granted;
                Message::SetCapability(permission::SetCapability { user, capability, granted })
            }
            Permission::RevokeGrant(grant) => Message::RevokeGrant(grant.0),
            Permission::Oversell(band) => Message::Oversell(band.to_string()),
            Permission::UseFile(path) => Message::UseFile(path.to_string()),
            Permission::UseLockSession(session) => Message::UseLockSession(session.0),
            Permission::OfCell(what) => {
                Message::OfCell(rejection::CellPermission::from(*what).into())
            }
        };
        Self { permission: Some(message) }
    }
}

impl TryFrom<rejection::Permission> for Permission {
    type Error = Malformed;

    fn try_from(permission: rejection::Permission) -> Result<Self, Malformed> {
        use permission::Permission as Message;
        Ok(match permission.permission.ok_or(Fault::UnknownKind)? {
            Message::OfJob(of) => {
                let (owner, name) = owned(&of.owner, &of.name).field("ofJob")?;
                Self::OfJob { owner, name, what: code(of.what, "what").field("ofJob")? }
            }
            Message::ControlUpdate(of) => {
                let (owner, name) = owned(&of.owner, &of.name).field("controlUpdate")?;
                let action = update_action(of.action).field("controlUpdate")?;
                Self::ControlUpdate { owner, name, action }
            }
            Message::UseCapability(of) => {
                let (owner, name) = owned(&of.owner, &of.name).field("useCapability")?;
                let capability = read::word(&of.capability, "capability").field("useCapability")?;
                Self::UseCapability { owner, name, capability }
            }
            Message::SubmitWith(capability) => {
                Self::SubmitWith(read::word(&capability, "submitWith")?)
            }
            Message::OfService(of) => {
                let (owner, name) = owned(&of.owner, &of.name).field("ofService")?;
                Self::OfService { owner, name, what: code(of.what, "what").field("ofService")? }
            }
            Message::OfPackage(of) => Self::OfPackage {
                id: api::package::id(&of.id, "id").field("ofPackage")?,
                what: code(of.what, "what").field("ofPackage")?,
            },
            Message::OfMachine(of) => Self::OfMachine {
                machine: read::name(&of.machine, "machine").field("ofMachine")?,
                what: code(of.what, "what").field("ofMachine")?,
            },
            Message::OfReplica(of) => Self::OfReplica {
                replica: ReplicaId(of.replica),
                what: code(of.what, "what").field("ofReplica")?,
            },
            Message::AddReplica(address) => Self::AddReplica { address },
            Message::OfUser(of) => Self::OfUser {
                user: read::name(&of.user, "user").field("ofUser")?,
                what: code(of.what, "what").field("ofUser")?,
            },
            Message::SetCapability(of) => Self::SetCapability {
                user: read::name(&of.user, "user").field("setCapability")?,
                capability: read::word(&of.capability, "capability").field("setCapability")?,
                granted: of.granted,
            },
            Message::RevokeGrant(grant) => Self::RevokeGrant(GrantId(grant)),
            Message::Oversell(band) => Self::Oversell(read::band(&band, "oversell")?),
            Message::UseFile(path) => Self::UseFile(api::locks::path(&path, "useFile")?),
            Message::UseLockSession(session) => Self::UseLockSession(LockSessionId(session)),
            Message::OfCell(what) => Self::OfCell(code(what, "ofCell")?),
        })
    }
}

impl From<&Permitted> for rejection::Permitted {
    fn from(permitted: &Permitted) -> Self {
        use permitted::Permitted as Message;
        let holders = |owner: &UserName, capability: &Capability| permitted::OwnerAndHolders {
            owner: owner.to_string(),
            capability: capability.to_string(),
        };
        let message = match permitted {
            Permitted::Administrators => Message::Administrators(v1::Nothing {}),
            Permitted::Holders(capability) => Message::Holders(capability.to_string()),
            Permitted::User(user) => Message::User(user.to_string()),
            Permitted::OwnerOrAdministrators(owner) => {
                Message::OwnerOrAdministrators(owner.to_string())
            }
            Permitted::OwnerOrHolders { owner, capability } => {
                Message::OwnerOrHolders(holders(owner, capability))
            }
            Permitted::UsersOfAllocSet { owner, capability } => {
                Message::UsersOfAllocSet(holders(owner, capability))
            }
        };
        Self { permitted: Some(message) }
    }
}

impl TryFrom<rejection::Permitted> for Permitted {
    type Error = Malformed;

    fn try_from(permitted: rejection::Permitted) -> Result<Self, Malformed> {
        use permitted::Permitted as Message;
        let holders = |of: &permitted::OwnerAndHolders| {
            let capability: Capability = read::word(&of.capability, "capability")?;
            Ok::<_, Malformed>((read::name(&of.owner, "owner")?, capability))
        };
        Ok(match permitted.permitted.ok_or(Fault::UnknownKind)? {
            Message::Administrators(v1::Nothing {}) => Self::Administrators,
            Message::Holders(capability) => Self::Holders(read::word(&capability, "holders")?),
            Message::User(user) => Self::User(read::name(&user, "user")?),
            Message::OwnerOrAdministrators(owner) => {
                Self::OwnerOrAdministrators(read::name(&owner, "ownerOrAdministrators")?)
            }
            Message::OwnerOrHolders(of) => {
                let (owner, capability) = holders(&of).field("ownerOrHolders")?;
                Self::OwnerOrHolders { owner, capability }
            }
            Message::UsersOfAllocSet(of) => {
                let (owner, capability) = holders(&of).field("usersOfAllocSet")?;
                Self::UsersOfAllocSet { owner, capability }
            }
        })
    }
}
