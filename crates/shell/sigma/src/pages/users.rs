//! Users: their certificates, what they may do, and their quota: what is granted, charged and left.

use std::collections::{BTreeMap, BTreeSet};

use api::{v1, word};
use chart::{Bar, BarPart as Piece, Marker, Size, stack};
use maud::{Markup, html};
use model::{Capability, Dimension, Resources, Time};

use super::{Page, Part, bands, jobs};
use crate::address::{Place, Query};
use crate::asker::PageClient;
use crate::problem::Problem;
use crate::show;

/// The most rows of a table.
const ROWS: usize = 200;
/// How many jobs of a user are listed.
const JOBS: usize = 50;
/// A certificate or a grant that ends within this time is marked.
const SOON: u64 = 7 * 86_400_000_000;

/// All that is known of users.
struct UserFacts {
    users: std::sync::Arc<v1::UsersResponse>,
    quota: std::sync::Arc<v1::QuotaResponse>,
    capabilities: std::sync::Arc<v1::CapabilitiesResponse>,
    jobs: std::sync::Arc<v1::StatusResponse>,
}

impl UserFacts {
    async fn ask(asker: &mut PageClient) -> Result<Self, Problem> {
        let users = asker.users().await?;
        if asker.at.is_some() {
            // Ages and ends are as of then.
            asker.now = Time(users.time);
        }
        Ok(Self {
            users,
            quota: asker.quota().await?,
            capabilities: asker.capabilities().await?,
            jobs: asker.jobs().await?,
        })
    }

    fn user(&self, name: &str) -> Option<&v1::UserStatus> {
        self.users.users.iter().find(|user| user.name == name)
    }

    fn is_administrator(&self, name: &str) -> bool {
        self.capabilities.administrators.iter().any(|user| user == name)
    }

    /// Names of capabilities.
    fn capabilities(&self, name: &str) -> &[String] {
        let found = self.capabilities.users.iter().find(|held| held.user == name);
        found.map_or(&[], |held| &held.capabilities)
    }

    fn quota<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a v1::UserQuota> {
        self.quota.users.iter().filter(move |quota| quota.user == name)
    }

    /// The jobs of a user that are not over.
    fn jobs<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a v1::JobStatus> {
        self.jobs.jobs.iter().filter(move |job| job.user == name && jobs::is_alive(job))
    }

    /// Everybody who is known for anything.
    fn names(&self) -> BTreeSet<&str> {
        let users = self.users.users.iter().map(|user| user.name.as_str());
        let quota = self.quota.users.iter().map(|quota| quota.user.as_str());
        let held = self.capabilities.users.iter().map(|held| held.user.as_str());
        let alive = self.jobs.jobs.iter().filter(|job| jobs::is_alive(job));
        users.chain(quota).chain(held).chain(alive.map(|job| job.user.as_str())).collect()
    }
}

pub(super) async fn page(asker: &mut PageClient) -> Result<Page, Problem> {
    let known = UserFacts::ask(asker).await?;
    let parts = vec![
        Part::new("users", people(asker, &known)),
        Part::new("quota", quotas(asker, &known.quota)),
        Part::new("bands", cell_quota(&known.quota)),
    ];
    let heading = html! {
        h1 { "Users and quota" }
        p class="links" {
            a href=(asker.to(Place::User { name: asker.rights.user.clone() })) { "Your own" }
        }
    };
    Ok(Page::live("Users", heading, super::at(asker, "bourg user list".to_owned()), parts))
}

pub(super) async fn user(asker: &mut PageClient, name: &str) -> Result<Page, Problem> {
    let known = UserFacts::ask(asker).await?;
    let names = known.names();
    if !names.contains(name) && asker.rights.user != name {
        return Err(Problem::not_found(format!("there is no user {name}")));
    }
    let parts = vec![
        Part::new("user", summary(asker, &known, name)),
        Part::new("quota", quota(asker, &known, name)),
        Part::new("rights", rights(&known, name)).class("panel"),
        Part::new("certificates", certificates(asker, known.user(name))),
        Part::new("jobs", owned(asker, &known, name)),
    ];
    let heading = html! {
        h1 { (name) }
        p class="links" {
            a href=(asker.to(Place::Jobs(Query::default().with("user", name)))) { "Jobs" }
            a href=(asker.to(Place::NamesOf { user: name.to_owned() })) { "Names" }
            a href=(asker.to(Place::Users)) data-key="u" { "All users" }
        }
    };
    let command = format!("bourg quota show {}", super::quoted(name));
    Ok(Page::live(name, heading, super::at(asker, command), parts))
}

