//! The service for packages: which versions there are, who may upload and read, and where stores are.
//!
//! The master never has the bytes. It signs rights, which stores check, and checks receipts, which stores sign.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use api::v1;
use api::v1::past_question::Question;
use cell::{
    Cell, DeletePackage, FailureDomain, Machine, MachineState, Op, Outcome, Package, PackageId,
    PackagePermission, Permission, Permitted, Rejection, Reply, SetPackage,
};
use master::Holders;
use model::{
    Bytes, Digest, InstanceId, MachineName, PackageKind, PackageReaders, PackageReference, Span,
    Time, UserName,
};
use prost::Message as _;
use rpc::service::packages_server;
use rpc::statement::{self, Verifier};
use rpc::transport::Cause;
use rpc::{Authority, Identity, Rotating};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::caller::Caller;
use crate::reads::Reads;
use crate::reads::rejections::rejected;
use crate::request::Request as Ask;
use crate::service::announced_stores::{AnnouncedStores, KnownStores};
use crate::service::door::{Door, split};
use crate::service::{Answer, STREAM_QUEUE, Streamed, gate, malformed, unexpected};

/// How long a package may be read without asking again.
const READ_LASTS: Duration = Duration::from_secs(15 * 60);
/// How long an upload may take without asking again.
const UPLOAD_LASTS: Duration = Duration::from_secs(6 * 60 * 60);
/// The maximum size of one upload, in bytes: 1 TiB.
const UPLOAD_BYTES_MAX: u64 = 1 << 40;
/// How many versions of the same package an upload may build upon.
const BASES_MAX: usize = 8;
/// How often a store announces itself, in seconds.
const ANNOUNCE_SECONDS: u32 = 5;
/// The maximum number of stores that are named.
const STORES_MAX: usize = 64;
/// How often machines that left the cell are forgotten as holders of packages.
const HOLDERS_CLEANED: Span = Span::from_secs(60);
/// The number of digests in one message.
const MANIFESTS_IN_MESSAGE: usize = 8_192;

/// The service for packages.
#[derive(Clone)]
pub(super) struct Packages {
    door: Door,
    credentials: Rotating,
    verifier: Verifier,
    /// Stores, and when each was heard of.
    stores: Arc<Mutex<AnnouncedStores>>,
    /// The machines that have asked this replica for packages, and when those that left the cell were forgotten.
    holders: Arc<Mutex<(Holders, Time)>>,
}

impl Packages {
    /// # Panics
    /// If the certificate of the cell's authority is broken: then nothing else would work, either.
    #[expect(clippy::expect_used)]
    pub(super) fn new(door: Door, credentials: Rotating, authority: &Authority) -> Self {
        let verifier = Verifier::new(authority.ca_pem()).expect("the certificate of the cell");
        Self { door, credentials, verifier, stores: Arc::default(), holders: Arc::default() }
    }

    /// The stores that are known.
    fn stores(&self) -> KnownStores {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.known(Instant::now())
    }

    /// Signs a right of a holder.
    fn right(
        &self,
        what: v1::right::What,
        holder: &Identity,
        lasts: Duration,
    ) -> Result<v1::Statement, Status> {
        let until = micros(SystemTime::now() + lasts).0;
        let right = v1::Right { what: Some(what), holder: holder.to_string(), until };
        statement::sign(&self.credentials.credentials(), &right)
            .map_err(|error| Status::internal(error.to_string()))
    }

    /// What a user needs to upload a version. Signing takes about as long as a request takes otherwise, so that users
    /// share it.
    fn begin_upload(
        &self,
        user: &UserName,
        id: &PackageId,
    ) -> Result<v1::UploadPackageResponse, Status> {
        let view = self.door.core.view();
        let cell = &view.cell;
        cell.may_set_package(user, id).map_err(|why| rejected(cell, &why))?;
        self.upload_right(cell, id, &Identity::User(user.to_string()))
    }

