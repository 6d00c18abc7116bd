//! Every column that was recorded, read again.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::connect::Options;
use crate::description::{ColumnDescription, TypeDescription};

const RECORDED: &str = include_str!("recorded.txt");

/// What a recording says about a column under one set of options.
struct Recorded {
    options: Options,
    schema: Option<String>,
    values: Vec<(String, String)>,
}

struct Case {
    declaration: String,
    type_id: u32,
    type_modifier: i32,
    description: Description,
    recorded: Vec<Recorded>,
}

fn cases() -> Vec<Case> {
    let blocks = RECORDED.split("\n\n").filter(|block| block.starts_with("C\t"));
    blocks.map(case).collect()
}

fn case(block: &str) -> Case {
    let mut lines = block.lines().map(fields);
    let head = lines.next().unwrap();
    let (type_id, type_modifier) = (head[2].parse().unwrap(), head[3].parse().unwrap());
    let column = ColumnDescription {
        name: "v".to_owned(),
        type_id,
        type_modifier,
        not_null: head[4] == "not null",
        default: (head[5] != "\\N").then(|| head[5].clone()),
    };
    let mut case = Case {
        declaration: head[1].clone(),
        type_id,
        type_modifier,
        description: Description { columns: vec![column], types: Vec::new() },
        recorded: Vec::new(),
    };
    for line in lines {
        match (line[0].as_str(), case.recorded.last_mut()) {
            ("T", _) => case.description.types.push(described(&line)),
            ("O", _) => {
                let pairs = line[1].split(' ').filter_map(|pair| pair.split_once('='));
                let options = Options::from_pairs(pairs).unwrap().options;
                case.recorded.push(Recorded { options, schema: None, values: Vec::new() });
            }
            ("S", Some(recorded)) => recorded.schema = Some(line[1].clone()),
            ("V", Some(recorded)) => recorded.values.push((line[1].clone(), line[2].clone())),
            _ => panic!("{line:?}"),
        }
    }
    case
}

fn described(line: &[String]) -> TypeDescription {
    let kind = match line[4].as_str() {
        "array" => TypeKind::Array { element: line[5].parse().unwrap() },
        "enum" => TypeKind::Enum { labels: line[5..].to_vec() },
        "domain" => TypeKind::Domain {
            base: line[5].parse().unwrap(),
            type_modifier: line[6].parse().unwrap(),
            not_null: line[7] == "not null",
            default: (line[8] != "\\N").then(|| line[8].clone()),
        },
        "composite" => TypeKind::Composite,
        "range" => TypeKind::Range,
        "multirange" => TypeKind::Multirange,
        "pseudo" => TypeKind::Pseudo,
        _ => TypeKind::Base,
    };
    TypeDescription { id: line[1].parse().unwrap(), schema: line[2].clone(), name: line[3].clone(), kind }
}

/// Schemas and values are not escaped once more.
fn fields(line: &str) -> Vec<String> {
    let as_written = match line.as_bytes() {
        [b'S', ..] => 1,
        [b'V', ..] => 2,
        _ => usize::MAX,
    };
    let field = |(at, text): (usize, &str)| if at == as_written { text.to_owned() } else { unescaped(text) };
    line.split('\t').enumerate().map(field).collect()
}

fn unescaped(text: &str) -> String {
    if text == "\\N" {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        out.push(match letter {
            '\\' => match letters.next().unwrap() {
                't' => '\t',
                'n' => '\n',
                'r' => '\r',
                other => other,
            },
            other => other,
        });
    }
    out
}

fn schema_text(schema: &Schema) -> String {
    let mut out = match &schema.kind {
        SchemaType::Array(item) => format!("array<{}>", schema_text(item)),
        SchemaType::Map(key, value) => format!("map<{}, {}>", schema_text(key), schema_text(value)),
        SchemaType::Struct(fields) => {
            let fields = fields.iter().map(|field| format!("{}: {}", field.name, schema_text(&field.schema)));
            format!("struct{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        kind => kind.name().to_owned(),
    };
    if schema.is_optional {
        out.push('?');
    }
    if let Some(name) = &schema.name {
        write!(out, " {name}").unwrap();
    }
    if let Some(version) = schema.version {
        write!(out, " v{version}").unwrap();
    }
    if let Some(doc) = &schema.doc {
        write!(out, " doc {}", quoted(doc)).unwrap();
    }
    for (name, value) in &schema.parameters {
        write!(out, " [{name}={}]", quoted(value)).unwrap();
    }
    if let Some(default) = &schema.default {
        write!(out, " default {}", value_text(default)).unwrap();
    }
    out
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\0'..=' ' if letter != ' ' => write!(out, "\\u{:04x}", u32::from(letter)).unwrap(),
            _ => out.push(letter),
        }
    }
    out.push('"');
    out
}

