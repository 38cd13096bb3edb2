//! Files that are functions of parameters.

use bcl::{NoImports, ParameterFile, Settings};

const FILE: &str = "local cmd = ['serve'];
function(region, tasks=2) { name: 'web-' + region, cmd: cmd, tasks: std.parseInt('' + tasks) }";

/// The name and tasks of the job, or the errors.
fn with(source: &str, texts: &[(&str, &str)], files: &[&str]) -> Result<String, String> {
    let parameters = texts.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let parameter_files = files.iter().enumerate().map(|(number, text)| ParameterFile {
        name: format!("vars-{number}.json"),
        content: text.as_bytes().to_vec(),
    });
    let parameter_files = parameter_files.collect();
    let settings = Settings { parameters, parameter_files, ..Settings::default() };
    let jobs = bcl::evaluate("job.bcl", source.as_bytes(), &mut NoImports, &settings);
    let jobs = jobs.map_err(|errors| errors.to_string())?;
    let shown = jobs.iter().map(|job| format!("{} {}", job.name, job.tasks));
    Ok(shown.collect::<Vec<_>>().join(", "))
}

#[test]
fn a_file_is_a_function_of_its_parameters() {
    type Texts = &'static [(&'static str, &'static str)];
    let cases: [(Texts, &[&str], &str); 5] = [
        (&[("region", "eu")], &[], "web-eu 2"),
        (&[("region", "eu"), ("tasks", "3")], &[], "web-eu 3"),
        (&[], &["{ region: 'u' + 's', tasks: 1 + 3 }"], "web-us 4"),
        // Texts come before files, and a later file before an earlier one.
        (&[("region", "eu")], &["{ region: 'us' }"], "web-eu 2"),
        (&[], &["{ region: 'a', tasks: 1 }", "{ region: 'b' }"], "web-b 1"),
    ];
    for (texts, files, job) in cases {
        assert_eq!(with(FILE, texts, files).as_deref(), Ok(job), "{texts:?} {files:?}");
    }
    assert_eq!(with("function() []", &[], &[]).as_deref(), Ok(""));
}

#[test]
fn wrong_parameters_are_explained() {
    let says = |source: &str, texts: &[(&str, &str)], files: &[&str]| {
        let said = with(source, texts, files).expect_err("wrong");
        said.lines().take(2).collect::<Vec<_>>().join("\n")
    };
    let takes = "its parameters are region, tasks (optional)";
    assert_eq!(
        says(FILE, &[], &[]),
        format!(
            "error: the file is a function, and 'region' of it has no value; {takes}: give it with --var \
             region=VALUE\n  --> job.bcl:1:1"
        )
    );
    assert_eq!(
        says(FILE, &[("regin", "eu")], &[]),
        format!("error: the file has no parameter 'regin'; {takes}\n  --> job.bcl:1:1")
    );
    assert_eq!(
        says("{ name: 'a', cmd: ['a'] }", &[("a", "1")], &[]),
        "error: the file takes no parameters, and 'a' is given: to take it, make the file a function, \
         function(a) …\n  --> job.bcl:1:1"
    );
    assert_eq!(
        says(FILE, &[], &["[1]"]),
        "error: a file with parameters must evaluate to an object, this one evaluates to a list\n  --> \
         vars-0.json:1:1"
    );
    // A wrong field inside of the function is found.
    assert_eq!(
        says("function(a) { name: a, cmd: ['x'], cpuu: 1 }", &[("a", "b")], &[]),
        "error: 'cpuu' is not a field of a job; the nearest is 'cpu'\n  --> job.bcl:1:36"
    );
}