    /// The right to upload a version, with where and what is there already.
    fn upload_right(
        &self,
        cell: &Cell,
        id: &PackageId,
        holder: &Identity,
    ) -> Result<v1::UploadPackageResponse, Status> {
        let upload = v1::UploadRight { user: id.owner.to_string(), bytes_max: UPLOAD_BYTES_MAX };
        let right = self.right(v1::right::What::Upload(upload), holder, UPLOAD_LASTS)?;
        let others = cell.packages_named(&id.owner, &id.name).rev().take(BASES_MAX);
        let bases = others.map(|package| self.right_to_read(package, holder));
        let KnownStores { named: stores, silent: silent_stores } = self.stores();
        Ok(v1::UploadPackageResponse {
            right: Some(right),
            exists: cell.package(id).map(|package| (&**package).into()),
            id: id.to_string(),
            stores,
            silent_stores,
            bases: bases.collect::<Result<_, _>>()?,
        })
    }

    /// The right of a holder to read a package, with where to read it.
    fn begin_read(
        &self,
        package: &Package,
        holder: &Identity,
    ) -> Result<v1::ReadPackageResponse, Status> {
        let KnownStores { named: stores, silent: silent_stores } = self.stores();
        Ok(v1::ReadPackageResponse {
            right: Some(self.right_to_read(package, holder)?),
            package: Some(package.into()),
            stores,
            silent_stores,
            holders: Vec::new(),
        })
    }

    /// The machines that may have a package for another, which is one of them from now on.
    fn holders(
        &self,
        cell: &Cell,
        package: Digest,
        machine: &MachineName,
    ) -> Vec<v1::PackageHolder> {
        let now = micros(SystemTime::now());
        let rack = |machine: &Machine| machine.domain(FailureDomain::Rack).map(str::to_owned);
        let own = cell.machine_named(machine).and_then(|machine| rack(machine));
        let nearby = |name: &MachineName| {
            let machine = cell.machine_named(name).filter(|it| it.state == MachineState::Up)?;
            Some(own.is_some() && rack(machine) == own)
        };
        let mut known = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        let (holders, cleaned) = &mut *known;
        if now.since(*cleaned) >= HOLDERS_CLEANED {
            holders.retain(|name| cell.machine_named(name).is_some());
            *cleaned = now;
        }
        let named = holders.of(package, machine, now, nearby);
        holders.asked(machine, package, now);
        drop(known);
        let holder = |name: MachineName| {
            let address = cell.machine_named(&name)?.address.to_string();
            Some(v1::PackageHolder { machine: name.to_string(), address })
        };
        named.into_iter().filter_map(holder).collect()
    }

    fn right_to_read(&self, package: &Package, holder: &Identity) -> Result<v1::Statement, Status> {
        let read = v1::right::What::Read(package.digest.as_bytes().to_vec());
        self.right(read, holder, READ_LASTS)
    }

    /// What a store says that it has for a user.
    fn received(&self, receipt: &v1::Statement, owner: &UserName) -> Result<v1::Receipt, Status> {
        let verified = self.verifier.verify::<v1::Receipt>(receipt, SystemTime::now());
        let receipt = verified.map_err(|why| Status::invalid_argument(why.to_string()))?.message;
        if receipt.user == owner.as_str() {
            return Ok(receipt);
        }
        Err(Status::invalid_argument(format!(
            "the receipt is for an upload of {}, and the package is one of {owner}: upload it as {owner}",
            receipt.user.escape_debug()
        )))
    }
}

/// The instance of a request.
fn instance(asked: Option<v1::InstanceId>) -> Result<InstanceId, Status> {
    asked.map(InstanceId::from).ok_or_else(|| Status::invalid_argument("no instance is given"))
}

/// A moment in microseconds since 1970.
fn micros(moment: SystemTime) -> Time {
    let since = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

/// A version, as a caller names it.
fn named(me: &UserName, text: &str) -> Result<PackageId, Status> {
    let reference = text.parse::<PackageReference>();
    let reference = reference.map_err(|error| Status::invalid_argument(error.to_string()))?;
    Ok(reference.of(me))
}

/// A version that a user may read.
fn readable<'c>(cell: &'c Cell, by: &UserName, id: PackageId) -> Result<&'c Package, Status> {
    let Some(package) = cell.package(&id) else {
        return Err(rejected(cell, &Rejection::NoSuchPackage { id }));
    };
    if package.admits(by) || cell.is_administrator(by) {
        return Ok(package);
    }
    let who = Permitted::User(id.owner.clone());
    let what = Permission::OfPackage { id, what: PackagePermission::Use };
    Err(rejected(cell, &Rejection::NotAllowed { by: by.clone(), what, who }))
}

