//! Whether an SPDX licence expression can be met by licences from a list.

/// Whether one of the choices that the expression offers needs nothing but licences of the list. An expression that
/// cannot be understood is not met.
///
/// The old form `MIT/Apache-2.0` means `OR`.
pub(super) fn is_met(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = Words { words: spaced.split_whitespace().collect(), next: 0, allowed };
    words.any() == Some(true) && words.next == words.words.len()
}

struct Words<'a> {
    words: Vec<&'a str>,
    next: usize,
    allowed: &'a [&'a str],
}

impl Words<'_> {
    /// `all [OR all]…`
    fn any(&mut self) -> Option<bool> {
        let mut met = self.all()?;
        while self.take("OR") {
            met |= self.all()?;
        }
        Some(met)
    }

    /// `one [AND one]…`
    fn all(&mut self) -> Option<bool> {
        let mut met = self.one()?;
        while self.take("AND") {
            met &= self.one()?;
        }
        Some(met)
    }

    /// A licence, one with an exception, or an expression in parentheses.
    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let met = self.any()?;
            return self.take(")").then_some(met);
        }
        let licence = *self.words.get(self.next).filter(|word| !["OR", "AND", "WITH", ")"].contains(word))?;
        self.next += 1;
        if self.take("WITH") {
            let exception = *self.words.get(self.next)?;
            self.next += 1;
            return Some(self.allowed.contains(&format!("{licence} WITH {exception}").as_str()));
        }
        Some(self.allowed.contains(&licence))
    }

    fn take(&mut self, word: &str) -> bool {
        let is_next = self.words.get(self.next) == Some(&word);
        self.next += usize::from(is_next);
        is_next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_met_when_one_of_its_choices_is() {
        let met = [
            "MIT",
            "MIT OR GPL-3.0",
            "GPL-3.0 OR MIT",
            "GPL-3.0/MIT",
            "MIT AND ISC",
            "(GPL-3.0 OR MIT) AND ISC",
            "GPL-3.0 OR MIT AND ISC",
        ];
        for expression in met {
            assert!(is_met(expression, &["MIT", "ISC"]), "{expression}");
        }
    }

    #[test]
    fn an_expression_that_needs_another_licence_or_cannot_be_understood_is_not_met() {
        let unmet = [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT OR ISC) AND GPL-3.0",
            "MIT WITH LLVM-exception",
            "",
            "OR",
            "MIT OR",
            "MIT ISC",
            "(MIT",
            "MIT)",
            "MIT WITH",
            "mit",
            "MIT AND OR ISC",
        ];
        for expression in unmet {
            assert!(!is_met(expression, &["MIT", "ISC"]), "{expression}");
        }
    }
}
