//! `field.name.adjustment.mode`: names of members made fit for Avro.

use std::fmt::Write;

use crate::router::FieldNameAdjustment;

/// The name as it is adjusted; `None` where it stays. It goes by Java's characters, so one beyond the basic plane is replaced twice.
pub(super) fn adjusted(name: &str, adjustment: FieldNameAdjustment) -> Option<String> {
    let is_allowed: fn(char) -> bool = match adjustment {
        FieldNameAdjustment::None => return None,
        FieldNameAdjustment::Avro => |char| char.is_ascii_alphanumeric() || char == '_',
        FieldNameAdjustment::AvroUnicode => |char| char.is_ascii_alphanumeric(),
    };
    let begins_with_digit = name.starts_with(|first: char| first.is_ascii_digit());
    if !begins_with_digit && name.chars().all(is_allowed) {
        return None;
    }
    let mut out = String::with_capacity(name.len() + 1);
    for (index, char) in name.chars().enumerate() {
        let is_first_digit = index == 0 && begins_with_digit;
        match adjustment {
            _ if is_allowed(char) && !is_first_digit => out.push(char),
            FieldNameAdjustment::AvroUnicode => unicode(&mut out, char),
            _ => {
                char.encode_utf16(&mut [0; 2]).iter().for_each(|_| out.push('_'));
                if is_first_digit {
                    out.push(char);
                }
            }
        }
    }
    Some(out)
}

/// The numbers of Java's characters, in hexadecimal digits as few as they are, or two zeros before one or two of them.
fn unicode(out: &mut String, char: char) {
    for unit in char.encode_utf16(&mut [0; 2]) {
        let zeros = if *unit <= 0xFF { "00" } else { "" };
        let written = write!(out, "_u{zeros}{unit:x}");
        debug_assert!(written.is_ok(), "writing to a string does not fail");
    }
}

#[cfg(test)]
mod tests {
    use super::adjusted;
    use crate::router::FieldNameAdjustment::{Avro, AvroUnicode, None as Unadjusted};

    #[test]
    fn a_name_is_adjusted_as_debezium_adjusts_it() {
        let cases = [
            ("ok_1", "ok_1", "ok_u005f1"),
            ("a.b", "a_b", "a_u002eb"),
            ("$x", "_x", "_u0024x"),
            ("1k", "_1k", "_u0031k"),
            ("sp ace", "sp_ace", "sp_u0020ace"),
            ("\t", "_", "_u009"),
            ("é", "_", "_u00e9"),
            ("ő", "_", "_u151"),
            ("€", "_", "_u20ac"),
            ("😀", "__", "_ud83d_ude00"),
            ("", "", ""),
        ];
        for (name, avro, avro_unicode) in cases {
            assert_eq!(adjusted(name, Unadjusted), None);
            assert_eq!(adjusted(name, Avro).as_deref().unwrap_or(name), avro);
            assert_eq!(adjusted(name, AvroUnicode).as_deref().unwrap_or(name), avro_unicode);
        }
    }
}