/// A version that a task on a machine uses.
fn used_on<'c>(
    cell: &'c Cell,
    machine: &MachineName,
    id: &PackageId,
) -> Result<&'c Package, Status> {
    let package = cell.package(id);
    let package =
        package.ok_or_else(|| rejected(cell, &Rejection::NoSuchPackage { id: id.clone() }))?;
    let instances = cell.machine_named(machine).map(|machine| machine.instances());
    let uses =
        |instance: &InstanceId| cell.job(instance.collection).is_some_and(|job| job.uses(id));
    if instances.into_iter().flatten().any(uses) {
        return Ok(package);
    }
    Err(Status::permission_denied(format!("no task on {machine} uses package {id}")))
}

/// The version that the outputs of an instance become, which is the last of its task and has ended on a machine.
fn left_on(cell: &Cell, machine: &MachineName, instance: InstanceId) -> Result<PackageId, Status> {
    let newest = cell.job(instance.collection).and_then(|job| job.task(instance.index));
    if newest.is_some_and(|task| task.generation > instance.generation) {
        return Err(Status::not_found(format!(
            "{instance} is not the last incarnation of its task"
        )));
    }
    let id = cell.left_on(machine, instance).map_err(|why| match why {
        // The machine is ahead of the report of the end: it tries again.
        Rejection::InstanceEnded { .. } => Status::unavailable(format!(
            "{instance} has not ended on {machine} yet, as far as this master knows"
        )),
        why => rejected(cell, &why),
    })?;
    id.ok_or_else(|| {
        Status::not_found(format!("the job of {instance} names no package for its outputs"))
    })
}

/// Who may use a package, as a request says it.
fn readers(users: &[String], everyone: bool) -> Result<PackageReaders, Status> {
    match (everyone, users) {
        (true, []) => Ok(PackageReaders::Everyone),
        (true, _) => Err(Status::invalid_argument("everyone may use it: name no users")),
        (false, users) => {
            let users = api::read::set(users, "readers").map_err(|error| malformed(&error))?;
            Ok(PackageReaders::Users(users))
        }
    }
}

/// The package that a store has received.
fn package(
    id: PackageId,
    receipt: &v1::Receipt,
    readers: PackageReaders,
) -> Result<Package, Status> {
    let digest = <[u8; Digest::BYTES]>::try_from(&*receipt.manifest);
    let digest = digest.map_err(|_| Status::invalid_argument("the receipt has no digest"))?;
    let kind = match receipt.kind() {
        v1::PackageKind::Files => PackageKind::Files,
        v1::PackageKind::Image => PackageKind::Image,
    };
    let architectures = api::read::set(&receipt.architectures, "architectures");
    let architectures = architectures.map_err(|error| malformed(&error))?;
    Ok(Package {
        id,
        digest: Digest::from_bytes(digest),
        kind,
        stored: Bytes(receipt.bytes_stored),
        unpacked: Bytes(receipt.bytes_unpacked),
        entries: receipt.entries,
        architectures,
        readers,
    })
}

impl Packages {
    /// Sets a version and answers with what it is then.
    async fn put(
        &self,
        id: Option<v1::RequestId>,
        by: Caller,
        package: Package,
        bytes: usize,
    ) -> Answer<v1::SetPackageResponse> {
        let which = package.id.clone();
        match self.door.mutate(id, by, SetPackage(Arc::new(package)).into(), bytes).await? {
            (index, Reply::PackageSet { existed }) => {
                self.door.seen(index).await;
                let package = self.door.core.view().cell.package(&which).map(|it| (&**it).into());
                let index = index.0;
                Ok(Response::new(v1::SetPackageResponse { index, package, existed }))
            }
            (_, other) => Err(unexpected(&other)),
        }
    }
}

#[tonic::async_trait]
impl packages_server::Packages for Packages {
    async fn list(&self, request: Request<v1::PackagesRequest>) -> Answer<v1::PackagesResponse> {
        let (by, asked) = (self.door.anyone(&request).await?, request.into_inner());
        if let Some(at) = asked.at {
            return self.door.past(&by, at, Question::Packages(asked)).await;
        }
        let me = by.user.clone();
        let core = self.door.core.clone();
        self.door.read_much(&by, move |_| found(&core.view().cell, &me, &asked)).await
    }

