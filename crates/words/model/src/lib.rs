//! The basic types of Bourg: ids, names, quantities, times, priorities and addresses.
//!
//! All other crates use these types, so no bare number is passed as an id, as bytes or as
//! microseconds. The crate makes no decisions, reads no clock and does no IO. Texts that people
//! read and write (`64 MiB`, `production(200)`, `ana/web/0-4`) are parsed and printed only here, so
//! flags, files, answers and docs agree.

mod address;
mod assignment;
pub mod attribute;
mod capability;
mod cell_copy;
mod certificate;
mod digest;
mod epoch;
mod grant;
mod held_package;
mod id;
mod key;
mod label;
mod machine;
mod member;
mod name;
mod notice;
mod package;
mod packing;
mod path;
mod priority;
mod queue;
mod random;
mod reclamation;
mod resources;
mod saving;
mod secret;
mod serial;
mod service;
mod share;
mod shortage;
mod start_latency;
mod subnet;
mod time;
mod update_action;
mod volume;

pub use address::{Address, AddressError, TaskSelection};
pub use assignment::Assignment;
pub use capability::{Capability, KernelFeature, NotListed};
pub use cell_copy::CellCopy;
pub use certificate::{CERTIFICATE_VALIDITY_MAX, Certificate};
pub use digest::{Digest, DigestError};
pub use epoch::RestoreEpoch;
pub use grant::Grant;
pub use held_package::{DigestPrefix, HELD_PACKAGES_MAX, HeldPackage, HeldUse, held_version};
pub use id::{
    CollectionId, DirectoryId, Generation, GrantId, InstanceId, Level, LockSessionId, LogIndex,
    MachineId, ReplicaId, RequestId, SessionId, Stamp, TaskId, TaskIndex, Term, Version,
};
pub use key::{KeyDigest, KeyDigestError};
pub use label::{LabelQuery, LabelQueryError, LabelTerm, Labels, can_be_queried};
pub use machine::{End, FinalUsage, HeldPorts, MachineReport, PortRange};
pub use member::{Member, MemberChange};
pub use name::{
    CellName, JobName, MachineName, NameError, PackageName, PortName, SchedulerName, SecretName,
    UserName, VolumeName,
};
pub use notice::{NoticeDelivery, NoticeReason};
pub use package::{
    ARCHITECTURE_BYTES_MAX, ImageArchitecture, ImageArchitectureError, PACKAGE_ARCHITECTURES_MAX,
    PACKAGE_VERSION_CHARACTERS_MAX, Package, PackageId, PackageKind, PackageReaders,
    PackageReference, PackageReferenceError, PackageVersion, PackageVersionError,
};
pub use packing::PackingPolicy;
pub use path::{
    FILE_BYTES_MAX, FilePath, LockMode, PATH_BYTES_MAX, PATH_COMPONENTS_MAX, PathError, Sequencer,
    SequencerError,
};
pub use priority::{
    Appclass, Band, Priority, PriorityError, SchedulingClass, SchedulingClassError,
};
pub use queue::{BadWeight, Enabled, PoorestUser, QueueSettings, ShareWeights};
pub use random::Random;
pub use reclamation::Reclamation;
pub use resources::{Bytes, Dimension, GcuFactor, MilliCores, Permille, QuantityError, Resources};
pub use saving::{SaverOutcome, Saving};
pub use secret::{
    SEALED_NONCE_BYTES, SECRET_KEY_ID_BYTES, Sealed, Secret, SecretKeyId, SecretVersion,
};
pub use serial::{Serial, SerialError};
pub use service::Service;
pub use share::{Asker, Beyond, Held, SharedBound};
pub use shortage::{Shortage, ShortageState};
pub use start_latency::{StartLatency, StartPart};
pub use subnet::{Subnet, SubnetError};
pub use time::{Span, Time};
pub use update_action::UpdateAction;
pub use volume::{
    ClaimedVolumes, MachineVolume, MountPath, NoSuchContent, NoSuchFault, NoSuchSharing,
    VOLUME_PATH_BYTES_MAX, VolumeClaim, VolumeContent, VolumeFault, VolumeFill, VolumeMark,
    VolumeMount, VolumePath, VolumePathError, VolumeSharing,
};
