//! Volumes of machines: who claims them, and where tasks come back to.

use expect_test::expect;

use crate::script::session;

/// Names are unique on a machine, and directories do not overlap.
#[test]
fn an_operator_gives_and_takes_volumes() {
    session(&expect![[r#"
        > volume m1 data /srv/data
        > volume m1 data /srv/data ssd=yes
        > volume m1 more /srv/data/more
        > volume m2 data /srv/data
        > as ana volume m1 mine /srv/mine
        > remove-volume m1 nothing
        > remove-volume m1 data
    "#]]);
}

/// A claim outlives each incarnation of the task, and its job.
#[test]
fn a_task_comes_back_to_its_volume() {
    session(&expect![[r#"
        > volume m1 data /srv/data
        > submit ana/db 1 volumes=data:/data
        > assign 1-0-1 m2
        > assign 1-0-1 m1
        > submit ben/db 1 volumes=data:/data
        > assign 2-0-1 m1
        > remove-volume m1 data
        > started 1-0-1
        > drain m1
        > kill ana/db
        > ended 1-0-1 exit 0
        > undrain m1
        > remove-volume m1 data
        > submit ana/db 1 volumes=data:/data
        > volume m2 data /srv/data
        > assign 3-0-1 m2
        > assign 3-0-1 m1
        > kill ana/db
        > ended 3-0-1 exit 0
        > release-volume m1 data
        > assign 2-0-1 m1
        > remove-volume m1 data force
    "#]]);
}

/// Until an operator releases the volume.
#[test]
fn a_user_leaves_data_that_others_do_not_get() {
    session(&expect![[r#"
        > volume m1 data /srv/data
        > submit ana/db 1 volumes=data:/data
        > assign 1-0-1 m1
        > kill ana/db
        > ended 1-0-1 exit 0
        > submit ana/db 1
        > volume m1 other /srv/other
        > assign 2-0-1 m1
        > submit ben/db 1 volumes=data:/data
        > assign 3-0-1 m1
        > release-volume m1 data
        > assign 3-0-1 m1
    "#]]);
}

/// Each of them claims it.
#[test]
fn a_shared_volume_has_tasks_of_one_user_or_of_all() {
    session(&expect![[r#"
        > volume m1 data /srv/data shared=user
        > volume m1 all /srv/all shared=all
        > submit ana/a 2 volumes=data:/data
        > assign 1-0-1 m1 ; 1-1-1 m1
        > submit ben/b 1 volumes=data:/data
        > assign 2-0-1 m1
        > submit ana/c 1 volumes=all:/x
        > submit ben/d 1 volumes=all:/x
        > assign 3-0-1 m1 ; 4-0-1 m1
    "#]]);
}

/// Its data stays where it was.
#[test]
fn a_task_goes_elsewhere_only_when_its_job_says_so() {
    session(&expect![[r#"
        > volume m1 data /srv/data
        > volume m2 data /srv/data
        > submit ana/db 1 volumes=data:/data:60
        > assign 1-0-1 m1
        > silent m1
        > assign 1-0-2 m2
        > elsewhere 1 0
        > at 61
        > elsewhere 1 0
        > assign 1-0-2 m2
    "#]]);
}

/// The tasks start elsewhere.
#[test]
fn a_machine_that_leaves_takes_its_claims_along() {
    session(&expect![[r#"
        > volume m1 data /srv/data ssd=yes
        > volume m2 fast /srv/fast ssd=yes
        > submit ana/db 1 volumes=.ssd=yes:/data
        > assign 1-0-1 m1
        > silent m1
        > assign 1-0-2 m2
        > remove m1
        > assign 1-0-2 m2
    "#]]);
}
