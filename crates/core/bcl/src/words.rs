//! Suggests the nearest valid name for an invalid one.

/// Names that other systems use for our fields and relations.
const SYNONYMS: &[(&str, &str)] = &[
    ("memory", "ram"),
    ("mem", "ram"),
    ("replicas", "tasks"),
    ("instances", "tasks"),
    ("count", "tasks"),
    ("command", "cmd"),
    ("args", "cmd"),
    ("argv", "cmd"),
    ("environment", "env"),
    ("cores", "cpu"),
    ("threads", "processes"),
    ("tags", "labels"),
    ("graceperiod", "notice"),
    ("retries", "failures"),
    ("dependson", "after"),
    ("runafter", "after"),
    ("nodeselector", "constraints"),
    ("affinity", "constraints"),
    ("key", "attribute"),
    ("operator", "relation"),
    ("op", "relation"),
    ("preferred", "soft"),
    ("=", "equal"),
    ("==", "equal"),
    ("!=", "not-equal"),
    ("<", "less-than"),
    ("<=", "less-than-equal"),
    (">", "greater-than"),
    (">=", "greater-than-equal"),
    ("atleast", "greater-than-equal"),
    ("atmost", "less-than-equal"),
    ("exists", "present"),
    ("absent", "not-present"),
    ("doesnotexist", "not-present"),
];

/// A word in the spelling of canonical JSON, which uses the enumeration's names.
pub(crate) fn constant(word: &str) -> String {
    word.replace('-', "_").to_uppercase()
}

/// The candidate nearest to a word, if one is near enough to have been meant.
///
/// Case, hyphens and underscores are ignored, a prefix counts as the whole word, and a
/// transposition counts as one mistake.
pub(crate) fn nearest(word: &str, candidates: &[&'static str]) -> Option<&'static str> {
    // Long texts have no near words, and the distance takes quadratic time.
    if word.chars().count() > 64 {
        return None;
    }
    let word = plain(word);
    let synonym = SYNONYMS.iter().find(|(other, _)| *other == word).map(|(_, ours)| *ours);
    if let Some(found) = candidates.iter().find(|candidate| Some(**candidate) == synonym) {
        return Some(found);
    }
    if let Some(found) = candidates.iter().find(|c| word.len() > 2 && plain(c).starts_with(&word)) {
        return Some(found);
    }
    let distance = |candidate: &str| strsim::damerau_levenshtein(&word, &plain(candidate));
    let best = candidates.iter().min_by_key(|candidate| distance(candidate))?;
    let longest = word.chars().count().max(best.chars().count());
    (distance(best) * 2 < longest).then_some(*best)
}

fn plain(word: &str) -> String {
    word.chars().filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase).collect()
}

/// The nearest unit: units are short, and the first letter is the most significant.
pub(crate) fn nearest_unit(unit: &str, units: &[&'static str]) -> Option<&'static str> {
    if unit.chars().count() > 16 {
        return None;
    }
    let lower = unit.to_lowercase();
    let same = |candidate: &&&'static str| candidate.to_lowercase() == lower;
    let began = |candidate: &&&'static str| {
        candidate.to_lowercase().starts_with(lower.get(..1).unwrap_or(" "))
    };
    let near =
        |candidate: &&'static str| strsim::damerau_levenshtein(&lower, &candidate.to_lowercase());
    let found = units.iter().find(same);
    found.or_else(|| units.iter().filter(began).min_by_key(|unit| near(unit))).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found_and_none_is_invented() {
        let fields = ["name", "tasks", "cmd", "cpu", "cpuMilli", "ram", "healthCheck", "notice"];
        for (word, near) in [
            ("rma", Some("ram")),
            ("task", Some("tasks")),
            ("memory", Some("ram")),
            ("replicas", Some("tasks")),
            ("health_check", Some("healthCheck")),
            ("CPU", Some("cpu")),
            ("cpu_milli", Some("cpuMilli")),
            ("health", Some("healthCheck")),
            ("flavour", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, &fields), near, "{word}");
        }
        assert_eq!(nearest(&"x".repeat(1 << 20), &fields), None);
    }

    #[test]
    fn the_nearest_unit_is_found() {
        let units = ["B", "KiB", "MiB", "GiB", "kB", "MB", "GB"];
        for (unit, near) in [
            ("mib", Some("MiB")),
            ("Mi", Some("MiB")),
            ("gb", Some("GB")),
            ("xyz", None),
            ("é", None),
        ] {
            assert_eq!(nearest_unit(unit, &units), near, "{unit}");
        }
    }
}
