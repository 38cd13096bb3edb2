//! What the ends of a copy mean.

use super::*;

#[test]
fn an_end_is_in_a_task_or_here() {
    let task = |address: &str, path: &str| {
        Ok(End::Task(address.parse().expect("an address"), path.to_owned()))
    };
    for (text, end) in [
        ("notes", Ok(End::Here("notes".into()))),
        ("./a:b", Ok(End::Here("./a:b".into()))),
        ("/tmp/a:b", Ok(End::Here("/tmp/a:b".into()))),
        ("hello/0:notes", task("hello/0", "notes")),
        ("ana/hello/0:/etc/a:b", task("ana/hello/0", "/etc/a:b")),
        ("hello:", task("hello", ".")),
    ] {
        assert_eq!(text.parse::<End>(), end, "{text}");
    }
    assert!("he llo:notes".parse::<End>().is_err());
}

/// A task that answers with another name would choose which file of the user is replaced.
#[test]
fn what_is_asked_for_has_a_name() {
    let task: Address = "ana/web/3".parse().expect("an address");
    let named = |name: &str| Top::Named(name.into());
    let own_name = || Top::WrittenAs("ana-web-3".into());
    for (path, expected) in [
        ("/tmp/app.log", named("app.log")),
        ("app.log/", named("app.log")),
        ("a/.", named("a")),
        (".", own_name()),
        ("/", own_name()),
        ("a/..", own_name()),
    ] {
        assert_eq!(asked_for(&task, path), expected, "{path}");
    }
}
