//! Names of images: how they are read and written, and which are refused.

use registry::{BlobDigest, ImageReference, Platform};

const DIGITS: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn parsed(text: &str) -> Result<String, String> {
    let parsed = text.parse::<ImageReference>();
    parsed.map(|image| image.to_string()).map_err(|error| error.to_string())
}

#[test]
fn names_are_written_in_full() {
    let with_digest = format!("nginx@sha256:{DIGITS}");
    let with_both = format!("localhost:5000/a/b:1@sha256:{DIGITS}");
    let table = [
        ("nginx", "docker.io/library/nginx:latest"),
        ("nginx:1.27", "docker.io/library/nginx:1.27"),
        ("team/app", "docker.io/team/app:latest"),
        ("docker.io/nginx", "docker.io/library/nginx:latest"),
        ("index.docker.io/nginx", "docker.io/library/nginx:latest"),
        ("registry-1.docker.io/a/b", "docker.io/a/b:latest"),
        ("localhost/x", "localhost/x:latest"),
        ("localhost:5000/x", "localhost:5000/x:latest"),
        ("localhost:5000", "docker.io/library/localhost:5000"),
        ("host/x", "docker.io/host/x:latest"),
        ("Host/x", "Host/x:latest"),
        ("registry.example/team/app:1.27", "registry.example/team/app:1.27"),
        ("registry.example:65535/a/b/c:T_-.", "registry.example:65535/a/b/c:T_-."),
        ("10.0.0.1/x", "10.0.0.1/x:latest"),
        ("[::1]:5000/x", "[::1]:5000/x:latest"),
        ("[2001:db8::1]/x:y", "[2001:db8::1]/x:y"),
        ("a.b/c.d/e_f/g__h/i-j/k---l/0", "a.b/c.d/e_f/g__h/i-j/k---l/0:latest"),
        ("a:_", "docker.io/library/a:_"),
        (&with_digest, &format!("docker.io/library/nginx@sha256:{DIGITS}")),
        (&with_both, &with_both),
    ];
    for (text, full) in table {
        assert_eq!(parsed(text).as_deref(), Ok(full), "{text}");
        assert_eq!(parsed(full).as_deref(), Ok(full), "{text}");
    }
}

#[test]
fn parts_of_names_are_told_apart() {
    let text = format!("localhost:5000/a/b:1@sha256:{DIGITS}");
    let image: ImageReference = text.parse().unwrap();
    let digest: BlobDigest = format!("sha256:{DIGITS}").parse().unwrap();
    assert_eq!((image.registry(), image.repository()), ("localhost:5000", "a/b"));
    assert_eq!((image.tag(), image.digest()), (Some("1"), Some(digest)));
    assert_eq!(digest.digits(), DIGITS);
    let image: ImageReference = format!("x@sha256:{DIGITS}").parse().unwrap();
    assert_eq!((image.tag(), image.digest()), (None, Some(digest)));
}

