//! What is written for people is true: the files for containers, the commands and links and settings that the documents name.
//!
//! No container is built or run here.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use saphyr::{LoadableYamlNode, Yaml};
use walpost::config::reference;
use walpost::exit::Exit;

use crate::config::Folder;
use crate::rig::WALPOST;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[track_caller]
fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every document for people, with its path.
fn documents() -> Vec<(PathBuf, String)> {
    let mut paths: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(PathBuf::from).into();
    let docs = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    paths.extend(docs.filter(|path| path.extension().is_some_and(|ending| ending == "md")));
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), read(path))).collect()
}

/// The blocks of a document that are marked with a language.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let start = format!("```{language}\n");
    text.split(start.as_str()).skip(1).filter_map(|rest| rest.split("\n```").next()).collect()
}

/// What stands between single backticks, outside of blocks.
fn code_spans(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|prose| prose.split('`').skip(1).step_by(2)).collect()
}

/// Has the program look at a configuration, which has to be good and worth no warning.
#[track_caller]
fn assert_good(config: &str, whose: &str) {
    let folder = Folder::new();
    let path = folder.write("walpost.toml", config);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let output =
        Command::new(&*WALPOST).args(["config", "check", "-c", &path]).env_remove("PGPASSWORD").output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && errors.is_empty(), "{whose}: {errors}\n{config}");
}

/// The program's own help for a command; `None` where there is no such command.
fn help(words: &[&str]) -> Option<String> {
    let output = Command::new(&*WALPOST).args(words).arg("--help").output().unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

fn strings<'a>(node: &'a Yaml<'_>) -> Vec<&'a str> {
    node.as_sequence().unwrap().iter().map(|word| word.as_str().unwrap()).collect()
}

/// A value below nested keys, which has to be there.
#[track_caller]
fn at<'a, 'input>(node: &'a Yaml<'input>, path: &[&str]) -> &'a Yaml<'input> {
    path.iter()
        .fold(node, |node, key| node.as_mapping_get(key).unwrap_or_else(|| panic!("{key} of {path:?} is missing")))
}

#[track_caller]
fn text<'a>(node: &'a Yaml<'_>, path: &[&str]) -> &'a str {
    at(node, path).as_str().unwrap_or_else(|| panic!("{path:?} is no text"))
}

/// The composition's services by name.
fn services<'a>(compose: &'a Yaml<'_>) -> Vec<(&'a str, &'a Yaml<'a>)> {
    let services = at(compose, &["services"]).as_mapping().unwrap();
    services.iter().map(|(name, service)| (name.as_str().unwrap(), service)).collect()
}

/// The configuration that the composition hands to walpost, as it is after the composition's own `$$`.
fn composed_config(compose: &Yaml<'_>) -> String {
    let content = text(compose, &["configs", "walpost", "content"]);
    let unescaped = content.replace("$$", "");
    assert!(!unescaped.contains('$'), "a single $ is replaced before walpost sees it; write $$");
    content.replace("$$", "$")
}

#[test]
fn the_configuration_in_the_composition_is_good_and_names_its_neighbours() {
    let source = read("docker-compose.yml");
    let documents = Yaml::load_from_str(&source).unwrap();
    let compose = &documents[0];
    let config = composed_config(compose);
    assert_good(&config, "docker-compose.yml");
    let database = text(compose, &["services", "postgres", "environment", "POSTGRES_DB"]);
    let password = text(compose, &["services", "postgres", "environment", "POSTGRES_PASSWORD"]);
    assert!(config.contains(&format!("postgres://postgres:{password}@postgres:5432/{database}")), "{config}");
    let advertised = text(compose, &["services", "kafka", "environment", "KAFKA_ADVERTISED_LISTENERS"]);
    let bootstrap = advertised.strip_prefix("PLAINTEXT://").unwrap();
    assert!(config.contains(&format!("\"bootstrap.servers\" = \"{bootstrap}\"")), "{config}");
    assert!(strings(at(compose, &["services", "postgres", "command"])).contains(&"wal_level=logical"));
    let topics = strings(at(compose, &["services", "topics", "command"]));
    assert!(topics.contains(&"--if-not-exists") && topics.contains(&"outbox.event.Order"), "{topics:?}");
}

