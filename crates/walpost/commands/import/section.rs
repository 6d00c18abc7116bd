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

    /// Writes it under its header, or only the comments where there is nothing else.
    pub(super) fn write(&self, header: &str, with_comments: bool, draft: &mut Draft) {
        let has_pairs = self.0.iter().any(|line| matches!(line, Line::Pair(..)));
        if has_pairs {
            draft.section(header);
        }
        for line in &self.0 {
            match line {
                Line::Remark(text) if with_comments => draft.remark(text),
                Line::Check(text) if with_comments => draft.check(text),
                Line::Remark(_) | Line::Check(_) => {}
                Line::Pair(name, value) => draft.option(name, value),
            }
        }
    }
}
