//! What users can change: one type for each mutation, in the file of the object it changes, with
//! its bounds, its level, its permissions and its effect.

use std::fmt::Debug;
use std::sync::Arc;

use model::{Level, UserName};
use spec::JobSpec;

use crate::apply::Events;
use crate::{
    AcceptVolume, AcquireLock, AddMachine, AddReplica, AddUser, Cell, CloseLockSession,
    ControlUpdate, DeleteFile, DeletePackage, DeleteSecret, DeleteService, DrainMachine, EndSaver,
    ForgetJob, GrantQuota, IssueReplicaToken, IssueToken, Kill, MeterQuota, MoveTask,
    OpenLockSession, Oversell, RecordBackup, RecordExec, Rejection, ReleaseLock, ReleaseVolume,
    RemoveMachine, RemoveReplica, RemoveVolume, RenewLockSession, Reply, ResealSecret, ResizeJob,
    RestartJob, ResumeRescheduling, RevokeMachine, RevokeQuota, RevokeUser, SetAttributes,
    SetCapability, SetLimits, SetLogs, SetNoticeMax, SetPackage, SetPacking, SetPlatform,
    SetQueuePolicy, SetQueueWeight, SetReclamation, SetSecret, SetService, SetVolume,
    UndrainMachine, UpdateJob, UseCapability, WriteFile,
};

/// A mutation.
pub(crate) trait Change: Debug {
    /// The level of the state machine that is needed to decode it; see [`crate::Op::needs`].
    fn needs(&self) -> Level {
        Level(1)
    }

    /// Whether its texts are within the bounds that hold in every cell, whatever its state.
    fn within_bounds(&self) -> Result<(), Rejection> {
        Ok(())
    }

    /// The address of a process that the cell is to connect to, if it names one.
    fn address(&self) -> Option<&str> {
        None
    }

    /// Whether a user may do it, as far as that does not depend on the owner of a job.
    fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection>;

    /// Applies it for an authorised user; or rejects it and changes nothing.
    fn apply(
        &self,
        cell: &mut Cell,
        by: &UserName,
        events: &mut Events,
    ) -> Result<Reply, Rejection>;
}

impl Cell {
    pub(crate) fn mutate(
        &mut self,
        by: &UserName,
        change: &dyn Change,
        events: &mut Events,
    ) -> Result<Reply, Rejection> {
        if self.name.is_none() {
            return Err(Rejection::NotBootstrapped);
        }
        let (needs, is) = (change.needs(), self.level);
        if needs > is {
            return Err(Rejection::NeedsLevel { needs, is });
        }
        change.allowed(self, by)?;
        change.apply(self, by, events)
    }
}

