//! Reads Prometheus' text format 0.0.4, as strictly as `promtool check metrics` would.
//!
//! A collector is lenient and a figure that it drops is missed by nobody until it is needed, so here every line has to be one that
//! <https://prometheus.io/docs/instrumenting/exposition_formats/> allows, each family has HELP, TYPE and its samples together and in this order, and no
//! series comes twice.

use std::collections::{BTreeMap, BTreeSet};

/// One value of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The figure.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The value.
    pub value: f64,
}

/// Everything that a page of figures says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The kind of each figure.
    pub kinds: BTreeMap<String, String>,
    /// All values, in order.
    pub samples: Vec<Sample>,
}

impl Page {
    /// Reads a page.
    ///
    /// # Errors
    ///
    /// The line that is not allowed, and why.
    pub fn parse(text: &str) -> Result<Self, String> {
        if !text.is_empty() && !text.ends_with('\n') {
            return Err("the last line has no end".to_owned());
        }
        let mut reader = Reader::default();
        for line in text.lines() {
            reader.take(line).map_err(|reason| format!("{reason}: {line}"))?;
        }
        Ok(reader.page)
    }

    /// The value of a figure with these labels among its own, if there is one.
    #[must_use]
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let has = |sample: &&Sample| {
            let is_so = |(label, value): &(&str, &str)| sample.labels.get(*label).is_some_and(|found| found == value);
            sample.name == name && labels.iter().all(is_so)
        };
        self.samples.iter().find(has).map(|sample| sample.value)
    }
}

#[derive(Default)]
struct Reader {
    page: Page,
    helped: BTreeSet<String>,
    current: String,
    series: BTreeSet<String>,
}

impl Reader {
    fn take(&mut self, line: &str) -> Result<(), String> {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').ok_or("a HELP without words")?;
            if !is_name(name, true) || help.is_empty() || !self.helped.insert(name.to_owned()) {
                return Err("a HELP of no figure, of nothing, or for the second time".into());
            }
            self.current = name.to_owned();
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or("a TYPE without a kind")?;
            let is_known = ["counter", "gauge", "histogram", "summary", "untyped"].contains(&kind);
            if !is_known || name != self.current || self.page.kinds.insert(name.to_owned(), kind.to_owned()).is_some() {
                return Err("a TYPE of no kind, apart from its HELP, or for the second time".into());
            }
            if (kind == "counter") != name.ends_with("_total") {
                return Err("counters end in _total, and nothing else does".into());
            }
            return Ok(());
        }
        if line.is_empty() || line.starts_with('#') {
            return Err("a line that says nothing".into());
        }
        self.take_sample(line)
    }

    fn take_sample(&mut self, line: &str) -> Result<(), String> {
        let (series, value) = line.rsplit_once(' ').ok_or("a sample without a value")?;
        let value = match value {
            "+Inf" => f64::INFINITY,
            "-Inf" => f64::NEG_INFINITY,
            "NaN" => f64::NAN,
            number if number.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
                number.parse().map_err(|_| "a value that is no number")?
            }
            _ => return Err("a value that is no number".into()),
        };
        let (name, labels) = match series.split_once('{') {
            None => (series, BTreeMap::new()),
            Some((name, rest)) => (name, labels(rest)?),
        };
        if !is_name(name, true) || name != self.current || !self.page.kinds.contains_key(name) {
            return Err("a sample apart from its TYPE".into());
        }
        if self.page.kinds[name] == "counter" && value < 0.0 {
            return Err("a counter below 0".into());
        }
        if !self.series.insert(format!("{name}{labels:?}")) {
            return Err("a series for the second time".into());
        }
        self.page.samples.push(Sample { name: name.to_owned(), labels, value });
        Ok(())
    }
}

/// The labels behind the opening brace.
fn labels(mut rest: &str) -> Result<BTreeMap<String, String>, String> {
    let mut labels = BTreeMap::new();
    while rest != "}" {
        let (name, behind) = rest.split_once("=\"").ok_or("a label without a value")?;
        let (value, behind) = quoted(behind)?;
        if !is_name(name, false) || labels.insert(name.to_owned(), value).is_some() {
            return Err("a label that is no name, or for the second time".into());
        }
        rest = match behind.strip_prefix(',') {
            Some(more) if more != "}" => more,
            Some(_) => return Err("a comma behind the last label".into()),
            None => behind,
        };
    }
    Ok(labels)
}

/// The text up to the closing quote, and what is behind it.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((place, character)) = characters.next() {
        match character {
            '"' => return Ok((value, &text[place + 1..])),
            '\\' => match characters.next() {
                Some((_, escaped @ ('"' | '\\'))) => value.push(escaped),
                Some((_, 'n')) => value.push('\n'),
                _ => return Err("an escape that there is none of".into()),
            },
            other => value.push(other),
        }
    }
    Err("a label's value without an end".into())
}

fn is_name(text: &str, may_have_colons: bool) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_' || (c == ':' && may_have_colons);
    text.starts_with(is_letter) && text.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_with_its_escapes() {
        let page = Page::parse(
            "# HELP a_total Words.\n# TYPE a_total counter\na_total{x=\"q\\\"\\\\\\n\",y=\"\"} 3\n# HELP b It.\n# TYPE b gauge\nb -1.5e3\n",
        )
        .unwrap();
        assert_eq!(page.value("a_total", &[("x", "q\"\\\n"), ("y", "")]), Some(3.0));
        assert_eq!(page.value("b", &[]), Some(-1500.0));
        assert_eq!((page.value("b", &[("x", "")]), page.kinds["b"].as_str()), (None, "gauge"));
    }

    #[test]
    fn what_promtool_would_refuse_is_refused() {
        let bad = [
            "a 1\n",
            "# HELP a It.\n# TYPE a gauge\na 1",
            "# HELP a It.\n# TYPE a gauge\na 1\na 1\n",
            "# HELP a It.\n# TYPE a gauge\na one\n",
            "# HELP a It.\n# TYPE a gauge\na{x=1} 1\n",
            "# HELP a It.\n# TYPE a gauge\na{x=\"\\t\"} 1\n",
            "# HELP a It.\n# TYPE a gauge\na{x=\"\",x=\"\"} 1\n",
            "# HELP a It.\n# TYPE a gauge\n# HELP b It.\n# TYPE b gauge\na 1\n",
            "# HELP a It.\n# TYPE a counter\na 1\n",
            "# HELP a It.\n# TYPE a thing\na 1\n",
            "# HELP a_total It.\n# TYPE a_total counter\na_total -1\n",
            "# TYPE a gauge\na 1\n",
            "\n",
        ];
        for text in bad {
            assert!(Page::parse(text).is_err(), "{text}");
        }
    }
}
