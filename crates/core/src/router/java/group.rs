//! Groups: capturing, named, atomic, looking around, and the switches of `(?idmsuxU-idmsuxU)`.

use super::Refusal;
use super::pattern::{Atom, Flags, Kind, Part, Translator};

impl Translator {
    /// From `(` to its `)`. `None` for switches alone, which last until the group around them ends.
    pub(super) fn group(&mut self) -> Result<Option<Atom>, Refusal> {
        let start = self.cursor.position();
        let outer = self.flags;
        self.cursor.skip(1);
        self.skip_comments();
        let (open, kind) = if !self.cursor.take("?") {
            (self.open_capture(), Kind::Taking)
        } else if let Some(open) = self.take_look_around() {
            (open, Kind::Looking)
        } else if self.cursor.take(":") {
            ("(?:", Kind::Taking)
        } else if self.cursor.take(">") {
            ("(?>", Kind::Taking)
        } else if self.cursor.take("<") {
            (self.open_named()?, Kind::Taking)
        } else {
            self.switches()?;
            if self.cursor.take(")") {
                return Ok(None);
            }
            if !self.cursor.take(":") {
                return Err(self.cursor.refuse("an unknown kind of group or an unknown switch"));
            }
            ("(?:", Kind::Taking)
        };
        let number = self.groups.opened;
        let behind = usize::from(open.starts_with("(?<"));
        self.looking_behind += behind;
        let inner = self.deeper(Self::alternatives)?;
        self.looking_behind -= behind;
        if !self.cursor.take(")") {
            return Err(Refusal::at(start, "this group is not closed"));
        }
        if open == "(" {
            self.groups.ended.push(number);
        }
        self.flags = outer;
        let can_be_empty = inner.can_be_empty || kind == Kind::Looking;
        Ok(Some(Atom { part: Part { text: format!("{open}{})", inner.text), can_be_empty }, kind }))
    }

    fn take_look_around(&mut self) -> Option<&'static str> {
        [("=", "(?="), ("!", "(?!"), ("<=", "(?<="), ("<!", "(?<!")]
            .into_iter()
            .find_map(|(kind, open)| self.cursor.take(kind).then_some(open))
    }

    fn open_capture(&mut self) -> &'static str {
        self.groups.opened += 1;
        "("
    }

    fn open_named(&mut self) -> Result<&'static str, Refusal> {
        let position = self.cursor.position();
        let name = self.group_name()?;
        let open = self.open_capture();
        match self.groups.named.insert(name.clone(), self.groups.opened) {
            None => Ok(open),
            Some(_) => Err(Refusal::at(position, format!("a second group is called \"{name}\""))),
        }
    }

    /// A name and the `>` after it.
    pub(super) fn group_name(&mut self) -> Result<String, Refusal> {
        let position = self.cursor.position();
        let name = self.cursor.take_while(|ch| ch.is_ascii_alphanumeric());
        if !name.starts_with(|first: char| first.is_ascii_alphabetic()) || !self.cursor.take(">") {
            let what = "the name of a group is a letter of ASCII, then letters and digits of it, then \">\"";
            return Err(Refusal::at(position, what));
        }
        Ok(name)
    }

    fn switches(&mut self) -> Result<(), Refusal> {
        let mut on = true;
        while let Some(switch) = self.cursor.special(0) {
            let Flags { case_insensitive, multiline, dot_all, unix_lines, .. } = &mut self.flags;
            match switch {
                'i' => *case_insensitive = on,
                'm' => *multiline = on,
                's' => *dot_all = on,
                'd' => *unix_lines = on,
                'u' => self.flags.unicode_case = on,
                'x' => self.flags.comments = on,
                'U' => {
                    self.flags.unicode_case = on;
                    self.flags.unicode_classes = on;
                }
                'c' => return Err(self.cursor.refuse("canonical equivalence (?c) cannot be translated")),
                '-' if on => on = false,
                _ => return Ok(()),
            }
            self.cursor.skip(1);
        }
        Ok(())
    }
}
