//! A cell of a user who is not root: it runs tasks, and says everywhere that they have no limits.

use std::os::unix::fs::PermissionsExt;

use crate::terminal::Terminal;

/// Runs the rest of a line as a user without any right.
const AS_NOBODY: &str = "setpriv --reuid 61235 --regid 61235 --clear-groups env TMPDIR=/tmp";

#[test]
fn a_user_who_is_not_root_gets_a_cell_without_limits() {
    let terminal = Terminal::new();
    // Copies, because the user may not be able to read the directory of the build.
    let everyone = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(terminal.path(""), everyone).expect("it is ours");
    terminal.ok("cp \"$(command -v bourg)\" bourg && cp $EXAMPLES/hello.bcl . && chmod 755 bourg");
    let look = "./bourg machines -o wide && ./bourg status hello -o counts.healthy && \
                ./bourg logs hello | head -c 100 >&2 && ./bourg kill hello";
    let ended = terminal.types(&format!("{AS_NOBODY} ./bourg dev hello.bcl -- sh -c '{look}'"));
    let (said, talk) = (&ended.stdout, &ended.stderr);
    assert_eq!(ended.code, 0, "{said}{talk}");
    assert!(said.contains("isolation=rootless") && !said.contains("cgroup="), "{said}");
    assert!(said.contains("\n3\n"), "3 tasks are healthy:\n{said}");
    assert!(talk.contains(", isolation=rootless: no limits)\n"), "{talk}");
}
