//! What the cell knows of its last backup.

use cell::{Cell, LastBackup, Mutation, Op, RecordBackup, Reply, RequestId};
use expect_test::expect;
use model::{LogIndex, SessionId, Time, UserName};

use crate::script::session;

#[test]
fn who_may_save_checkpoints_records_that_a_backup_was_saved() {
    session(&expect![[r#"
        > as ana backed-up 1
        refused: ana may not save a checkpoint of the cell: an administrator or a user with the capability save-checkpoints may
        > allow-to ana save-checkpoints
        GRANT_CAPABILITY ana save-checkpoints
        done
        > as ana backed-up 1
        BACKUP as of index 1
        done
        > backed-up 1
        done
    "#]]);
}

#[test]
fn the_newest_backup_counts() {
    let root = UserName::new("root").expect("a name");
    let mut cell = Cell::empty();
    let (name, administrator) = ("lab".parse().expect("a name"), root.clone());
    cell.apply(Time(5), &Op::Bootstrap { name, administrator });
    cell.apply(Time(6), &Op::OpenSession { user: root.clone() });
    assert_eq!((cell.bootstrapped(), cell.last_backup()), (Some(Time(5)), None));
    let session = SessionId(1);
    for (sequence, at, saved, last) in [
        (1, 10, 1, (1, 10)),
        // As of an earlier index: another one was sent in less time.
        (2, 11, 0, (1, 10)),
        (3, 12, 1, (1, 10)),
        (4, 13, 4, (4, 13)),
        // No index that the cell had.
        (5, 14, 1_000, (6, 14)),
    ] {
        let mutation = Mutation::from(RecordBackup { index: LogIndex(saved) });
        let id = RequestId { session, sequence };
        let applied = cell.apply(Time(at), &Op::Request { id, by: root.clone(), mutation });
        assert_eq!(applied.outcome, cell::Outcome::Request(Ok(Reply::Done)));
        let (index, at) = (LogIndex(last.0), Time(last.1));
        assert_eq!(cell.last_backup(), Some(&LastBackup { index, at, by: root.clone() }));
        assert_eq!(cell.check(), []);
        let again = Cell::from_image(cell.image()).expect("a sound image");
        assert_eq!(again.last_backup(), cell.last_backup());
        assert_eq!(again.bootstrapped(), cell.bootstrapped());
    }
}
