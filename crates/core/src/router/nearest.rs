//! The known name that a mistyped one most likely stands for.

/// The nearest of `names`, unless none is near: more than a third of the characters would have to change.
pub(super) fn nearest<'n>(typed: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let limit = typed.chars().count().max(3) / 3;
    let measured = names.map(|name| (distance(typed, name), name));
    measured.filter(|(distance, _)| *distance <= limit).min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// Levenshtein's distance: how many characters have to be inserted, removed or changed.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (above, ch) in left.chars().enumerate() {
        let mut diagonal = above;
        let mut previous = above + 1;
        for (cell, other) in row.iter_mut().skip(1).zip(&right) {
            let substituted = diagonal + usize::from(ch != *other);
            diagonal = *cell;
            previous = substituted.min(previous + 1).min(diagonal + 1);
            *cell = previous;
        }
        if let Some(first) = row.first_mut() {
            *first = above + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{distance, nearest};

    #[test]
    fn the_distance_counts_insertions_removals_and_changes() {
        let cases = [("", "", 0), ("", "abc", 3), ("abc", "", 3), ("kitten", "sitting", 3), ("abc", "abc", 0)];
        for (left, right, expected) in cases {
            assert_eq!(distance(left, right), expected, "{left} {right}");
        }
    }

    #[test]
    fn a_name_that_resembles_none_has_no_nearest() {
        let names = ["route.by.field", "route.topic.regex"];
        assert_eq!(nearest("route.by.feild", names.into_iter()), Some("route.by.field"));
        assert_eq!(nearest("bootstrap.servers", names.into_iter()), None);
    }
}
