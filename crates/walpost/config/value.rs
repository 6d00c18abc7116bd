//! The kinds of values that a key can have: how each is read, and how the manual shows it.
//!
//! A number, a switch or a choice may also be written as a string, so that it can come from a variable.

use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use walpost_core::nearest::nearest;

use super::finding::Place;
use super::reader::Reader;

/// A kind of value.
pub(super) trait Value: Sized {
    /// What the manual calls it.
    const KIND: &'static str;

    /// Reads it, or notes at least one fault.
    fn read(value: &Spanned<DeValue<'_>>, key: &str, reader: &mut Reader<'_>) -> Option<Self>;

    /// The value as it would be typed.
    fn show(&self) -> String;
}

/// What stands in the file, in words.
pub(super) fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a section",
    }
}

/// Text, with its references replaced.
#[derive(Clone)]
pub(super) struct Text {
    pub(super) value: String,
    /// As it stands in the file: a password in it is readable to whoever can read the file.
    pub(super) typed: String,
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self { value: text.to_owned(), typed: text.to_owned() }
    }
}

impl Value for Text {
    const KIND: &'static str = "text";

    fn read(value: &Spanned<DeValue<'_>>, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        match value.get_ref() {
            DeValue::String(typed) => {
                Some(Self { value: reader.expand(typed, key, value)?, typed: typed.clone().into_owned() })
            }
            other => {
                reader.fault(key, value, format!("expected text in quotes, found {}", kind_of(other)));
                None
            }
        }
    }

    fn show(&self) -> String {
        format!("{:?}", self.value)
    }
}

impl<T: Value> Value for Option<T> {
    const KIND: &'static str = T::KIND;

    fn read(value: &Spanned<DeValue<'_>>, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        T::read(value, key, reader).map(Some)
    }

    fn show(&self) -> String {
        self.as_ref().map_or_else(|| "none".to_owned(), T::show)
    }
}

impl Value for bool {
    const KIND: &'static str = "`true` or `false`";

