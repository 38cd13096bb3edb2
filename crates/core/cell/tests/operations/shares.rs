//! What users share: whoever takes all it can leaves room for the next user and for administrators.

use std::sync::Arc;

use cell::bounds::{
    DESCRIPTIONS_OF_A_JOB_BYTES_MAX, FILE_BYTES_MAX, FILES_BYTES_MAX, LOCK_SESSIONS_MAX,
    SESSIONS_MAX, TASKS_MAX, WAITING_TASKS_MAX,
};
use cell::{
    AcquireLock, Cell, ControlUpdate, Death, DeleteFile, ForgetJob, Image, Job, JobParts, JobState,
    KillReason, Mutation, Op, OpenLockSession, Outcome, PendingCause, Rejection, RequestId, Task,
    TaskState, UpdateAction, UpdateJob, WriteFile,
};
use expect_test::expect;
use model::{
    Beyond, CollectionId, Generation, JobName, Level, LockMode, LockSessionId, SessionId,
    TaskIndex, TaskSelection, Time, UserName, Version,
};
use spec::JobSpec;

use crate::script::{session, submitted, user};

/// The most tasks of a job.
const MANY: u32 = spec::limits::TASKS_MAX;

/// A cell in which ana has as many jobs of as many tasks, all in that state.
fn cell_with(jobs: u64, job: &JobState, task: &TaskState) -> Cell {
    let spec = submitted("big", MANY.into(), &[]);
    let task = Task {
        generation: Generation(1),
        version: Version(1),
        finishes: 0,
        ends_in_row: 0,
        failures: 0,
        last_incarnation: None,
        crashes: None,
        reserved: None,
        state: task.clone(),
    };
    let parts = |id| JobParts {
        machine_tasks: None,
        id: CollectionId(id),
        owner: user("ana"),
        spec: Arc::clone(&spec),
        version: Version(1),
        last_version: Version(1),
        others: Vec::new(),
        update: None,
        history: Vec::new(),
        disrupted: Vec::new(),
        submitted: Time::ZERO,
        state: job.clone(),
        after: Vec::new(),
        waits_for: Vec::new(),
        follows: Vec::new(),
        parent: None,
        alloc_set: None,
        tasks: vec![task.clone(); MANY as usize],
    };
    Cell::from_image(Image {
        name: Some("cc".parse().expect("a name")),
        level: Level(1),
        administrators: vec![user("root")],
        last_collection: CollectionId(jobs),
        jobs: (1..=jobs).map(|id| Arc::new(Job::from_parts(parts(id)))).collect(),
        ..Image::default()
    })
    .expect("an image")
}

/// What a mutation of a user gives, each in a session of its own.
fn ask(cell: &mut Cell, by: &str, mutation: Mutation) -> Result<(), Rejection> {
    cell.apply(Time(5), &Op::OpenSession { user: user(by) });
    let session = SessionId(cell.image().last_session.0);
    let id = RequestId { session, sequence: 1 };
    match cell.apply(Time(5), &Op::Request { id, by: user(by), mutation }).outcome {
        Outcome::Request(answer) => answer.map(drop),
        other => panic!("{other:?}"),
    }
}

fn submit(cell: &mut Cell, by: &str, name: &str, tasks: u32) -> Result<(), Rejection> {
    ask(cell, by, Mutation::Submit(submitted(name, tasks.into(), &[])))
}

fn forget(owner: &str) -> Mutation {
    let (owner, job): (UserName, JobName) = (user(owner), "big".parse().expect("a name"));
    Mutation::ForgetJob(ForgetJob { owner, job })
}

#[test]
fn a_user_at_the_limit_of_dead_tasks_makes_room_by_forgetting() {
    let death = Death::Killed(KillReason::User(user("ana")));
    let dead = JobState::Dead { at: Time(1), death: death.clone() };
    let share = TASKS_MAX.share(model::Held::default());
    let mut cell =
        cell_with(share / u64::from(MANY), &dead, &TaskState::Dead { at: Time(1), death });
    let own = cell.task_count();
    let refused = submit(&mut cell, "ana", "more", MANY).expect_err("it is beyond its share");
    assert!(
        matches!(&refused, Rejection::Shared { why: Beyond::Share { own: is, share: of }, .. }
            if *is == own && *of == share),
        "{refused:?}"
    );
    assert!(diagnostics::sentence(&refused).contains("bourg forget JOB"), "{refused:?}");
    assert_eq!(cell.task_count(), own);
    for by in ["bob", "root"] {
        assert_eq!(submit(&mut cell, by, "web", MANY), Ok(()), "{by}");
    }
    assert!(matches!(ask(&mut cell, "bob", forget("ana")), Err(Rejection::NotAllowed { .. })));
    assert_eq!(ask(&mut cell, "ana", forget("ana")), Ok(()));
    assert_eq!(cell.stages_of(&user("ana")).all(), 0);
    assert_eq!(submit(&mut cell, "ana", "more", MANY), Ok(()));
    assert_eq!(cell.check(), []);
}

