//! Volumes of machines: who claims them, and where tasks come back to.

use expect_test::expect;

use crate::script::session;

/// Names are unique on a machine, and directories do not overlap.
#[test]
fn an_operator_gives_and_takes_volumes() {
    session(&expect![[r#"
        > volume m1 data /srv/data
        ADD_VOLUME machine 1
        done
        > volume m1 data /srv/data ssd=yes
        ADD_VOLUME machine 1
        done
        > volume m1 more /srv/data/more
        refused: the directory of more is that of the volume data of m1, or one is below the other: choose another
        > volume m2 data /srv/data
        ADD_VOLUME machine 2
        done
        > as ana volume m1 mine /srv/mine
        refused: ana may not change the volumes of machine m1: an administrator may
        > remove-volume m1 nothing
        refused: machine m1 has no volume nothing: bourg machine volume list m1 lists them
        > remove-volume m1 data
        REMOVE_VOLUME machine 1
        done
    "#]]);
}

/// A claim outlives each incarnation of the task, and its job.
#[test]
fn a_task_comes_back_to_its_volume() {
    session(&expect![[r#"
        > volume m1 data /srv/data
        ADD_VOLUME machine 1
        done
        > submit ana/db 1 volumes=data:/data
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m2
        refused: it does not fit on machine 2: has no volume data
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        CLAIM_VOLUME machine 1
        accepted
        > submit ben/db 1 volumes=data:/data
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > assign 2-0-1 m1
        refused: it does not fit on machine 1: has the volume data claimed by ana/db/0
        > remove-volume m1 data
        refused: the volume data of m1 is in use by ana/db/0: drain the machine (bourg machine drain m1), or ask ana to stop the task
        > started 1-0-1
        START 1-0-1 on 1
        > drain m1
        DRAIN machine 1 ()
        STOP 1-0-1 (evict, machine shutdown)
        1 leave
        > kill ana/db
        STOP 1-0-1 (kill, by ana)
        killed 1
        > ended 1-0-1 exit 0
        DRAINED machine 1
        KILL 1-0-1 (by ana)
        KILL job 1 (by ana)
        > undrain m1
        UNDRAIN machine 1
        done
        > remove-volume m1 data
        refused: the volume data of m1 is claimed by ana/db/0: bourg machine volume rm m1 data --force takes it away, and what is in the directory stays
        > submit ana/db 1 volumes=data:/data
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        job 3
        > volume m2 data /srv/data
        ADD_VOLUME machine 2
        done
        > assign 3-0-1 m2
        refused: it does not fit on machine 2: has not its data, which is in volume data of m1
        > assign 3-0-1 m1
        SCHEDULE job 3 on 1
        SCHEDULE 3-0-1 on 1
        accepted
        > kill ana/db
        STOP 3-0-1 (kill, by ana)
        killed 1
        > ended 3-0-1 exit 0
        KILL 3-0-1 (by ana)
        KILL job 3 (by ana)
        > release-volume m1 data
        RELEASE_VOLUME machine 1
        ADD_VOLUME machine 1
        done
        > assign 2-0-1 m1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        CLAIM_VOLUME machine 1
        accepted
        > remove-volume m1 data force
        refused: the volume data of m1 is in use by ben/db/0: drain the machine (bourg machine drain m1), or ask ben to stop the task
    "#]]);
}

/// Until an operator releases the volume.
#[test]
fn a_user_leaves_data_that_others_do_not_get() {
    session(&expect![[r#"
        > volume m1 data /srv/data
        ADD_VOLUME machine 1
        done
        > submit ana/db 1 volumes=data:/data
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        CLAIM_VOLUME machine 1
        accepted
        > kill ana/db
        STOP 1-0-1 (kill, by ana)
        killed 1
        > ended 1-0-1 exit 0
        KILL 1-0-1 (by ana)
        KILL job 1 (by ana)
        > submit ana/db 1
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > volume m1 other /srv/other
        ADD_VOLUME machine 1
        done
        > assign 2-0-1 m1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        RELEASE_VOLUME machine 1
        accepted
        > submit ben/db 1 volumes=data:/data
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        job 3
        > assign 3-0-1 m1
        refused: it does not fit on machine 1: has the volume data with data of ana, which nobody has released
        > release-volume m1 data
        ADD_VOLUME machine 1
        done
        > assign 3-0-1 m1
        SCHEDULE job 3 on 1
        SCHEDULE 3-0-1 on 1
        CLAIM_VOLUME machine 1
        accepted
    "#]]);
}

/// Its next task gets it, whatever is there.
#[test]
fn an_operator_accepts_a_directory() {
    session(&expect![[r#"
        > volume m1 data /srv/data
        ADD_VOLUME machine 1
        done
        > as ana accept-volume m1 data
        refused: ana may not change the volumes of machine m1: an administrator may
        > accept-volume m1 nothing
        refused: machine m1 has no volume nothing: bourg machine volume list m1 lists them
        > submit ana/db 1 volumes=data:/data
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        CLAIM_VOLUME machine 1
        accepted
        > started 1-0-1
        START 1-0-1 on 1
        > accept-volume m1 data
        ADD_VOLUME machine 1
        done
        > accept-volume m1 data
        done
    "#]]);
}

/// Each of them claims it.
#[test]
fn a_shared_volume_has_tasks_of_one_user_or_of_all() {
    session(&expect![[r#"
        > volume m1 data /srv/data shared=user
        ADD_VOLUME machine 1
        done
        > volume m1 all /srv/all shared=all
        ADD_VOLUME machine 1
        done
        > submit ana/a 2 volumes=data:/data
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > assign 1-0-1 m1 ; 1-1-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        CLAIM_VOLUME machine 1
        SCHEDULE 1-1-1 on 1
        CLAIM_VOLUME machine 1
        accepted
        accepted
        > submit ben/b 1 volumes=data:/data
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > assign 2-0-1 m1
        refused: it does not fit on machine 1: has the volume data with data of ana, which nobody has released
        > submit ana/c 1 volumes=all:/x
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        job 3
        > submit ben/d 1 volumes=all:/x
        SUBMIT job 4 (new)
        SUBMIT 4-0-1 (new)
        job 4
        > assign 3-0-1 m1 ; 4-0-1 m1
        SCHEDULE job 3 on 1
        SCHEDULE 3-0-1 on 1
        CLAIM_VOLUME machine 1
        SCHEDULE job 4 on 1
        SCHEDULE 4-0-1 on 1
        CLAIM_VOLUME machine 1
        accepted
        accepted
    "#]]);
}

/// Its data stays where it was.
#[test]
fn a_task_goes_elsewhere_only_when_its_job_says_so() {
    session(&expect![[r#"
        > volume m1 data /srv/data
        ADD_VOLUME machine 1
        done
        > volume m2 data /srv/data
        ADD_VOLUME machine 2
        done
        > submit ana/db 1 volumes=data:/data:60
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        CLAIM_VOLUME machine 1
        accepted
        > silent m1
        DOWN machine 1
        EVICT 1-0-1 (machine failure)
        SUBMIT 1-0-2 (evicted: machine failure)
        > assign 1-0-2 m2
        refused: it does not fit on machine 2: has not its data, which is in volume data of m1
        > elsewhere 1 0
        (nothing)
        > at 61
        > elsewhere 1 0
        RELEASE_VOLUME machine 1
        UPDATE_PENDING 1-0-2
        > assign 1-0-2 m2
        SCHEDULE 1-0-2 on 2
        CLAIM_VOLUME machine 2
        accepted
    "#]]);
}

/// The tasks start elsewhere.
#[test]
fn a_machine_that_leaves_takes_its_claims_along() {
    session(&expect![[r#"
        > volume m1 data /srv/data ssd=yes
        ADD_VOLUME machine 1
        done
        > volume m2 fast /srv/fast ssd=yes
        ADD_VOLUME machine 2
        done
        > submit ana/db 1 volumes=.ssd=yes:/data
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        CLAIM_VOLUME machine 1
        accepted
        > silent m1
        DOWN machine 1
        EVICT 1-0-1 (machine failure)
        SUBMIT 1-0-2 (evicted: machine failure)
        > assign 1-0-2 m2
        refused: it does not fit on machine 2: has not its data, which is in volume data of m1
        > remove m1
        refused: the volume data of m1 is claimed by ana/db/0: bourg machine volume list m1 lists them, and bourg machine remove m1 --force ends them, so that their tasks start elsewhere without their data, which stays in the directory
        > remove m1 force
        RELEASE_VOLUME machine 1
        UPDATE_PENDING 1-0-2
        REMOVE machine 1
        done
        > assign 1-0-2 m2
        SCHEDULE 1-0-2 on 2
        CLAIM_VOLUME machine 2
        accepted
    "#]]);
}

/// A directory that its machine cannot use is no volume for a task, until the machine says otherwise.
#[test]
fn a_volume_that_its_machine_cannot_use_gets_no_task() {
    session(&expect![[r#"
        > volume m1 data /srv/data
        ADD_VOLUME machine 1
        done
        > describe m1 volume=data:missing
        (nothing)
        > submit ana/db 1 volumes=data:/data
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        refused: it does not fit on machine 1: has the volume data, which is missing
        > describe m1 volume=data:file
        (nothing)
        > assign 1-0-1 m1
        refused: it does not fit on machine 1: has the volume data, which is not a directory
        > describe m1 volume=data:read-only
        (nothing)
        > assign 1-0-1 m1
        refused: it does not fit on machine 1: has the volume data, which is read-only
        > describe m1
        (nothing)
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        CLAIM_VOLUME machine 1
        accepted
    "#]]);
}
