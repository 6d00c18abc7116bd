//! Renders `docs/configuration.md`, the reference page, from the definitions that also read the file.

use std::fmt::Write;

use walpost_core::connect;
use walpost_core::options::KnownOption;
use walpost_core::router::Options;

use super::raw::{self, Key, Section};

const OPENING: &str = "\
# Configuration

<!-- Generated: `walpost config reference > docs/configuration.md`. A test fails when it is stale. -->

walpost reads one TOML file: `-c FILE`, else the variable `WALPOST_CONFIG`, else `walpost.toml` in the working directory. `walpost config check`
reads it, connects to nothing, and prints everything that is wrong with it, one fault a line. An unknown key is a fault.

The least that works, with records on standard output:

```toml
[source]
url = \"postgres://walpost@127.0.0.1:5432/app\"

[[outbox]]
table = \"public.outbox\"

[sink]
type = \"stdout\"
```

## Values

- Times are whole numbers of **milliseconds** and end in `_ms`, or of days and end in `_days`.
- A **size** is a number of bytes or text with a unit: `\"16MiB\"`. The units are B, kB, MB, GB (powers of 1000) and KiB, MiB, GiB (powers of 1024).
- A number, a switch or a size may be written as text, so that it can come from a variable: `in_flight_records = \"${RECORDS:-10000}\"`.
- Relative paths start from the working directory.

## Variables and files

In every string value of the file, except under `[outbox.router]`:

| written | becomes |
|---|---|
| `${NAME}` | the environment variable; a fault when it is not set |
| `${NAME:-default}` | the same, or `default` when it is not set or empty |
| `${file:/path}` | the text of the file, without a line break at its end |
| `$$` | one `$`; a `$` before anything but `{` and `$` is itself |

What was put in is not looked at again. Under `[outbox.router]` nothing is replaced, because there `${…}` is the router's own: `${routedByValue}`.

## Secrets

A password can stand in the URL, in a file (`source.password_file`, or `${file:…}` anywhere), in a variable (`PGPASSWORD`, or `${…}` anywhere), or
in libpq's password file. No log line shows one. A password in a file that every user of the machine can read is worth a warning.
";

/// The whole page.
#[must_use]
pub fn render() -> String {
    let mut page = String::from(OPENING);
    for section in raw::manual() {
        render_section(&mut page, &section);
    }
    page
}

fn render_section(page: &mut String, section: &Section) {
    let title = if section.header.is_empty() {
        "In front of every section".to_owned()
    } else {
        format!("`{}`", section.header)
    };
    line(page, &format!("\n## {title}\n"));
    line(page, &paragraph(section.doc));
    let path = section.header.trim_matches(['[', ']']);
    for key in &section.keys {
        render_key(page, path, key);
    }
}

fn render_key(page: &mut String, path: &str, key: &Key) {
    let full = super::reader::join(path, key.name);
    let [sample, _] = key.samples;
    line(page, &format!("\n### `{full}`\n"));
    if key.kind == "section" {
        line(page, &format!("{}\n", paragraph(key.doc)));
        let pair = sample.trim_matches(['{', '}', ' ']);
        line(page, &format!("```toml\n[{full}]\n{pair}\n```"));
        if full == "outbox.router" {
            render_options(page, Options::known());
        }
        if full == "outbox.connect" {
            render_options(page, connect::Options::known());
        }
    } else {
        let default = match key.default.as_str() {
            "none" => String::new(),
            default => format!(" · default: `{default}`"),
        };
        line(page, &format!("{}{default} · example: `{} = {sample}`\n", key.kind, key.name));
        line(page, &paragraph(key.doc));
    }
}

/// The router and the connector document their own options.
fn render_options<O>(page: &mut String, known: &[KnownOption<O>]) {
    line(page, "\n| option | value | default | |\n|---|---|---|---|");
    for KnownOption { name, kind, default, doc, .. } in known {
        let kind = kind.replace('|', "\\|");
        let default = default.map(|default| format!("`{}`", default.replace('|', "\\|"))).unwrap_or_default();
        line(page, &format!("| `{name}` | {kind} | {default} | {} |", doc.replace('|', "\\|")));
    }
}

/// The lines of a doc comment as one line of Markdown.
fn paragraph(doc: &[&str]) -> String {
    doc.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

fn line(page: &mut String, text: &str) {
    // Writing to a `String` cannot fail.
    let _ = writeln!(page, "{text}");
}
