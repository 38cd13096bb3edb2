//! The library and the examples use only functions of Jsonnet 0.18, the version in Debian 12,
//! because editors, linters and other programs may evaluate them with that version.
//! `bourg/tests/system/jsonnet.rs` runs it on them.

use std::collections::BTreeSet;

use crate::examples::EXAMPLES;

/// Every public function of Jsonnet 0.18: `jsonnet -e 'std.objectFieldsAll(std)'`.
const FUNCTIONS: &str = "
    abs acos asciiLower asciiUpper asin assertEqual atan base64 base64Decode base64DecodeBytes ceil char
    clamp codepoint cos count decodeUTF8 deepJoin encodeUTF8 endsWith equals escapeStringBash
    escapeStringDollars escapeStringJson escapeStringPython exp exponent extVar filter filterMap find
    findSubstr flatMap flattenArrays floor foldl foldr format get isArray isBoolean isFunction isNumber
    isObject isString join length lines log lstripChars makeArray manifestIni manifestJson manifestJsonEx
    manifestJsonMinified manifestPython manifestPythonVars manifestToml manifestTomlEx manifestXmlJsonml
    manifestYamlDoc manifestYamlStream mantissa map mapWithIndex mapWithKey max md5 member mergePatch min
    mod modulo native objectFields objectFieldsAll objectFieldsEx objectHas objectHasAll objectHasEx
    objectValues objectValuesAll parseHex parseInt parseJson parseOctal parseYaml pow primitiveEquals prune
    range repeat resolvePath reverse rstripChars set setDiff setInter setMember setUnion sign sin slice sort
    split splitLimit sqrt startsWith strReplace stringChars stripChars substr tan thisFile toString trace
    type uniq";

#[test]
fn the_library_and_the_examples_use_functions_of_jsonnet_0_18_alone() {
    let known: BTreeSet<&str> = FUNCTIONS.split_whitespace().collect();
    let sources = EXAMPLES.iter().copied().chain([("borg.libsonnet", bcl::LIBRARY)]);
    let mut used = BTreeSet::new();
    for (name, source) in sources {
        for rest in source.split("std.").skip(1) {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            let function = &rest[..end];
            assert!(known.contains(function), "{name}: std.{function} is not in Jsonnet 0.18");
            used.insert(function);
        }
    }
    assert!(used.contains("length"), "it looks at something: {used:?}");
}

/// Expressions whose value differs between interpreters, with that of Jsonnet's own implementation.
const VALUES: &[(&str, &str)] = &[
    ("std.parseInt('-0')", "0"),
    ("std.parseInt('-12')", "-12"),
    ("std.setInter('abc', ['b', 'c'])", r#"["b", "c"]"#),
    ("std.setDiff('abc', 'b')", r#"["a", "c"]"#),
    ("std.setUnion('ac', ['b'])", r#"["a", "b", "c"]"#),
    ("std.setMember('b', 'abc')", "true"),
    ("std.setInter([{ k: 1 }], [{ k: 1 }], keyF=function(x) x.k)", r#"[{"k": 1}]"#),
    ("std.thisFile", r#""job.bcl""#),
    ("std.objectFields(std)", "[]"),
];

#[test]
fn values_are_those_of_jsonnet() {
    for (expression, value) in VALUES {
        let job = crate::job(&format!(
            "borg.service('a', cmd=['x', std.manifestJsonEx({expression}, '', '')])"
        ));
        let spelled = job.task.cmd[1].to_string().replace('\n', " ");
        let plain = |text: &str| text.replace(' ', "");
        assert_eq!(plain(&spelled), plain(value), "{expression}");
    }
}
