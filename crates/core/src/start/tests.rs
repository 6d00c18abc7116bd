use proptest::prelude::*;

use super::*;
use crate::position::Epoch;

fn server() -> ServerState {
    ServerState {
        system: SystemIdentifier(7),
        timeline: Timeline(1),
        history: Some(Vec::new()),
        flushed: Lsn::new(100),
        in_recovery: false,
        database: "app".to_owned(),
    }
}

fn promoted_server() -> ServerState {
    let history = Some(vec![Switch { timeline: Timeline(1), end: Lsn::new(60) }]);
    ServerState { timeline: Timeline(2), history, ..server() }
}

fn slot_at(confirmed: u64) -> SlotState {
    SlotState {
        name: "walpost".to_owned(),
        kind: SlotKind::Logical,
        temporary: false,
        plugin: Some("pgoutput".to_owned()),
        database: Some("app".to_owned()),
        active_pid: None,
        restart: Some(Lsn::new(confirmed.saturating_sub(5))),
        confirmed: Some(Lsn::new(confirmed)),
        lost: None,
    }
}

fn checkpoint_at(position: u64) -> Checkpoint {
    Checkpoint {
        relay: "relay".to_owned(),
        system: SystemIdentifier(7),
        timeline: Timeline(1),
        database: "app".to_owned(),
        slot: "walpost".to_owned(),
        position: Lsn::new(position),
        commit_time: None,
        settled_rows: None,
        epoch: Epoch(1),
    }
}

fn wanted() -> Wanted {
    Wanted {
        relay: "relay".to_owned(),
        database: "app".to_owned(),
        slot: "walpost".to_owned(),
        plugin: "pgoutput".to_owned(),
        is_exactly_once: false,
    }
}

/// Where nothing may be published twice.
fn wanted_once() -> Wanted {
    Wanted { is_exactly_once: true, ..wanted() }
}

type Case = (ServerState, Option<SlotState>, Option<Checkpoint>, StartState);

fn slot_name() -> String {
    "walpost".to_owned()
}

fn other(change: fn(&mut Checkpoint)) -> Option<Checkpoint> {
    let mut checkpoint = checkpoint_at(50);
    change(&mut checkpoint);
    Some(checkpoint)
}

fn odd(change: fn(&mut SlotState)) -> Option<SlotState> {
    let mut slot = slot_at(40);
    change(&mut slot);
    Some(slot)
}

fn foreign(part: Part, found: &str, wanted: &str) -> StartState {
    StartState::OtherCheckpoint { part, found: found.to_owned(), wanted: wanted.to_owned() }
}

fn wrong(database: &str) -> StartState {
    StartState::WrongDatabase { slot: slot_name(), database: database.to_owned(), wanted: "app".to_owned() }
}

fn busy(pid: Option<u32>, in_creation: bool) -> StartState {
    StartState::SlotBusy { slot: slot_name(), pid, in_creation }
}

/// Every state, from the least that makes it.
fn cases() -> Vec<Case> {
    [slot_cases(), position_cases(), cases_once()].concat()
}

/// Those of a relay that may publish nothing twice, where they are others.
fn cases_once() -> Vec<Case> {
    let state = StartState::CheckpointMissing { slot: slot_name(), confirmed: Lsn::new(40) };
    vec![(server(), Some(slot_at(40)), None, state)]
}

