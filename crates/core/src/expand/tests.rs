use std::sync::Arc;

use super::{Expanded, Settings, expand};
use crate::connect::{ConverterChoice, Schema, Value};
use crate::convert::{Converter, Side};
use crate::router::{EmptyArrayBehavior, FieldNameAdjustment, NullBehavior};

const IGNORE: Settings = Settings {
    nulls: NullBehavior::Ignore,
    empty_arrays: EmptyArrayBehavior::Ignore,
    names: FieldNameAdjustment::None,
};

fn json(schemas: &str, schema: &Arc<Schema>, value: &Value) -> String {
    let options = vec![("schemas.enable".to_owned(), schemas.to_owned())];
    let choice = ConverterChoice { options, ..ConverterChoice::plain("JsonConverter") };
    let prepared = Converter::new(&choice, Side::Value).unwrap().prepare(Some(schema)).unwrap();
    String::from_utf8(prepared.convert(value).unwrap().unwrap().to_vec()).unwrap()
}

/// What is published without schemas: a structure, or `=` for text that stays, or a document after `!`.
fn expanded(text: &str, settings: Settings) -> String {
    match expand(text, "payload", settings) {
        Expanded::Unchanged => "=".to_owned(),
        Expanded::Structure(schema, value) => json("false", &schema, &value),
        Expanded::Document(document) => format!("!{}", std::str::from_utf8(&document).unwrap()),
    }
}

#[track_caller]
fn assert_expanded(settings: Settings, cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(expanded(text, settings), *expected, "{text}");
    }
}

