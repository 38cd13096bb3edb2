//! Directories among the packages of a job.

use expect_test::expect;

use crate::{job, table};

/// The packages of a job with these.
fn packages(list: &str) -> String {
    let job = job(&format!("{{ name: 'a', cmd: ['x'], packages: {list} }}"));
    let packages: Vec<String> = job.task.packages.iter().map(ToString::to_string).collect();
    packages.join(" ")
}

#[test]
fn a_directory_is_the_package_that_the_loader_makes_of_it() {
    for (list, expected) in [
        ("[borg.directory('./app')]", "app@1"),
        ("[borg.directory('./deep/app/')]", "app@1"),
        ("[borg.directory('./', name='tools')]", "tools@1"),
        ("['ana/x@2', borg.directory('./app'), borg.directory('./b')]", "app@1 b@1 ana/x@2"),
    ] {
        let mut found: Vec<String> = packages(list).split(' ').map(str::to_owned).collect();
        let mut expected: Vec<String> = expected.split(' ').map(str::to_owned).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{list}");
    }
}

#[test]
fn a_directory_that_is_no_package_is_an_error_at_its_place() {
    let lists =
        ["[borg.directory('../app')]", "[borg.directory('./my app')]", "[{ directory: './app' }]"];
    let sources = lists.map(|list| {
        let job = format!("{{ name: 'a', cmd: ['x'], packages: {list} }}");
        (list, format!("local borg = import 'borg.libsonnet';\n{job}"))
    });
    expect![[r#"
        [borg.directory('../app')]
            packages[0]: '../app' cannot become a package: it is outside
            at job.bcl:2:37 `borg.directory('../app')`

        [borg.directory('./my app')]
            packages[0]: './my app' cannot become a package: 'my app' is not a package name: use lower-case letters, digits and inner hyphens, for example 'my-app'
            at job.bcl:2:37 `borg.directory('./my app')`

        [{ directory: './app' }]
            packages[0]: must be a package and its version, such as 'app@3' or 'ana/app@3', is an object
            at job.bcl:2:37 `{ directory: './app' }`

    "#]].assert_eq(&table(sources, &[]));
}
