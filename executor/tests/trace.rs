//! What a run tells of its events, and why each was due.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use executor::{Cause, Event, EventSink, Sim, TaskStart};

#[derive(Clone, Default)]
struct Seen(Rc<RefCell<(Vec<String>, Vec<Event>)>>);

impl EventSink for Seen {
    fn task(&mut self, task: &TaskStart) {
        let mut seen = self.0.borrow_mut();
        assert_eq!(seen.0.len(), task.number as usize, "tasks come in the order of their numbers");
        seen.0.push(task.name.to_owned());
    }

    fn event(&mut self, event: &Event) {
        self.0.borrow_mut().1.push(*event);
    }
}

fn traced() -> (Vec<String>, Vec<Event>, executor::RunReport) {
    let seen = Seen::default();
    let run = Sim::builder().seed(3).trace(seen.clone()).build().run(|rt| async move {
        let (tx, rx) = rt.oneshot();
        let receiver = rt.spawn("receiver", rx);
        rt.sleep(Duration::from_millis(2)).await;
        tx.send(1).expect("the receiver waits");
        assert_eq!(receiver.await.expect("no panic"), Ok(1));
    });
    let (tasks, events) = seen.0.take();
    (tasks, events, run.report)
}

#[test]
fn each_event_names_the_one_that_made_it_due() {
    let (tasks, events, report) = traced();
    assert_eq!(tasks, ["root", "receiver"]);
    let told: Vec<_> = events.iter().map(|event| (event.task, event.cause)).collect();
    assert_eq!(
        told,
        [
            (0, Cause::Outside),
            // Spawned by the root's first turn.
            (1, Cause::Event(1)),
            (0, Cause::Timer),
            // Woken by the value, then the root by the end of what it joins.
            (1, Cause::Event(3)),
            (0, Cause::Event(4)),
        ]
    );
    assert_eq!(events.last().map(|event| (event.number, event.digest)), Some((report.events, report.digest)));
}

#[test]
fn looking_on_changes_nothing() {
    let (_, events, traced) = traced();
    assert!(traced.is_clean() && events.len() as u64 == traced.events);
    assert_eq!(traced.digest, self::traced().2.digest);
}
