//! Every column that was recorded, read again.

use std::fmt::Write as _;

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
                // Debezium loses them; the text leaves no doubt.
                "null" if self.declaration == "name" => compare(text, ours, &quoted(text)),
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