    async fn upload(
        &self,
        request: Request<v1::UploadPackageRequest>,
    ) -> Answer<v1::UploadPackageResponse> {
        let by = self.door.caller(&request)?;
        let id = named(&by.user, &request.get_ref().id)?;
        gate::newest(&self.door.core).await?;
        let (this, user) = (self.clone(), by.user.clone());
        self.door.read_some(&by, move |_| this.begin_upload(&user, &id)).await
    }

    async fn set(&self, request: Request<v1::SetPackageRequest>) -> Answer<v1::SetPackageResponse> {
        let by = self.door.caller(&request)?;
        let asked = request.into_inner();
        let bytes = asked.encoded_len();
        let id = named(&by.user, &asked.package)?;
        let readers = readers(&asked.readers, asked.everyone)?;
        let package = match &asked.receipt {
            Some(receipt) => package(id.clone(), &self.received(receipt, &id.owner)?, readers)?,
            None => {
                let view = gate::newest(&self.door.core).await?;
                let Some(package) = view.cell.package(&id) else {
                    return Err(rejected(&view.cell, &Rejection::NoSuchPackage { id }));
                };
                Package { readers, ..Package::clone(package) }
            }
        };
        self.put(asked.id, by, package, bytes).await
    }

    async fn delete(
        &self,
        request: Request<v1::DeletePackageRequest>,
    ) -> Answer<v1::DeletePackageResponse> {
        let by = self.door.caller(&request)?;
        let asked = request.into_inner();
        let bytes = asked.encoded_len();
        let id = named(&by.user, &asked.package)?;
        let text = id.to_string();
        self.door
            .change(asked.id, by, DeletePackage(id), bytes, |index, reply| match reply {
                Reply::Done => Some(v1::DeletePackageResponse { index, id: text }),
                _ => None,
            })
            .await
    }