#[test]
fn an_object_becomes_a_structure() {
    assert_expanded(
        IGNORE,
        &[
            ("{}", "{}"),
            (
                r#"{"fullName": "John Doe", "enabled": true, "rating": 4.9, "age": 42, "pets": ["dog", "cat"], "petObjects": [{"type": "dog"}, {"type": "cat"}]}"#,
                r#"{"fullName":"John Doe","enabled":true,"rating":4.9,"age":42,"pets":["dog","cat"],"petObjects":[{"type":"dog"},{"type":"cat"}]}"#,
            ),
            (r#"{"b":1,"a":{"d":{},"c":false}}"#, r#"{"b":1,"a":{"d":{},"c":false}}"#),
            ("{\"a\"\t:\n1\r,\"b\": [ 1 , 2 ] }", r#"{"a":1,"b":[1,2]}"#),
            (r#"{"a":1} xyz"#, r#"{"a":1}"#),
            (r#"{"a":1}}"#, r#"{"a":1}"#),
            (r#"{"a":1,"b":2,"a":"three"}"#, r#"{"a":"three","b":2}"#),
            (r#"{"\u0061":1,"a":2}"#, r#"{"a":2}"#),
            (r#"{"a":"😀é/\u00e9\/\b\ud83D\uDE00"}"#, r#"{"a":"\uD83D\uDE00é/é/\b\uD83D\uDE00"}"#),
            (r#"{"a":"\ude00x\ud83d"}"#, r#"{"a":"\uDE00x\uD83D"}"#),
            (r#"{"a":"\ud83d\n"}"#, r#"{"a":"\uD83D\n"}"#),
            (r#"{"a.b":1,"$x":2,"1k":3,"sp ace":4}"#, r#"{"a.b":1,"$x":2,"1k":3,"sp ace":4}"#),
        ],
    );
}

#[test]
fn numbers_are_int_long_or_double() {
    assert_expanded(
        IGNORE,
        &[
            (
                r#"{"i":2147483647,"j":2147483648,"k":9223372036854775807,"neg":-2147483648,"z":-0,"f":1.0,"e":1e2,"p":0.1,"t":1.10,"s":1e-7,"bigf":123456789012345678.123}"#,
                r#"{"i":2147483647,"j":2147483648,"k":9223372036854775807,"neg":-2147483648,"z":0,"f":1.0,"e":100.0,"p":0.1,"t":1.1,"s":1.0E-7,"bigf":1.2345678901234568E17}"#,
            ),
            (r#"{"a":-0.0,"b":0e0,"c":1E+5,"d":1e-400}"#, r#"{"a":-0.0,"b":0.0,"c":100000.0,"d":0.0}"#),
            (r#"{"a":1e400,"b":-1e400}"#, r#"{"a":"Infinity","b":"-Infinity"}"#),
            (r#"{"a":9007199254740993.0}"#, r#"{"a":9.007199254740992E15}"#),
        ],
    );
}

#[test]
fn nulls_and_empty_arrays_are_left_out() {
    assert_expanded(
        IGNORE,
        &[
            (r#"{"a":null,"b":1}"#, r#"{"b":1}"#),
            (r#"{"a":[],"b":1}"#, r#"{"b":1}"#),
            (r#"{"a": [], "b": {"c": []}, "d": 1}"#, r#"{"b":{},"d":1}"#),
            (r#"{"":null,"b":1}"#, r#"{"b":1}"#),
            (r#"{"a":[null,2,3]}"#, r#"{"a":[null,2,3]}"#),
            (r#"{"a":[[1],[],null,[null]]}"#, r#"{"a":[[1],[],null,[null]]}"#),
        ],
    );
}

#[test]
fn nulls_and_empty_arrays_are_kept_where_that_is_asked_for() {
    let nulls = Settings { nulls: NullBehavior::OptionalBytes, ..IGNORE };
    assert_expanded(
        nulls,
        &[
            (r#"{"a":null,"b":1}"#, r#"{"a":null,"b":1}"#),
            (r#"{"id": 1, "no": null, "deep": {"x": null}}"#, r#"{"id":1,"no":null,"deep":{"x":null}}"#),
            (r#"{"a":[null,null]}"#, r#"{"a":[null,null]}"#),
            (r#"{"a":[{"c":null},{"c":1}]}"#, r#"{"a":[{"c":null},{"c":1}]}"#),
            (r#"{"":null,"b":1}"#, "="),
            ("[null]", "![null]"),
            ("[]", r#"!"[]""#),
        ],
    );
    let empty_arrays = Settings { empty_arrays: EmptyArrayBehavior::OptionalString, ..IGNORE };
    assert_expanded(
        empty_arrays,
        &[(r#"{"a":[],"b":{"c":[]}}"#, r#"{"a":[],"b":{"c":[]}}"#), (r#"{"a":[[]]}"#, r#"{"a":[[]]}"#), ("[]", "![]")],
    );
}

#[test]
fn the_members_of_an_array_are_of_one_kind_and_width() {
    assert_expanded(
        IGNORE,
        &[
            (r#"{"a":[1,"x"]}"#, "="),
            (r#"{"a":[1,2.0]}"#, "="),
            (r#"{"a":[1,3000000000]}"#, "="),
            (r#"{"a":[1,12345678901234567890]}"#, "="),
            (r#"{"a":[true,1]}"#, "="),
            (r#"{"a":[null]}"#, "="),
            (r#"{"a":[[],[1]]}"#, "="),
            (r#"{"a":[{},[]]}"#, "="),
            ("[1, \"x\"]", "="),
            ("[[]]", "="),
            ("[null]", "="),
            (r#"{"a":[true,false,null]}"#, r#"{"a":[true,false,null]}"#),
            (r#"{"a":[1.5,2.0]}"#, r#"{"a":[1.5,2.0]}"#),
        ],
    );
}

#[test]
fn the_objects_of_an_array_are_united_in_the_order_of_the_document() {
    assert_expanded(
        IGNORE,
        &[
            (r#"{"a":[{"c":"1","d":"x"},{"c":"2"}]}"#, r#"{"a":[{"c":"1","d":"x"},{"c":"2","d":null}]}"#),
            (r#"{"a": [{"a": 1}, {"b": 2}]}"#, r#"{"a":[{"a":1,"b":null},{"a":null,"b":2}]}"#),
            (r#"{"a":[{"a":null},{"a":1}]}"#, r#"{"a":[{"a":null},{"a":1}]}"#),
            (r#"{"a":[{},{"x":null}]}"#, r#"{"a":[{},{}]}"#),
            (r#"{"a":[{"b":1},null]}"#, r#"{"a":[{"b":1},null]}"#),
            (r#"{"a":[{"b":1},null,{"c":3}]}"#, r#"!{"a":[{"b":1},null,{"c":3}]}"#),
            (r#"{"a":[{"b":[]},{"b":[1]}]}"#, r#"{"a":[{"b":[]},{"b":[1]}]}"#),
            (r#"{"a":[{"c":{"x":1}},{"c":{"y":2}}]}"#, r#"{"a":[{"c":{"x":1,"y":null}},{"c":{"x":null,"y":2}}]}"#),
            (
                r#"{"a":[{"c":[{"x":1}]},{"c":[{"y":2},{"x":3}]}]}"#,
                r#"{"a":[{"c":[{"x":1,"y":null}]},{"c":[{"x":null,"y":2},{"x":3,"y":null}]}]}"#,
            ),
            (r#"{"a":[[{"x":1}],[{"y":2}]]}"#, r#"{"a":[[{"x":1}],[{"x":null}]]}"#),
        ],
    );
}

#[test]
fn a_document_that_no_schema_fits_stays_whole() {
    assert_expanded(
        IGNORE,
        &[
            (r#"{"big": 12345678901234567890, "f": 1.10} x"#, r#"!{"big":12345678901234567890,"f":1.10}"#),
            (r#"{"a":[12345678901234567890]}"#, r#"!{"a":[12345678901234567890]}"#),
            (
                r#"{"objs": [{"a": 1}, {"a": "x y \" z"}], "n": null}"#,
                r#"!{"objs":[{"a":1},{"a":"x y \" z"}],"n":null}"#,
            ),
            (r#"[{"a": 1}]"#, r#"![{"a":1}]"#),
            ("[1, 2]", "![1,2]"),
            (r#"{"a":[[1],["x"]]}"#, r#"!{"a":[[1],["x"]]}"#),
            (r#"{"a":[[1],[2.5]]}"#, r#"!{"a":[[1],[2.5]]}"#),
            (r#"{"a":[[1],[[]]]}"#, r#"!{"a":[[1],[[]]]}"#),
            (r#"{"a":[{"b":1},{"b":3000000000}]}"#, r#"!{"a":[{"b":1},{"b":3000000000}]}"#),
            (r#"{"\ud83d": 1}"#, r#"!{"\ud83d":1}"#),
            (r#"{"a\\": [1, "\\"], "b": 1"#, "="),
        ],
    );
}

/// Debezium keeps the text of an empty array and loses its schema alone.
#[test]
fn an_empty_array_becomes_a_string_without_a_schema() {
    assert_expanded(IGNORE, &[("[]", r#"!"[]""#), ("[ ] \"x", r#"!"[ ] \"x""#)]);
}

#[test]
fn what_jackson_does_not_take_stays_as_it_is() {
    let texts = [
        "",
        " {\"a\":1}",
        "\u{FEFF}{}",
        "42",
        "null",
        "\"x\"",
        "not json",
        "{",
        "[",
        "{,}",
        "[1,]",
        "[1",
        "[,1]",
        "{\"a\"}",
        "{\"a\" 1}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{\"a\":1 \"b\":2}",
        "{a:1}",
        "{'a':1}",
        "{\"a\":'x'}",
        "{\"a\":NaN}",
        "{\"a\":tru}",
        "{\"a\":truex}",
        "{\"a\":1x}",
        "{\"a\":1.}",
        "{\"a\":.5}",
        "{\"a\":01}",
        "{\"a\":-}",
        "{\"a\":-01}",
        "{\"a\":+1}",
        "{\"a\":1e}",
        "{\"a\":1e+}",
        "{\"a\":0x1}",
        "{\"a\":\"x\ty\"}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12\"}",
        "{\"a\":\"\\u12g4\"}",
        "{\"a\":\"\\ud83d\\u12\"}",
        "{\"a\":\"x",
        "{\"a\":\"\\",
        "{\"a\":1/**/}",
        "/**/{\"a\":1}",
        "{\"a\":\u{A0}1}",
        "{\"a\":\u{B}1}",
        "{\"\":1}",
        "{\"b\":{\"\":{}}}",
    ];
    for text in texts {
        assert_eq!(expand(text, "payload", IGNORE), Expanded::Unchanged, "{text}");
    }
}

#[test]
fn limits_are_those_of_jackson() {
    let nested = |open: &str, close: &str, depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
    let number = |digits: &str| format!("{{\"n\":{digits}}}");
    let named = |name: &str, count: usize| format!("{{\"{}\":1}}", name.repeat(count));
    let cases = [
        (nested("{\"a\":", "}", 1000), true),
        (nested("{\"a\":", "}", 1001), false),
        (format!("{{\"b\":{}}}", nested("[", "]", 999)), true),
        (format!("{{\"b\":{}}}", nested("[", "]", 1000)), false),
        (number(&"1".repeat(1000)), true),
        (number(&"1".repeat(1001)), false),
        (number(&format!("-{}", "1".repeat(1000))), true),
        (number(&format!("-1.{}", "1".repeat(999))), true),
        (number(&format!("1.{}", "1".repeat(1000))), false),
        (number(&format!("{}e+10", "1".repeat(998))), true),
        (number(&format!("{}e+10", "1".repeat(999))), false),
        (number(&format!("0.{}", "0".repeat(1000))), true),
        (number(&format!("-0.{}", "1".repeat(1001))), false),
        (named("k", 50_000), true),
        (named("k", 50_001), false),
        (named("é", 50_000), true),
        (named("\\u0041", 50_001), false),
        (named("😀", 25_000), true),
        (named("😀", 25_001), false),
    ];
    for (text, is_taken) in cases {
        let is_unchanged = expand(&text, "payload", IGNORE) == Expanded::Unchanged;
        assert_eq!(is_unchanged, !is_taken, "{} of {} bytes", text.get(..12).unwrap_or_default(), text.len());
    }
}

/// A document may be as deep as Jackson allows and neither its schema nor its value overflows the stack.
#[test]
fn the_deepest_document_is_published() {
    let text = format!("{}{}", "{\"a\":[".repeat(500), "]}".repeat(500));
    assert_eq!(expanded(&text, Settings { empty_arrays: EmptyArrayBehavior::OptionalString, ..IGNORE }), text);
    let text = format!("{}1{}", "{\"a\":".repeat(1000), "}".repeat(1000));
    assert_eq!(expanded(&text, IGNORE), text);
    let Expanded::Structure(schema, value) = expand(&text, "payload", IGNORE) else { panic!("it is not expanded") };
    assert!(json("true", &schema, &value).ends_with(&format!(",\"payload\":{text}}}")));
}

/// The name of each struct is the whole path to it.
#[test]
fn names_that_would_take_too_much_room_leave_the_document_whole() {
    let long = "k".repeat(40_000);
    let members: Vec<String> = (0..1000).map(|index| format!("\"{index}\":{{}}")).collect();
    let text = format!("{{\"{long}\":{{{}}}}}", members.join(","));
    assert_eq!(expanded(&text, IGNORE), format!("!{text}"));
}

#[test]
fn an_object_of_many_members_keeps_the_last_of_each_name_in_the_place_of_the_first() {
    let members: Vec<String> = (0..100).map(|index| format!("\"m{}\":{index}", index * 7 % 30)).collect();
    let mut expected: Vec<(usize, usize)> = Vec::new();
    for index in 0..100 {
        let name = index * 7 % 30;
        match expected.iter_mut().find(|(known, _)| *known == name) {
            Some((_, value)) => *value = index,
            None => expected.push((name, index)),
        }
    }
    let expected: Vec<String> = expected.iter().map(|(name, value)| format!("\"m{name}\":{value}")).collect();
    assert_eq!(expanded(&format!("{{{}}}", members.join(",")), IGNORE), format!("{{{}}}", expected.join(",")));
}

#[test]
fn adjusted_names_keep_their_values() {
    let settings = Settings { names: FieldNameAdjustment::Avro, ..IGNORE };
    assert_expanded(
        settings,
        &[
            (r#"{"a.b":1,"$x":2,"ok":3}"#, r#"{"a_b":1,"_x":2,"ok":3}"#),
            (r#"{"1k":{"sp ace":[{"é":1}]}}"#, r#"{"_1k":{"sp_ace":[{"_":1}]}}"#),
            (r#"{"a.b": 1, "a_b": 2}"#, r#"!{"a.b":1,"a_b":2}"#),
            (r#"{"a.b":1,"a.b":2}"#, r#"{"a_b":2}"#),
        ],
    );
    let settings = Settings { names: FieldNameAdjustment::AvroUnicode, ..IGNORE };
    assert_expanded(settings, &[(r#"{"a.b":1,"a_b":2}"#, r#"{"a_u002eb":1,"a_u005fb":2}"#)]);
}

#[test]
fn structs_are_named_by_the_path_to_them_and_optional_unless_united() {
    let cases = [
        (
            r#"{"id": 1, "name": "x", "no": null, "tags": ["a"], "n": {"f": 1.25}}"#,
            concat!(
                r#"{"type":"struct","fields":[{"type":"int32","optional":true,"field":"id"},"#,
                r#"{"type":"string","optional":true,"field":"name"},"#,
                r#"{"type":"array","items":{"type":"string","optional":true},"optional":true,"field":"tags"},"#,
                r#"{"type":"struct","fields":[{"type":"double","optional":true,"field":"f"}],"optional":true,"name":"payload.n","#,
                r#""field":"n"}],"optional":true,"name":"payload"}"#
            ),
        ),
        (
            r#"{"a":[{"b":1},{"c":{"d":{}}}]}"#,
            concat!(
                r#"{"type":"struct","fields":[{"type":"array","items":{"type":"struct","fields":["#,
                r#"{"type":"int32","optional":true,"field":"b"},{"type":"struct","fields":["#,
                r#"{"type":"struct","fields":[],"optional":true,"name":"payload.a.c.d","field":"d"}],"optional":true,"#,
                r#""name":"payload.a.c","field":"c"}],"optional":false,"name":"payload.a"},"optional":true,"field":"a"}],"#,
                r#""optional":true,"name":"payload"}"#
            ),
        ),
        (
            r#"{"a":[[{"b":{"c":true}}]]}"#,
            concat!(
                r#"{"type":"struct","fields":[{"type":"array","items":{"type":"array","items":{"type":"struct","fields":["#,
                r#"{"type":"struct","fields":[{"type":"boolean","optional":true,"field":"c"}],"optional":true,"name":"b","#,
                r#""field":"b"}],"optional":true},"optional":true},"optional":true,"field":"a"}],"optional":true,"name":"payload"}"#
            ),
        ),
        (
            r#"{"a":[[{" ":{"c":{}}}]]}"#,
            concat!(
                r#"{"type":"struct","fields":[{"type":"array","items":{"type":"array","items":{"type":"struct","fields":["#,
                r#"{"type":"struct","fields":[{"type":"struct","fields":[],"optional":true,"name":"c","field":"c"}],"#,
                r#""optional":true,"name":" ","field":" "}],"optional":true},"optional":true},"optional":true,"field":"a"}],"#,
                r#""optional":true,"name":"payload"}"#
            ),
        ),
    ];
    for (text, expected) in cases {
        let Expanded::Structure(schema, value) = expand(text, "payload", IGNORE) else { panic!("{text}") };
        let payload = json("false", &schema, &value);
        assert_eq!(json("true", &schema, &value), format!("{{\"schema\":{expected},\"payload\":{payload}}}"));
    }
}

#[test]
fn a_document_does_not_grow_beyond_measure() {
    let objects = |count: usize| (0..count).map(|at| format!(r#"{{"k{at}":1}}"#)).collect::<Vec<_>>().join(",");
    let few = expanded(&format!(r#"{{"a":[{}]}}"#, objects(100)), IGNORE);
    assert!(few.starts_with(r#"{"a":[{"k0":1,"k1":null,"#), "{few:.60}");
    // Ten thousand objects of ten thousand fields.
    let many = format!(r#"{{"a":[{}]}}"#, objects(10_000));
    assert_eq!(expanded(&many, IGNORE), format!("!{many}"));
}
