//! A section that is written several times: once with its comments, then for each further outbox without.

use super::draft::Draft;

/// Options and the comments on them.
#[derive(Debug, Clone, Default)]
pub(super) struct Section(Vec<Line>);

#[derive(Debug, Clone)]
enum Line {
    Remark(String),
    Check(String),
    Pair(String, String),
    Undecided { option: String, key: String, value: String, written: String, why: String },
}

impl Section {
    pub(super) fn remark(&mut self, text: &str) {
        self.0.push(Line::Remark(text.to_owned()));
    }

    pub(super) fn check(&mut self, text: &str) {
        self.0.push(Line::Check(text.to_owned()));
    }

    pub(super) fn pair(&mut self, name: &str, value: &str) {
        self.0.push(Line::Pair(name.to_owned(), value.to_owned()));
    }

    /// An option that cannot be had though consumers would get other records without it: a line that walpost refuses. `written` is its
    /// value in the notation of the section.
    pub(super) fn undecided(&mut self, (option, value): (&str, &str), key: &str, written: &str, why: &str) {
        let [option, key, value, written, why] = [option, key, value, written, why].map(str::to_owned);
        self.0.push(Line::Undecided { option, key, value, written, why });
    }

    /// Puts another one after it.
    pub(super) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Writes it under its header, or only the comments where there is nothing else.
    pub(super) fn write(&self, header: &str, with_comments: bool, draft: &mut Draft) {
        let has_pairs = self.0.iter().any(|line| matches!(line, Line::Pair(..) | Line::Undecided { .. }));
        if has_pairs {
            draft.section(header);
        }
        for line in &self.0 {
            match line {
                Line::Remark(text) if with_comments => draft.remark(text),
                Line::Check(text) if with_comments => draft.check(text),
                Line::Remark(_) | Line::Check(_) => {}
                Line::Pair(name, value) => draft.option(name, value),
                Line::Undecided { option, key, value, written, why } => {
                    if with_comments {
                        draft.decide(option, value, why);
                    }
                    draft.undecided(key, written);
                }
            }
        }
    }
}
