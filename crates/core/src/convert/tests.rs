use std::sync::Arc;

use bytes::Bytes;

use super::{Converter, Prepared, Side};
use crate::column::TextForm;
use crate::connect::{ConverterChoice, Decimal, Field, Schema, SchemaType, Value, logical};

fn choice(class: &str, options: &[(&str, &str)]) -> ConverterChoice {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    ConverterChoice { class: class.to_owned(), options: options.iter().map(own).collect() }
}

fn prepared(class: &str, options: &[(&str, &str)], schema: Option<&Arc<Schema>>) -> Result<Prepared, String> {
    Converter::new(&choice(class, options), Side::Header).unwrap().prepare(schema)
}

/// What a converter writes, as text; `None` for null.
fn written(class: &str, options: &[(&str, &str)], schema: &Arc<Schema>, value: &Value) -> Option<String> {
    let bytes = prepared(class, options, Some(schema)).unwrap().convert(value).unwrap();
    bytes.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
}

const OFF: &[(&str, &str)] = &[("schemas.enable", "false")];
const ON: &[(&str, &str)] = &[];

fn field(name: &str, schema: Schema) -> Field {
    Field { name: Arc::from(name), schema: Arc::new(schema) }
}

fn of(kind: SchemaType) -> Arc<Schema> {
    Arc::new(Schema::of(kind))
}

fn text(text: &'static str) -> Value {
    Value::String(Bytes::from_static(text.as_bytes()))
}

fn bytes(bytes: &'static [u8]) -> Value {
    Value::Bytes(Bytes::from_static(bytes))
}

fn decimal(unscaled: i64, scale: i32) -> Value {
    Value::Decimal(Decimal { unscaled: unscaled.into(), scale })
}

fn decimal_schema(scale: i32) -> Schema {
    Schema::of(SchemaType::Bytes).named(logical::DECIMAL, 1).with_parameter("scale", scale.to_string())
}

/// A struct of everything, and a value of it.
fn everything() -> (Arc<Schema>, Value) {
    let default = Some(text("d\"e"));
    let nested = Schema {
        name: Some(Arc::from("n")),
        ..Schema::of(SchemaType::Struct(vec![
            field("t", Schema { default, ..Schema::of(SchemaType::String).optional() }),
            field("x", Schema::of(SchemaType::Int8).optional()),
        ]))
        .optional()
    };
    let optional_text = Arc::new(Schema::of(SchemaType::String).optional());
    let pairs = [
        ("b", Schema::of(SchemaType::Boolean), Value::Boolean(true)),
        ("f", Schema::of(SchemaType::Float32), Value::Float32(1.5)),
        ("d", Schema::of(SchemaType::Float64), Value::Float64(1e15)),
        ("nan", Schema::of(SchemaType::Float64), Value::Float64(f64::NAN)),
        ("t", Schema::of(SchemaType::String), text("a\"b\\c\nd😀")),
        ("by", Schema::of(SchemaType::Bytes), bytes(&[0, 0xFF])),
        ("dec", decimal_schema(10).with_parameter("connect.decimal.precision", "20").optional(), decimal(1, 10)),
        ("date", Schema::of(SchemaType::Int32).named(logical::CONNECT_DATE, 1), Value::Integer(19_756)),
        ("time", Schema::of(SchemaType::Int32).named(logical::CONNECT_TIME, 1), Value::Integer(14_706_789)),
        ("ts", Schema::of(SchemaType::Int64).named(logical::CONNECT_TIMESTAMP, 1), Value::Integer(1_706_933_106_789)),
        (
            "l",
            Schema::of(SchemaType::Array(optional_text.clone())),
            Value::Array(vec![text("x"), text("y \"q\""), Value::Null]),
        ),
        ("lb", Schema::of(SchemaType::Array(of(SchemaType::Bytes))), Value::Array(vec![bytes(&[1])])),
        (
            "m",
            Schema::of(SchemaType::Map(of(SchemaType::String), optional_text)),
            Value::Map(vec![(text("k"), text("v\\")), (text("z"), Value::Null)]),
        ),
        (
            "mi",
            Schema::of(SchemaType::Map(of(SchemaType::Int32), of(SchemaType::Int64))),
            Value::Map(vec![(Value::Integer(1), Value::Integer(2)), (Value::Integer(3), Value::Integer(4))]),
        ),
        ("n", nested.clone(), Value::Struct(vec![Value::Null, Value::Null])),
        ("none", nested, Value::Null),
        ("e\\", Schema::of(SchemaType::Struct(vec![])), Value::Struct(vec![])),
    ];
    let (fields, values) = pairs.into_iter().map(|(name, schema, value)| (field(name, schema), value)).unzip();
    let doc = Some(Arc::from("words \"here\""));
    (Arc::new(Schema { doc, ..Schema::of(SchemaType::Struct(fields)).named("s", 3) }), Value::Struct(values))
}