fn people(asker: &PageClient, known: &UserFacts) -> Markup {
    let names = known.names();
    let own = asker.rights.user.as_str();
    let mut shown: Vec<&str> = names.iter().copied().collect();
    shown.sort_by_key(|name| (*name != own, *name));
    shown.truncate(ROWS);
    html! {
        h2 { "Users" }
        div class="scroll" { table {
            thead { tr {
                th scope="col" { "User" }
                th scope="col" { "State" }
                th scope="col" { "May" }
                th scope="col" class="num" { "Certificates" }
                th scope="col" { "The last ends" }
                th scope="col" { "Added" }
                th scope="col" { "Revoked" }
                th scope="col" class="num" { "Jobs" }
                th scope="col" class="num" { "Tasks" }
            } }
            tbody { @for name in &shown {
                @let user = known.user(name);
                @let certificates = user.map_or(&[][..], |user| user.certificates.as_slice());
                @let tasks: u32 = known.jobs(name).map(|job| job.counts.unwrap_or_default().tasks).fold(0, u32::saturating_add);
                @let href = asker.to(Place::User { name: (*name).to_owned() });
                tr data-href=(href) {
                    th scope="row" { a href=(href) { (name) } @if *name == own { " " span class="muted" { "you" } } }
                    td { (state(user)) }
                    td { (may(known, name)) }
                    td class="num" { @match user {
                        Some(user) if certificates.is_empty() && !user.shut_out => { "any of the cell's" }
                        _ => { (certificates.len()) }
                    } }
                    td class="nowrap" { (last_end(asker, certificates)) }
                    td class="nowrap" { (show::ago(user.map_or(0, |user| user.added), asker.now)) }
                    td class="nowrap" { (show::ago(user.map_or(0, |user| user.revoked), asker.now)) }
                    td class="num" { (known.jobs(name).count()) }
                    td class="num" { (tasks) }
                }
            } }
        } }
        @if names.len() > ROWS {
            p class="muted" { (ROWS) " of " (names.len()) " users; " (show::command("bourg user list")) " has all." }
        }
    }
}

fn state(user: Option<&v1::UserStatus>) -> Markup {
    use show::Tone;
    match user {
        Some(user) if user.shut_out => show::state("revoked", Tone::Bad),
        _ => show::state("active", Tone::Good),
    }
}

/// What a user may do beyond their own jobs, in a few words.
fn may(known: &UserFacts, name: &str) -> Markup {
    html! {
        @if known.is_administrator(name) {
            span class="label" { "administrator" }
        } @else if known.capabilities(name).is_empty() {
            span class="muted" { "change own jobs" }
        } @else {
            @for held in known.capabilities(name) { span class="label" { (held) } " " }
        }
    }
}

/// When the last certificate ends, marked if that is soon.
fn last_end(asker: &PageClient, certificates: &[v1::UserCertificate]) -> Markup {
    let last = certificates.iter().map(|certificate| certificate.expires).max();
    ending(asker, last.unwrap_or_default())
}

/// A moment at which something ends, marked if that is soon; `-` for never.
fn ending(asker: &PageClient, at: u64) -> Markup {
    let is_soon = at > 0 && at < asker.now.0.saturating_add(SOON);
    html! { span class=[is_soon.then_some("bad")] { (show::ago(at, asker.now)) } }
}

fn resources(of: Option<&v1::Resources>) -> Resources {
    of.and_then(|of| Resources::try_from(*of).ok()).unwrap_or_default()
}

fn words(of: Option<&v1::Resources>) -> String {
    resources(of).in_words()
}

fn band(number: i32) -> String {
    word::<v1::Band>(number).into_owned()
}

/// The colour of a band.
fn series(number: i32) -> &'static str {
    bands::class(&band(number))
}

/// A dimension at the begin of a title.
fn title(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Cpu => "CPU",
        Dimension::Ram => "RAM",
        Dimension::Disk => "Disk",
        Dimension::DiskRate => "Disk rate",
    }
}

/// The dimensions in which any of these amounts is not nothing; always CPU and RAM.
fn dimensions<'a>(amounts: impl Iterator<Item = Option<&'a v1::Resources>>) -> Vec<Dimension> {
    let amounts: Vec<Resources> = amounts.map(resources).collect();
    let is_there = |dimension: &Dimension| {
        let always = matches!(dimension, Dimension::Cpu | Dimension::Ram);
        always || amounts.iter().any(|amount| amount.get(*dimension) > 0)
    };
    Dimension::ALL.into_iter().filter(is_there).collect()
}

