//! Jobs that run after others, and jobs that end with others.

use cell::{Cell, Kill, Mutation, Op, RequestId};
use expect_test::expect;
use model::{CellName, SessionId, TaskSelection, Time};

use crate::script::{session, submitted, user};

#[test]
fn a_job_runs_after_others_have_finished() {
    session(&expect![[r#"
        > submit ana/extract 1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit ana/clean 1
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > submit ana/load 2 after=extract,clean
        SUBMIT job 3 (new)
        QUEUE job 3
        SUBMIT 3-0-1 (new)
        QUEUE 3-0-1
        SUBMIT 3-1-1 (new)
        QUEUE 3-1-1
        job 3
        > assign 3-0-1 m1
        refused: task 3/0 is not pending in that generation
        > assign 1-0-1 m1; 2-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        accepted
        accepted
        > ended 1-0-1 exit 0
        FINISH 1-0-1
        FINISH job 1
        > show
        0 s
        job 1 ana/extract dead
          1-0-1 finished, last: exit code 0
        job 2 ana/clean running
          2-0-1 starting on 1 []
        job 3 ana/load queued
          3-0-1 queued
          3-1-1 queued
        m1 up [2-0-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > ended 2-0-1 exit 0
        FINISH 2-0-1
        FINISH job 2
        ENABLE job 3
        ENABLE 3-0-1
        ENABLE 3-1-1
        > show
        0 s
        job 1 ana/extract dead
          1-0-1 finished, last: exit code 0
        job 2 ana/clean dead
          2-0-1 finished, last: exit code 0
        job 3 ana/load pending
          3-0-1 pending (new), not before 0 s
          3-1-1 pending (new), not before 0 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > assign 3-0-1 m1
        SCHEDULE job 3 on 1
        SCHEDULE 3-0-1 on 1
        accepted
        > submit ana/report 1 after=extract
        SUBMIT job 4 (new)
        SUBMIT 4-0-1 (new)
        job 4
        > submit ana/late 1 after=extract,load
        SUBMIT job 5 (new)
        QUEUE job 5
        SUBMIT 5-0-1 (new)
        QUEUE 5-0-1
        job 5
    "#]]);
}

#[test]
fn a_predecessor_that_does_not_finish_takes_those_that_wait_with_it() {
    session(&expect![[r#"
        > submit ana/one 1 failures=0
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit ana/two 1 after=one
        SUBMIT job 2 (new)
        QUEUE job 2
        SUBMIT 2-0-1 (new)
        QUEUE 2-0-1
        job 2
        > submit bob/three 2 after=ana/two
        SUBMIT job 3 (new)
        QUEUE job 3
        SUBMIT 3-0-1 (new)
        QUEUE 3-0-1
        SUBMIT 3-1-1 (new)
        QUEUE 3-1-1
        job 3
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > ended 1-0-1 exit 3
        FAIL 1-0-1 (exit code 3)
        FAIL job 1
        KILL 2-0-1 (job 1, which it was to run after, did not finish)
        KILL job 2 (job 1, which it was to run after, did not finish)
        KILL 3-0-1 (job 2, which it was to run after, did not finish)
        KILL 3-1-1 (job 2, which it was to run after, did not finish)
        KILL job 3 (job 2, which it was to run after, did not finish)
        > show
        0 s
        job 1 ana/one dead
          1-0-1 failed, failures 1, last: exit code 3
        job 2 ana/two dead
          2-0-1 killed job 1, which it was to run after, did not finish
        job 3 bob/three dead
          3-0-1 killed job 2, which it was to run after, did not finish
          3-1-1 killed job 2, which it was to run after, did not finish
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > submit ana/four 1 after=one
        refused: after names ana/one, which has ended without finishing: run that again first
        > submit ana/five 1 after=six
        refused: after names ana/six, but there is no such job
        > submit ana/six 1 after=six
        refused: the job description is not valid: after[0]: names the job itself: name another one, or leave it out
    "#]]);
}

#[test]
fn a_waiting_job_can_be_updated_and_killed_for_good() {
    session(&expect![[r#"
        > submit ana/one 1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit ana/two 3 after=one
        SUBMIT job 2 (new)
        QUEUE job 2
        SUBMIT 2-0-1 (new)
        QUEUE 2-0-1
        SUBMIT 2-1-1 (new)
        QUEUE 2-1-1
        SUBMIT 2-2-1 (new)
        QUEUE 2-2-1
        job 2
        > kill ana/two/1
        KILL 2-1-1 (by ana)
        killed 1
        > submit ana/two 3 after=one cpu=200
        UPDATE_OPEN job 2
        UPDATE_PENDING job 2
        SUBMIT 2-1-2 (new)
        QUEUE 2-1-2
        UPDATE_PENDING 2-0-1
        UPDATE_PENDING 2-2-1
        job 2, updated
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > ended 1-0-1 exit 0
        FINISH 1-0-1
        FINISH job 1
        ENABLE job 2
        ENABLE 2-0-1
        ENABLE 2-1-2
        ENABLE 2-2-1
        > show
        0 s
        job 1 ana/one dead
          1-0-1 finished, last: exit code 0
        job 2 ana/two pending
          update 1 to 2 rolling, changing 0 1 2
          2-0-1 pending (new), not before 0 s
          2-1-2 pending (new), not before 0 s
          2-2-1 pending (new), not before 0 s
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > submit ana/three 1 after=two
        SUBMIT job 3 (new)
        QUEUE job 3
        SUBMIT 3-0-1 (new)
        QUEUE 3-0-1
        job 3
        > kill ana/three
        KILL 3-0-1 (by ana)
        KILL job 3 (by ana)
        killed 1
        > kill ana/two
        KILL 2-0-1 (by ana)
        KILL 2-1-2 (by ana)
        KILL 2-2-1 (by ana)
        KILL job 2 (by ana)
        killed 3
    "#]]);
}

#[test]
fn a_child_ends_with_its_parent_however_that_ends() {
    session(&expect![[r#"
        > submit ana/master 1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit ana/worker 2 parent=master
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        SUBMIT 2-1-1 (new)
        job 2
        > submit bob/helper 1 parent=ana/worker
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        job 3
        > submit ana/next 1 after=worker
        SUBMIT job 4 (new)
        QUEUE job 4
        SUBMIT 4-0-1 (new)
        QUEUE 4-0-1
        job 4
        > assign 1-0-1 m1; 2-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        accepted
        accepted
        > ended 1-0-1 exit 0
        FINISH 1-0-1
        FINISH job 1
        STOP 2-0-1 (kill, its parent, job 1, ended)
        KILL 2-1-1 (its parent, job 1, ended)
        > show
        0 s
        job 1 ana/master dead
          1-0-1 finished, last: exit code 0
        job 2 ana/worker running
          2-0-1 starting on 1 [], stopping (kill, its parent, job 1, ended)
          2-1-1 killed its parent, job 1, ended
        job 3 bob/helper pending
          3-0-1 pending (new), not before 0 s
        job 4 ana/next queued
          4-0-1 queued
        m1 up [2-0-1] takes 0.1 cores, 64 MiB, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > resize ana/worker 4
        refused: ana/worker ends with its parent, job 1, which has ended
        > ended 2-0-1 signal 15
        KILL 2-0-1 (its parent, job 1, ended)
        KILL job 2 (its parent, job 1, ended)
        KILL 3-0-1 (its parent, job 2, ended)
        KILL job 3 (its parent, job 2, ended)
        KILL 4-0-1 (job 2, which it was to run after, did not finish)
        KILL job 4 (job 2, which it was to run after, did not finish)
        > show
        0 s
        job 1 ana/master dead
          1-0-1 finished, last: exit code 0
        job 2 ana/worker dead
          2-0-1 killed its parent, job 1, ended, last: signal 15
          2-1-1 killed its parent, job 1, ended
        job 3 bob/helper dead
          3-0-1 killed its parent, job 2, ended
        job 4 ana/next dead
          4-0-1 killed job 2, which it was to run after, did not finish
        m1 up [] takes 0 cores, 0 B, ports [], 4 free
        m2 up [] takes 0 cores, 0 B, ports [], 4 free
        > submit ana/worker 2 parent=master
        refused: parent names ana/master, but that job has ended
        > submit ana/worker 2 parent=nobody
        refused: parent names ana/nobody, but there is no such job
    "#]]);
}

#[test]
fn an_end_is_passed_on_along_a_chain() {
    session(&expect![[r#"
        > submit ana/a 1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit ana/b 1 parent=a
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > submit ana/c 1 after=b
        SUBMIT job 3 (new)
        QUEUE job 3
        SUBMIT 3-0-1 (new)
        QUEUE 3-0-1
        job 3
        > submit ana/d 1 parent=c
        SUBMIT job 4 (new)
        SUBMIT 4-0-1 (new)
        job 4
        > submit ana/e 1 after=d,a
        SUBMIT job 5 (new)
        QUEUE job 5
        SUBMIT 5-0-1 (new)
        QUEUE 5-0-1
        job 5
        > kill ana/a
        KILL 1-0-1 (by ana)
        KILL job 1 (by ana)
        KILL 2-0-1 (its parent, job 1, ended)
        KILL job 2 (its parent, job 1, ended)
        KILL 5-0-1 (job 1, which it was to run after, did not finish)
        KILL job 5 (job 1, which it was to run after, did not finish)
        KILL 3-0-1 (job 2, which it was to run after, did not finish)
        KILL job 3 (job 2, which it was to run after, did not finish)
        KILL 4-0-1 (its parent, job 3, ended)
        KILL job 4 (its parent, job 3, ended)
        killed 1
    "#]]);
}

#[test]
fn a_chain_may_be_as_long_as_there_are_jobs() {
    const JOBS: u64 = 20_000;
    let mut cell = Cell::empty();
    let name = CellName::new("cc").expect("a name");
    cell.apply(Time::ZERO, &Op::Bootstrap { name, administrator: user("ana") });
    cell.apply(Time::ZERO, &Op::OpenSession { user: user("ana") });
    let request = |sequence, mutation| Op::Request {
        id: RequestId { session: SessionId(1), sequence },
        by: user("ana"),
        mutation,
    };
    for number in 1..=JOBS {
        let parent = format!("parent=j{}", number - 1);
        let options: &[&str] = if number == 1 { &[] } else { &[&parent] };
        let submit = Mutation::Submit(submitted(&format!("j{number}"), 1, options));
        cell.apply(Time::ZERO, &request(number, submit));
    }
    let kill = Mutation::Kill(Kill {
        owner: user("ana"),
        job: "j1".parse().expect("a name"),
        tasks: TaskSelection::All,
        now: false,
    });
    cell.apply(Time::ZERO, &request(JOBS + 1, kill));
    assert_eq!(cell.jobs().filter(|job| job.is_alive()).count(), 0);
    assert_eq!((cell.job_count() as u64, cell.check()), (JOBS, vec![]));
}