#[test]
fn a_user_at_the_limit_of_waiting_tasks_leaves_room_for_others() {
    let cause = PendingCause::Submitted;
    let pending = TaskState::Pending { since: Time(1), not_before: Time(1), cause };
    let share = WAITING_TASKS_MAX.share(model::Held::default());
    let mut cell = cell_with(share / u64::from(MANY), &JobState::Pending, &pending);
    let refused = submit(&mut cell, "ana", "more", MANY).expect_err("it is beyond its share");
    assert!(diagnostics::sentence(&refused).contains("wait until more of them run"), "{refused:?}");
    for by in ["bob", "root"] {
        assert_eq!(submit(&mut cell, by, "web", MANY), Ok(()), "{by}");
    }
    // What is waiting may be killed, which makes room.
    let kill = cell::Kill {
        owner: user("ana"),
        job: "big".parse().expect("a name"),
        tasks: TaskSelection::All,
        now: false,
    };
    assert_eq!(ask(&mut cell, "ana", kill.into()), Ok(()));
    assert_eq!(submit(&mut cell, "ana", "more", MANY / 2), Ok(()));
}

/// A lock session of a user.
fn lock_session(cell: &mut Cell, by: &str) -> LockSessionId {
    let lease = model::Span::from_secs(60);
    assert_eq!(ask(cell, by, OpenLockSession { lease }.into()), Ok(()));
    cell.image().last_lock_session
}

fn write(cell: &mut Cell, by: &str, path: &str, bytes: usize) -> Result<(), Rejection> {
    let path = path.parse().expect("a path");
    let content = vec![7; bytes].into();
    let write = WriteFile { path, content, expected: None, session: None, sequencer: None };
    ask(cell, by, write.into())
}

fn acquire(cell: &mut Cell, by: &str, path: &str, session: LockSessionId) -> Result<(), Rejection> {
    let (path, mode) = (path.parse().expect("a path"), LockMode::Exclusive);
    ask(cell, by, AcquireLock { path, session, mode }.into())
}

#[test]
fn a_user_at_the_limit_of_file_bytes_blocks_no_other_users() {
    let mut cell = cell_with(0, &JobState::Pending, &TaskState::Queued { since: Time::ZERO });
    let mut files = 0;
    let refused = loop {
        match write(&mut cell, "ana", &format!("/ana/{files}"), FILE_BYTES_MAX) {
            Ok(()) => files += 1,
            Err(refused) => break refused,
        }
    };
    assert!(diagnostics::sentence(&refused).contains("bourg lock delete PATH"), "{refused:?}");
    let half = FILES_BYTES_MAX.of_users() / 2;
    assert_eq!(files, half / (FILE_BYTES_MAX as u64 + "/ana/1000".len() as u64));
    // A smaller content of a file that is there, locks without a content, another user, the
    // administrator.
    assert_eq!(write(&mut cell, "ana", "/ana/1", 10), Ok(()));
    for by in ["ana", "bob", "root"] {
        let session = lock_session(&mut cell, by);
        assert_eq!(acquire(&mut cell, by, &format!("/{by}/lock"), session), Ok(()), "{by}");
    }
    for by in ["bob", "root"] {
        assert_eq!(write(&mut cell, by, &format!("/{by}/file"), FILE_BYTES_MAX), Ok(()), "{by}");
    }
    assert_eq!(cell.check(), []);
    let path = "/ana/2".parse().expect("a path");
    let delete = DeleteFile { path, expected: None, sequencer: None };
    assert_eq!(ask(&mut cell, "ana", delete.into()), Ok(()));
    assert_eq!(write(&mut cell, "ana", "/ana/more", 10), Ok(()));
}

#[test]
fn a_user_at_the_limit_of_lock_sessions_leaves_room_for_others() {
    let mut cell = cell_with(0, &JobState::Pending, &TaskState::Queued { since: Time::ZERO });
    let lease = model::Span::from_secs(60);
    let mut sessions = 0;
    while ask(&mut cell, "ana", OpenLockSession { lease }.into()).is_ok() {
        sessions += 1;
    }
    assert_eq!(sessions, LOCK_SESSIONS_MAX.of_users() / 2);
    for by in ["bob", "root"] {
        lock_session(&mut cell, by);
    }
}

