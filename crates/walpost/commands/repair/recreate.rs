//! The two ways that fill nothing: go on from where the slot stands, or make it anew.

use walpost_postgres::{inspect, repair};

use super::survey::Survey;
use super::{Fill, Found, Outcome, checkpoint_refused, impossible, postgres_refused, ways};
use crate::config::Settings;
use crate::exit::Exit;
use crate::relay;

/// Makes the slot's position the checkpoint.
pub(super) async fn adopt(settings: &Settings, found: &mut Found, is_agreed: bool) -> Outcome {
    found.refuse_hands_off()?;
    let prospect = ways::adopting(found).map_err(|reasons| impossible(&reasons))?;
    say!("adopting the slot {prospect}");
    if !is_agreed {
        say!("nothing was done; to do it, run: walpost repair --adopt-slot --yes");
        return Ok(Exit::Success);
    }
    found.lock(settings).await?;
    let Some(slot) = &found.slot else { return Ok(Exit::SlotMissing) };
    let adopted = found.store.adopt_slot(&found.server, slot, &relay::wanted(settings)).await;
    let adopted = adopted.map_err(|error| checkpoint_refused(&error))?;
    say!(
        "the checkpoint of relay {:?} now stands at the slot's {}; to publish, run: walpost run",
        adopted.relay,
        adopted.position
    );
    Ok(Exit::Success)
}

/// Makes the slot anew and begins where it does.
pub(super) async fn recreate(settings: &Settings, found: &mut Found, is_agreed: bool) -> Outcome {
    found.refuse_hands_off()?;
    let fill = Fill { rows_are_kept: true, ..Fill::default() };
    let survey = Survey::make(settings, found, &fill).await.map_err(|error| postgres_refused(&error))?;
    say!("making the slot anew {}", ways::recreating(found, &survey));
    if !is_agreed {
        say!("nothing was done; to do it, run: walpost repair --recreate --accept-gap --yes");
        return Ok(Exit::Success);
    }
    let refused = |error| postgres_refused(&error);
    found.lock(settings).await?;
    let name = settings.source().slot();
    if found.slot.is_some() {
        repair::drop_slot(&found.sql, name).await.map_err(refused)?;
    }
    let for_standbys = found.is_for_standbys(settings);
    repair::create_slot(&mut found.sql, name, for_standbys).await.map_err(refused)?;
    let server = inspect::server_state(&found.sql, settings.source().connection()).await.map_err(refused)?;
    let slot = inspect::slot_state(&found.sql, name).await.map_err(refused)?;
    if let Some(slot) = slot.filter(|_| found.store.keeps_a_checkpoint()) {
        let wanted = relay::wanted(settings);
        let adopted = found.store.adopt_slot(&server, &slot, &wanted);
        let adopted = adopted.await.map_err(|error| checkpoint_refused(&error))?;
        say!("the slot {name} and the checkpoint of relay {:?} now stand at {}", adopted.relay, adopted.position);
    }
    say!("to publish, run: walpost run");
    Ok(Exit::Success)
}
