//! Patterns, inputs and results as JDK 17 gives them.

use super::{Pattern, Refusal, Replacement};

/// Pattern, input, whether it matches as a whole, replacement, and the input with the first match replaced.
type Case<'a> = (&'a str, &'a str, bool, &'a str, &'a str);

fn assert_cases(cases: &[Case<'_>]) {
    for (pattern, input, matches, replacement, result) in cases {
        let compiled = Pattern::new(pattern).unwrap_or_else(|refusal| panic!("{pattern}: {refusal}"));
        let by = Replacement::new(replacement, &compiled).unwrap_or_else(|refusal| panic!("{replacement}: {refusal}"));
        assert_eq!(compiled.matches(input), Ok(*matches), "{pattern} on {input:?}");
        let replaced = match compiled.find(input).unwrap() {
            Some(found) => by.replace(input, &found),
            None => (*input).to_owned(),
        };
        assert_eq!(replaced, *result, "{pattern} on {input:?} by {replacement}");
    }
}

fn refusal(pattern: &str) -> Refusal {
    match Pattern::new(pattern) {
        Err(refusal) => refusal,
        Ok(_) => panic!("{pattern} is accepted"),
    }
}

#[test]
fn a_find_starts_anew_and_may_find_less_than_the_whole() {
    assert_cases(&[
        ("(?<routedByValue>.*)", "Order", true, "outbox.event.${routedByValue}", "outbox.event.Order"),
        ("(?<routedByValue>.*)", "", true, "outbox.event.${routedByValue}", "outbox.event."),
        ("Or|Order", "Order", true, "X", "Xder"),
        ("(Or)(.*)", "Order", true, "$2.$1.events", "der.Or.events"),
        ("a*?", "aaa", true, "X", "Xaaa"),
        ("(a|ab)(c|bcd)(d*)", "abcd", true, "$1-$2-$3", "a-bcd-"),
        ("b", "abc", false, "[$0]", "a[b]c"),
    ]);
}

#[test]
fn the_dot_stops_at_every_line_terminator_of_java() {
    for terminator in ["\n", "\r", "\u{85}", "\u{2028}", "\u{2029}"] {
        let input = format!("a{terminator}b");
        assert_cases(&[
            (".*", &input, false, "X", &format!("X{terminator}b")),
            ("(?s).*", &input, true, "X", "X"),
            ("(?d).*", &input, terminator != "\n", "X", &format!("X{}", if terminator == "\n" { "\nb" } else { "" })),
        ]);
    }
    assert_cases(&[(".", "\u{b}", true, "X", "X"), (".", "😀", true, "X", "X")]);
}

#[test]
fn the_dollar_also_holds_before_the_last_line_terminator() {
    assert_cases(&[
        ("a$", "a", true, "X", "X"),
        ("a$", "a\n", false, "X", "X\n"),
        ("a$", "a\r\n", false, "X", "X\r\n"),
        ("a$", "a\u{2028}", false, "X", "X\u{2028}"),
        ("a$", "a\n\n", false, "X", "a\n\n"),
        ("\r$", "\r\n", false, "X", "\r\n"),
        ("(?d)a$", "a\r", false, "X", "a\r"),
        ("a\\Z", "a\n", false, "X", "X\n"),
        ("a\\z", "a\n", false, "X", "a\n"),
        ("(?m)a$", "a\nb", false, "X", "X\nb"),
        ("(?m)^b", "a\nb", false, "X", "a\nX"),
        ("(?m)^b", "a\r\nb", false, "X", "a\r\nX"),
        ("(?m)^", "", false, "X", ""),
        ("(?m)^$", "a\n", false, "X", "a\n"),
        ("(?dm)^b", "a\rb", false, "X", "a\rb"),
        ("^b", "a\nb", false, "X", "a\nb"),
        ("\\Ga", "aa", false, "X", "Xa"),
    ]);
}

#[test]
fn the_short_classes_are_of_ascii() {
    assert_cases(&[
        ("\\d", "\u{663}", false, "X", "\u{663}"),
        ("\\w+", "éab", false, "X", "éX"),
        ("\\s", "\u{a0}", false, "X", "\u{a0}"),
        ("\\s", "\u{b}", true, "X", "X"),
        ("\\W", "é", true, "X", "X"),
        ("\\h", "\u{180e}", true, "X", "X"),
        ("\\H", "\u{3000}", false, "X", "\u{3000}"),
        ("\\v", "\u{85}", true, "X", "X"),
        ("\\R", "\r\n", true, "X", "X"),
        ("\\R\\n", "\r\n", true, "X", "X"),
        ("\\R{2}", "\r\n", false, "X", "\r\n"),
        ("(?U)\\d\\w\\s", "\u{663}é\u{2003}", true, "X", "X"),
        ("\\bb\\B", "a bc", false, "X", "a Xc"),
    ]);
}

#[test]
fn properties_are_posix_categories_and_scripts() {
    assert_cases(&[
        ("\\p{Alpha}", "é", false, "X", "é"),
        ("\\p{L}\\pL\\p{IsL}", "éaß", true, "X", "X"),
        ("\\P{Lu}", "É", false, "X", "É"),
        ("\\p{IsGreek}\\p{script=Latin}\\p{sc=Cyrl}", "αbж", true, "X", "X"),
        ("[\\p{Punct}&&[^_]]+", "._-", false, "X", "X_-"),
        ("(?i)\\p{Lower}", "A", true, "X", "X"),
        ("\\p{gc=Nd}", "\u{663}", true, "X", "X"),
        ("\\p{L1}", "ÿ", true, "X", "X"),
    ]);
}

#[test]
fn classes_unite_and_intersect() {
    assert_cases(&[
        ("[a-z&&[^b]]+", "abc", false, "X", "Xbc"),
        ("[a-c[x-z]]+", "axd", false, "X", "Xd"),
        ("[a-f&&b-g&&c-h]", "c", true, "X", "X"),
        ("[a-f&&[b]c&&d]", "c", false, "X", "c"),
        ("[a&&^b]", "^", false, "X", "^"),
        ("[]a]+", "]a", true, "X", "X"),
        ("[^]a]", "]", false, "X", "]"),
        ("[a-]+", "a-", true, "X", "X"),
        ("[\\d-z]+", "1-z5", true, "X", "X"),
        ("[&&a]", "a", true, "X", "X"),
        ("[a&b]+", "a&b", true, "X", "X"),
        ("[\\Qa-z]\\E]+", "a-z]b", false, "X", "Xb"),
        ("[\\v-\\x10]", "\u{c}", true, "X", "X"),
        ("[.$(]+", ".$(", true, "X", "X"),
        ("[é-ü]", "ö", true, "X", "X"),
    ]);
}

#[test]
fn escapes_name_characters() {
    assert_cases(&[
        ("\\u0041\\x42\\x{43}\\0104\\0105", "ABCDE", true, "X", "X"),
        ("\\uD83D\\uDE00\\x{1F600}", "😀😀", true, "X", "X"),
        ("\\cA\\e\\a\\f\\t", "\u{1}\u{1b}\u{7}\u{c}\t", true, "X", "X"),
        ("\\0477", "'7", true, "X", "X"),
        ("\\0400", " 0", true, "X", "X"),
        ("\\Qa.b\\E*", "a.bbb", true, "X", "X"),
        ("a\\Q\\E*", "aaa", true, "X", "X"),
        ("\\Q\\\\E", "\\", true, "X", "X"),
        ("\\.\\-\\_\\é", ".-_é", true, "X", "X"),
        ("]}", "]}", true, "X", "X"),
    ]);
}

#[test]
fn switches_act_until_their_group_ends() {
    assert_cases(&[
        ("(?i)order(.*)", "OrDeRs", true, "x.$1", "x.s"),
        ("(?i)é", "É", false, "X", "É"),
        ("(?i)k", "\u{212a}", false, "X", "\u{212a}"),
        ("(?iu)[A-Z]k", "\u{17f}\u{212a}", true, "X", "X"),
        ("(?i)[b-d]", "C", true, "X", "X"),
        ("(?i)[^b-d]", "C", false, "X", "C"),
        ("(?:(?i)a)b", "AB", false, "X", "AB"),
        ("a(?i)b|c", "C", true, "X", "X"),
        ("a(?i:b)c", "aBc", true, "X", "X"),
        ("(?i)a(?-i)b", "Ab", true, "X", "X"),
        ("(?x) a b # c\n d", "abd", true, "X", "X"),
        ("(?x)\\ a\\#", " a#", true, "X", "X"),
        ("(?x)a + b", "aab", true, "X", "X"),
    ]);
}

#[test]
fn quantifiers_are_greedy_lazy_or_possessive() {
    assert_cases(&[
        ("a{2}", "aaa", false, "X", "Xa"),
        ("a{2,}", "aaa", true, "X", "X"),
        ("a{1,2}?", "aaa", false, "X", "Xaa"),
        ("a*+a", "aaa", false, "X", "aaa"),
        ("(?:.+){2}+", "ab", false, "X", "ab"),
        ("(?>a|ab)c", "abc", false, "X", "abc"),
        ("(?:a|b)+", "abc", false, "X", "Xc"),
        ("(a)|b", "b", true, "[$1]", "[]"),
        ("(?:(a)|b)*", "ab", true, "$1", "a"),
        ("(\\S+?)*", "abc", true, "$1", "c"),
        ("(?:a?b??)*", "abab", true, "X", "Xbab"),
    ]);
}

#[test]
fn patterns_look_around_and_back() {
    assert_cases(&[
        ("(?=Order).*", "Orders", true, "X", "X"),
        ("(?!Order).*", "Orders", false, "X", "OX"),
        ("(?<=a)b", "ab", false, "X", "aX"),
        ("(?<!a)b", "ab", false, "X", "ab"),
        ("(?<=a{1,3})b", "aab", false, "X", "aaX"),
        ("(.)\\1", "aa", true, "X", "X"),
        ("(?<q>['\"]).*\\k<q>", "'a\"'", true, "$1", "'"),
        ("(a)\\11", "aa1", true, "X", "X"),
    ]);
}

#[test]
fn replacements_take_the_longest_number_that_is_a_group() {
    assert_cases(&[
        ("(a)(b)", "ab", true, "$12", "a2"),
        ("(a)(b)", "ab", true, "$2$1$0", "baab"),
        ("(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)(k)", "abcdefghijk", true, "$11-$110", "k-k0"),
        ("(?<x1>a)", "a", true, "${x1}x", "ax"),
        ("a", "a", true, "\\$1\\\\\\x", "$1\\x"),
        ("a", "a", true, "é😀\\é", "é😀é"),
        ("a", "a", true, "", ""),
    ]);
}

#[test]
fn what_cannot_be_translated_is_refused_by_name_and_position() {
    let cases = [
        ("(", 1, "not closed"),
        ("a)", 2, "closes no group"),
        ("a(?<1>b)", 5, "name of a group"),
        ("(?<a>b)(?<a>c)", 11, "second group"),
        ("(?<a-b>c)", 4, "name of a group"),
        ("a**", 3, "nothing for this \"*\""),
        ("a{2}{3}", 5, "after a quantifier"),
        ("a{,3}", 2, "starts no repetition"),
        ("{", 1, "nothing for this \"{\""),
        ("a{3,2}", 2, "below the lower"),
        ("a{99999999999}", 2, "too large"),
        ("^*", 2, "without width"),
        ("(a*)*", 5, "can be empty"),
        ("(?<=a+)b", 6, "upper bound"),
        ("(a)(?<!\\1)b", 8, "back-reference"),
        ("[a", 1, "not closed"),
        ("[]", 1, "not closed"),
        ("x[z-a]", 3, "ends before it begins"),
        ("[a-\\d]", 2, "not one character"),
        ("[a&&]", 3, "nothing stands"),
        ("[a&&[b]&]", 8, "single \"&\""),
        ("(?x)[a b]", 7, "(?x)"),
        ("\\", 1, "escapes nothing"),
        ("a\\y", 2, "\\y"),
        ("[\\1]", 2, "\\1"),
        ("\\E", 1, "\\E"),
        ("\\X", 1, "\\X"),
        ("\\N{SPACE}", 1, "\\N"),
        ("\\b{g}", 1, "\\b{"),
        ("\\x4", 1, "two hexadecimal digits"),
        ("\\x{110000}", 1, "two hexadecimal digits"),
        ("\\u004", 1, "four hexadecimal digits"),
        ("\\uD83D", 1, "surrogate"),
        ("\\08", 1, "octal"),
        ("\\c", 3, "\\c"),
        ("\\p{javaLowerCase}", 3, "\"javaLowerCase\""),
        ("\\p{InGreek}", 3, "\"InGreek\""),
        ("\\p{Nope}", 3, "\"Nope\""),
        ("\\p{L", 3, "not closed"),
        ("\\p", 3, "\"\""),
        ("(?U)\\p{Alpha}", 7, "\"Alpha\""),
        ("(?c)a", 3, "canonical"),
        ("(?y)a", 3, "unknown"),
        ("(?'a'b)", 3, "unknown"),
        ("\\1(a)", 1, "group 1"),
        ("(a\\1)", 3, "group 1"),
        ("(a)\\2", 4, "group 2"),
        ("\\k<a>", 1, "\"a\""),
        ("\\ka", 1, "\\k"),
        ("(?i)(a)\\1", 8, "(?i)"),
        ("(?iu)é", 6, "(?iu)"),
    ];
    for (pattern, position, part) in cases {
        match refusal(pattern) {
            Refusal::At { position: found, what } => {
                assert!(what.contains(part), "{pattern}: {what}");
                assert_eq!(found, position, "{pattern}: {what}");
            }
            Refusal::Whole(what) => panic!("{pattern}: {what}"),
        }
    }
}

#[test]
fn a_pattern_too_large_or_too_deep_is_refused() {
    assert!(matches!(refusal("(?:\\w{1000}){1000}"), Refusal::Whole(what) if what.contains("too large")));
    let deep = format!("{}a{}", "(".repeat(100), ")".repeat(100));
    assert!(refusal(&deep).to_string().contains("inside each other"));
    let deep = format!("{}a{}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(refusal(&deep).to_string().contains("inside each other"));
}

#[test]
fn replacements_that_java_would_refuse_are_refused_with_their_position() {
    let cases = [
        ("a$", 2, "neither a number"),
        ("a\\", 2, "escapes nothing"),
        ("$x", 1, "neither a number"),
        ("$2", 1, "1 groups"),
        ("${", 1, "not closed"),
        ("${}", 1, "\"\""),
        ("${y}", 1, "\"y\""),
        ("${x", 1, "not closed"),
        ("${x y}", 1, "not closed"),
    ];
    let pattern = Pattern::new("(?<x>a)").unwrap();
    for (text, position, part) in cases {
        match Replacement::new(text, &pattern) {
            Err(Refusal::At { position: found, what }) => {
                assert!(what.contains(part), "{text}: {what}");
                assert_eq!(found, position, "{text}: {what}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn a_pattern_that_backtracks_without_end_meets_the_step_limit() {
    let pattern = Pattern::new(r"(?:(a|aa)+(?!b))+\1$").unwrap();
    let input = format!("{}c", "a".repeat(200));
    assert!(pattern.matches(&input).is_err());
}

proptest::proptest! {
    #[test]
    fn no_pattern_and_no_replacement_panics(
        pattern in "[\\\\()\\[\\]{}?*+|^$.&<>=!:,#a-c0-2A-ZQE -]{0,24}",
        input in "[a-c0-2\\n -]{0,8}",
        replacement in "[$\\\\{}a-c0-2]{0,8}",
    ) {
        if let Ok(compiled) = Pattern::new(&pattern) {
            let found = compiled.find(&input);
            let _ = compiled.matches(&input);
            if let (Ok(Some(found)), Ok(by)) = (found, Replacement::new(&replacement, &compiled)) {
                by.replace(&input, &found);
            }
        }
    }
}
