//! A relay whose operator looks on.

use serde_json::Value;
use walpost_testkit::relay::Relay;

use crate::observe::{metrics, wait_for_value, wait_until_ready, wait_until_unready};
use crate::rig::{LIMIT, Rig, eventually};

/// What is seen of a fault while it lasts.
pub(super) struct Sight {
    /// The state in `/readyz` and in `walpost_state`.
    pub(super) state: &'static str,
    /// Words of the reason, in `/readyz` and in what `walpost status` finds.
    pub(super) reason: &'static str,
}

/// See the module's documentation.
pub(super) struct Watched {
    pub(super) rig: Rig,
    pub(super) relay: Relay,
}

impl Watched {
    /// Starts a relay, which has to become ready, where `walpost status` finds it.
    #[track_caller]
    pub(super) fn start(mut rig: Rig) -> Self {
        let relay = rig.start();
        wait_until_ready(&relay);
        let address = relay.http_address(LIMIT).unwrap();
        rig.configure(|config| config.set("http", "listen", &format!("\"{address}\"")));
        Self { rig, relay }
    }

    /// Waits until it is not ready for this reason, alive all the while; figures and `walpost status` have to say the same.
    #[track_caller]
    pub(super) fn assert_unready(&self, sight: &Sight) {
        wait_until_unready(&self.relay, sight.state, sight.reason);
        let page = metrics(&self.relay);
        assert_eq!(page.value("walpost_ready", &[]), Some(0.0), "{page:?}");
        assert_eq!(page.value("walpost_state", &[("state", sight.state)]), Some(1.0), "{page:?}");
        assert!(page.value("walpost_behind_seconds", &[]) > Some(0.0), "{page:?}");
        let findings = findings(&self.rig);
        assert!(findings.contains(sight.reason), "{:?} is not in {findings:?}", sight.reason);
    }

    /// Waits until relay and `walpost status` say that all is well.
    #[track_caller]
    pub(super) fn wait_until_well(&self) {
        wait_until_ready(&self.relay);
        eventually("status to find nothing", || self.rig.call(&["status", "--json"]).code() == Some(0));
        wait_for_value(&self.relay, "walpost_ready", &[], 1.0);
    }

    /// How often a connection was made anew for this cause.
    pub(super) fn reconnects(&self, cause: &str) -> f64 {
        metrics(&self.relay).value("walpost_reconnects_total", &[("cause", cause)]).unwrap_or(0.0)
    }
}

/// What `walpost status --json` finds; it has to find something.
#[track_caller]
pub(super) fn findings(rig: &Rig) -> String {
    let ended = rig.call(&["status", "--json"]);
    ended.assert_said(10, &["\"healthy\":false"]);
    let told: Value = serde_json::from_str(&ended.output).unwrap();
    let sentences = told["findings"].as_array().unwrap().iter().filter_map(Value::as_str);
    sentences.collect::<Vec<_>>().join("\n")
}