/// Defines the enum of all mutations and its dispatch to [`Change`].
macro_rules! mutations {
    ($($(#[$doc:meta])* $name:ident($type:ty),)*) => {
        /// A change that a user can request.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Mutation {
            $($(#[$doc])* $name($type),)*
        }

        impl Mutation {
            /// The names, in the order of the enum.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Its name.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => stringify!($name),)*
                }
            }

            pub(crate) fn change(&self) -> &dyn Change {
                match self {
                    $(Self::$name(change) => change,)*
                }
            }
        }

        $(impl From<$type> for Mutation {
            fn from(change: $type) -> Self {
                Self::$name(change)
            }
        })*
    };
}

mutations! {
    /// Submit a job.
    Submit(Arc<JobSpec>),
    /// Kill a job, or some of its tasks.
    Kill(Kill),
    /// Forget the jobs of a name that have ended.
    ForgetJob(ForgetJob),
    /// Update a live job, or some of its tasks.
    UpdateJob(UpdateJob),
    /// Change the number of tasks of a live job.
    ResizeJob(ResizeJob),
    /// Restart tasks of a job that run, and start those that have ended.
    RestartJob(RestartJob),
    /// Move a running task to another machine.
    MoveTask(MoveTask),
    /// Change the limit of a job whose description lets an autoscaler do so.
    SetLimits(SetLimits),
    /// Pause, resume, undo or close the update of a job.
    ControlUpdate(ControlUpdate),
    /// Add a machine by its name and the address of its Borglet.
    AddMachine(AddMachine),
    /// Drain a machine.
    DrainMachine(DrainMachine),
    /// Accept tasks on a drained machine again.
    UndrainMachine(UndrainMachine),
    /// Remove a machine on which nothing is placed.
    RemoveMachine(RemoveMachine),
    /// Set attributes of a machine that override what it reports.
    SetAttributes(SetAttributes),
    /// Set the factor of a platform's cores; 1 removes it.
    SetPlatform(SetPlatform),
    /// Give a machine a volume.
    SetVolume(SetVolume),
    /// Take a volume from a machine.
    RemoveVolume(RemoveVolume),
    /// End the claims of a volume.
    ReleaseVolume(ReleaseVolume),
    /// Say that what is in the directory of a volume is right.
    AcceptVolume(AcceptVolume),
    /// Set how long the output of tasks is kept, and how much of it.
    SetLogs(SetLogs),
    /// Set the longest notice of tasks.
    SetNoticeMax(SetNoticeMax),
    /// Set how near to the usage reservations may come.
    SetReclamation(SetReclamation),
    /// Set how tasks are packed onto machines.
    SetPacking(SetPacking),
    /// Issue a certificate to a user, who may be new.
    AddUser(AddUser),
    /// Revoke every certificate of a user.
    RevokeUser(RevokeUser),
    /// Resume marking machines down although many are silent, after the breaker stopped it.
    ResumeRescheduling(ResumeRescheduling),
    /// Grant quota.
    GrantQuota(GrantQuota),
    /// Revoke a grant.
    RevokeQuota(RevokeQuota),
    /// Set the percentage of a band that may be granted.
    Oversell(Oversell),
    /// Switch quota enforcement on or off.
    MeterQuota(MeterQuota),
    /// Set how the batch queue decides, and whether there is one.
    SetQueuePolicy(SetQueuePolicy),
    /// Set the weights of a user in the batch queue.
    SetQueueWeight(SetQueueWeight),
    /// Record that a user accesses another user's job.
    UseCapability(UseCapability),
    /// Record that a checkpoint of the cell was saved.
    RecordBackup(RecordBackup),
    /// Record the beginning or the end of a command inside a task.
    RecordExec(RecordExec),
    /// See [`EndSaver`].
    EndSaver(EndSaver),
    /// Grant a capability to a user, or take it away.
    SetCapability(SetCapability),
    /// Add a replica of the Borgmaster.
    AddReplica(AddReplica),
    /// Issue a token with which a machine, which may be new, joins once.
    IssueToken(IssueToken),
    /// Issue a token with which a replica's process joins once; it replaces an unused one.
    IssueReplicaToken(IssueReplicaToken),
    /// Revoke every certificate of a machine, and every token for it.
    RevokeMachine(RevokeMachine),
    /// Remove a replica.
    RemoveReplica(RemoveReplica),
    /// Open a lock session.
    OpenLockSession(OpenLockSession),
    /// Renew the lease of a lock session.
    RenewLockSession(RenewLockSession),
    /// Close a lock session, with all that it holds.
    CloseLockSession(CloseLockSession),
    /// Write a file.
    WriteFile(WriteFile),
    /// Delete the content of a file.
    DeleteFile(DeleteFile),
    /// Acquire the lock of a file.
    AcquireLock(AcquireLock),
    /// Release the lock of a file.
    ReleaseLock(ReleaseLock),
    /// Set a service.
    SetService(SetService),
    /// Delete a service.
    DeleteService(DeleteService),
    /// Add a version of a package, or change who may use one.
    SetPackage(SetPackage),
    /// Delete a version of a package.
    DeletePackage(DeletePackage),
    /// Add a version of a secret.
    SetSecret(SetSecret),
    /// Delete a secret.
    DeleteSecret(DeleteSecret),
    /// Seal a secret with another key.
    ResealSecret(ResealSecret),
}

impl Mutation {
    /// The level of the state machine that is needed to decode it: see [`crate::Op::needs`].
    #[must_use]
    pub fn needs(&self) -> Level {
        self.change().needs()
    }

    /// Whether its texts and its description are within the bounds that hold in every cell.
    ///
    /// # Errors
    /// With what is out of bounds, in data of bounded size. A cell would also reject it when
    /// applied.
    pub fn within_bounds(&self) -> Result<(), Rejection> {
        self.change().within_bounds()
    }

    /// The address of a process that it names, as `host:port`, and that will be connected to. The
    /// cell does not parse it.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        self.change().address()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CellPermission, Op, Permission, Permitted, TEST_LEVEL};
    use model::Time;

    /// A mutation of a later build.
    #[derive(Debug)]
    struct Later;

    impl Change for Later {
        fn needs(&self) -> Level {
            TEST_LEVEL
        }

        fn allowed(&self, cell: &Cell, by: &UserName) -> Result<(), Rejection> {
            cell.only_administrators(by, || Permission::OfCell(CellPermission::SetPlatform))
        }

        fn apply(&self, cell: &mut Cell, _: &UserName, _: &mut Events) -> Result<Reply, Rejection> {
            cell.platforms.insert("new".to_owned(), model::GcuFactor::ONE);
            Ok(Reply::Done)
        }
    }

    #[test]
    fn a_mutation_of_a_higher_level_is_rejected_until_it_is_raised() {
        let user = |name: &str| name.parse::<UserName>().expect("a name");
        let mut cell = Cell::empty();
        let mutate =
            |cell: &mut Cell, by: &str| cell.mutate(&user(by), &Later, &mut Events::default());
        assert_eq!(mutate(&mut cell, "root"), Err(Rejection::NotBootstrapped));
        let (name, administrator) = ("lab".parse().expect("a name"), user("root"));
        cell.apply(Time(1), &Op::Bootstrap { name, administrator });
        let early = Rejection::NeedsLevel { needs: TEST_LEVEL, is: Level(1) };
        for by in ["root", "ana"] {
            assert_eq!(mutate(&mut cell, by), Err(early.clone()), "{by}");
        }
        assert_eq!(cell.platforms().count(), 0);
        cell.apply(Time(2), &Op::RaiseLevel { to: TEST_LEVEL });
        let not = Rejection::NotAllowed {
            by: user("ana"),
            what: Permission::OfCell(CellPermission::SetPlatform),
            who: Permitted::Administrators,
        };
        assert_eq!(mutate(&mut cell, "ana"), Err(not));
        assert_eq!(mutate(&mut cell, "root"), Ok(Reply::Done));
        assert_eq!(cell.platforms().count(), 1);
    }
}