/// An amount as far as a bar shows it.
#[expect(clippy::cast_precision_loss, reason = "a bar has a few hundred pixels")]
fn length(amount: u64) -> f64 {
    amount as f64
}

/// An amount and what is used of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Amounts {
    part: u64,
    whole: u64,
    /// What the whole will be later, if it is known to change.
    later: Option<u64>,
}

/// A part of an amount as a bar and as text. A mark is where the amount will be later.
fn part_of(dimension: Dimension, amounts: Amounts, what: &str, class: &str, size: Size) -> Markup {
    let Amounts { part, whole, later } = amounts;
    let label = format!("{what} {}", dimension.show(part));
    let of = dimension.show(whole);
    let pieces = [Piece { class, value: length(part), label: &label }];
    let later = later.filter(|later| *later != whole);
    let text = later.map(|later| format!("then {}", dimension.show(later))).unwrap_or_default();
    let marker =
        later.map(|later| Marker { class: "series-limit", value: length(later), label: &text });
    let bar = Bar {
        name: title(dimension),
        capacity: length(whole),
        of: &of,
        parts: &pieces,
        markers: marker.as_slice(),
        size,
    };
    let is_above = part > whole;
    html! {
        @match (size, part, whole) {
            (_, 0, 0) => span class="muted" { "-" },
            (_, _, 0) => span class="bad" { (label) ", nothing granted" },
            (Size::Large, ..) => (stack(&bar)),
            (Size::Compact, ..) => {
                (stack(&bar))
                span class=(if is_above { "nowrap bad" } else { "nowrap muted" }) {
                    (dimension.show(part)) " of " (of)
                }
            }
        }
    }
}

fn metered(quota: &v1::QuotaResponse) -> Markup {
    html! {
        p {
            @if quota.metered {
                "Quota is enforced: jobs beyond it are rejected. Its end stops no task. "
            } @else {
                span class="bad" { "Quota is not enforced: nothing is rejected. " }
            }
        }
    }
}

fn quotas(asker: &PageClient, quota: &v1::QuotaResponse) -> Markup {
    let own = asker.rights.user.as_str();
    let mut users: Vec<&v1::UserQuota> = quota.users.iter().collect();
    users.sort_by_key(|of| (of.user != own, &of.user, std::cmp::Reverse(of.band)));
    users.truncate(ROWS);
    let amounts = quota.users.iter().flat_map(|of| [of.granted.as_ref(), of.charged.as_ref()]);
    let dimensions = dimensions(amounts);
    html! {
        h2 { "Quota by user and band" }
        (metered(quota))
        p { (show::command(&super::at(asker, "bourg quota show".to_owned()))) }
        @if users.is_empty() {
            (show::empty("Nobody has quota yet: all jobs run in the free band.", "bourg quota grant USER production cpu=2 ram=4GiB"))
        } @else {
            div class="scroll" { table {
                thead { tr {
                    th scope="col" { "User" }
                    th scope="col" { "Band" }
                    @for dimension in &dimensions { th scope="col" { (title(*dimension)) " charged of granted" } }
                    th scope="col" { "Left" }
                    th scope="col" { "A grant ends" }
                } }
                tbody { @for of in &users {
                    @let href = asker.to(Place::User { name: of.user.clone() });
                    tr data-href=(href) {
                        th scope="row" { a href=(href) { (of.user) } }
                        td class="nowrap" { (band(of.band)) }
                        @for dimension in &dimensions {
                            td { (part_of(*dimension, amounts_of(of, *dimension), "charged", series(of.band), Size::Compact)) }
                        }
                        td class="why" { (words(of.left.as_ref())) }
                        td class="nowrap" { (ending(asker, of.ends)) }
                    }
                } }
            } }
            @if quota.users.len() > ROWS {
                p class="muted" { (ROWS) " of " (quota.users.len()) " rows." }
            }
        }
    }
}

/// What is charged, granted, and granted from the next end of a grant on.
fn amounts_of(of: &v1::UserQuota, dimension: Dimension) -> Amounts {
    let amount = |of: Option<&v1::Resources>| resources(of).get(dimension);
    let later = (of.ends > 0).then(|| amount(of.granted_then.as_ref()));
    Amounts { part: amount(of.charged.as_ref()), whole: amount(of.granted.as_ref()), later }
}