#[test]
fn the_user_with_most_sessions_loses_its_own() {
    let mut cell = cell_with(0, &JobState::Pending, &TaskState::Queued { since: Time::ZERO });
    let mut open = |by: &str| cell.apply(Time(5), &Op::OpenSession { user: user(by) });
    open("ana");
    // Ten users with as many as one may have, and then more.
    for number in 0..SESSIONS_MAX + 500 {
        open(&format!("greedy{}", number % 11));
    }
    let id = RequestId { session: SessionId(1), sequence: 1 };
    let mutation = forget("ana");
    let outcome = cell.apply(Time(5), &Op::Request { id, by: user("ana"), mutation }).outcome;
    let gone = Outcome::Request(Err(Rejection::NoSuchSession(SessionId(1))));
    assert_ne!(outcome, gone, "ana has one, and it was not used for the longest time");
    assert_eq!(cell.session_count(), SESSIONS_MAX);
    assert_eq!(cell.check(), []);
}

#[test]
fn holders_of_each_shared_bound_are_shown() {
    let mut cell = cell_with(2, &JobState::Pending, &TaskState::Queued { since: Time::ZERO });
    assert_eq!(write(&mut cell, "bob", "/bob/1", 10), Ok(()));
    let shown = cell.shared_use();
    let held = |name: &str, by: &str| {
        let of = shown.iter().find(|of| of.name == name).expect("a bound of that name");
        of.holders.get(&user(by)).copied()
    };
    for (name, by, amount) in [
        ("tasks", "ana", Some(2 * u64::from(MANY))),
        ("waiting-tasks", "ana", Some(2 * u64::from(MANY))),
        ("tasks", "bob", None),
        ("files", "bob", Some(1)),
        ("file-bytes", "bob", Some(16)),
        ("services", "bob", None),
    ] {
        assert_eq!(held(name, by), amount, "{name} of {by}");
    }
}

/// An update of one task of ana/web to a description with so large an environment.
fn update_one(number: u32, bytes: usize, tasks: TaskSelection) -> Mutation {
    let mut spec = JobSpec::clone(&submitted("web", 400, &[]));
    let text = format!("{number}{}", "x".repeat(bytes));
    spec.task.env = [("NUMBER".to_owned(), text)].into();
    let (owner, spec) = (user("ana"), Arc::new(spec));
    Mutation::UpdateJob(UpdateJob { owner, spec, tasks, policy: None, expected: None })
}

#[test]
fn bytes_of_job_versions_are_bounded_except_for_undo_and_full_updates() {
    let mut cell = cell_with(0, &JobState::Pending, &TaskState::Queued { since: Time::ZERO });
    assert_eq!(submit(&mut cell, "ana", "web", 400), Ok(()));
    let one = |index| TaskSelection::Some(vec![(TaskIndex(index), TaskIndex(index))]);
    let mut updates = 0;
    let refused = loop {
        match ask(&mut cell, "ana", update_one(updates, 120 << 10, one(updates))) {
            Ok(()) => updates += 1,
            Err(refused) => break refused,
        }
        assert!(updates < 300, "300 descriptions are kept");
    };
    assert!(diagnostics::sentence(&refused).contains("bourg update undo ana/web"), "{refused:?}");
    assert!(updates > 100, "only {updates}");
    assert_eq!(cell.check(), []);
    let bytes = |cell: &Cell| {
        let job = cell.job(CollectionId(1)).expect("the job");
        job.other_descriptions().map(|(_, spec)| spec.bytes()).sum::<u64>()
    };
    assert!(bytes(&cell) <= DESCRIPTIONS_OF_A_JOB_BYTES_MAX);
    let undo = ControlUpdate {
        owner: user("ana"),
        job: "web".parse().expect("a name"),
        action: UpdateAction::Undo,
        to: None,
        expected: None,
    };
    assert_eq!(ask(&mut cell, "ana", undo.into()), Ok(()));
    assert_eq!(ask(&mut cell, "ana", update_one(400, 120 << 10, TaskSelection::All)), Ok(()));
    assert_eq!(cell.check(), []);
    assert_eq!(ask(&mut cell, "ana", update_one(401, 120 << 10, one(1))), Ok(()));
    assert!(bytes(&cell) < 3 << 20, "{}", bytes(&cell));
}

#[test]
fn an_ended_job_is_forgotten_by_name_while_a_live_namesake_stays() {
    session(&expect![[r#"
        > submit ana/web 2
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > forget-job ana/web
        refused: ana/web is alive, and no job of that name has ended: kill it first (bourg kill ana/web)
        > kill ana/web
        KILL 1-0-1 (by ana)
        KILL 1-1-1 (by ana)
        KILL job 1 (by ana)
        killed 2
        > submit ana/web 1
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > as bob forget-job ana/web
        refused: bob may not forget ana/web: ana or an administrator may
        > forget-job ana/web
        done
        > as root forget-job ana/web
        refused: ana/web is alive, and no job of that name has ended: kill it first (bourg kill ana/web)
        > kill ana/web
        KILL 2-0-1 (by ana)
        KILL job 2 (by ana)
        killed 1
        > forget-job ana/web
        done
        > forget-job ana/web
        refused: there is no job ana/web
        > show
        0 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
    "#]]);
}
