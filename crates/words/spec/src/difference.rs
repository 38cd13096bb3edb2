//! Where two long texts differ.

/// The words that are shown before and after a difference.
const CONTEXT_WORDS: usize = 2;
/// The characters of a word of the context: longer words are left out.
const CONTEXT_CHARACTERS: usize = 30;

/// Both texts without the words at the begin and end that they have in common, if they have more
/// than so many characters: `… --quiet --rate=1 …`, `… --quiet --rate=2 …`.
pub(crate) fn around(old: &str, new: &str, characters: usize) -> (String, String) {
    let is_long = |text: &str| text.chars().nth(characters).is_some();
    if old.is_empty() || new.is_empty() || !(is_long(old) || is_long(new)) {
        return (old.to_owned(), new.to_owned());
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (words(old), words(new));
    let before = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let after = old[before..].iter().rev().zip(new[before..].iter().rev());
    let after = after.take_while(|(a, b)| a == b).count();
    let from = before.saturating_sub(CONTEXT_WORDS);
    let shown = |words: &[&str]| {
        let until = (words.len() - after + CONTEXT_WORDS).min(words.len());
        let is_near = |place: usize| (before..words.len() - after).contains(&place);
        let kept =
            words.iter().enumerate().take(until).skip(from).filter(|(place, word)| {
                is_near(*place) || word.chars().count() <= CONTEXT_CHARACTERS
            });
        let kept = kept.map(|(_, word)| *word).collect::<Vec<_>>().join(" ");
        let (left, right) = (from > 0, until < words.len());
        format!("{}{kept}{}", if left { "… " } else { "" }, if right { " …" } else { "" })
    };
    (shown(&old), shown(&new))
}

/// The words of a text; each break of lines is a word.
fn words(text: &str) -> Vec<&str> {
    let lines = text.split_inclusive('\n').flat_map(|line| {
        let (line, end) = line.strip_suffix('\n').map_or((line, None), |line| (line, Some("\n")));
        line.split(' ').filter(|word| !word.is_empty()).chain(end)
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_shown_where_they_differ() {
        let long = "a ".repeat(200);
        for (old, new, shown) in [
            ("short 1".to_owned(), "short 2".to_owned(), ("short 1", "short 2")),
            (
                format!("{long}x=1 {long}"),
                format!("{long}x=2 {long}"),
                ("… a a x=1 a a …", "… a a x=2 a a …"),
            ),
            (format!("{long}end"), long.clone(), ("… a a end", "… a a")),
            (format!("x {long}"), format!("y {long}"), ("x a a …", "y a a …")),
            (String::new(), "new".to_owned(), ("", "new")),
        ] {
            let (one, two) = around(&old, &new, 120);
            assert_eq!((one.as_str(), two.as_str()), shown);
        }
        // Only spaces differ.
        let (one, two) = around(&long, &format!("{long} "), 120);
        assert_eq!(one, two);
    }
}