    async fn read(
        &self,
        request: Request<v1::ReadPackageRequest>,
    ) -> Answer<v1::ReadPackageResponse> {
        let (asked, peer) = split(request);
        let identity = rpc::transport::peer_identity(&peer, &self.door.cell)?;
        let view = gate::newest(&self.door.core).await?;
        if let Identity::Borglet(_) = &identity {
            let machine = self.door.machine(&peer)?;
            let id = asked.package.parse::<PackageId>();
            let id = id.map_err(|error| Status::invalid_argument(error.to_string()))?;
            let package = used_on(&view.cell, &machine, &id)?;
            let mut answer = self.begin_read(package, &identity)?;
            answer.holders = self.holders(&view.cell, package.digest, &machine);
            return Ok(Response::new(answer));
        }
        let by = self.door.caller(&peer)?;
        let (this, user) = (self.clone(), by.user.clone());
        let answer = move |_: &Reads<'_>| {
            let view = this.door.core.view();
            let package = readable(&view.cell, &user, named(&user, &asked.package)?)?;
            this.begin_read(package, &identity)
        };
        self.door.read_some(&by, answer).await
    }

    async fn upload_outputs(
        &self,
        request: Request<v1::UploadOutputsRequest>,
    ) -> Answer<v1::UploadPackageResponse> {
        let machine = self.door.machine(&request)?;
        let instance = instance(request.get_ref().instance)?;
        let view = gate::newest(&self.door.core).await?;
        let id = left_on(&view.cell, &machine, instance)?;
        let holder = Identity::Borglet(machine.to_string());
        self.upload_right(&view.cell, &id, &holder).map(Response::new)
    }

    async fn add_outputs(
        &self,
        request: Request<v1::AddOutputsRequest>,
    ) -> Answer<v1::SetPackageResponse> {
        let machine = self.door.machine(&request)?;
        let asked = request.into_inner();
        let (instance, bytes) = (instance(asked.instance)?, asked.encoded_len());
        let view = gate::newest(&self.door.core).await?;
        let id = left_on(&view.cell, &machine, instance)?;
        drop(view);
        let receipt = asked.receipt.unwrap_or_default();
        let receipt = self.received(&receipt, &id.owner)?;
        let package = Arc::new(package(id.clone(), &receipt, PackageReaders::default())?);
        let op = Op::AddOutputs { machine, instance, package };
        let (index, existed) = match self.door.ask(Ask::Enrolment(op), bytes).await? {
            (index, Outcome::Request(Ok(Reply::PackageSet { existed }))) => (index, existed),
            (_, Outcome::Request(Err(why))) => {
                return Err(rejected(&self.door.core.view().cell, &why));
            }
            (_, other) => return Err(unexpected(&other)),
        };
        self.door.seen(index).await;
        let package = self.door.core.view().cell.package(&id).map(|it| (&**it).into());
        Ok(Response::new(v1::SetPackageResponse { index: index.0, package, existed }))
    }

    async fn announce(
        &self,
        request: Request<v1::AnnounceStoreRequest>,
    ) -> Answer<v1::AnnounceStoreResponse> {
        self.store(&request)?;
        let address = request.into_inner().address;
        rpc::transport::check_address(&address)
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        if !stores.announce(address, Instant::now(), STORES_MAX) {
            return Err(Status::resource_exhausted(format!(
                "there are {STORES_MAX} stores of packages already: stop one first"
            )));
        }
        Ok(Response::new(v1::AnnounceStoreResponse { again_seconds: ANNOUNCE_SECONDS }))
    }

    type ManifestsStream = Streamed<v1::ManifestsResponse>;

    async fn manifests(
        &self,
        request: Request<v1::ManifestsRequest>,
    ) -> Answer<Self::ManifestsStream> {
        self.store(&request)?;
        // What a replica that lags does not know yet would be removed.
        let view = gate::newest(&self.door.core).await?;
        let (sender, receiver) = mpsc::channel(STREAM_QUEUE);
        tokio::spawn(async move {
            let digests: Vec<Digest> = view.cell.packages().map(|it| it.digest).collect();
            for some in digests.chunks(MANIFESTS_IN_MESSAGE) {
                let manifests = some.iter().flat_map(|digest| *digest.as_bytes()).collect();
                let response = v1::ManifestsResponse { manifests, complete: false };
                if sender.send(Ok(response)).await.is_err() {
                    return;
                }
            }
            let last = v1::ManifestsResponse { manifests: Vec::new(), complete: true };
            // A store that has gone needs no last message.
            let _ = sender.send(Ok(last)).await;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

impl Packages {
    /// Rejects callers that are no stores of packages.
    fn store<T>(&self, request: &Request<T>) -> Result<(), Status> {
        match rpc::transport::peer_identity(request, &self.door.cell)? {
            Identity::Packages(_) => Ok(()),
            other => {
                let why = format!("{other} is not a store of packages");
                Err(rpc::transport::refuse(request, Cause::WrongRole, why))
            }
        }
    }
}

/// The versions that a user may use; administrators see all.
fn found(
    cell: &Cell,
    me: &UserName,
    asked: &v1::PackagesRequest,
) -> Result<v1::PackagesResponse, Status> {
    let invalid = |error: model::NameError| Status::invalid_argument(error.to_string());
    let owner = (!asked.user.is_empty()).then(|| UserName::new(&asked.user));
    let owner = owner.transpose().map_err(invalid)?;
    let name = (!asked.name.is_empty()).then(|| model::PackageName::new(&asked.name));
    let name = name.transpose().map_err(invalid)?;
    let all = cell.is_administrator(me);
    let used = if asked.unused { cell.used_packages() } else { BTreeSet::new() };
    let wanted = |package: &&Arc<Package>| {
        (all || package.admits(me))
            && !used.contains(&package.id)
            && owner.as_ref().is_none_or(|owner| package.id.owner == *owner)
            && name.as_ref().is_none_or(|name| package.id.name == *name)
    };
    let packages = cell.packages().filter(wanted).map(|package| (&**package).into()).collect();
    Ok(v1::PackagesResponse { index: cell.index().0, packages })
}

impl Reads<'_> {
    /// The same of a cell of the past.
    pub(crate) fn packages(
        &self,
        asked: &v1::PackagesRequest,
    ) -> Result<v1::PackagesResponse, Status> {
        found(self.cell, self.me, asked)
    }
}
