//! Images of a job that are in a registry.

use expect_test::expect;

use crate::{job, table};

#[test]
fn an_image_of_a_registry_is_the_package_that_the_loader_makes_of_it() {
    for (image, expected) in [
        ("web@1.27", "web@1.27"),
        ("ana/web@1.27", "ana/web@1.27"),
        ("localhost/web@1.27", "localhost/web@1.27"),
        ("registry.example/team/web:1.27", "web@1"),
        ("registry.example/team/web@sha256:00", "web@1"),
        ("localhost/web:1.27", "web@1"),
        ("localhost:5000/web:1.27", "web@1"),
    ] {
        let job = job(&format!("{{ name: 'a', image: '{image}' }}"));
        let found = job.task.image.map(|image| image.to_string());
        assert_eq!(found.as_deref(), Some(expected), "{image}");
    }
}

#[test]
fn an_image_that_is_no_package_is_an_error_at_its_place() {
    let images = ["registry.example/none:1", "nginx:1.27", "team/web:1", "web"];
    let sources = images.map(|image| (image, format!("{{ name: 'a', image: '{image}' }}")));
    expect![[r#"
        registry.example/none:1
            image: 'registry.example/none:1' cannot be the image of a task: the registry has no such image
            at job.bcl:1:14 `image: 'registry.example/none:1'`

        nginx:1.27
            image: 'nginx:1.27' cannot be the image of a task: it names no registry: write it in full, such as 'docker.io/library/nginx:1.27', or name a package, such as 'web@1.27'
            at job.bcl:1:14 `image: 'nginx:1.27'`

        team/web:1
            image: 'team/web:1' cannot be the image of a task: it names no registry: write it in full, such as 'docker.io/library/nginx:1.27', or name a package, such as 'web@1.27'
            at job.bcl:1:14 `image: 'team/web:1'`

        web
            image: 'web' cannot be the image of a task: it names no version, and nothing is taken from a registry unasked: write the image in full, such as 'docker.io/library/web:1.27', or make a package of it (package import) and name that, such as 'web@1.27'
            at job.bcl:1:14 `image: 'web'`

    "#]].assert_eq(&table(sources, &[]));
}
