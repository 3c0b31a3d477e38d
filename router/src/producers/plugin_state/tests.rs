use super::*;

fn at(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * 1_000_000_000)
}

/// Scheduling spec 2.7: what counts as an access.
#[test]
fn reads_and_writes_stamp_what_is_known() {
    let mut state = PluginState::default();
    assert_eq!(state.read("r", "k", at(1)), None);
    assert_eq!(state.last_access("r"), None, "an unknown request is not stamped");
    state.write("r", "k", 5, at(2));
    assert_eq!((state.read("r", "k", at(3)).copied(), state.last_access("r")), (Some(5), Some(at(3))));
    assert_eq!((state.read("r", "other", at(4)).copied(), state.last_access("r")), (None, Some(at(4))));
    state.write("r", "k", 6, at(5));
    assert_eq!((state.read("r", "k", at(5)).copied(), state.last_access("r")), (Some(6), Some(at(5))));
    state.touch("r", at(6));
    assert_eq!(state.last_access("r"), Some(at(6)));
}

/// Scheduling spec 2.7: an overwritten value is not handed out, any other once.
#[test]
fn values_are_handed_out_at_most_once() {
    let mut state = PluginState::default();
    for (key, value) in [("a", 1), ("a", 2), ("b", 3), ("c", 4)] {
        state.write("r", key, value, at(0));
    }
    assert_eq!((state.delete_key("r", "b"), state.delete_key("r", "b")), (Some(3), None));
    assert_eq!(state.last_access("r"), Some(at(0)), "the stamp stays");
    assert_eq!(state.delete("r").collect::<Vec<_>>(), [2, 4]);
    assert_eq!((state.delete("r").count(), state.last_access("r")), (0, None));
    assert_eq!((state.delete_key("r", "a"), state.sweep(at(10_000))), (None, vec![]));
}

/// Scheduling spec 2.7: stale is more than five minutes; a live stream refreshes.
#[test]
fn the_janitor_takes_what_is_idle_for_more_than_five_minutes_unless_its_stream_lives() {
    let mut state = PluginState::default();
    let stream = Rc::new(());
    state.write("idle", "k", 1, at(0));
    state.write("bound", "k", 2, at(0));
    state.bind("bound", &stream);
    assert_eq!(state.sweep(at(300)), [0; 0]);
    assert_eq!(state.sweep(at(301)), [1]);
    assert_eq!((state.last_access("idle"), state.last_access("bound")), (None, Some(at(301))));
    drop(stream);
    assert_eq!(state.sweep(at(601)), [0; 0], "five minutes since the refresh");
    assert_eq!(state.sweep(at(602)), [2]);
}
