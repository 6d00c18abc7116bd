//! A pattern as a sequence of characters, each with its position, and with `\Q…\E` already resolved.

use super::Refusal;

/// One character of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    /// The character.
    pub(super) ch: char,
    /// It stood between `\Q` and `\E`, so it means nothing but itself.
    pub(super) quoted: bool,
    /// Where it stands in the pattern, from 1.
    pub(super) position: usize,
}

/// Reads `pattern`. Java too resolves quotations before anything else, so that `\Qab\E*` repeats the `b` alone.
pub(super) fn tokens(pattern: &str) -> Vec<Token> {
    let mut out = Vec::new();
    let mut characters = pattern.chars().zip(1..).peekable();
    let mut quoted = false;
    while let Some((ch, position)) = characters.next() {
        let next = characters.peek().map(|(next, _)| *next);
        match (quoted, ch, next) {
            (false, '\\', Some('Q')) => quoted = true,
            (true, '\\', Some('E')) => quoted = false,
            (false, '\\', Some(escaped)) => {
                out.push(Token { ch, quoted, position });
                out.push(Token { ch: escaped, quoted, position: position + 1 });
            }
            _ => {
                out.push(Token { ch, quoted, position });
                continue;
            }
        }
        characters.next();
    }
    out
}

/// Where a parser stands in its tokens. What it calls the next character is one that may have a meaning; a quoted one never
/// has, so it answers to no character that is asked for by name.
#[derive(Debug)]
pub(super) struct Cursor {
    tokens: Vec<Token>,
    next: usize,
}

impl Cursor {
    pub(super) fn new(pattern: &str) -> Self {
        Self { tokens: tokens(pattern), next: 0 }
    }

    /// The token `ahead` of the next one, which is 0.
    pub(super) fn token(&self, ahead: usize) -> Option<Token> {
        self.tokens.get(self.next.saturating_add(ahead)).copied()
    }

    /// The character `ahead`, unless it is quoted.
    pub(super) fn special(&self, ahead: usize) -> Option<char> {
        self.token(ahead).filter(|token| !token.quoted).map(|token| token.ch)
    }

    /// Whether these characters come next, none of them quoted.
    pub(super) fn starts_with(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(ahead, ch)| self.special(ahead) == Some(ch))
    }

    /// Takes these characters if they come next.
    pub(super) fn take(&mut self, text: &str) -> bool {
        let found = self.starts_with(text);
        if found {
            self.skip(text.chars().count());
        }
        found
    }

    /// Takes one token.
    pub(super) fn advance(&mut self) -> Option<Token> {
        let token = self.token(0)?;
        self.next += 1;
        Some(token)
    }

    /// Takes one character if it is unquoted and `accept`ed.
    pub(super) fn take_if(&mut self, accept: impl Fn(char) -> bool) -> Option<char> {
        let ch = self.special(0).filter(|ch| accept(*ch))?;
        self.next += 1;
        Some(ch)
    }

    /// Takes as many characters as are unquoted and `accept`ed.
    pub(super) fn take_while(&mut self, accept: impl Fn(char) -> bool) -> String {
        std::iter::from_fn(|| self.take_if(&accept)).collect()
    }

    pub(super) fn skip(&mut self, count: usize) {
        self.next = self.next.saturating_add(count).min(self.tokens.len());
    }

    /// The position of the next token; after the last one at the end.
    pub(super) fn position(&self) -> usize {
        let end = self.tokens.last().map_or(1, |last| last.position + 1);
        self.token(0).map_or(end, |token| token.position)
    }

    /// A refusal of what stands here.
    pub(super) fn refuse(&self, what: impl Into<String>) -> Refusal {
        Refusal::at(self.position(), what)
    }
}

#[cfg(test)]
mod tests {
    use super::tokens;

    fn read(pattern: &str) -> Vec<(char, bool)> {
        tokens(pattern).into_iter().map(|token| (token.ch, token.quoted)).collect()
    }

    #[test]
    fn quotations_end_at_the_first_backslash_e_or_with_the_pattern() {
        assert_eq!(read(r"a\Q.\E*"), [('a', false), ('.', true), ('*', false)]);
        assert_eq!(read(r"\Q.\"), [('.', true), ('\\', true)]);
        assert_eq!(read(r"\Q\E"), []);
    }

    #[test]
    fn an_escaped_backslash_opens_no_quotation() {
        assert_eq!(read(r"\\Q"), [('\\', false), ('\\', false), ('Q', false)]);
    }

    #[test]
    fn positions_are_those_of_the_pattern_as_it_was_written() {
        let positions: Vec<usize> = tokens(r"é\Qab\E\.").iter().map(|token| token.position).collect();
        assert_eq!(positions, [1, 4, 5, 8, 9]);
    }
}