#[test]
fn every_service_of_the_composition_waits_for_what_exists_and_can_be_waited_for() {
    let source = read("docker-compose.yml");
    let documents = Yaml::load_from_str(&source).unwrap();
    let compose = &documents[0];
    let services = services(compose);
    for (name, service) in &services {
        let waits = service.as_mapping_get("depends_on").and_then(Yaml::as_mapping);
        for (other, condition) in waits.into_iter().flatten() {
            let other = other.as_str().unwrap();
            let (_, awaited) =
                services.iter().find(|(name, _)| *name == other).unwrap_or_else(|| panic!("{name}: {other}"));
            match text(condition, &["condition"]) {
                "service_healthy" => assert!(awaited.as_mapping_get("healthcheck").is_some(), "{other} has no check"),
                // It has to end by itself, or nobody behind it ever starts.
                "service_completed_successfully" => assert!(awaited.as_mapping_get("restart").is_none(), "{other}"),
                condition => panic!("{name}: {condition}"),
            }
        }
        match service.as_mapping_get("image").map(|image| image.as_str().unwrap()) {
            Some(image) => assert!(
                image.rsplit_once(':').is_some_and(|(_, tag)| tag.starts_with(|c: char| c.is_ascii_digit())),
                "{image}"
            ),
            None => assert_eq!(text(service, &["build"]), ".", "{name}"),
        }
    }
    // Its first start, which runs the scripts that make the database, serves the socket only.
    let probe = strings(at(compose, &["services", "postgres", "healthcheck", "test"]));
    assert!(probe.windows(2).any(|pair| pair == ["-h", "127.0.0.1"]), "{probe:?}");
}

/// The instructions of the Dockerfile, with continued lines joined.
fn instructions() -> Vec<(String, String)> {
    let source = read("Dockerfile").replace("\\\n", " ");
    let lines = source.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').map(|(word, rest)| (word.to_owned(), rest.to_owned())).unwrap()).collect()
}

fn words_of<'a>(instructions: &'a [(String, String)], name: &str) -> Vec<&'a str> {
    instructions.iter().filter(|(word, _)| word == name).map(|(_, rest)| rest.as_str()).collect()
}

