//! The program that is shown: `walpost`, started, killed and stopped as an operator would.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use walpost_testkit::servers::{Identity, Scratch, Signal, dependent, wait_until};

use super::witness::Witness;

/// A relay that runs, and whoever hears its standard output: the records, where that is the sink.
pub(super) struct Relay {
    witness: Witness,
}

impl Relay {
    /// Starts one; what an earlier one said still counts.
    pub(super) fn start(scratch: &Scratch, before: Option<&Witness>) -> Result<Self> {
        let log =
            File::options().create(true).append(true).open(log(scratch)).context("cannot write the relay's log")?;
        let mut run = walpost(scratch, "run")?;
        run.stderr(log);
        Ok(Self { witness: Witness::of(run, before)? })
    }

    pub(super) fn witness(&self) -> &Witness {
        &self.witness
    }

    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.witness.child().try_wait(), Ok(None))
    }

    /// SIGKILL, without a chance to finish anything.
    pub(super) fn kill(mut self) -> Result<Witness> {
        let child = self.witness.child();
        child.kill().context("cannot kill the relay")?;
        child.wait().context("cannot wait for the killed relay")?;
        self.witness.hear_the_end();
        Ok(self.witness)
    }

    /// SIGTERM; it must finish what it does and end with success.
    pub(super) fn stop(mut self, limit: Duration) -> Result<Witness> {
        let child = self.witness.child();
        let identity = Identity::of(child.id()).context("the relay has ended already")?;
        identity.signal(Signal::Terminate)?;
        wait_until("the end of the relay after SIGTERM", limit, || !matches!(child.try_wait(), Ok(None)))?;
        let status = child.wait().context("cannot wait for the relay")?;
        ensure!(status.success(), "the relay did not end well after SIGTERM: {status}");
        self.witness.hear_the_end();
        Ok(self.witness)
    }
}

/// The configuration, as an operator would write it.
pub(super) fn write_configuration(scratch: &Scratch, url: &str, sink: &str) -> Result<()> {
    let text = format!(
        r#"[source]
url = "{url}"
slot = "walpost"
publication = "walpost"

[[outbox]]
table = "public.outbox"
[outbox.router]
"route.topic.replacement" = "outbox.event.${{routedByValue}}"

[checkpoint]
store = "postgres"

[http]
listen = "127.0.0.1:0"

[sink]
{sink}"#
    );
    fs::write(configuration(scratch), text).context("cannot write walpost.toml")
}

/// `walpost` with a command and the configuration; it dies with us.
pub(super) fn walpost(scratch: &Scratch, command: &str) -> Result<Command> {
    // cargo puts both programs of a profile into one folder.
    let ours = std::env::current_exe().context("cannot tell where xtask was built")?;
    let mut walpost = dependent(ours.with_file_name("walpost"));
    walpost.arg(command).arg("-c").arg(configuration(scratch));
    Ok(walpost)
}

/// Where the relay's own words go.
pub(super) fn log(scratch: &Scratch) -> PathBuf {
    scratch.path().join("walpost.log")
}

fn configuration(scratch: &Scratch) -> PathBuf {
    scratch.path().join("walpost.toml")
}
