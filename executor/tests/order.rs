//! What goes first in the simulation: (time, class, order of scheduling).

use std::cell::RefCell;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use executor::{Class, Instant, Missed, Rt, Sim};

#[path = "support/support.rs"]
mod support;
use support::{Log, Yield, reporting};

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

#[test]
fn tasks_run_in_the_order_in_which_they_were_spawned_and_woken() {
    let log = Log::default();
    let seen = log.clone();
    Sim::new(0)
        .run(async move |rt: Rt| {
            let tasks: Vec<_> = (0..3)
                .map(|task| {
                    let log = log.clone();
                    rt.spawn_local("task", async move {
                        for round in 0..2 {
                            log.add((round, task));
                            Yield::default().await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        })
        .unwrap();
    assert_eq!(seen.take(), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
}

#[test]
fn timers_of_one_instant_fire_in_the_order_of_arming_whatever_their_distance() {
    let log = Log::default();
    let seen = log.clone();
    Sim::new(0)
        .run(async move |rt: Rt| {
            for (number, first) in [0, 500, 900, 999].into_iter().enumerate() {
                let (log, rt) = (log.clone(), rt.clone());
                rt.clone().spawn_local("meets at 1000", async move {
                    rt.sleep_until(at(first)).await;
                    rt.sleep_until(at(1000)).await;
                    log.add((number, rt.now()));
                });
            }
        })
        .unwrap();
    assert_eq!(seen.take(), [0, 1, 2, 3].map(|number| (number, at(1000))));
}

#[test]
fn at_one_instant_engines_go_before_transport_before_tasks_before_tickers() {
    let log = Log::default();
    let seen = log.clone();
    Sim::new(0)
        .run(async move |rt: Rt| {
            for class in [Class::Ticker, Class::Task, Class::Transport, Class::Engine] {
                let (log, sleep) = (log.clone(), rt.sleep_until_in(class, at(10)));
                rt.spawn_local("sleeps", async move {
                    sleep.await;
                    log.add(class);
                });
            }
            let mut interval = rt.interval_at(at(10), Duration::from_nanos(5), Missed::Burst);
            interval.tick().await;
            log.add(Class::Ticker);
        })
        .unwrap();
    let expected = [Class::Engine, Class::Transport, Class::Task, Class::Ticker, Class::Ticker];
    assert_eq!(seen.take(), expected);
}

#[test]
fn an_event_that_an_event_schedules_for_now_goes_by_its_class_too() {
    let log = Log::default();
    let seen = log.clone();
    Sim::new(0)
        .run(async move |rt: Rt| {
            let simulation = rt.simulation().unwrap();
            for class in [Class::Task, Class::Ticker, Class::Engine] {
                let log = log.clone();
                simulation.spawn_in(class, "spawned", async move { log.add(class) });
            }
        })
        .unwrap();
    assert_eq!(seen.take(), [Class::Engine, Class::Task, Class::Ticker]);
}

#[test]
fn time_stands_still_while_anything_is_due_and_then_jumps_to_the_next_event() {
    let run = Sim::new(0).run(async |rt: Rt| {
        for _ in 0..1000 {
            Yield::default().await;
        }
        assert_eq!(rt.now(), Instant::ZERO);
        rt.sleep(Duration::from_nanos(123_456_789_012)).await;
        assert_eq!(rt.now(), at(123_456_789_012));
        assert_eq!(rt.wall().unix_secs(), 946_684_800 + 123);
    });
    assert_eq!(run.report.now, at(123_456_789_012));
    run.unwrap();
}

#[test]
fn granularity_rounds_deadlines_up() {
    Sim::builder()
        .granularity(Duration::from_millis(1))
        .build()
        .run(async |rt: Rt| {
            rt.sleep(Duration::from_micros(1)).await;
            assert_eq!(rt.now(), at(1_000_000));
            rt.sleep(Duration::from_millis(2)).await;
            assert_eq!(rt.now(), at(3_000_000));
        })
        .unwrap();
}

#[test]
fn several_wakes_are_one_poll() {
    let polls = Rc::new(RefCell::new(0));
    let counted = polls.clone();
    reporting(0)
        .run(async move |rt: Rt| {
            let waker = Rc::new(RefCell::new(None));
            let kept = waker.clone();
            let task = rt.spawn_local(
                "counts",
                std::future::poll_fn(move |cx| {
                    *counted.borrow_mut() += 1;
                    if *counted.borrow() == 2 {
                        return Poll::Ready(());
                    }
                    *kept.borrow_mut() = Some(cx.waker().clone());
                    Poll::Pending
                }),
            );
            Yield::default().await;
            let waker = waker.borrow_mut().take().unwrap();
            for _ in 0..10 {
                waker.wake_by_ref();
            }
            task.await.unwrap();
            waker.wake();
        })
        .unwrap();
    assert_eq!(*polls.borrow(), 2);
}