#[test]
fn the_image_is_built_by_the_pinned_toolchain_with_what_openssl_and_librdkafka_need() {
    let instructions = instructions();
    let stages = words_of(&instructions, "FROM");
    assert_eq!(stages.len(), 2, "{stages:?}");
    let toolchain = read("rust-toolchain.toml");
    let channel = toolchain.split('"').nth(1).unwrap();
    assert!(stages[0].starts_with(&format!("rust:{channel}-")), "{stages:?} is not {channel}");
    // The binary is linked against the glibc of the first, and runs on that of the second.
    assert!(stages.iter().all(|stage| stage.contains("bookworm")), "{stages:?}");
    let commands = words_of(&instructions, "RUN");
    let installed: BTreeSet<&str> = commands[0].split_whitespace().collect();
    // OpenSSL's Configure is Perl with its modules; librdkafka's is a shell script that wants both compilers.
    for package in ["perl", "make", "g++"] {
        assert!(installed.contains(package), "{package} is missing: {installed:?}");
    }
    let build = commands.iter().find(|command| command.starts_with("cargo build")).unwrap();
    for word in ["--release", "--locked", "--package walpost", "--features vendored"] {
        assert!(build.contains(word), "{build}");
    }
    assert!(read("Cargo.toml").contains(
        "
vendored = ["
    ));
    let pinned = format!("RUSTUP_TOOLCHAIN={channel}");
    assert!(words_of(&instructions, "ENV").contains(&pinned.as_str()));
    assert_eq!(words_of(&instructions, "COPY")[0], ". .");
    let ignored = read(".dockerignore");
    for needed in ["Cargo.lock", "Cargo.toml", "crates", "migrations", "rust-toolchain.toml", "xtask"] {
        assert!(
            root().join(needed).exists() && !ignored.lines().any(|line| line.trim_matches('/') == needed),
            "{needed}"
        );
    }
}

#[test]
fn the_image_runs_commands_that_exist_with_the_file_that_the_composition_mounts_and_not_as_root() {
    let instructions = instructions();
    let arguments = |name: &str| {
        let list = words_of(&instructions, name)[0];
        serde_json::from_str::<Vec<String>>(list).unwrap()
    };
    assert_eq!(arguments("ENTRYPOINT"), ["walpost"]);
    assert!(
        words_of(&instructions, "COPY").iter().any(|copy| copy.ends_with("release/walpost /usr/local/bin/walpost"))
    );
    assert_ne!(words_of(&instructions, "USER"), ["root"]);
    let config =
        words_of(&instructions, "ENV").into_iter().find_map(|pair| pair.strip_prefix("WALPOST_CONFIG=")).unwrap();
    let source = read("docker-compose.yml");
    let documents = Yaml::load_from_str(&source).unwrap();
    let mut commands = vec![arguments("CMD")];
    for (name, service) in
        services(&documents[0]).iter().filter(|(_, service)| service.as_mapping_get("build").is_some())
    {
        let mounted = at(service, &["configs"]).as_sequence().unwrap();
        assert!(mounted.iter().any(|mount| text(mount, &["target"]) == config), "{name}");
        let command = service.as_mapping_get("command").map(strings).unwrap_or_default();
        commands.push(command.into_iter().map(str::to_owned).collect());
    }
    for command in commands {
        let words: Vec<&str> = command.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
        let help = help(&words).unwrap_or_else(|| panic!("{command:?}"));
        assert!(command.iter().filter(|word| word.starts_with('-')).all(|flag| help.contains(flag)), "{command:?}");
    }
}

#[test]
fn every_configuration_that_a_document_shows_is_good() {
    let mut whole = 0;
    for (path, text) in documents() {
        for block in blocks(&text, "toml") {
            let mut config = String::new();
            let is_whole = block.contains("[source]") && block.contains("[[outbox]]");
            if block.contains("[source]") {
                whole += 1;
            } else {
                config += "[source]\nurl = \"postgres://walpost@127.0.0.1:5432/app\"\n";
            }
            if !block.contains("[[outbox]]") {
                config += "[[outbox]]\ntable = \"public.outbox\"\n";
            }
            if block.contains("[sink.kafka]") && !block.contains("[sink]") {
                config += "[sink]\ntype = \"kafka\"\n";
            } else if !block.contains("[sink") && !is_whole {
                config += "[sink]\ntype = \"stdout\"\n";
            }
            // What stands in front of every section can only stand first.
            let config = if block.starts_with('[') { config + block } else { format!("{block}\n{config}") };
            assert_good(&config, &path.display().to_string());
        }
    }
    assert!(whole >= 2, "the README and the manual each show a whole configuration");
}

/// Commands of this program that the documents name: the words behind it.
fn named(program: &str) -> BTreeSet<(PathBuf, String)> {
    let mut found = BTreeSet::new();
    for (path, text) in documents() {
        let consoles = blocks(&text, "console");
        let typed = consoles.iter().flat_map(|block| block.lines()).filter_map(|line| line.strip_prefix("$ "));
        for command in typed.chain(code_spans(&text)) {
            if let Some(rest) = command.strip_prefix(program).filter(|rest| rest.is_empty() || rest.starts_with(' ')) {
                let rest = rest.split(['#', '>', '|']).next().unwrap().trim();
                found.insert((path.clone(), rest.to_owned()));
            }
        }
    }
    found
}

fn is_subcommand(word: &&str) -> bool {
    word.starts_with(|letter: char| letter.is_ascii_lowercase())
        && word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
}

fn flags(command: &str) -> impl Iterator<Item = &str> {
    command.split_whitespace().filter(|word| word.starts_with('-')).map(|word| word.split('=').next().unwrap_or(word))
}

#[test]
fn every_command_that_a_document_names_exists_with_its_options() {
    let commands = named("walpost");
    assert!(commands.len() > 8, "{commands:?}");
    for (path, command) in commands {
        let words: Vec<&str> = command.split_whitespace().take_while(is_subcommand).collect();
        let help = help(&words).unwrap_or_else(|| panic!("{}: walpost {command}", path.display()));
        for flag in flags(&command) {
            assert!(help.contains(flag), "{}: walpost {command}: {flag}", path.display());
        }
    }
}

#[test]
fn every_command_for_developers_that_a_document_names_exists_with_its_options() {
    let source = read("xtask/src/main.rs");
    let help = source.split("const HELP: &str = ").nth(1).and_then(|rest| rest.split("\";").next()).unwrap();
    let commands = named("cargo xtask");
    assert!(commands.len() > 4, "{commands:?}");
    for (path, command) in commands {
        let words: Vec<&str> = command.split_whitespace().take_while(is_subcommand).collect();
        let line = format!("\n  {}", words.join(" "));
        let found =
            help.split(line.as_str()).nth(1).unwrap_or_else(|| panic!("{}: cargo xtask {command}", path.display()));
        // Its own line, and those that are indented below it.
        let entry: Vec<&str> = found
            .lines()
            .enumerate()
            .take_while(|(at, line)| *at == 0 || line.starts_with("   "))
            .map(|(_, line)| line)
            .collect();
        for flag in flags(&command) {
            assert!(entry.join("\n").contains(flag), "{}: cargo xtask {command}: {flag}", path.display());
        }
    }
}

/// How a heading is named in a link.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn every_link_of_a_document_leads_somewhere() {
    let mut count = 0;
    for (path, text) in documents() {
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.contains("://") {
                continue;
            }
            count += 1;
            let (file, section) = target.split_once('#').unwrap_or((target, ""));
            let linked = match file {
                "" => path.clone(),
                file => path.parent().unwrap_or(Path::new("")).join(file),
            };
            assert!(root().join(&linked).exists(), "{}: {target}", path.display());
            let headings = read(&linked)
                .lines()
                .filter(|line| line.starts_with('#'))
                .map(|line| anchor(line.trim_start_matches('#')))
                .collect::<Vec<_>>();
            assert!(
                section.is_empty() || headings.iter().any(|heading| heading == section),
                "{}: {target}",
                path.display()
            );
        }
    }
    assert!(count > 3, "only {count} links");
}