/// What the cell has granted of its capacity.
fn cell_quota(quota: &v1::QuotaResponse) -> Markup {
    let dimensions = dimensions([quota.capacity.as_ref()].into_iter());
    html! {
        h2 { "Quota of the cell by band" }
        p { "The machines have " strong { (words(quota.capacity.as_ref())) } " in all." }
        div class="scroll" { table {
            thead { tr {
                th scope="col" { "Band" }
                th scope="col" class="num" { "Of capacity" }
                @for dimension in &dimensions { th scope="col" { (title(*dimension)) " granted of allowed" } }
                th scope="col" { "Oversold by" }
            } }
            tbody { @for of in quota.bands.iter().rev() {
                tr {
                    th scope="row" {
                        @match of.band() {
                            v1::Band::Production => "production and monitoring",
                            _ => (band(of.band)),
                        }
                    }
                    td class="num" { (of.percent) " %" }
                    @for dimension in &dimensions {
                        @let amount = |of: Option<&v1::Resources>| resources(of).get(*dimension);
                        @let (part, whole) = (amount(of.granted.as_ref()), amount(of.allowed.as_ref()));
                        @let amounts = Amounts { part, whole, later: None };
                        td { (part_of(*dimension, amounts, "granted", series(of.band), Size::Compact)) }
                    }
                    td {
                        @if resources(of.oversold.as_ref()) == Resources::default() { "-" }
                        @else { strong class="bad" { (words(of.oversold.as_ref())) } }
                    }
                }
            } }
        } }
    }
}

fn summary(asker: &PageClient, known: &UserFacts, name: &str) -> Markup {
    let user = known.user(name);
    let mut facts = vec![("State", state(user)), ("May", may(known, name))];
    if let Some(user) = user {
        let act = |at: u64, by: &str| {
            html! {
                (show::ago(at, asker.now))
                @if at > 0 && !by.is_empty() { span class="muted" { " by " (by) } }
            }
        };
        if user.added > 0 {
            facts.push(("Added", act(user.added, &user.added_by)));
        }
        if user.revoked > 0 {
            facts.push(("Revoked", act(user.revoked, &user.revoked_by)));
        }
    }
    html! {
        (show::facts(facts))
        @if user.is_some_and(|user| user.shut_out) {
            p class="notice bad" { "All certificates of this user are rejected. Their jobs keep running." }
        }
    }
}

fn quota(asker: &PageClient, known: &UserFacts, name: &str) -> Markup {
    let bands: Vec<&v1::UserQuota> = known.quota(name).collect();
    let grants: Vec<&v1::Grant> =
        known.quota.grants.iter().filter(|grant| grant.user == name).take(ROWS).collect();
    html! {
        h2 { "Quota" }
        (metered(&known.quota))
        @if bands.is_empty() {
            (show::empty("No quota: jobs run in the free band only.", &format!("bourg quota grant {} production cpu=2 ram=4GiB", super::quoted(name))))
        }
        @for of in bands.iter().rev() {
            @let amounts = [of.granted.as_ref(), of.charged.as_ref()];
            div class="panel" {
                h3 { (band(of.band)) }
                p {
                    (words(of.charged.as_ref())) " charged of " (words(of.granted.as_ref())) ", "
                    strong { (words(of.left.as_ref())) " left" }
                }
                div class="quota" { @for dimension in dimensions(amounts.into_iter()) {
                    (part_of(dimension, amounts_of(of, dimension), "charged", series(of.band), Size::Large))
                } }
                @if of.ends > 0 {
                    p {
                        "A grant ends " (ending(asker, of.ends)) ". Granted from then on: "
                        (words(of.granted_then.as_ref()))
                        @if resources(of.above_then.as_ref()) != Resources::default() {
                            ", " strong class="bad" { (words(of.above_then.as_ref())) } " less than what is charged now"
                        }
                        "."
                    }
                }
            }
        }
        @if !grants.is_empty() {
            h3 { "Grants" }
            div class="scroll" { table {
                thead { tr {
                    th scope="col" class="num" { "Grant" }
                    th scope="col" { "Band" }
                    th scope="col" { "Amount" }
                    th scope="col" { "From" }
                    th scope="col" { "Until" }
                    th scope="col" { "By" }
                } }
                tbody { @for grant in &grants {
                    tr {
                        th scope="row" class="num" { (grant.id) }
                        td class="nowrap" { (grant.band) }
                        td { (words(grant.amount.as_ref())) }
                        td class="nowrap" { (show::ago(grant.from, asker.now)) }
                        td class="nowrap" {
                            @if let Some(until) = grant.until { (ending(asker, until)) } @else { "no end" }
                        }
                        td { (grant.by) }
                    }
                } }
            } }
        }
    }
}

