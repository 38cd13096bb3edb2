//! Packages: who may add, change, use and delete them, and what of them never changes.

use expect_test::expect;

use crate::script::session;

#[test]
fn a_version_is_added_once_and_deleted() {
    session(&expect![[r#"
        > package ana/app@1 7 100
        SET_PACKAGE ana/app@1 100 MiB
        new
        > package ana/app@1 7 100
        existed
        > package ana/app@2 8 100 bob
        SET_PACKAGE ana/app@2 100 MiB for bob
        new
        > package ana/app@2 8 100 everyone
        SET_PACKAGE ana/app@2 100 MiB for everyone replaced
        existed
        > package bob/app@1 7 100
        SET_PACKAGE bob/app@1 100 MiB
        new
        > package root/app@1 7 1 root
        refused: root owns package root/app@1 and may use it already: name only others
        > as bob package ana/app@3 9 100
        refused: bob may not set package ana/app@3: ana, an administrator or a user with the capability administer-jobs may
        > as root package ana/app@3 9 100
        SET_PACKAGE ana/app@3 100 MiB
        new
        > show packages
        ana/app@1 100 MiB
        ana/app@2 100 MiB for everyone
        ana/app@3 100 MiB
        bob/app@1 100 MiB
        > as bob delete-package ana/app@1
        refused: bob may not delete package ana/app@1: ana, an administrator or a user with the capability administer-jobs may
        > delete-package ana/app@1
        DELETE_PACKAGE ana/app@1
        done
        > delete-package ana/app@1
        refused: there is no package ana/app@1 (bourg package list shows those that you may use)
        > show packages
        ana/app@2 100 MiB for everyone
        ana/app@3 100 MiB
        bob/app@1 100 MiB
    "#]]);
}

#[test]
fn a_version_never_changes() {
    session(&expect![[r#"
        > package ana/app@1 7 100
        SET_PACKAGE ana/app@1 100 MiB
        new
        > package ana/app@1 8 100
        refused: ana/app@1 exists with another content, 0000000000000007000000000000000000000000000000000000000000000000: a version never changes; give the new content another version
        > package ana/app@1 8 100 bob
        refused: ana/app@1 exists with another content, 0000000000000007000000000000000000000000000000000000000000000000: a version never changes; give the new content another version
        > show packages
        ana/app@1 100 MiB
        > delete-package ana/app@1
        DELETE_PACKAGE ana/app@1
        done
        > package ana/app@1 8 50
        SET_PACKAGE ana/app@1 50 MiB
        new
    "#]]);
}

#[test]
fn a_package_is_used_by_its_owner_and_its_readers() {
    session(&expect![[r#"
        > package ana/app@1 7 100 bob
        SET_PACKAGE ana/app@1 100 MiB for bob
        new
        > submit ana/a 1 packages=app@1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > submit bob/b 1 packages=ana/app@1
        SUBMIT job 2 (new)
        SUBMIT 2-0-1 (new)
        job 2
        > submit eve/c 1 packages=ana/app@1
        refused: eve may not use package ana/app@1: ana may
        > submit bob/d 1 packages=app@1
        refused: there is no package bob/app@1 (bourg package list shows those that you may use)
        > package ana/app@1 7 100 everyone
        SET_PACKAGE ana/app@1 100 MiB for everyone replaced
        existed
        > submit eve/c 1 packages=ana/app@1
        SUBMIT job 3 (new)
        SUBMIT 3-0-1 (new)
        job 3
        > update bob/b 1 packages=ana/app@2
        refused: there is no package ana/app@2 (bourg package list shows those that you may use)
    "#]]);
}

#[test]
fn a_package_of_a_live_job_cannot_be_deleted() {
    session(&expect![[r#"
        > package ana/app@1 7 100
        SET_PACKAGE ana/app@1 100 MiB
        new
        > package ana/app@2 8 100
        SET_PACKAGE ana/app@2 100 MiB
        new
        > submit ana/web 1 packages=app@1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > delete-package ana/app@1
        refused: job ana/web uses ana/app@1, or may go back to it: update or kill the job first (bourg update, bourg kill ana/web)
        > update ana/web 1 packages=app@2
        UPDATE_OPEN job 1
        UPDATE_PENDING job 1
        UPDATE_PENDING 1-0-1
        version 2
        > delete-package ana/app@1
        refused: job ana/web uses ana/app@1, or may go back to it: update or kill the job first (bourg update, bourg kill ana/web)
        > delete-package ana/app@2
        refused: job ana/web uses ana/app@2, or may go back to it: update or kill the job first (bourg update, bourg kill ana/web)
        > kill ana/web
        KILL 1-0-1 (by ana)
        KILL job 1 (by ana)
        killed 1
        > delete-package ana/app@1
        DELETE_PACKAGE ana/app@1
        done
        > delete-package ana/app@2
        DELETE_PACKAGE ana/app@2
        done
        > restart ana/web
        refused: there is no package ana/app@2 (bourg package list shows those that you may use)
    "#]]);
}

#[test]
fn a_job_that_was_admitted_goes_on_when_its_package_is_not_shared_any_more() {
    session(&expect![[r#"
        > package ana/app@1 7 100 bob
        SET_PACKAGE ana/app@1 100 MiB for bob
        new
        > package ana/app@2 8 100
        SET_PACKAGE ana/app@2 100 MiB
        new
        > submit bob/b 1 packages=ana/app@1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
        > package ana/app@1 7 100
        SET_PACKAGE ana/app@1 100 MiB replaced
        existed
        > update bob/b 1 packages=ana/app@1 cmd=other
        UPDATE_OPEN job 1
        UPDATE_PENDING job 1
        UPDATE_PENDING 1-0-1
        version 2
        > update bob/b 1 packages=ana/app@2
        refused: bob may not use package ana/app@2: ana may
    "#]]);
}

#[test]
fn users_share_the_bytes_of_packages() {
    session(&expect![[r#"
        > package ana/app@1 7 1800000
        SET_PACKAGE ana/app@1 1.7 TiB
        new
        > package ana/app@2 8 100000
        refused: no more bytes of packages: you have 1887436800000, and the share of one user is 1924145348608 at the moment; delete some first (bourg package rm NAME@VERSION)
        > package bob/app@1 7 1000000
        refused: no more bytes of packages: you have 0, and the share of one user is 980426948608 at the moment; delete some first (bourg package rm NAME@VERSION)
        > package bob/app@2 7 100000
        SET_PACKAGE bob/app@2 97.6 GiB
        new
        > as root package bob/app@2 7 100000
        existed
        > package root/app@1 7 1000000
        SET_PACKAGE root/app@1 976.5 GiB
        new
    "#]]);
}

#[test]
fn an_image_is_the_root_of_tasks_and_a_package_of_files_is_not() {
    session(&expect![[r#"
        > image ana/web@1 7 100
        SET_PACKAGE ana/web@1 100 MiB
        new
        > package ana/app@1 8 100
        SET_PACKAGE ana/app@1 100 MiB
        new
        > submit ana/a 1 packages=web@1
        refused: package ana/web@1 is an image: name it as the image of the tasks, not in packages
        > submit ana/b 1 image=app@1
        refused: package ana/app@1 is not an image, and cannot be the root of a task: name it in packages, or import an image (bourg package import)
        > submit ana/c 1 image=web@1 packages=app@1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
    "#]]);
}

#[test]
fn one_package_is_not_both_the_root_and_below_packages() {
    session(&expect![[r#"
        > image ana/web@1 7 100 arch=amd64 arch=arm64
        SET_PACKAGE ana/web@1 100 MiB
        new
        > submit ana/a 1 image=web@1 packages=ana/web@1
        refused: package ana/web@1 is named both as image and in packages: name it once, as image if it is the root of the tasks
        > submit ana/b 1 image=web@1
        SUBMIT job 1 (new)
        SUBMIT 1-0-1 (new)
        job 1
    "#]]);
}