    fn read(value: &Spanned<DeValue<'_>>, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let switch = |value: &DeValue<'_>| value.as_bool();
        scalar(value, key, reader, switch, |text| text.parse().ok(), "expected true or false")
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for u64 {
    const KIND: &'static str = "number";

    fn read(value: &Spanned<DeValue<'_>>, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let expected = "expected a whole number that is not negative";
        scalar(value, key, reader, whole_number, |text| text.parse().ok(), expected)
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

fn whole_number(value: &DeValue<'_>) -> Option<u64> {
    let integer = value.as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// A value that is typed as itself, or as text in which references are replaced.
fn scalar<T>(
    value: &Spanned<DeValue<'_>>,
    key: &str,
    reader: &mut Reader<'_>,
    typed: impl FnOnce(&DeValue<'_>) -> Option<T>,
    text: impl FnOnce(&str) -> Option<T>,
    expected: &str,
) -> Option<T> {
    let read = match value.get_ref() {
        DeValue::String(typed) => text(&reader.expand(typed, key, value)?),
        other => typed(other),
    };
    if read.is_none() {
        reader.fault(key, value, expected);
    }
    read
}

/// A number of milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Millis(pub(super) u64);

impl From<Millis> for Duration {
    fn from(millis: Millis) -> Self {
        Self::from_millis(millis.0)
    }
}

impl Value for Millis {
    const KIND: &'static str = "milliseconds";

    fn read(value: &Spanned<DeValue<'_>>, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let expected = "expected a whole number of milliseconds, without a unit";
        scalar(value, key, reader, whole_number, |text| text.parse().ok(), expected).map(Self)
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Size(pub(super) u64);

impl Size {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    pub(super) const fn mib(count: u64) -> Self {
        Self(count * Self::MIB)
    }

    /// Reads `16MiB`, `16 MiB`, `16777216`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (count, unit) = text.split_at(digits);
        let factor = match unit.trim_start() {
            "" | "B" => 1,
            "kB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "KiB" => Self::KIB,
            "MiB" => Self::MIB,
            "GiB" => Self::GIB,
            _ => return None,
        };
        count.parse::<u64>().ok()?.checked_mul(factor).map(Self)
    }
}

impl Value for Size {
    const KIND: &'static str = "size";

    fn read(value: &Spanned<DeValue<'_>>, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let expected = "expected a number of bytes, or text such as \"16MiB\" (B, kB, MB, GB, KiB, MiB, GiB)";
        scalar(value, key, reader, |value| whole_number(value).map(Self), Self::parse, expected)
    }

    fn show(&self) -> String {
        for (unit, factor) in [("GiB", Self::GIB), ("MiB", Self::MIB), ("KiB", Self::KIB)] {
            if self.0 >= factor && self.0.is_multiple_of(factor) {
                return format!("\"{}{unit}\"", self.0 / factor);
            }
        }
        self.0.to_string()
    }
}

/// One name or a list of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names(pub(super) Vec<String>);

impl Value for Names {
    const KIND: &'static str = "text or list of texts";

    fn read(value: &Spanned<DeValue<'_>>, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        match value.get_ref() {
            DeValue::Array(elements) => {
                let names: Vec<_> = elements.iter().map(|element| Text::read(element, key, reader)).collect();
                let names: Option<Vec<_>> = names.into_iter().collect();
                Some(Self(names?.into_iter().map(|name| name.value).collect()))
            }
            _ => Text::read(value, key, reader).map(|name| Self(vec![name.value])),
        }
    }

    fn show(&self) -> String {
        match self.0.as_slice() {
            [one] => format!("{one:?}"),
            names => format!("{names:?}"),
        }
    }
}

/// A property whose name another program gave it.
#[derive(Clone)]
pub(super) struct Property {
    pub(super) name: String,
    pub(super) value: String,
    /// As it stands in the file.
    pub(super) typed: String,
    pub(super) place: Option<Place>,
}

/// A section whose keys are another program's: they are taken as they are, and judged by whoever knows them. `INTERPOLATED` says
/// whether references in them are replaced.
#[derive(Clone, Default)]
pub(super) struct Properties<const INTERPOLATED: bool>(pub(super) Vec<Property>);

impl<const INTERPOLATED: bool> Value for Properties<INTERPOLATED> {
    const KIND: &'static str = "section";

    fn read(value: &Spanned<DeValue<'_>>, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let DeValue::Table(table) = value.get_ref() else {
            reader.fault(key, value, format!("expected the section [{key}], found {}", kind_of(value.get_ref())));
            return None;
        };
        let mut properties = Self::default();
        properties.collect(table, "", key, reader);
        properties.0.sort_by_key(|property| property.place);
        Some(properties)
    }

    fn show(&self) -> String {
        "none".to_owned()
    }
}

impl<const INTERPOLATED: bool> Properties<INTERPOLATED> {
    /// Adds the keys of a table. A dotted key that was typed without quotes is a table to TOML and a name to us.
    fn collect(&mut self, table: &DeTable<'_>, prefix: &str, section: &str, reader: &mut Reader<'_>) {
        for (typed_name, value) in table {
            let name = super::reader::join(prefix, typed_name.get_ref());
            if let DeValue::Table(nested) = value.get_ref() {
                self.collect(nested, &name, section, reader);
                continue;
            }
            let key = format!("{section}.\"{name}\"");
            let Some(typed) = flat(value, &key, reader) else { continue };
            let expanded = if INTERPOLATED { reader.expand(&typed, &key, value) } else { Some(typed.clone()) };
            let Some(value) = expanded else { continue };
            if self.0.iter().any(|earlier| earlier.name == name) {
                reader.fault(&key, typed_name, "this key is given twice, with quotes and without; delete one");
                continue;
            }
            let place = reader.place(typed_name);
            self.0.push(Property { name, value, typed, place });
        }
    }
}

/// A value of TOML as the text that a property file would hold; a list joined by commas.
fn flat(value: &Spanned<DeValue<'_>>, key: &str, reader: &mut Reader<'_>) -> Option<String> {
    match value.get_ref() {
        DeValue::String(text) => Some(text.clone().into_owned()),
        DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) => Some(number.to_string()),
            Err(_) => {
                reader.fault(key, value, "this number is too large");
                None
            }
        },
        DeValue::Float(float) => Some(float.as_str().to_owned()),
        DeValue::Boolean(switch) => Some(switch.to_string()),
        DeValue::Array(elements) if !elements.iter().any(|element| element.get_ref().is_array()) => {
            let elements: Vec<_> = elements.iter().map(|element| flat(element, key, reader)).collect();
            Some(elements.into_iter().collect::<Option<Vec<_>>>()?.join(","))
        }
        other @ (DeValue::Array(_) | DeValue::Datetime(_) | DeValue::Table(_)) => {
            let found = kind_of(other);
            reader.fault(key, value, format!("expected text, a number, true, false or a flat list, found {found}"));
            None
        }
    }
}

/// The choice that was typed, or a sentence with all there are.
pub(super) fn chosen<T: Copy>(typed: &str, choices: &[(&'static str, T)]) -> Result<T, String> {
    if let Some((_, choice)) = choices.iter().find(|(name, _)| *name == typed) {
        return Ok(*choice);
    }
    let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
    let all = names.join(", ");
    Err(match nearest(typed, names) {
        Some(meant) => format!("{typed:?} is none of {all}; did you mean {meant:?}?"),
        None => format!("{typed:?} is none of {all}"),
    })
}

/// A kind of value that is one of a few words. The words stand once, beside what they mean.
macro_rules! choice {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $name:ident ($kind:literal) {
            $( $(#[$variant_attribute:meta])* $variant:ident = $word:literal, )+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $visibility enum $name {
            $( $(#[$variant_attribute])* $variant, )+
        }

        impl $name {
            /// The word that stands for it in the file.
            #[must_use]
            $visibility const fn word(self) -> &'static str {
                match self {
                    $( Self::$variant => $word, )+
                }
            }
        }

        impl $crate::config::value::Value for $name {
            const KIND: &'static str = $kind;

            fn read(
                value: &toml::Spanned<toml::de::DeValue<'_>>,
                key: &str,
                reader: &mut $crate::config::reader::Reader<'_>,
            ) -> Option<Self> {
                let typed = $crate::config::value::Text::read(value, key, reader)?;
                match $crate::config::value::chosen(&typed.value, &[$( ($word, Self::$variant), )+]) {
                    Ok(choice) => Some(choice),
                    Err(reason) => {
                        reader.fault(key, value, reason);
                        None
                    }
                }
            }

            fn show(&self) -> String {
                format!("{:?}", self.word())
            }
        }
    };
}
pub(super) use choice;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_a_unit() {
        let cases = [
            ("0", Some(0)),
            ("16777216", Some(16 << 20)),
            ("16MiB", Some(16 << 20)),
            ("16 MiB", Some(16 << 20)),
            ("1GiB", Some(1 << 30)),
            ("2KiB", Some(2048)),
            ("2kB", Some(2000)),
            ("3MB", Some(3_000_000)),
            ("1GB", Some(1_000_000_000)),
            ("7B", Some(7)),
            ("", None),
            ("MiB", None),
            ("-1", None),
            ("1.5MiB", None),
            ("16mib", None),
            ("16M", None),
            ("16MiB ", None),
            ("99999999999999999999", None),
            ("99999999999GiB", None),
        ];
        for (typed, bytes) in cases {
            assert_eq!(Size::parse(typed), bytes.map(Size), "{typed:?}");
        }
    }

    #[test]
    fn sizes_are_shown_in_the_largest_unit_that_divides_them() {
        for (size, shown) in
            [(Size::mib(16), "\"16MiB\""), (Size(1 << 30), "\"1GiB\""), (Size(1000), "1000"), (Size(0), "0")]
        {
            assert_eq!(size.show(), shown);
        }
    }
}
