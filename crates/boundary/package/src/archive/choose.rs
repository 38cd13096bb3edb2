//! Which image of an archive is meant.

use super::error::ImportError;

/// An image in an archive or a layout.
pub(super) struct ImageChoice<T> {
    /// Its names; images that share one are the same image for several platforms.
    pub(super) names: Vec<String>,
    /// Its digest, by which it can also be named.
    pub(super) digest: String,
    pub(super) image: T,
}

/// The images with the wanted name, or all if they are the same image.
pub(super) fn choose<T>(
    choices: Vec<ImageChoice<T>>,
    wanted: Option<&str>,
) -> Result<Vec<T>, ImportError> {
    let primary = |choice: &ImageChoice<T>| choice.names.first().unwrap_or(&choice.digest).clone();
    let mut names: Vec<String> = choices.iter().map(primary).collect();
    names.sort_unstable();
    names.dedup();
    let Some(wanted) = wanted else {
        let same = choices.iter().all(|choice| choice.digest == choices[0].digest);
        if names.len() > 1 && !same {
            return Err(ImportError::Several { names });
        }
        return Ok(choices.into_iter().map(|choice| choice.image).collect());
    };
    let is_wanted = |choice: &ImageChoice<T>| {
        let named = |name: &String| normal(name) == normal(wanted);
        choice.digest == wanted || choice.names.iter().any(named)
    };
    let chosen: Vec<T> = choices.into_iter().filter(is_wanted).map(|choice| choice.image).collect();
    match chosen.is_empty() {
        true => Err(ImportError::NoSuchImage { name: wanted.to_owned(), names }),
        false => Ok(chosen),
    }
}

/// A name without what Docker adds to it: `docker.io/library/` and `:latest`.
fn normal(name: &str) -> &str {
    let name = name.strip_prefix("docker.io/").unwrap_or(name);
    let name = name.strip_prefix("library/").unwrap_or(name);
    name.strip_suffix(":latest").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_named_as_docker_names_them() {
        let choices = |list: &[(&[&str], &str)]| -> Vec<ImageChoice<usize>> {
            let choice = |(image, (names, digest)): (usize, &(&[&str], &str))| ImageChoice {
                names: names.iter().map(|name| (*name).to_owned()).collect(),
                digest: (*digest).to_owned(),
                image,
            };
            list.iter().enumerate().map(choice).collect()
        };
        let two: &[(&[&str], &str)] =
            &[(&["docker.io/library/a:latest", "latest"], "1"), (&["b:2"], "2")];
        type Case<'a> =
            (&'a [(&'a [&'a str], &'a str)], Option<&'a str>, Result<&'a [usize], &'a str>);
        let table: &[Case<'_>] = &[
            (&[(&[], "1")], None, Ok(&[0])),
            (&[(&["a"], "1"), (&["b"], "1")], None, Ok(&[0, 1])),
            (&[(&["a"], "1"), (&["a"], "2")], None, Ok(&[0, 1])),
            (
                two,
                None,
                Err("there are 2 images: name one of them: b:2, docker.io/library/a:latest"),
            ),
            (two, Some("a"), Ok(&[0])),
            (two, Some("a:latest"), Ok(&[0])),
            (two, Some("b:2"), Ok(&[1])),
            (two, Some("2"), Ok(&[1])),
            (
                two,
                Some("b"),
                Err("there is no image 'b': there are b:2, docker.io/library/a:latest"),
            ),
        ];
        for (list, wanted, expected) in table {
            let chosen = choose(choices(list), *wanted).map_err(|error| error.to_string());
            assert_eq!(chosen.as_deref().map_err(|error| &error[..]), *expected);
        }
    }
}