/// Those that the slot decides.
fn slot_cases() -> Vec<Case> {
    use StartState as S;
    let lsn = Lsn::new;
    vec![
        (server(), None, None, S::Fresh { slot: slot_name() }),
        (server(), Some(slot_at(50)), Some(checkpoint_at(50)), S::Resume { start: lsn(50) }),
        (server(), Some(slot_at(40)), Some(checkpoint_at(50)), S::Resume { start: lsn(50) }),
        (server(), Some(slot_at(40)), Some(checkpoint_at(100)), S::Resume { start: lsn(100) }),
        (server(), Some(slot_at(40)), None, S::SlotOnly { start: lsn(40) }),
        (server(), None, Some(checkpoint_at(50)), S::SlotMissing { slot: slot_name(), position: lsn(50) }),
        (server(), odd(|s| s.active_pid = Some(9)), None, busy(Some(9), false)),
        (server(), odd(|s| s.active_pid = Some(0)), None, busy(None, false)),
        (server(), odd(|s| (s.active_pid, s.confirmed) = (Some(9), None)), None, busy(Some(9), true)),
        (
            server(),
            odd(|s| (s.active_pid, s.confirmed) = (Some(9), Some(Lsn::INVALID))),
            Some(checkpoint_at(50)),
            busy(Some(9), true),
        ),
        (
            server(),
            odd(|s| s.lost = Some("wal_removed".to_owned())),
            Some(checkpoint_at(50)),
            S::SlotLost { slot: slot_name(), reason: "wal_removed".to_owned() },
        ),
        (
            server(),
            Some(slot_at(51)),
            Some(checkpoint_at(50)),
            S::SlotAhead { slot: slot_name(), confirmed: lsn(51), position: lsn(50) },
        ),
        (server(), odd(|s| s.confirmed = None), Some(checkpoint_at(50)), S::SlotUnfinished { slot: slot_name() }),
        (server(), odd(|s| s.confirmed = Some(Lsn::INVALID)), None, S::SlotUnfinished { slot: slot_name() }),
        (server(), odd(|s| s.kind = SlotKind::Physical), None, S::SlotPhysical { slot: slot_name() }),
        (server(), odd(|s| s.temporary = true), None, S::SlotTemporary { slot: slot_name() }),
    ]
}

/// Those that positions, timelines and owners decide.
fn position_cases() -> Vec<Case> {
    use StartState as S;
    let lsn = Lsn::new;
    let promoted = |position, switch| S::Promoted { from: Timeline(1), to: Timeline(2), position, switch };
    vec![
        (
            server(),
            odd(|s| s.plugin = Some("wal2json".to_owned())),
            None,
            S::WrongPlugin { slot: slot_name(), plugin: "wal2json".to_owned(), wanted: "pgoutput".to_owned() },
        ),
        (server(), odd(|s| s.database = Some("other".to_owned())), None, wrong("other")),
        (ServerState { database: "else".to_owned(), ..server() }, None, None, wrong("else")),
        (server(), Some(slot_at(40)), Some(checkpoint_at(101)), S::Future { position: lsn(101), flushed: lsn(100) }),
        (server(), Some(slot_at(101)), None, S::Future { position: lsn(101), flushed: lsn(100) }),
        (
            server(),
            Some(slot_at(40)),
            other(|c| c.timeline = Timeline(2)),
            S::TimelineBehind { checkpoint: Timeline(2), server: Timeline(1) },
        ),
        (promoted_server(), Some(slot_at(40)), Some(checkpoint_at(61)), promoted(lsn(61), Some(lsn(60)))),
        (
            ServerState { history: None, ..promoted_server() },
            Some(slot_at(40)),
            Some(checkpoint_at(50)),
            promoted(lsn(50), None),
        ),
        (
            ServerState { history: Some(Vec::new()), ..promoted_server() },
            Some(slot_at(40)),
            Some(checkpoint_at(50)),
            promoted(lsn(50), None),
        ),
        (
            promoted_server(),
            Some(slot_at(40)),
            Some(checkpoint_at(60)),
            S::ResumePromoted { start: lsn(60), from: Timeline(1), to: Timeline(2), switch: lsn(60) },
        ),
        (
            promoted_server(),
            Some(slot_at(55)),
            Some(checkpoint_at(50)),
            S::ResumePromoted { start: lsn(55), from: Timeline(1), to: Timeline(2), switch: lsn(60) },
        ),
        (
            promoted_server(),
            Some(slot_at(61)),
            Some(checkpoint_at(50)),
            S::SlotAhead { slot: slot_name(), confirmed: lsn(61), position: lsn(50) },
        ),
        (promoted_server(), None, Some(checkpoint_at(50)), S::SlotMissing { slot: slot_name(), position: lsn(50) }),
        (
            server(),
            Some(slot_at(40)),
            other(|c| c.system = SystemIdentifier(8)),
            S::OtherSystem { checkpoint: SystemIdentifier(8), server: SystemIdentifier(7) },
        ),
        (server(), None, other(|c| c.relay = "x".to_owned()), foreign(Part::Relay, "x", "relay")),
        (server(), None, other(|c| c.database = "x".to_owned()), foreign(Part::Database, "x", "app")),
        (server(), None, other(|c| c.slot = "x".to_owned()), foreign(Part::Slot, "x", "walpost")),
        (ServerState { in_recovery: true, ..server() }, Some(slot_at(40)), Some(checkpoint_at(50)), S::InRecovery),
    ]
}

