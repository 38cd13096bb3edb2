//! Secrets and addresses that change while tasks run that have read them.

use expect_test::expect;

use crate::script::session;

#[test]
fn tasks_are_told_of_another_version_of_a_secret_once() {
    session(&expect![[r#"
        > machine m1
        (nothing)
        > secret ana/tls 1 100
        SET_SECRET ana/tls version 1
        version 1
        > submit ana/web 1 secrets=tls on-change=signal
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > read-secrets m1 1-0-1
        READ_SECRET tls version 1
        done
        > started 1-0-1
        START 1-0-1 on 1
        > tell-inputs 1
        (nothing)
        > secret ana/tls 1 90
        SET_SECRET ana/tls version 2
        version 2
        > tell-inputs 1
        CHANGE_INPUTS secret tls version 2
        > tell-inputs 1
        (nothing)
        > read-secrets m1 1-0-1
        READ_SECRET tls version 2
        done
        > tell-inputs 1
        (nothing)
    "#]]);
}

#[test]
fn tasks_are_restarted_within_the_budget_when_a_secret_changes() {
    session(&expect![[r#"
        > machine m1
        (nothing)
        > secret ana/tls 1 100
        SET_SECRET ana/tls version 1
        version 1
        > submit ana/web 2 secrets=tls on-change=restart batch=1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        SUBMIT 1-1-1 (new)
        job 1
        > assign 1-0-1 m1 ; 1-1-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        SCHEDULE 1-1-1 on 1
        accepted
        accepted
        > read-secrets m1 1-0-1
        READ_SECRET tls version 1
        done
        > read-secrets m1 1-1-1
        READ_SECRET tls version 1
        done
        > started 1-0-1
        START 1-0-1 on 1
        > started 1-1-1
        START 1-1-1 on 1
        > secret ana/tls 1 90
        SET_SECRET ana/tls version 2
        version 2
        > tell-inputs 1
        (nothing)
        > at 100
        > tell-inputs 1
        CHANGE_INPUTS secret tls version 2 restarts
        UPDATE_OPEN job 1
        UPDATE_RUNNING job 1
        > step 1 2 change=0
        UPDATE_RUNNING 1-0-1
        STOP 1-0-1 (evict, update)
        > tell-inputs 1
        (nothing)
    "#]]);
}

#[test]
fn nothing_follows_where_the_description_says_nothing() {
    session(&expect![[r#"
        > machine m1
        (nothing)
        > secret ana/tls 1 100
        SET_SECRET ana/tls version 1
        version 1
        > submit ana/web 1 secrets=tls
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > read-secrets m1 1-0-1
        READ_SECRET tls version 1
        done
        > started 1-0-1
        START 1-0-1 on 1
        > secret ana/tls 1 90
        SET_SECRET ana/tls version 2
        version 2
        > tell-inputs 1
        (nothing)
    "#]]);
}

#[test]
fn a_task_is_told_where_another_job_has_moved() {
    session(&expect![[r#"
        > machine m1
        (nothing)
        > machine m2
        (nothing)
        > submit ana/db 1 ports=http
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit ana/web 1 file=${bns.db/0.address} on-change=signal
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > assign 2-0-1 m1
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        accepted
        > read-secrets m1 2-0-1
        done
        > started 2-0-1
        START 2-0-1 on 1
        > tell-inputs 2
        (nothing)
        > assign 1-0-1 m1 31000
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > tell-inputs 2
        CHANGE_INPUTS bns.db/0.address
        > read-secrets m1 2-0-1
        done
        > tell-inputs 2
        (nothing)
        > ended 1-0-1 lost gone
        LOST 1-0-1 (lost: gone)
        SUBMIT 1-0-2 (could not start, tried once)
        > tell-inputs 2
        (nothing)
        > at 100
        > assign 1-0-2 m2 31000
        SCHEDULE 1-0-2 on 2
        accepted
        > tell-inputs 2
        CHANGE_INPUTS bns.db/0.address
    "#]]);
}

/// A read while a name stands for nothing records the secrets; the name counts as changed once it stands for something.
#[test]
fn a_secret_is_read_while_the_other_job_is_not_there() {
    session(&expect![[r#"
        > machine m1
        (nothing)
        > secret ana/tls 1 100
        SET_SECRET ana/tls version 1
        version 1
        > submit ana/web 1 secrets=tls file=${bns.db/0.address} on-change=signal
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > assign 1-0-1 m1
        SCHEDULE job 1 on 1
        SCHEDULE 1-0-1 on 1
        accepted
        > read-secrets m1 1-0-1
        READ_SECRET tls version 1
        done
        > started 1-0-1
        START 1-0-1 on 1
        > secret ana/tls 1 90
        SET_SECRET ana/tls version 2
        version 2
        > tell-inputs 1
        CHANGE_INPUTS secret tls version 2
        > read-secrets m1 1-0-1
        READ_SECRET tls version 2
        done
        > tell-inputs 1
        (nothing)
        > submit ana/db 1 ports=http
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > assign 2-0-1 m1 31000
        SCHEDULE job 2 on 1
        SCHEDULE 2-0-1 on 1
        accepted
        > tell-inputs 1
        CHANGE_INPUTS bns.db/0.address
    "#]]);
}