#[test]
fn bad_names_are_refused_with_the_part_that_is_bad() {
    let table = [
        ("", "it is empty"),
        ("https://registry.example/x", "it is a URL"),
        ("Nginx", "'Nginx' is no repository"),
        ("a//b", "'a//b' is no repository"),
        ("/a", "'/a' is no repository"),
        ("a/", "'a/' is no repository"),
        ("a/../b", "'a/../b' is no repository"),
        ("a/.b", "is no repository"),
        ("a/b.", "is no repository"),
        ("a/b..c", "is no repository"),
        ("a/b___c", "is no repository"),
        ("a/b.-c", "is no repository"),
        ("a/-b", "is no repository"),
        ("a b", "is no repository"),
        (" a", "is no repository"),
        ("a\n", "is no repository"),
        ("a\0", "is no repository"),
        ("a%2fb", "is no repository"),
        ("a?b", "is no repository"),
        ("a#b", "is no repository"),
        ("ä", "is no repository"),
        ("a.b/", "'' is no repository"),
        ("a:", "'' is no tag"),
        ("a:.1", "'.1' is no tag"),
        ("a:-1", "'-1' is no tag"),
        ("a:1:2", "'1:2' is no tag"),
        ("a:ü", "'ü' is no tag"),
        ("a.b:0/x", "'a.b:0' is no registry"),
        ("a.b:65536/x", "'a.b:65536' is no registry"),
        ("a.b:+1/x", "'a.b:+1' is no registry"),
        ("a.b:/x", "'a.b:' is no registry"),
        ("-a.b/x", "'-a.b' is no registry"),
        ("a-.b/x", "is no registry"),
        ("a..b/x", "is no registry"),
        (".b/x", "is no registry"),
        ("a.b./x", "is no registry"),
        ("a_.b/x", "is no registry"),
        ("user@a.b/x", "is no digest"),
        ("[::1/x", "is no registry"),
        ("[::g]/x", "is no registry"),
        ("[::1]5/x", "is no registry"),
        ("[::1]:/x", "is no registry"),
        ("a@", "'' is no digest"),
        ("a@sha256:", "is no digest"),
        ("a@sha512:00", "is no digest"),
        (&format!("a@sha256:{}", DIGITS.to_uppercase()), "is no digest"),
        (&format!("a@sha256:{DIGITS}0"), "is no digest"),
        (&format!("a@sha256:{DIGITS}@sha256:{DIGITS}"), "is no digest"),
        (DIGITS, "64 hexadecimal digits are a digest"),
    ];
    for (text, expected) in table {
        let error = parsed(text).expect_err(text);
        assert!(error.contains(expected), "{text:?}: {error}");
    }
}

#[test]
fn every_part_has_a_bound() {
    let of = |bytes: usize| "a".repeat(bytes);
    let label = of(63);
    let host = [label.as_str(); 4].join(".");
    let good = [
        of(255),
        format!("a.b/{}", of(255)),
        format!("a:{}", of(128)),
        format!("{}/x", &host[..253]),
        format!("{}/{}:{}@sha256:{DIGITS}", &host[..253], of(255), of(128)),
    ];
    for text in good {
        assert!(parsed(&text).is_ok(), "{text}");
    }
    let bad = [
        of(256),
        format!("a.b/{}", of(256)),
        format!("a:{}", of(129)),
        format!("{host}/x"),
        format!("{}.b/x", of(64)),
        of(1 << 20),
    ];
    for text in bad {
        let error = parsed(&text).expect_err(&text);
        assert!(error.len() < 1000, "{error}");
    }
}

#[test]
fn no_byte_makes_a_name_that_is_another_url() {
    for byte in 0..=u8::MAX {
        let character = char::from(byte);
        for text in [
            format!("a.b/c{character}d"),
            format!("a{character}b.c/d"),
            format!("a.b/c:d{character}e"),
            format!("{character}"),
        ] {
            let Ok(image) = text.parse::<ImageReference>() else { continue };
            let all = image.to_string();
            let allowed = |c: char| c.is_ascii_alphanumeric() || "._-:/@".contains(c);
            assert!(all.chars().all(allowed), "{text:?} → {all}");
        }
    }
}

#[test]
fn platforms_are_parsed() {
    let table = [
        ("linux/amd64", Some("linux/amd64")),
        ("amd64", Some("linux/amd64")),
        ("x86_64", Some("linux/amd64")),
        ("aarch64", Some("linux/arm64")),
        ("linux/arm64/v8", Some("linux/arm64")),
        ("linux/arm/v7", Some("linux/arm/v7")),
        ("arm/v7", Some("linux/arm/v7")),
        ("", None),
        ("linux/", None),
        ("linux/arm/", None),
        ("linux/arm/v7/x", None),
        ("windows/amd64/x", None),
        ("a b", None),
        ("ämd64", None),
    ];
    for (text, expected) in table {
        let parsed = text.parse::<Platform>().ok().map(|platform| platform.to_string());
        assert_eq!(parsed.as_deref(), expected, "{text}");
    }
}