#[test]
fn each_state_follows_from_what_the_three_say() {
    for (cases, wanted) in [([slot_cases(), position_cases()].concat(), wanted()), (cases_once(), wanted_once())] {
        for (server, slot, checkpoint, expected) in cases {
            let state = compare(&server, slot.as_ref(), checkpoint.as_ref(), &wanted);
            assert_eq!(state, expected, "{server:?} {slot:?} {checkpoint:?}");
        }
    }
}

#[test]
fn where_nothing_may_be_published_twice_no_other_state_is_another() {
    for (server, slot, checkpoint, expected) in [slot_cases(), position_cases()].concat() {
        let state = compare(&server, slot.as_ref(), checkpoint.as_ref(), &wanted_once());
        let is_only = matches!(expected, StartState::SlotOnly { .. });
        assert_eq!(state == expected, !is_only, "{server:?} {slot:?} {checkpoint:?}");
    }
}

#[test]
fn a_checkpoint_that_was_written_before_its_slot_was_made_tells_a_fresh_slot_from_one_that_lost_its_checkpoint() {
    let before = checkpoint_at(0);
    assert!(!before.has_begun());
    for wanted in [wanted(), wanted_once()] {
        let compared = |slot: Option<SlotState>| compare(&server(), slot.as_ref(), Some(&before), &wanted);
        assert_eq!(compared(Some(slot_at(40))), StartState::Resume { start: Lsn::new(40) });
        assert_eq!(compared(None), StartState::Fresh { slot: slot_name() });
        let lost = odd(|slot| slot.lost = Some("wal_removed".to_owned()));
        assert!(matches!(compared(lost), StartState::SlotLost { .. }));
    }
}

#[test]
fn a_busy_slot_is_busy_even_where_its_holder_has_moved_it_past_our_checkpoint() {
    let slot = SlotState { active_pid: Some(9), ..slot_at(90) };
    let state = compare(&server(), Some(&slot), Some(&checkpoint_at(50)), &wanted());
    assert_eq!(state, busy(Some(9), false));
}

#[test]
fn what_refuses_has_a_sentence_a_remedy_and_an_exit_code_of_its_own() {
    let mut codes = std::collections::BTreeMap::new();
    for (.., state) in cases() {
        assert!(!state.sentence().is_empty());
        assert_eq!(state.start().is_some(), state.exit_code() == 0, "{state:?}");
        if state.start().is_none() {
            assert!(state.remedy().is_some(), "{state:?}");
            let kind = std::mem::discriminant(&state);
            assert_eq!(*codes.entry(state.exit_code()).or_insert(kind), kind, "{state:?}");
        }
    }
    assert_eq!(codes.len(), 17, "a state is missing from the table");
}

#[test]
fn each_state_has_a_name_of_its_own() {
    let states: Vec<_> = cases().into_iter().map(|(.., state)| state).collect();
    for state in &states {
        let others = states.iter().filter(|other| std::mem::discriminant(*other) != std::mem::discriminant(state));
        assert!(others.into_iter().all(|other| other.name() != state.name()), "{}", state.name());
    }
}