/// What a capability lets its holder do.
fn allows(capability: Capability) -> &'static str {
    match capability {
        Capability::AdministerJobs => {
            "kill and change anybody's jobs, read their logs and the values of their env, and submit jobs into any alloc set"
        }
        Capability::GrantQuota => {
            "grant and revoke quota, oversell a band, and turn the enforcement of quota on and off"
        }
        Capability::DrainMachines => "drain machines, and return them to service",
        Capability::NoEstimation => {
            "submit jobs with estimation: false, whose reservations stay at their limits"
        }
        Capability::KernelFeatures => "submit jobs with kernelFeatures, such as net-bind-service",
        Capability::StaticPorts => {
            "submit jobs with static ports, such as { https: { static: 443 } }"
        }
        Capability::ExecTasks => "run commands inside the tasks of others",
        Capability::Autoscale => {
            "set the limits of others' jobs that are autoscaled, within their bounds"
        }
        Capability::MoveTasks => {
            "move the running tasks of others to other machines, within their disruption budgets"
        }
        Capability::AdministerCell => "do everything in the cell, as an administrator",
        Capability::SaveCheckpoints => {
            "save checkpoints, which contain all data of all users, for backups"
        }
    }
}

fn rights(known: &UserFacts, name: &str) -> Markup {
    let held = known.capabilities(name);
    let administrator = known.is_administrator(name);
    let line = |name: &str| {
        let capability = name.parse::<Capability>().ok();
        html! { dt { (name) } dd { (capability.map_or("a capability that only a newer version knows", allows)) } }
    };
    html! {
        h2 { "What " (name) " may do" }
        p { "Submit, change and kill their own jobs, read their logs, and run commands in their tasks." }
        @if administrator {
            p { "An " strong { "administrator" } ": adds and revokes users and machines, changes the cell, and has every capability:" }
            dl class="facts" { @for capability in Capability::ALL { div { (line(capability.name())) } } }
        } @else if held.is_empty() {
            p class="muted" { "Nothing beyond that. An administrator can run "
                (show::command(&format!("bourg capability grant {} CAPABILITY", super::quoted(name)))) }
        } @else {
            dl class="facts" { @for name in held { div { (line(name)) } } }
        }
    }
}

fn certificates(asker: &PageClient, user: Option<&v1::UserStatus>) -> Markup {
    let certificates = user.map_or(&[][..], |user| user.certificates.as_slice());
    let now = asker.now;
    html! {
        h2 { "Certificates" }
        @if certificates.is_empty() {
            p class="muted" {
                @if user.is_some_and(|user| user.shut_out) { "None is accepted." }
                @else { "The cell has recorded none: the certificate was made with the cell, or before it recorded them." }
            }
        } @else {
            div class="scroll" { table {
                thead { tr {
                    th scope="col" { "Serial number" }
                    th scope="col" { "State" }
                    th scope="col" { "Issued" }
                    th scope="col" { "Ends" }
                } }
                tbody { @for certificate in certificates.iter().rev().take(ROWS) {
                    tr {
                        th scope="row" { code { (certificate.serial) } }
                        td { (validity(certificate, now)) }
                        td class="nowrap" { (show::ago(certificate.issued, now)) }
                        td class="nowrap" { (ending(asker, certificate.expires)) }
                    }
                } }
            } }
        }
    }
}

fn validity(certificate: &v1::UserCertificate, now: Time) -> Markup {
    use show::Tone;
    let (text, tone) = match certificate.expires {
        at if at <= now.0 => ("ended", Tone::Over),
        at if at < now.0.saturating_add(SOON) => ("ends soon", Tone::Waiting),
        _ => ("valid", Tone::Good),
    };
    show::state(text, tone)
}

