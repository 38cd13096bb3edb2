//! Secrets: versions, who may change them, and jobs that name them.

use expect_test::expect;

use crate::script::session;

#[test]
fn a_secret_has_versions_and_an_owner() {
    session(&expect![[r#"
        > secret ana/tls 1 100
        SET_SECRET ana/tls version 1
        version 1
        > secret ana/tls 1 90
        SET_SECRET ana/tls version 2
        version 2
        > secret bob/tls 1 80
        SET_SECRET bob/tls version 1
        version 1
        > secret ana/big 1 65553
        refused: a secret has at most 65536 bytes, not 65537
        > show secrets
        ana/tls 1(1) 2(1)
        bob/tls 1(1)
        > as bob delete-secret ana/other
        refused: bob has no secret other: set it first (bourg secret set other < FILE)
        > delete-secret bob/tls
        DELETE_SECRET bob/tls
        done
        > show secrets
        ana/tls 1(1) 2(1)
    "#]]);
}

#[test]
fn a_job_names_secrets_of_its_owner() {
    session(&expect![[r#"
        > submit ana/web 1 secrets=tls
        refused: ana has no secret tls: set it first (bourg secret set tls < FILE)
        > secret bob/tls 1 100
        SET_SECRET bob/tls version 1
        version 1
        > submit ana/web 1 secrets=tls
        refused: ana has no secret tls: set it first (bourg secret set tls < FILE)
        > secret ana/tls 1 100
        SET_SECRET ana/tls version 1
        version 1
        > submit ana/web 1 secrets=tls
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > delete-secret ana/tls
        refused: job ana/web names secret tls, or may go back to it: update or kill the job first (bourg update, bourg kill web)
        > kill ana/web
        KILL 1-0-1 (by ana)
        KILL job 1 (by ana)
        killed 1
        > delete-secret ana/tls
        DELETE_SECRET ana/tls
        done
    "#]]);
}

#[test]
fn only_versions_that_are_there_are_sealed_anew() {
    session(&expect![[r#"
        > secret ana/tls 1 100
        SET_SECRET ana/tls version 1
        version 1
        > secret ana/tls 1 90
        SET_SECRET ana/tls version 2
        version 2
        > as ana reseal-secret ana/tls 1 1 2 100
        refused: ana may not seal secrets with another key: an administrator may
        > reseal-secret ana/tls 1 1 2 100
        RESEAL_SECRET ana/tls
        done
        > reseal-secret ana/tls 1 1 3 100
        done
        > reseal-secret ana/tls 2 1 2 91
        done
        > reseal-secret ana/tls 3 1 2 90
        done
        > show secrets
        ana/tls 1(2) 2(1)
    "#]]);
}