#[test]
fn every_file_of_ours_that_a_document_names_is_there() {
    let folders = ["crates/", "docs/", "tests/", "xtask/", "migrations/", ".ci/", "benches/", "fuzz/"];
    let mut count = 0;
    for (path, text) in documents() {
        for span in code_spans(&text).into_iter().filter(|span| folders.iter().any(|folder| span.starts_with(folder))) {
            count += 1;
            assert!(root().join(span).exists(), "{}: {span}", path.display());
        }
    }
    assert!(count > 5, "only {count} files");
}

#[test]
fn every_setting_that_a_document_names_is_in_the_manual() {
    let manual = reference::render();
    let sections = ["source", "outbox", "checkpoint", "sink", "limits", "retry", "stop", "http", "log"];
    let mut count = 0;
    for (path, text) in documents() {
        for span in code_spans(&text) {
            let is_setting = span.split_once('.').is_some_and(|(section, key)| {
                sections.contains(&section) && key.chars().all(|c| c.is_ascii_lowercase() || c == '_')
            });
            if is_setting {
                count += 1;
                assert!(manual.contains(&format!("### `{span}`")), "{}: {span}", path.display());
            }
        }
    }
    assert!(count > 5, "only {count} settings");
}

#[test]
fn the_table_of_exit_codes_is_the_programs() {
    let mut table = String::from("| code | meaning |\n|---|---|\n");
    for exit in Exit::ALL {
        writeln!(table, "| {} | {} |", exit.code(), exit.meaning()).unwrap();
    }
    let document = read("docs/guarantees.md");
    assert!(document.contains(&table), "docs/guarantees.md lacks or misstates this table:\n{table}");
    let help = help(&[]).unwrap();
    for exit in Exit::ALL {
        // Wrapped to the width of a terminal that there is none of.
        let beginning: String = exit.meaning().chars().take(40).collect();
        assert!(help.contains(&format!("{:>2}  {beginning}", exit.code())), "{help}");
    }
}

/// The names of all tests, wherever they stand.
fn names_of_tests(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            names_of_tests(&path, names);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let tests = text.split("#[test]\n").chain(text.split("#[tokio::test")).skip(1);
            names.extend(tests.filter_map(|rest| Some(rest.split_once("fn ")?.1.split_once('(')?.0.to_owned())));
        }
    }
}

/// The names of all tests there are.
fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for folder in ["tests", "crates"] {
        names_of_tests(&root().join(folder), &mut names);
    }
    names
}

/// So many words make a name that only a test has.
fn is_long_name(span: &str) -> bool {
    const WORDS: usize = 7;
    span.split('_').count() >= WORDS
        && span.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte.is_ascii_digit())
}

#[test]
fn every_test_that_any_document_names_exists() {
    let names = tests();
    let mut count = 0;
    for (path, text) in documents() {
        for span in code_spans(&text).into_iter().filter(|span| is_long_name(span)) {
            count += 1;
            assert!(names.contains(span), "{}: there is no test {span}", path.display());
        }
    }
    assert!(count > 100, "only {count} names");
}

#[test]
fn whatever_is_said_to_be_tested_names_its_tests_or_where_they_are() {
    let names = tests();
    let mut count = 0;
    for (path, text) in documents() {
        // To the end of its paragraph. The word in italics explains the word.
        for claim in text.split("Tested").skip(1).filter(|claim| !claim.starts_with('*')) {
            count += 1;
            let claim = claim.split("\n\n").next().unwrap_or_default();
            let is_proof =
                |span: &str| names.contains(span) || (span.starts_with("tests/") && root().join(span).exists());
            assert!(code_spans(claim).into_iter().any(is_proof), "{}: Tested{claim}", path.display());
        }
    }
    assert!(count > 10, "only {count} claims");
}

#[test]
fn every_test_that_a_page_names_exists() {
    let names = tests();
    let page = read("docs/pitfalls.md") + &read("docs/testing.md");
    let is_name = |span: &&str| {
        span.contains('_') && span.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit())
    };
    let named: BTreeSet<&str> =
        code_spans(&page).into_iter().filter(is_name).filter(|span| !NO_TESTS.contains(span)).collect();
    assert!(named.len() > 40, "the pages name their tests: {named:?}");
    let missing: Vec<&&str> = named.iter().filter(|name| !names.contains(**name)).collect();
    assert!(missing.is_empty(), "no such tests: {missing:?}");
}

/// Names in these pages that are PostgreSQL's.
const NO_TESTS: &[&str] = &["pg_terminate_backend", "invalidation_reason"];
