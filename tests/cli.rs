//! The command line of the real binary: what it says, where it says it, and the code that it ends with.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use walpost_testkit::checker::Repeats;

use crate::config::Folder;
use crate::rig::{LIMIT, Rig};

/// What the binary said, and its exit code.
struct Said {
    code: i32,
    output: String,
    errors: String,
}

fn walpost(arguments: &[&str], variables: &[(&str, &str)]) -> Said {
    let mut command = binary(arguments);
    command.envs(variables.iter().copied());
    let output = command.output().unwrap();
    Said {
        code: output.status.code().expect("ended by a signal"),
        output: String::from_utf8(output.stdout).unwrap(),
        errors: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The binary, in an environment that says nothing about PostgreSQL or walpost.
fn binary(arguments: &[&str]) -> Command {
    let mut command = Command::new(&*crate::rig::WALPOST);
    let inherited = std::env::vars_os().map(|(name, _)| name);
    for name in inherited
        .filter(|name| name.to_string_lossy().starts_with("PG") || name.to_string_lossy().starts_with("WALPOST_"))
    {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

const LEAST: &str = "[source]\nurl = \"postgres://walpost@127.0.0.1:1/app\"\n[[outbox]]\ntable = \"public.outbox\"\n[sink]\ntype = \"stdout\"\n";

#[test]
fn help_names_every_command_with_examples_and_exit_codes() {
    let Said { code, output, errors } = walpost(&["--help"], &[]);
    assert_eq!((code, errors.as_str()), (0, ""));
    for part in [
        "run",
        "init",
        "check",
        "checkpoint",
        "dlq",
        "config",
        "Examples:",
        "walpost init -c",
        "Exit codes:",
        "The configuration is wrong",
    ] {
        assert!(output.contains(part), "{part}: {output}");
    }
    let run = walpost(&["run", "--help"], &[]);
    assert!(run.output.contains("WALPOST_CONFIG") && run.output.contains("Exit codes:"), "{}", run.output);
}

#[test]
fn completions_and_manual_pages_come_from_the_program_itself() {
    for (shell, word) in
        [("bash", "complete -F _walpost"), ("zsh", "#compdef walpost"), ("fish", "complete -c walpost")]
    {
        let Said { code, output, errors } = walpost(&["completions", shell], &[]);
        assert_eq!((code, errors.as_str()), (0, ""), "{shell}");
        assert!(output.contains(word), "{shell}: {output}");
    }
    let folder = Folder::new();
    let man = folder.path().join("man");
    std::fs::create_dir(&man).unwrap();
    assert_eq!(walpost(&["man", &man.display().to_string()], &[]).code, 0);
    let page = std::fs::read_to_string(man.join("walpost-run.1")).unwrap();
    assert!(page.contains("Publishes the outbox until SIGTERM"), "{page}");
    let Said { code, errors, .. } = walpost(&["man", "/no/such/folder"], &[]);
    assert!(code == 2 && errors.contains("name a folder that exists"), "{code}: {errors}");
}

#[test]
fn the_version_is_the_packages() {
    let Said { code, output, .. } = walpost(&["--version"], &[]);
    assert_eq!((code, output.trim()), (0, concat!("walpost ", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn what_cannot_be_understood_ends_with_2_and_says_so_on_standard_error() {
    let cases: &[(&[&str], &str)] = &[
        (&[], "Usage:"),
        (&["runn"], "run"),
        (&["run", "--dry-run"], "--dry-run"),
        (&["init", "-c"], "--config"),
        (&["checkpoint"], "adopt-slot"),
        (&["checkpoint", "copy"], "--to"),
        (&["checkpoint", "copy", "--to", "slot"], "write postgres, kafka, or file: and a path"),
        (&["dlq"], "replay"),
        (&["dlq", "show"], "<ID>"),
        (&["dlq", "show", "abc"], "write the number that `walpost dlq list` shows"),
        (&["config", "check", "walpost.toml"], "name the file with -c: -c walpost.toml"),
        (&["import", "debezium", "a.json", "-c", "walpost.toml"], "--checkpoint"),
        (&["dlq", "list", "--state", "gone"], "[possible values: waiting, replay, drop, sent, dropped]"),
        (&["dlq", "list", "--since", "yesterday"], "90s, 30m, 2h, 7d"),
        (&["dlq", "list", "--outbox", "a.b.c"], "more than two parts"),
    ];
    for (arguments, expected) in cases {
        let Said { code, output, errors } = walpost(arguments, &[]);
        assert_eq!((code, output.as_str()), (2, ""), "{arguments:?}: {errors}");
        assert!(errors.contains(expected), "{arguments:?}: {errors}");
    }
}

#[test]
fn every_fault_of_a_configuration_is_a_line_and_the_code_is_3() {
    let folder = Folder::new();
    let path = folder.write("walpost.toml", "[source]\nslto = \"x\"\nslot = \"My-Slot\"\n");
    for arguments in [
        &["config", "check", "-c", &path][..],
        &["run", "-c", &path],
        &["init", "-c", &path],
        &["check", "-c", &path],
        &["checkpoint", "show", "-c", &path],
        &["checkpoint", "copy", "--to", "postgres", "--config", &path],
    ] {
        let Said { code, output, errors } = walpost(arguments, &[]);
        assert_eq!((code, output.as_str()), (3, ""), "{arguments:?}");
        let lines: Vec<_> = errors.lines().collect();
        assert_eq!(lines.len(), 5, "{errors}");
        assert!(lines[0].starts_with(&format!("{path}:1:1: source.url: the database is missing")), "{errors}");
        assert!(
            lines[1].starts_with(&format!("{path}:2:1: source.slto: there is no such key; did you mean `slot`?")),
            "{errors}"
        );
        assert!(lines[2].starts_with(&format!("{path}:3:1: source.slot: \"My-Slot\"")), "{errors}");
        assert!(lines[3].starts_with(&format!("{path}: outbox: there is none")), "{errors}");
        assert!(lines[4].starts_with(&format!("{path}: sink.type: it is missing")), "{errors}");
    }
}

#[test]
fn a_missing_file_is_named_and_the_code_is_3() {
    let Said { code, errors, .. } = walpost(&["run", "-c", "/none/walpost.toml"], &[]);
    assert_eq!(code, 3);
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.contains("/none/walpost.toml") && errors.contains("No such file"), "{errors}");
}

#[test]
fn the_file_is_the_options_else_the_variables_else_walpost_toml_here() {
    let folder = Folder::new();
    let good = folder.write("good.toml", LEAST);
    folder.write("walpost.toml", LEAST);
    let check = |arguments: &[&str], variables: &[(&str, &str)], here: &Path| {
        let mut command = binary(arguments);
        let output = command.envs(variables.iter().copied()).current_dir(here).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let said = |file: &str| (Some(0), format!("{file}: good; relay \"walpost\" publishes public.outbox to stdout\n"));
    let nothing = Folder::new();
    assert_eq!(check(&["config", "check"], &[], folder.path()), said("walpost.toml"));
    assert_eq!(check(&["config", "check"], &[("WALPOST_CONFIG", &good)], nothing.path()), said(&good));
    assert_eq!(check(&["config", "check", "-c", &good], &[("WALPOST_CONFIG", "/none")], nothing.path()), said(&good));
    assert_eq!(check(&["config", "check"], &[], nothing.path()).0, Some(3));
}

#[test]
fn warnings_do_not_keep_a_configuration_from_being_good() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let path = folder.write(
        "walpost.toml",
        "[source]\nurl = \"postgres://u:hunter2@h/d\"\n[[outbox]]\ntable = \"outbox\"\n[sink]\ntype = \"stdout\"\n",
    );
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let Said { code, output, errors } = walpost(&["config", "check", "-c", &path], &[]);
    assert_eq!(code, 0, "{errors}");
    assert!(output.contains("good") && !output.contains("hunter2") && !errors.contains("hunter2"), "{output}{errors}");
    let lines: Vec<_> = errors.lines().collect();
    assert_eq!(lines.len(), 2, "{errors}");
    assert!(lines[0].contains("chmod 600") && lines[1].contains("public.outbox is meant"), "{errors}");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(walpost(&["config", "check", "-c", &path], &[]).errors.lines().count(), 1);
}

#[test]
fn a_server_that_cannot_be_reached_is_named_alike_by_every_command_and_the_code_is_12() {
    let folder = Folder::new();
    let path = folder.write("walpost.toml", LEAST);
    let sentence = "PostgreSQL at 127.0.0.1:1 (database \"app\", user \"walpost\") cannot be reached: Connection refused; start \
                    PostgreSQL, or correct host and port in source.url";
    for arguments in [
        &["init"][..],
        &["repair"],
        &["checkpoint", "show"],
        &["checkpoint", "adopt-slot"],
        &["checkpoint", "forget"],
        &["dlq", "list"],
    ] {
        let Said { code, errors, .. } = walpost(&[arguments, &["-c", &path]].concat(), &[]);
        assert_eq!(code, 12, "{arguments:?}: {errors}");
        assert_eq!(errors.matches(sentence).count(), 1, "{arguments:?}: {errors}");
        assert_eq!(errors.matches("start PostgreSQL").count(), 1, "{arguments:?}: {errors}");
    }
    for (command, code) in [("status", 10), ("check", 5)] {
        let said = walpost(&[command, "-c", &path], &[]);
        assert_eq!(said.code, code, "{command}: {}", said.output);
        assert_eq!(said.output.matches(sentence).count(), 1, "{command}: {}", said.output);
    }
}

#[test]
fn brokers_that_cannot_be_reached_are_named_and_the_code_is_12() {
    let folder = Folder::new();
    let kafka = "[sink]\ntype = \"kafka\"\n[sink.kafka]\n\"bootstrap.servers\" = \"127.0.0.1:1\"\n[checkpoint]\nstore = \"kafka\"\n";
    let path = folder.write("walpost.toml", &LEAST.replace("[sink]\ntype = \"stdout\"\n", kafka));
    let Said { code, errors, .. } = walpost(&["dlq", "list", "-c", &path], &[]);
    assert_eq!(code, 12, "{errors}");
    assert!(
        errors.contains("Kafka at 127.0.0.1:1 cannot be reached: ") && errors.contains("; start Kafka, or"),
        "{errors}"
    );
}

/// What a command ends with and says on standard error, where its standard output is this.
fn written_into(output: impl Into<Stdio>, arguments: &[&str]) -> (Option<i32>, String) {
    let mut child = binary(arguments).stdout(output).stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    (child.wait().unwrap().code(), errors)
}

/// Fails unless commands that end well tell of a full disk behind their standard output, and take a reader that went away for satisfied.
#[track_caller]
fn assert_output_is_missed(commands: &[&[&str]]) {
    for arguments in commands {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let (code, errors) = written_into(full, arguments);
        assert_eq!(code, Some(8), "{arguments:?}: {errors}");
        assert!(errors.contains("error: standard output cannot be written: No space left"), "{arguments:?}: {errors}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, errors) = written_into(writer, arguments);
        assert!(code == Some(0) && !errors.contains("error"), "{arguments:?}: {code:?}: {errors}");
    }
}

#[test]
fn output_that_cannot_be_written_is_told_by_every_command_that_connects_to_nothing() {
    let folder = Folder::new();
    let path = folder.write("walpost.toml", LEAST);
    let connector = folder.write(
        "connector.json",
        r#"{"name": "a", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "database.hostname": "h",
            "database.user": "u", "database.dbname": "d", "topic.prefix": "t", "table.include.list": "public.outbox",
            "transforms": "outbox", "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter"}}"#,
    );
    assert_output_is_missed(&[
        &["--help"],
        &["-h"],
        &["--version"],
        &["dlq", "replay", "--help"],
        &["config", "check", "-c", &path],
        &["config", "reference"],
        &["config", "metrics"],
        &["config", "debezium"],
        &["completions", "bash"],
        &["import", "debezium", &connector],
    ]);
}

#[test]
fn output_that_cannot_be_written_is_told_by_every_command_that_asks_the_database() {
    let rig = Rig::ready("full", &["public.outbox"]);
    let path = rig.walpost.folder().join("walpost.toml").display().to_string();
    let relay = rig.start_streaming();
    rig.insert("key", 0, 1);
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
    let copy = format!("file:{}", rig.walpost.folder().join("copy").display());
    let commands: &[&[&str]] = &[
        &["init", "--dry-run"],
        &["init"],
        &["check"],
        &["checkpoint", "show"],
        &["checkpoint", "adopt-slot"],
        &["checkpoint", "copy", "--to", &copy],
        &["repair"],
        &["repair", "--json"],
        &["repair", "--adopt-slot"],
        &["dlq", "list"],
        &["dlq", "replay", "--all"],
        &["dlq", "drop", "--all"],
    ];
    let commands: Vec<Vec<&str>> = commands.iter().map(|command| [command, &["-c", &path][..]].concat()).collect();
    assert_output_is_missed(&commands.iter().map(Vec::as_slice).collect::<Vec<_>>());
    // A command that has not gone well keeps its code.
    let full = File::options().write(true).open("/dev/full").unwrap();
    let (code, errors) = written_into(full, &["status", "--json", "-c", &path]);
    assert!(code == Some(10) && errors.contains("standard output cannot be written"), "{code:?}: {errors}");
}