#[test]
fn half_a_pair_of_surrogates_is_a_question_mark_where_java_writes_a_text_of_a_struct() {
    let fields = vec![field("a", Schema::of(SchemaType::String)), field("b", Schema::of(SchemaType::String))];
    let value = |bytes: &'static [u8]| Value::String(Bytes::from_static(bytes));
    let cases: [(&'static [u8], &str); 4] =
        [(b"\xED\xA0\x80", "?"), (b"x\xED\xBF\xBFy\xED\xA0\xBD", "x?y?"), (b"\xED\x9F\xBF", "\u{D7FF}"), (b"", "")];
    for (bytes, expected) in cases {
        let both = Value::Struct(vec![value(bytes), text("é")]);
        let written = written("StringConverter", &[], &of(SchemaType::Struct(fields.clone())), &both);
        assert_eq!(written, Some(format!("Struct{{a={expected},b=é}}")));
    }
}

#[test]
fn json_without_schemas_is_what_connect_writes() {
    let (schema, value) = everything();
    let expected = concat!(
        r#"{"b":true,"f":1.5,"d":1.0E15,"nan":"NaN","t":"a\"b\\c\nd\uD83D\uDE00","by":"AP8=","dec":"AQ==","date":19756,"#,
        r#""time":14706789,"ts":1706933106789,"l":["x","y \"q\"",null],"lb":["AQ=="],"m":{"k":"v\\","z":null},"#,
        r#""mi":[[1,2],[3,4]],"n":{"t":"d\"e","x":null},"none":null,"e\\":{}}"#
    );
    assert_eq!(written("JsonConverter", OFF, &schema, &value).unwrap(), expected);
    let numeric = [("schemas.enable", "false"), ("decimal.format", "numeric"), ("replace.null.with.default", "false")];
    let expected = expected.replace(r#""dec":"AQ==""#, r#""dec":1E-10"#).replace(r#""t":"d\"e""#, r#""t":null"#);
    assert_eq!(written("JsonConverter", &numeric, &schema, &value).unwrap(), expected);
}

#[test]
fn json_with_schemas_is_what_connect_writes() {
    let (schema, value) = everything();
    let nested = concat!(
        r#"{"type":"struct","fields":[{"type":"string","optional":true,"default":"d\"e","field":"t"},"#,
        r#"{"type":"int8","optional":true,"field":"x"}],"optional":true,"name":"n","field":"#
    );
    let fields = [
        r#"{"type":"boolean","optional":false,"field":"b"}"#,
        r#"{"type":"float","optional":false,"field":"f"}"#,
        r#"{"type":"double","optional":false,"field":"d"}"#,
        r#"{"type":"double","optional":false,"field":"nan"}"#,
        r#"{"type":"string","optional":false,"field":"t"}"#,
        r#"{"type":"bytes","optional":false,"field":"by"}"#,
        r#"{"type":"bytes","optional":true,"name":"org.apache.kafka.connect.data.Decimal","version":1,"parameters":{"scale":"10","connect.decimal.precision":"20"},"field":"dec"}"#,
        r#"{"type":"int32","optional":false,"name":"org.apache.kafka.connect.data.Date","version":1,"field":"date"}"#,
        r#"{"type":"int32","optional":false,"name":"org.apache.kafka.connect.data.Time","version":1,"field":"time"}"#,
        r#"{"type":"int64","optional":false,"name":"org.apache.kafka.connect.data.Timestamp","version":1,"field":"ts"}"#,
        r#"{"type":"array","items":{"type":"string","optional":true},"optional":false,"field":"l"}"#,
        r#"{"type":"array","items":{"type":"bytes","optional":false},"optional":false,"field":"lb"}"#,
        r#"{"type":"map","keys":{"type":"string","optional":false},"values":{"type":"string","optional":true},"optional":false,"field":"m"}"#,
        r#"{"type":"map","keys":{"type":"int32","optional":false},"values":{"type":"int64","optional":false},"optional":false,"field":"mi"}"#,
        &format!(r#"{nested}"n"}}"#),
        &format!(r#"{nested}"none"}}"#),
        r#"{"type":"struct","fields":[],"optional":false,"field":"e\\"}"#,
    ]
    .join(",");
    let payload = written("JsonConverter", OFF, &schema, &value).unwrap();
    let expected = format!(
        r#"{{"schema":{{"type":"struct","fields":[{fields}],"optional":false,"name":"s","version":3,"doc":"words \"here\""}},"payload":{payload}}}"#
    );
    assert_eq!(written("JsonConverter", ON, &schema, &value).unwrap(), expected);
}

/// But for the bytes, where Java writes an object's name.
#[test]
fn text_is_what_java_makes_of_a_value() {
    let (schema, value) = everything();
    let expected = concat!(
        "Struct{b=true,f=1.5,d=1.0E15,nan=NaN,t=a\"b\\c\nd😀,by=AP8=,dec=1E-10,date=Sat Feb 03 00:00:00 UTC 2024,",
        "time=Thu Jan 01 04:05:06 UTC 1970,ts=Sat Feb 03 04:05:06 UTC 2024,l=[x, y \"q\", null],lb=[AQ==],",
        "m={k=v\\, z=null},mi={1=2, 3=4},n=Struct{},e\\=Struct{}}"
    );
    assert_eq!(written("StringConverter", &[], &schema, &value).unwrap(), expected);
}

#[test]
fn a_header_is_what_connect_makes_of_a_value() {
    let (schema, value) = everything();
    let expected = concat!(
        r#"{"b":true,"f":1.5,"d":1.0E15,"nan":NaN,"t":"a\"b\\c"#,
        "\n",
        r#"d😀","by":"AP8=","dec":1E-10,"date":2024-02-03,"time":04:05:06.789Z,"ts":2024-02-03T04:05:06.789Z,"#,
        r#""l":["x","y \"q\"",null],"lb":["AQ=="],"m":{"k":"v\\","z":null},"mi":{1:2,3:4},"n":{"t":"d\"e","x":null},"#,
        r#""none":null,"e\\":{}}"#
    );
    assert_eq!(written("SimpleHeaderConverter", &[], &schema, &value).unwrap(), expected);
}

#[test]
fn a_single_value_is_written_by_each_converter_in_its_way() {
    let int32 = of(SchemaType::Int32);
    let date = Arc::new(Schema::of(SchemaType::Int32).named(logical::CONNECT_DATE, 1));
    let cases = [
        (of(SchemaType::String), text("say \"é\""), "say \"é\"", "say \"é\"", r#""say \"é\"""#),
        (of(SchemaType::Bytes), bytes(b"{}"), "{}", "e30=", r#""e30=""#),
        (int32, Value::Integer(-5), "-5", "-5", "-5"),
        (of(SchemaType::Boolean), Value::Boolean(false), "false", "false", "false"),
        (Arc::new(decimal_schema(2)), decimal(1230, 2), "12.30", "12.30", r#""BM4=""#),
        (date, Value::Integer(19_756), "Sat Feb 03 00:00:00 UTC 2024", "2024-02-03", "19756"),
    ];
    for (schema, value, as_text, as_header, as_json) in cases {
        assert_eq!(written("StringConverter", &[], &schema, &value).as_deref(), Some(as_text));
        assert_eq!(written("SimpleHeaderConverter", &[], &schema, &value).as_deref(), Some(as_header));
        assert_eq!(written("JsonConverter", OFF, &schema, &value).as_deref(), Some(as_json));
    }
}

#[test]
fn a_string_and_bytes_are_passed_on_without_a_copy() {
    let original = Bytes::from_static(b"as it was");
    let cases = [
        ("StringConverter", SchemaType::String, Value::String(original.clone())),
        ("StringConverter", SchemaType::Bytes, Value::Bytes(original.clone())),
        ("SimpleHeaderConverter", SchemaType::String, Value::String(original.clone())),
        ("ByteArrayConverter", SchemaType::Bytes, Value::Bytes(original.clone())),
        ("BinaryDataConverter", SchemaType::Bytes, Value::Bytes(original.clone())),
    ];
    for (class, kind, value) in cases {
        let written = prepared(class, &[], Some(&of(kind))).unwrap().convert(&value).unwrap().unwrap();
        assert_eq!(written.as_ptr(), original.as_ptr(), "{class}");
    }
}

#[test]
fn null_is_null_but_json_writes_one_of_its_own() {
    let optional = Arc::new(Schema::of(SchemaType::Bytes).optional());
    for class in ["StringConverter", "SimpleHeaderConverter", "ByteArrayConverter", "BinaryDataConverter"] {
        assert_eq!(written(class, &[], &optional, &Value::Null), None, "{class}");
    }
    let default = Some(Value::Integer(7));
    let with_default = Arc::new(Schema { default: default.clone(), ..Schema::of(SchemaType::Int32) });
    let optional_with_default = Arc::new(Schema { default, ..Schema::of(SchemaType::Int32).optional() });
    let unreplaced = &[("schemas.enable", "false"), ("replace.null.with.default", "false")][..];
    let cases = [
        (&optional, OFF, "null"),
        (&optional, ON, r#"{"schema":{"type":"bytes","optional":true},"payload":null}"#),
        (&with_default, OFF, "7"),
        (&with_default, ON, r#"{"schema":{"type":"int32","optional":false,"default":7},"payload":7}"#),
        (&optional_with_default, OFF, "7"),
        (&optional_with_default, unreplaced, "null"),
    ];
    for (schema, options, expected) in cases {
        assert_eq!(written("JsonConverter", options, schema, &Value::Null).as_deref(), Some(expected));
    }
}

#[test]
fn json_refuses_what_its_schema_does_not_allow() {
    let array = of(SchemaType::Array(of(SchemaType::String)));
    let cases = [
        (of(SchemaType::String), Value::Null, "it is null where its schema knows neither null nor a default"),
        (
            array.clone(),
            Value::Array(vec![Value::Null]),
            "it is null where its schema knows neither null nor a default",
        ),
        (Arc::new(decimal_schema(2)), decimal(1, 3), "it is a decimal of another scale than its schema says"),
        (of(SchemaType::Int32), Value::Array(vec![]), "it is not the int32 that its schema says"),
        (of(SchemaType::Struct(vec![])), Value::Struct(vec![Value::Null]), "it is not the struct that its schema says"),
    ];
    for (schema, value, reason) in cases {
        let error = prepared("JsonConverter", OFF, Some(&schema)).unwrap().convert(&value).unwrap_err();
        assert_eq!(error.to_string(), reason);
    }
}

#[test]
fn a_document_without_a_schema_is_written_as_it_is() {
    let document = Value::Json(Bytes::from_static(br#"{"big":12345678901234567890}"#));
    let cases = [
        ("JsonConverter", OFF, r#"{"big":12345678901234567890}"#),
        ("JsonConverter", ON, r#"{"schema":null,"payload":{"big":12345678901234567890}}"#),
        ("StringConverter", &[], r#"{"big":12345678901234567890}"#),
        ("SimpleHeaderConverter", &[], r#"{"big":12345678901234567890}"#),
    ];
    for (class, options, expected) in cases {
        let written = prepared(class, options, None).unwrap().convert(&document).unwrap();
        assert_eq!(written.as_deref(), Some(expected.as_bytes()), "{class}");
        assert_eq!(prepared(class, options, None).unwrap().convert(&Value::Null), Ok(None), "{class}");
    }
    let envelope = of(SchemaType::Struct(vec![field("payload", Schema::of(SchemaType::String))]));
    let enveloped = Value::Struct(vec![document]);
    let expected = r#"{"payload":{"big":12345678901234567890}}"#;
    assert_eq!(written("JsonConverter", OFF, &envelope, &enveloped).as_deref(), Some(expected));
}

#[test]
fn a_converter_for_one_type_writes_it_big_end_first() {
    let cases: [(&str, SchemaType, Value, &[u8]); 9] = [
        ("ShortConverter", SchemaType::Int16, Value::Integer(-2), &[0xFF, 0xFE]),
        ("IntegerConverter", SchemaType::Int32, Value::Integer(258), &[0, 0, 1, 2]),
        ("LongConverter", SchemaType::Int64, Value::Integer(258), &[0, 0, 0, 0, 0, 0, 1, 2]),
        ("FloatConverter", SchemaType::Float32, Value::Float32(1.5), &[0x3F, 0xC0, 0, 0]),
        ("FloatConverter", SchemaType::Float32, Value::Float32(-f32::NAN), &[0x7F, 0xC0, 0, 0]),
        ("DoubleConverter", SchemaType::Float64, Value::Float64(-1.0), &[0xBF, 0xF0, 0, 0, 0, 0, 0, 0]),
        ("DoubleConverter", SchemaType::Float64, Value::Float64(-f64::NAN), &[0x7F, 0xF8, 0, 0, 0, 0, 0, 0]),
        ("BooleanConverter", SchemaType::Boolean, Value::Boolean(true), &[1]),
        ("BooleanConverter", SchemaType::Boolean, Value::Boolean(false), &[0]),
    ];
    for (class, kind, value, expected) in cases {
        let prepared = prepared(class, &[], Some(&of(kind))).unwrap();
        assert_eq!(prepared.convert(&value).unwrap().as_deref(), Some(expected), "{class}");
        assert_eq!(prepared.convert(&Value::Null), Ok(None), "{class}");
    }
}

#[test]
fn a_type_that_a_converter_does_not_take_is_refused_beforehand() {
    let date = Schema::of(SchemaType::Int32).named(logical::CONNECT_DATE, 1);
    let cases = [
        (
            "ByteArrayConverter",
            Schema::of(SchemaType::String),
            "it holds string, and ByteArrayConverter takes bytes alone",
        ),
        ("BinaryDataConverter", Schema::of(SchemaType::String), "unless delegate.converter.type names the converter"),
        ("LongConverter", Schema::of(SchemaType::Int32), "it holds int32, which LongConverter does not take"),
        ("IntegerConverter", date, "it holds int32 (org.apache.kafka.connect.data.Date), which"),
    ];
    for (class, schema, expected) in cases {
        let reason = prepared(class, &[], Some(&Arc::new(schema))).unwrap_err();
        assert!(reason.contains(expected), "{reason}");
    }
    for class in ["ByteArrayConverter", "BinaryDataConverter", "LongConverter"] {
        let reason = prepared(class, &[], None).unwrap_err();
        assert!(reason.starts_with("it holds a JSON document, "), "{reason}");
    }
}

#[test]
fn binary_data_goes_past_the_delegate_and_all_else_goes_to_it() {
    let options = [
        ("delegate.converter.type.schemas.enable", "false"),
        ("delegate.converter.type", "org.apache.kafka.connect.json.JsonConverter"),
    ];
    let written = |kind, value: Value| {
        written("io.debezium.converters.BinaryDataConverter", &options, &of(kind), &value).unwrap()
    };
    assert_eq!(written(SchemaType::Bytes, bytes(b"{}")), "{}");
    assert_eq!(written(SchemaType::String, text("{}")), r#""{}""#);
    let decimals = Arc::new(decimal_schema(2).optional());
    let prepared = prepared("BinaryDataConverter", &options, Some(&decimals)).unwrap();
    assert_eq!(prepared.convert(&Value::Null), Ok(None));
    assert_eq!(prepared.convert(&decimal(1230, 2)).unwrap().unwrap(), r#""BM4=""#);
}

#[test]
fn text_passes_where_it_is_what_would_be_written() {
    let cases = [
        ("StringConverter", &[][..], SchemaType::String, [true, true, false]),
        ("SimpleHeaderConverter", &[], SchemaType::String, [true, true, false]),
        ("JsonConverter", OFF, SchemaType::Int64, [false, true, false]),
        ("JsonConverter", ON, SchemaType::Int64, [false, false, false]),
        ("LongConverter", &[], SchemaType::Int64, [false, false, false]),
        ("ByteArrayConverter", &[], SchemaType::Bytes, [false, false, false]),
        (
            "BinaryDataConverter",
            &[("delegate.converter.type", "StringConverter")],
            SchemaType::String,
            [true, true, false],
        ),
    ];
    for (class, options, kind, expected) in cases {
        let prepared = prepared(class, options, Some(&of(kind))).unwrap();
        let passes = [TextForm::Verbatim, TextForm::Digits, TextForm::Other].map(|form| prepared.passes(form));
        assert_eq!(passes, expected, "{class}");
    }
}

#[test]
fn a_class_is_known_with_its_package_and_without_and_no_other() {
    for class in [
        "org.apache.kafka.connect.storage.StringConverter",
        "StringConverter",
        "io.debezium.converters.ByteBufferConverter",
    ] {
        assert!(Converter::new(&choice(class, &[]), Side::Value).is_ok(), "{class}");
    }
    let cases = [
        ("com.acme.StringConverter", "did you mean \"org.apache.kafka.connect.storage.StringConverter\"?"),
        (
            "org.apache.kafka.connect.json.JsonConvertor",
            "did you mean \"org.apache.kafka.connect.json.JsonConverter\"?",
        ),
        ("io.confluent.connect.avro.AvroConverter", "needs a schema registry and is not offered"),
        ("io.confluent.connect.json.JsonSchemaConverter", "needs a schema registry and is not offered"),
        ("io.debezium.converters.CloudEventsConverter", "is not offered, for it wraps a change event"),
        ("xConverter.StringConverter", "did you mean"),
        ("nonsense", "there are StringConverter, JsonConverter, ByteArrayConverter,"),
        ("SimpleHeaderConverter", "SimpleHeaderConverter makes headers only"),
    ];
    for (class, expected) in cases {
        let fault = Converter::new(&choice(class, &[]), Side::Value).unwrap_err();
        assert_eq!(fault.option, "value.converter");
        assert!(fault.reason.contains(expected), "{}", fault.reason);
    }
}

#[test]
fn an_option_that_is_nearly_one_is_refused_and_a_foreign_one_mentioned() {
    let cases = [
        ("JsonConverter", "schema.enable", "true", "did you mean \"schemas.enable\"?"),
        ("JsonConverter", "schemas.enable", "yes", "\"yes\" is none of true, false"),
        ("JsonConverter", "schemas.cache.size", "many", "\"many\" is no number"),
        ("JsonConverter", "decimal.format", "text", "\"text\" is none of BASE64, NUMERIC"),
        ("StringConverter", "converter.encoding", "ISO-8859-1", "text is published as UTF-8"),
    ];
    for (class, name, value, expected) in cases {
        let fault = Converter::new(&choice(class, &[(name, value)]), Side::Key).unwrap_err();
        assert_eq!(fault.option, format!("key.converter.{name}"));
        assert!(fault.reason.contains(expected), "{}", fault.reason);
    }
    let accepted = [
        ("StringConverter", "converter.encoding", "utf8"),
        ("StringConverter", "converter.type", "key"),
        ("JsonConverter", "schemas.cache.size", "1000"),
        ("JsonConverter", "schemas.enable", " True "),
    ];
    for (class, name, value) in accepted {
        let converter = Converter::new(&choice(class, &[(name, value)]), Side::Key).unwrap();
        assert!(converter.warnings().is_empty(), "{name}");
    }
    let foreign = Converter::new(&choice("JsonConverter", &[("schema.registry.url", "x")]), Side::Key).unwrap();
    let expected = "key.converter.schema.registry.url: JsonConverter has no such option; it changes nothing";
    assert_eq!(foreign.warnings(), [expected]);
}

#[test]
fn a_fault_of_a_delegate_bears_its_whole_name() {
    let cases = [
        (&[("delegate.converter.type", "SimpleHeaderConverter")][..], "value.converter.delegate.converter.type"),
        (
            &[("delegate.converter.type", "JsonConverter"), ("delegate.converter.type.schemas.enabled", "true")],
            "value.converter.delegate.converter.type.schemas.enabled",
        ),
        (&[("delegate.convertor.type", "JsonConverter")], "value.converter.delegate.convertor.type"),
        (
            &[("delegate.converter.type.schemas.enable", "true")],
            "value.converter.delegate.converter.type.schemas.enable",
        ),
    ];
    for (options, expected) in cases {
        let fault = Converter::new(&choice("BinaryDataConverter", options), Side::Value).unwrap_err();
        assert_eq!(fault.option, expected);
    }
}

/// Connect takes its schema for bytes, and so its null for theirs.
#[test]
fn a_decimal_is_no_bytes_but_its_null_is() {
    let schema = Arc::new(decimal_schema(2).optional());
    for class in ["ByteArrayConverter", "BinaryDataConverter"] {
        let prepared = prepared(class, &[], Some(&schema)).unwrap();
        assert_eq!(prepared.convert(&Value::Null), Ok(None), "{class}");
        let error = prepared.convert(&decimal(1230, 2)).unwrap_err();
        assert!(error.to_string().starts_with("it is a decimal, and the converter takes bytes alone"), "{error}");
    }
}