fn owned(asker: &PageClient, known: &UserFacts, name: &str) -> Markup {
    let mut jobs: Vec<&v1::JobStatus> = known.jobs(name).collect();
    jobs.sort_by_key(|job| {
        let counts = job.counts.unwrap_or_default();
        (counts.pending == 0, std::cmp::Reverse(job.submitted))
    });
    let mut states: BTreeMap<String, usize> = BTreeMap::new();
    for job in &jobs {
        *states.entry(word::<v1::JobState>(job.state).into_owned()).or_default() += 1;
    }
    let all = asker.to(Place::Jobs(Query::default().with("user", name)));
    html! {
        h2 { "Jobs" }
        @if jobs.is_empty() {
            (show::empty("No job is alive.", "bourg run examples/hello.bcl"))
        } @else {
            p {
                @for (number, (state, count)) in states.iter().enumerate() {
                    @if number > 0 { ", " }
                    (count) " " (state)
                }
            }
            div class="scroll" { table {
                thead { tr {
                    th scope="col" { "Job" }
                    th scope="col" { "State" }
                    th scope="col" { "Band" }
                    th scope="col" class="num" { "Healthy" }
                    th scope="col" class="num" { "Pending" }
                    th scope="col" class="num" { "Tasks" }
                    th scope="col" { "Submitted" }
                } }
                tbody { @for job in jobs.iter().take(JOBS) {
                    @let counts = job.counts.unwrap_or_default();
                    @let (spec, href) = (job.spec.as_ref(), asker.to_job(name, job.spec.as_ref().map_or("", |spec| &spec.name)));
                    tr data-href=(href) {
                        th scope="row" { a href=(href) { (spec.map_or("", |spec| &spec.name)) } }
                        td { (show::job_state(job)) }
                        td class="nowrap" { (jobs::band(spec.and_then(|spec| spec.priority))) }
                        td class="num" { (counts.healthy) }
                        td class=(if counts.pending > 0 { "num bad" } else { "num" }) { (counts.pending) }
                        td class="num" { (counts.tasks) }
                        td class="nowrap" { (show::ago(job.submitted, asker.now)) }
                    }
                } }
            } }
            @if jobs.len() > JOBS { p { a href=(all) { "All " (jobs.len()) " jobs" } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(cpu_milli: i64, ram_bytes: i64, disk_bytes: i64) -> v1::Resources {
        v1::Resources { cpu_milli, ram_bytes, disk_bytes, ..v1::Resources::default() }
    }

    #[test]
    fn only_dimensions_with_an_amount_have_a_column() {
        use Dimension::{Cpu, Disk, Ram};
        let (none, some) = (amount(0, 0, 0), amount(1, 2, 3));
        for (amounts, expected) in [
            (vec![], vec![Cpu, Ram]),
            (vec![None, Some(&none)], vec![Cpu, Ram]),
            (vec![Some(&none), Some(&some)], vec![Cpu, Ram, Disk]),
        ] {
            assert_eq!(dimensions(amounts.into_iter()), expected);
        }
    }

    #[test]
    fn a_part_of_an_amount_is_a_bar_and_text() {
        let shown = |part, whole, later| {
            let amounts = Amounts { part, whole, later };
            let class = "series-production";
            part_of(Dimension::Cpu, amounts, "charged", class, Size::Compact).into_string()
        };
        assert_eq!(shown(0, 0, None), "<span class=\"muted\">-</span>");
        assert!(shown(500, 0, None).contains("charged 0.5 cores, nothing granted"));
        assert!(shown(500, 2_000, None).contains("muted\">0.5 cores of 2 cores"));
        assert!(shown(3_000, 2_000, None).contains("bad\">3 cores of 2 cores"));
        assert!(shown(500, 2_000, Some(1_000)).contains("then 1 core"));
        assert!(!shown(500, 2_000, Some(2_000)).contains("then"));
    }

    #[test]
    fn a_later_amount_is_shown_only_if_a_grant_ends() {
        let of = v1::UserQuota {
            charged: Some(amount(1, 0, 0)),
            granted: Some(amount(5, 0, 0)),
            granted_then: Some(amount(2, 0, 0)),
            ..v1::UserQuota::default()
        };
        assert_eq!(amounts_of(&of, Dimension::Cpu), Amounts { part: 1, whole: 5, later: None });
        let ends = v1::UserQuota { ends: 9, ..of };
        assert_eq!(
            amounts_of(&ends, Dimension::Cpu),
            Amounts { part: 1, whole: 5, later: Some(2) }
        );
    }

    #[test]
    fn each_capability_and_band_has_words_of_its_own() {
        let texts: BTreeSet<_> = Capability::ALL.into_iter().map(allows).collect();
        assert_eq!(texts.len(), Capability::ALL.len());
        assert_eq!(series(v1::Band::Production.into()), "series-production");
        assert_eq!(series(99), "series-other");
    }
}
