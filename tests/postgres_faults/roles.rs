//! The role loses what it needs while the stream goes on. The server asks only when somebody connects, so it ends a relay with the next connection.

use walpost_testkit::checker::Repeats;
use walpost_testkit::relay::toml_string;
use walpost_testkit::servers::shared_kafka;

use super::watched::{Watched, findings};
use crate::rig::{LIMIT, Rig, eventually};
use crate::security::{PASSWORD, guarded, reach};

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
    take: &'static str,
    give: &'static str,
    /// What the relay ends with.
    words: &'static [&'static str],
    /// What `walpost status` finds then.
    finding: &'static str,
}

const LOSSES: &[Loss] = &[
    Loss {
        label: "replication",
        take: "NOREPLICATION",
        give: "REPLICATION",
        words: &["42501", "walpost check names it"],
        finding: "may not replicate; run ALTER ROLE",
    },
    Loss {
        label: "login",
        take: "NOLOGIN",
        give: "LOGIN",
        words: &["is not permitted to log in", "correct the user and password of source.url"],
        finding: "is not permitted to log in",
    },
    Loss {
        label: "password",
        take: "PASSWORD 'pearls before swine'",
        give: "PASSWORD $",
        words: &["password authentication failed", "correct the user and password of source.url"],
        finding: "password authentication failed",
    },
];

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
    let password = format!("'{}'", PASSWORD.replace('\'', "''"));
    rig.sql(&format!("ALTER ROLE {role} {}", loss.take));
    rig.insert("key", 10, 10);
    rig.assert_delivered(Repeats::Forbidden);
    let walsender = rig.walsender().unwrap();
    rig.sql(&format!("SELECT pg_terminate_backend({walsender})"));
    relay.wait(LIMIT).unwrap().assert_said(4, loss.words);
    let findings = findings(&rig);
    assert!(findings.contains(loss.finding), "{findings}");
    rig.insert("key", 20, 10);
    rig.sql(&format!("ALTER ROLE {role} {}", loss.give.replace('$', &password)));
    let relay = rig.start();
    rig.assert_delivered(Repeats::Forbidden);
    eventually("status to find nothing", || rig.call(&["status"]).code() == Some(0));
    relay.stop(LIMIT).unwrap().assert_success();
}