#[test]
fn remedies_name_only_commands_that_exist() {
    let commands =
        ["init", "repair", "checkpoint show", "checkpoint adopt-slot", "checkpoint forget", "checkpoint copy"];
    for (.., state) in cases() {
        let remedy = state.remedy().unwrap_or_default();
        for (at, _) in remedy.match_indices("walpost ") {
            let rest = &remedy[at + "walpost ".len()..];
            assert!(commands.iter().any(|command| rest.starts_with(command)), "{remedy}");
        }
    }
}

#[test]
fn a_history_file_is_read_and_a_broken_one_is_unknown() {
    let text = "1\t0/16B3748\tno recovery target specified\n\n# comment\n2\t1/2\tbefore 2026-01-01\n";
    let switches = vec![
        Switch { timeline: Timeline(1), end: Lsn::new(0x16B_3748) },
        Switch { timeline: Timeline(2), end: Lsn::new((1 << 32) | 2) },
    ];
    assert_eq!(parse_history(text), Some(switches));
    assert_eq!(parse_history(""), Some(Vec::new()));
    for broken in ["1", "x 0/1", "1 0-1", "1\t0/1\n2"] {
        assert_eq!(parse_history(broken), None, "{broken:?}");
    }
}

prop_compose! {
    fn any_server()(timeline in 1u32..4, flushed in 0u64..12, first in 0u64..12, second in 0u64..12,
                    known in proptest::bool::weighted(0.8)) -> ServerState {
        let ends = [first.min(second), first.max(second)];
        let history = (1..timeline).zip(ends).map(|(number, end)| {
            Switch { timeline: Timeline(number), end: Lsn::new(end) }
        });
        ServerState {
            timeline: Timeline(timeline),
            history: known.then(|| history.collect()),
            flushed: Lsn::new(flushed),
            ..server()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    /// The server skips everything below the later of start and confirmed. All of that must be settled on the server's own
    /// history: by the checkpoint as far as its timeline reaches, or by a slot that the promotion carried over.
    #[test]
    fn no_start_hides_a_gap(
        server in any_server(),
        confirmed in 0u64..12,
        position in 1u64..12,
        timeline in 1u32..4,
    ) {
        let checkpoint = Checkpoint { timeline: Timeline(timeline), ..checkpoint_at(position) };
        let slot = slot_at(confirmed);
        let state = compare(&server, Some(&slot), Some(&checkpoint), &wanted());
        if let Some(start) = state.start() {
            let skipped = start.max(Lsn::new(confirmed));
            let switch = server.switch_of(checkpoint.timeline);
            let settled = match switch {
                _ if checkpoint.timeline == server.timeline => checkpoint.position,
                Some(end) if Lsn::new(confirmed) <= end => checkpoint.position.max(Lsn::new(confirmed)).min(end),
                Some(end) => checkpoint.position.min(end),
                None => Lsn::INVALID,
            };
            prop_assert!(skipped <= settled, "{state:?}: skips to {skipped} and only {settled} is settled");
            prop_assert!(start >= checkpoint.position, "{state:?} repeats what is settled");
        }
    }
}

#[test]
fn a_slot_that_was_lost_brings_the_advice_for_the_servers_reason() {
    for (reason, advice) in [
        ("wal_removed", "max_slot_wal_keep_size"),
        ("wal_status is lost", "max_slot_wal_keep_size"),
        ("idle_timeout", "idle_replication_slot_timeout"),
        ("wal_level_insufficient", "wal_level = logical"),
        ("rows_removed", "hot_standby_feedback"),
    ] {
        let state = StartState::SlotLost { slot: "s".to_owned(), reason: reason.to_owned() };
        let remedy = state.remedy().unwrap();
        assert!(remedy.contains(advice), "{reason}: {remedy}");
        let others = ["max_slot_wal_keep_size", "idle_replication_slot_timeout", "hot_standby_feedback"];
        assert_eq!(
            others.iter().filter(|other| remedy.contains(**other)).count(),
            usize::from(others.contains(&advice))
        );
        assert!(state.sentence().contains(reason), "{reason}");
    }
}