fn value_text(value: &Value) -> String {
    let list = |values: &[Value]| values.iter().map(value_text).collect::<Vec<_>>().join(", ");
    match value {
        Value::Null => "null".to_owned(),
        Value::Boolean(truth) => truth.to_string(),
        Value::Integer(number) => number.to_string(),
        Value::Float32(number) => format!("f32:{:08x}", number.to_bits()),
        Value::Float64(number) => format!("f64:{:016x}", number.to_bits()),
        Value::String(text) => quoted(std::str::from_utf8(text).unwrap()),
        Value::Bytes(bytes) => {
            format!("x'{}'", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        }
        Value::Decimal(number) => format!("dec:{}/{}", number.unscaled, number.scale),
        Value::Array(items) => format!("[{}]", list(items)),
        Value::Struct(fields) => format!("({})", list(fields)),
        Value::Map(entries) => {
            let entries = entries.iter().map(|(key, value)| format!("{}: {}", value_text(key), value_text(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Json(_) => unreachable!("no column is one"),
    }
}

impl Case {
    fn column_type(&self, options: &Options) -> ColumnType {
        let column = Column { flags: 0, name: "v", type_id: self.type_id, type_modifier: self.type_modifier };
        ColumnType::new(&column, &self.description, options)
    }

    fn compare(&self, recorded: &Recorded, faults: &mut Vec<String>) {
        let column_type = self.column_type(&recorded.options);
        let mut compare = |what: &str, ours: String, theirs: &str| {
            if ours != theirs {
                faults.push(format!("{}: {what}\n  ours   {ours}\n  theirs {theirs}", self.declaration));
            }
        };
        let schema = schema_text(column_type.schema());
        match recorded.schema.as_deref() {
            Some("absent") => {
                let optional = if column_type.schema().is_optional { "string?" } else { "string" };
                compare("schema", schema, optional);
            }
            Some(theirs) => compare("schema", schema, theirs),
            None => {}
        }
        for (text, theirs) in &recorded.values {
            if text == "\\N" {
                continue;
            }
            let read = column_type.read(&Bytes::copy_from_slice(text.as_bytes()));
            let ours = read.as_ref().map_or_else(|error| format!("!{error}"), value_text);
            match theirs.as_str() {
                "absent" => compare(text, ours, &quoted(text)),
                "null" if !column_type.schema().is_optional && column_type.schema().default.is_none() => {
                    assert!(matches!(read, Err(ValueError::Unrepresentable { .. })), "{}: {text}", self.declaration);
                }
                theirs if theirs.starts_with('!') => {}
                _ if self.declaration.ends_with("vector") && !text.starts_with('[') => {}
                theirs => compare(text, ours, theirs),
            }
        }
    }
}

#[test]
fn every_recorded_column_has_debeziums_schema_and_values() {
    let cases = cases();
    let mut faults = Vec::new();
    for case in &cases {
        for recorded in &case.recorded {
            case.compare(recorded, &mut faults);
        }
    }
    assert!(faults.is_empty(), "{} of {} columns\n{}", faults.len(), cases.len(), faults.join("\n"));
    assert!(cases.len() > 300);
}

fn of_built_in(type_id: u32, options: &Options) -> ColumnType {
    let column = Column { flags: 0, name: "v", type_id, type_modifier: -1 };
    ColumnType::new(&column, &Description::default(), options)
}

#[test]
fn a_built_in_type_needs_no_catalogue_and_is_optional_without_one() {
    let cases = [
        (23, "int32?"),
        (25, "string?"),
        (1007, "array<int32?>?"),
        (1184, "string? io.debezium.time.ZonedTimestamp v1"),
        (603, "string?"),
        (16_384, "string?"),
    ];
    for (type_id, schema) in cases {
        assert_eq!(schema_text(of_built_in(type_id, &Options::default()).schema()), schema, "{type_id}");
    }
}

#[test]
fn a_domain_over_an_enum_is_read_as_the_enum() {
    let described = |id, kind| TypeDescription { id, schema: "s".to_owned(), name: format!("t{id}"), kind };
    let domain = TypeKind::Domain { base: 2, type_modifier: -1, not_null: true, default: None };
    let labels = TypeKind::Enum { labels: vec!["sad".to_owned(), "ok".to_owned()] };
    let description = Description { columns: Vec::new(), types: vec![described(1, domain), described(2, labels)] };
    let column = Column { flags: 0, name: "v", type_id: 1, type_modifier: -1 };
    let column_type = ColumnType::new(&column, &description, &Options::default());
    assert_eq!(schema_text(column_type.schema()), "string io.debezium.data.Enum v1 [allowed=\"sad,ok\"]");
    assert_eq!(column_type.text_form(), TextForm::Verbatim);
}

#[test]
fn a_name_is_lost_as_debezium_loses_it_unless_there_is_no_null() {
    let column =
        ColumnDescription { name: "v".to_owned(), type_id: 19, type_modifier: -1, not_null: true, default: None };
    let required = Description { columns: vec![column], types: Vec::new() };
    let column = Column { flags: 0, name: "v", type_id: 19, type_modifier: -1 };
    for (description, expected) in [(&Description::default(), "null"), (&required, "\"n\"")] {
        let column_type = ColumnType::new(&column, description, &Options::default());
        let read = column_type.read(&Bytes::from_static(b"n"));
        assert_eq!(read.as_ref().map(value_text), Ok(expected.to_owned()));
    }
}

#[test]
fn what_passes_as_it_is_is_told_and_is_a_slice_of_the_frame() {
    let forms = [
        (25, TextForm::Verbatim),
        (3802, TextForm::Verbatim),
        (2950, TextForm::Verbatim),
        (603, TextForm::Verbatim),
        (20, TextForm::Digits),
        (26, TextForm::Digits),
        (16, TextForm::Other),
        (17, TextForm::Other),
        (1184, TextForm::Other),
        (1009, TextForm::Other),
    ];
    for (type_id, form) in forms {
        assert_eq!(of_built_in(type_id, &Options::default()).text_form(), form, "{type_id}");
    }
    let text = Bytes::from_static(b"as it is");
    let Ok(Value::String(value)) = of_built_in(25, &Options::default()).read(&text) else { panic!("no string") };
    assert_eq!(value.as_ptr(), text.as_ptr());
}

#[test]
fn a_bytea_is_the_same_whichever_way_the_server_writes_it() {
    let (hex, escape) = (Bytes::from_static(br"\x7b00ff5c"), Bytes::from_static(br"{\000\377\\"));
    let cases = [
        ("bytes", "x'7b00ff5c'"),
        ("base64", "\"ewD/XA==\""),
        ("base64-url-safe", "\"ewD_XA==\""),
        ("hex", "\"7b00ff5c\""),
    ];
    for (mode, expected) in cases {
        let options = Options::from_pairs([("binary.handling.mode", mode)]).unwrap().options;
        let column_type = of_built_in(17, &options);
        for text in [&hex, &escape] {
            assert_eq!(column_type.read(text).as_ref().map(value_text), Ok(expected.to_owned()), "{mode}");
        }
    }
}

#[test]
fn what_has_no_null_in_its_place_is_refused_and_the_refusal_tells_the_kind_and_not_the_value() {
    let column = ColumnDescription {
        name: "v".to_owned(),
        type_id: 1700,
        type_modifier: 655_366,
        not_null: true,
        default: None,
    };
    let description = Description { columns: vec![column], types: Vec::new() };
    let column = Column { flags: 0, name: "v", type_id: 1700, type_modifier: 655_366 };
    let refused = ColumnType::new(&column, &description, &Options::default()).read(&Bytes::from_static(b"NaN"));
    let sentence = "the value is a numeric that is not a number, which the schema of its column cannot hold";
    assert_eq!(refused.unwrap_err().to_string(), sentence);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Texts that were recorded, cut and put together, so that readers come far before they fail.
    #[test]
    fn no_reader_panics(cuts in proptest::collection::vec((any::<u16>(), any::<u16>(), any::<u8>()), 1..4)) {
        let cases = cases();
        let texts: Vec<_> = cases.iter().flat_map(|case| &case.recorded).flat_map(|one| &one.values).collect();
        let mut mixed = Vec::new();
        for (which, end, letter) in cuts {
            let text = texts[usize::from(which) % texts.len()].0.as_bytes();
            mixed.extend_from_slice(&text[..usize::from(end) % (text.len() + 1)]);
            mixed.push(letter);
        }
        let mixed = Bytes::from(mixed);
        for case in &cases {
            for recorded in &case.recorded {
                let _ = case.column_type(&recorded.options).read(&mixed);
            }
        }
    }
}
