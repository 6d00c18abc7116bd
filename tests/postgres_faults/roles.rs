//! The role loses what it needs, or the line of `pg_hba.conf` that lets it in, while the stream goes on. The server asks only when somebody connects,
//! so it ends a relay with the next connection.

use walpost_testkit::checker::Repeats;
use walpost_testkit::relay::toml_string;
use walpost_testkit::servers::{PostgresEndpoint, shared_kafka};

use super::watched::{Watched, findings};
use crate::observe::readiness;
use crate::rig::{LIMIT, Rig, eventually};
use crate::security::{PASSWORD, guarded, guarded_postgres, reach};

/// Has the relay come as a role with no more than it needs.
pub(super) fn act_as(rig: &mut Rig, role: &str, password: Option<&str>) {
    rig.sql(&format!(
        "CREATE ROLE {role} LOGIN REPLICATION; GRANT USAGE ON SCHEMA walpost TO {role}; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON walpost.checkpoint, walpost.dead_letter TO {role}"
    ));
    let url = rig.database.endpoint().url_for(role, password, rig.database.name());
    rig.configure(|config| config.set("source", "url", &toml_string(&url)));
}

/// What is taken from a role.
struct Loss {
    label: &'static str,
    take: fn(&Rig, &str),
    give: fn(&Rig, &str),
    /// What the relay ends with.
    words: &'static [&'static str],
    /// What `walpost status` finds then.
    finding: &'static str,
}

const LOSSES: &[Loss] = &[
    Loss {
        label: "replication",
        take: |rig, role| alter(rig, role, "NOREPLICATION"),
        give: |rig, role| alter(rig, role, "REPLICATION"),
        words: &["42501", "walpost check names it"],
        finding: "may not replicate; run ALTER ROLE",
    },
    Loss {
        label: "login",
        take: |rig, role| alter(rig, role, "NOLOGIN"),
        give: |rig, role| alter(rig, role, "LOGIN"),
        words: &["is not permitted to log in", "correct the user and password of source.url"],
        finding: "is not permitted to log in",
    },
    Loss {
        label: "password",
        take: |rig, role| alter(rig, role, "PASSWORD 'pearls before swine'"),
        give: |rig, role| alter(rig, role, &format!("PASSWORD '{}'", PASSWORD.replace('\'', "''"))),
        words: &["password authentication failed", "correct the user and password of source.url"],
        finding: "password authentication failed",
    },
    Loss {
        label: "admission",
        take: |rig, role| change_admission(rig, role, true),
        give: |rig, role| change_admission(rig, role, false),
        words: &["pg_hba.conf rejects connection", "the line of pg_hba.conf that should admit this user"],
        finding: "pg_hba.conf rejects connection",
    },
];

fn alter(rig: &Rig, role: &str, attribute: &str) {
    rig.sql(&format!("ALTER ROLE {role} {attribute}"));
}

/// Puts a line into `pg_hba.conf` that lets this role in no more, or takes it away, and waits until the server goes by it.
fn change_admission(rig: &Rig, role: &str, is_barred: bool) {
    let path = guarded_postgres().data().join("pg_hba.conf");
    let (line, lines) = (format!("host all {role} 127.0.0.1/32 reject\n"), std::fs::read_to_string(&path).unwrap());
    let lines = if is_barred { line + &lines } else { lines.replace(&line, "") };
    std::fs::write(&path, lines).unwrap();
    rig.sql("SELECT pg_reload_conf()");
    let database = rig.database.name();
    let url = rig.database.endpoint().url_for(role, Some(PASSWORD), database);
    let role = PostgresEndpoint::at(&url).unwrap();
    eventually("the server to go by the line", || role.psql(database, "SELECT 1").is_err() == is_barred);
}

#[test]
fn a_role_that_loses_what_it_needs_streams_on_until_it_connects_anew_which_is_refused_with_a_sentence() {
    std::thread::scope(|scope| {
        for loss in LOSSES {
            scope.spawn(|| lose(loss));
        }
    });
}

#[track_caller]
fn lose(loss: &Loss) {
    let (mut rig, role) = guarded(loss.label);
    let url = rig.database.endpoint().url_for(&role, Some(PASSWORD), rig.database.name());
    reach(&mut rig, &url);
    rig.configure(|config| config.kafka(shared_kafka().bootstrap()));
    let Watched { rig, relay } = Watched::start(rig);
    rig.insert("key", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    (loss.take)(&rig, &role);
    rig.insert("key", 10, 10);
    rig.assert_delivered(Repeats::Forbidden);
    // The relay itself learns of it with its next connection; whoever asks, at once.
    let foreseen = findings(&rig);
    assert!(readiness(&relay).0 && foreseen.contains(loss.finding), "{foreseen}");
    let walsender = rig.walsender().unwrap();
    rig.sql(&format!("SELECT pg_terminate_backend({walsender})"));
    relay.wait(LIMIT).unwrap().assert_said(4, loss.words);
    let findings = findings(&rig);
    assert!(findings.contains(loss.finding), "{findings}");
    rig.insert("key", 20, 10);
    (loss.give)(&rig, &role);
    let relay = rig.start();
    rig.assert_delivered(Repeats::Forbidden);
    eventually("status to find nothing", || rig.call(&["status"]).code() == Some(0));
    relay.stop(LIMIT).unwrap().assert_success();
}
