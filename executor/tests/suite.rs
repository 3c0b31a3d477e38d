#![expect(clippy::disallowed_methods, reason = "a live run needs sockets of tokio's")]
//! What code may rely on under every host: each test runs on tokio with one thread, on tokio with several, on
//! the simulation's executor under the wall clock, and in the simulation; on the last two the run must be clean.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use executor::live::Live;
use executor::sync::mpsc::TrySendError;
use executor::{Class, Instant, Missed, Real, Rt, Sim, Why};

#[path = "support/support.rs"]
mod support;
use support::Yield;

const MS: Duration = Duration::from_millis(1);

macro_rules! on_each_host {
    ($(async fn $name:ident($rt:ident: Rt) $body:block)*) => {$(
        mod $name {
            use super::*;

            async fn body($rt: Rt) $body

            #[test]
            fn real_current_thread() {
                Real::builder().current_thread().seed(1).build().unwrap().run(body);
            }

            #[test]
            fn real_multi_thread() {
                Real::builder().worker_threads(2).seed(1).build().unwrap().run(body);
            }

            #[test]
            fn live() {
                let tokio = tokio::runtime::Runtime::new().unwrap();
                let live = Live::builder(tokio.handle().clone()).seed(1).build().unwrap();
                live.run(body).unwrap();
            }

            #[test]
            fn sim() {
                Sim::new(1).run(body).unwrap();
            }
        }
    )*};
}

on_each_host! {
    async fn a_sleep_is_ready_at_its_deadline_counted_from_creation(rt: Rt) {
        let start = rt.now();
        let early = rt.sleep(20 * MS);
        let deadline = early.deadline();
        assert!(deadline - start >= 20 * MS && deadline <= rt.now() + 20 * MS);
        rt.sleep(10 * MS).await;
        early.await;
        assert!(rt.now() >= deadline);
        // The simulation keeps the deadline to the nanosecond; a busy machine may be late.
        assert!(rt.simulation().is_none() || rt.now() == deadline);
    }

    async fn a_deadline_in_the_past_is_ready_at_once(rt: Rt) {
        rt.sleep(2 * MS).await;
        let before = rt.now();
        rt.sleep_until(Instant::ZERO).await;
        rt.sleep_until_in(Class::Engine, before).await;
        rt.sleep(Duration::ZERO).await;
        assert!(rt.now() - before < 2000 * MS);
    }

    async fn a_sleep_can_be_reset_before_and_after_it_was_ready(rt: Rt) {
        let mut sleep = rt.sleep(Duration::from_secs(3600));
        poll_fn(|cx| { assert!(std::pin::Pin::new(&mut sleep).poll(cx).is_pending()); Poll::Ready(()) }).await;
        sleep.reset(rt.now() + 2 * MS);
        (&mut sleep).await;
        let before = rt.now();
        sleep.reset(before + 2 * MS);
        sleep.await;
        assert!(rt.now() - before >= 2 * MS);
    }

    async fn the_wall_clock_goes_with_the_monotonic_one(rt: Rt) {
        let (wall, now) = (rt.wall(), rt.now());
        rt.sleep(5 * MS).await;
        assert!(rt.wall().unix_nanos() > wall.unix_nanos() && rt.now() > now);
    }

    async fn a_timeout_ends_what_takes_too_long(rt: Rt) {
        assert!(rt.timeout(2 * MS, rt.sleep(3_600_000 * MS)).await.is_err());
        assert_eq!(rt.timeout(3_600_000 * MS, async { 7 }).await, Ok(7));
        assert!(rt.deadline(rt.now() + 2 * MS, rt.sleep(3_600_000 * MS)).await.is_err());
    }

    async fn a_ready_future_wins_over_a_timeout_of_the_same_instant(rt: Rt) {
        assert_eq!(rt.timeout(Duration::ZERO, async { 1 }).await, Ok(1));
    }

    async fn an_interval_ticks_at_multiples_of_its_period(rt: Rt) {
        let mut interval = rt.interval(10 * MS, Missed::Burst);
        let first = interval.tick().await;
        assert_eq!(interval.tick().await - first, 10 * MS);
        assert_eq!(interval.tick().await - first, 20 * MS);
        assert!(rt.now() - first >= 20 * MS);
    }

    async fn missed_ticks_burst_delay_or_skip(rt: Rt) {
        let start = rt.now();
        let mut burst = rt.interval_at(start, 10 * MS, Missed::Burst);
        let mut delay = rt.interval_at(start, 10 * MS, Missed::Delay);
        let mut skip = rt.interval_at(start, 10 * MS, Missed::Skip);
        rt.sleep(35 * MS).await;
        let late = rt.now();
        for interval in [&mut burst, &mut delay, &mut skip] {
            assert_eq!(interval.tick().await, start, "the first tick says when it was due");
        }
        assert_eq!(burst.tick().await, start + 10 * MS);
        assert!(delay.tick().await >= late + 10 * MS);
        let skipped = skip.tick().await;
        assert_eq!((skipped - start).as_nanos() % (10 * MS).as_nanos(), 0);
        assert!(skipped > late);
    }

    async fn a_task_gives_its_output_to_who_joins_it(rt: Rt) {
        assert_eq!(rt.spawn("send", async { 1 }).await.unwrap(), 1);
        let local = std::rc::Rc::new(2);
        assert_eq!(*rt.spawn_local("local", async move { local }).await.unwrap(), 2);
        assert_eq!(rt.daemon("daemon", async { 3 }).await.unwrap(), 3);
        assert_eq!(rt.blocking("blocking", || 4).await, 4);
    }

    async fn spawning_never_polls_inline(rt: Rt) {
        let cell = std::rc::Rc::new(std::cell::Cell::new(0));
        let seen = cell.clone();
        let task = rt.spawn_local("later", async move { seen.set(1) });
        assert_eq!(cell.get(), 0);
        task.await.unwrap();
        assert_eq!(cell.get(), 1);
    }

    async fn an_aborted_task_is_dropped_and_says_so(rt: Rt) {
        let alive = Arc::new(());
        let held = Arc::clone(&alive);
        let sleep = rt.sleep(3_600_000 * MS);
        let task = rt.spawn("sleeper", async move { sleep.await; drop(held) });
        Yield::default().await;
        let abort = task.abort_handle();
        assert!(!abort.is_finished());
        task.abort();
        assert!(task.await.unwrap_err().is_aborted());
        assert!(abort.is_finished());
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    async fn aborting_a_finished_task_keeps_its_output(rt: Rt) {
        let task = rt.spawn("quick", async { 5 });
        while !task.is_finished() { rt.sleep(MS).await; }
        task.abort();
        assert_eq!(task.await.unwrap(), 5);
    }

    async fn a_panic_is_an_error_of_the_join_and_nothing_else(rt: Rt) {
        let task = rt.spawn("panics", async { panic!("boom {}", 1) });
        let error = task.await.unwrap_err();
        assert!(error.is_panicked() && !error.is_aborted());
        assert_eq!(error.to_string(), "the task panicked: boom 1");
    }

    async fn a_panic_of_blocking_work_unwinds_where_it_is_awaited(rt: Rt) {
        let blocking = rt.blocking("panics", || panic!("boom"));
        let task = rt.spawn("awaits", blocking);
        assert_eq!(task.await.unwrap_err().to_string(), "the task panicked: boom");
    }

    async fn a_park_ends_with_its_unpark_from_any_task(rt: Rt) {
        let (park, unpark) = rt.park(Why::about("test", 1));
        let task = rt.spawn("unparks", async move { unpark.unpark() });
        assert_eq!(park.await, Ok(()));
        assert!(task.await.unwrap());
    }

    async fn a_park_may_be_unparked_before_it_is_polled(rt: Rt) {
        let (park, unpark) = rt.park(Why::new("test"));
        assert!(!park.is_unparked());
        assert!(unpark.unpark());
        assert!(park.is_unparked());
        assert_eq!(park.await, Ok(()));
    }

    async fn dropping_either_half_of_a_park_is_seen_by_the_other(rt: Rt) {
        let (park, unpark) = rt.park(Why::new("test"));
        drop(unpark);
        assert!(park.await.is_err());
        let (park, unpark) = rt.park(Why::new("test"));
        assert!(!unpark.is_cancelled());
        drop(park);
        assert!(unpark.is_cancelled());
        assert!(!unpark.unpark());
    }

    async fn waits_work_inside_a_combinator_with_wakers_of_its_own(rt: Rt) {
        let all = futures::stream::FuturesUnordered::new();
        let (park, unpark) = rt.park(Why::new("test"));
        let (tx, rx) = rt.oneshot::<u32>();
        let (s1, s2) = (rt.sleep(4 * MS), rt.sleep(2 * MS));
        let task = rt.spawn("slow", rt.sleep(6 * MS));
        all.push(futures::future::Either::Left(futures::future::Either::Left(async { s1.await; 4 })));
        all.push(futures::future::Either::Left(futures::future::Either::Right(async { s2.await; 2 })));
        all.push(futures::future::Either::Right(futures::future::Either::Left(async { park.await.unwrap(); 1 })));
        all.push(futures::future::Either::Right(futures::future::Either::Right(async { rx.await.unwrap(); task.await.unwrap(); 6 })));
        rt.spawn("unparks", async move { unpark.unpark(); tx.send(1).unwrap(); }).await.unwrap();
        let mut order: Vec<i32> = futures::StreamExt::collect(all).await;
        if rt.simulation().is_none() {
            // A busy machine may come to all of them too late.
            order.sort_unstable();
        }
        assert_eq!(order, [1, 2, 4, 6]);
    }

    async fn a_oneshot_gives_its_value_or_says_that_none_comes(rt: Rt) {
        let (tx, rx) = rt.oneshot();
        let task = rt.spawn("receives", rx);
        tx.send(9).unwrap();
        assert_eq!(task.await.unwrap(), Ok(9));
        let (tx, rx) = rt.oneshot::<u8>();
        let task = rt.spawn("receives", rx);
        Yield::default().await;
        drop(tx);
        assert!(task.await.unwrap().is_err());
        let (tx, mut rx) = rt.oneshot();
        assert_eq!(rx.try_recv(), Ok(None));
        tx.send(1).unwrap();
        assert_eq!(rx.try_recv(), Ok(Some(1)));
        assert!(rx.try_recv().is_err());
    }

    async fn a_oneshot_sender_sees_its_receiver_go(rt: Rt) {
        let (mut tx, rx) = rt.oneshot::<u8>();
        let task = rt.spawn("waits", async move { tx.closed().await; tx.send(3) });
        Yield::default().await;
        drop(rx);
        assert_eq!(task.await.unwrap(), Err(3));
    }

    async fn a_bounded_channel_holds_its_capacity_and_keeps_order(rt: Rt) {
        let (tx, mut rx) = rt.mpsc(2);
        assert_eq!((tx.try_send(0), tx.try_send(1)), (Ok(()), Ok(())));
        assert_eq!(tx.try_send(9), Err(TrySendError::Full(9)));
        let task = rt.spawn("sends", async move { for i in 2..100 { tx.send(i).await.unwrap(); } });
        for i in 0..100 { assert_eq!(rx.recv().await, Some(i)); }
        assert_eq!(rx.recv().await, None);
        task.await.unwrap();
    }

    async fn a_sender_gets_its_value_back_when_the_receiver_is_gone(rt: Rt) {
        let (tx, rx) = rt.mpsc(1);
        tx.send(1).await.unwrap();
        let blocked = rt.spawn("sends", { let tx = tx.clone(); async move { tx.send(2).await } });
        for _ in 0..3 { Yield::default().await; }
        drop(rx);
        assert_eq!(blocked.await.unwrap(), Err(2));
        assert_eq!(tx.send(3).await, Err(3));
        assert_eq!(tx.try_send(4), Err(TrySendError::Closed(4)));
        assert!(tx.is_closed());
    }

    async fn a_send_given_up_gives_its_place_to_the_next(rt: Rt) {
        let (tx, mut rx) = rt.mpsc(1);
        tx.send(1).await.unwrap();
        {
            let given_up = tx.send(2);
            futures::pin_mut!(given_up);
            assert!(futures::poll!(given_up.as_mut()).is_pending());
            let next = rt.spawn("sends", { let tx = tx.clone(); async move { tx.send(3).await.unwrap() } });
            for _ in 0..3 { Yield::default().await; }
            // The place goes to the one that waited first, which does not take it.
            assert_eq!(rx.recv().await, Some(1));
            drop(next);
        }
        assert_eq!(rx.recv().await, Some(3));
    }

    async fn an_unbounded_channel_takes_all_at_once(rt: Rt) {
        let (tx, mut rx) = rt.mpsc_unbounded();
        for i in 0..1000 { tx.send(i).unwrap(); }
        assert_eq!(rx.len(), 1000);
        drop(tx);
        let mut sum = 0;
        while let Some(i) = rx.recv().await { sum += i; }
        assert_eq!(sum, 499_500);
    }

    async fn many_senders_lose_nothing(rt: Rt) {
        let (tx, mut rx) = rt.mpsc(3);
        for sender in 0..8u64 {
            let tx = tx.clone();
            rt.spawn("sends", async move { for i in 0..200 { tx.send(sender * 1000 + i).await.unwrap(); } });
        }
        drop(tx);
        let mut next = [0; 8];
        while let Some(value) = rx.recv().await {
            let (sender, i) = ((value / 1000) as usize, value % 1000);
            assert_eq!(i, next[sender], "values of one sender keep their order");
            next[sender] += 1;
        }
        assert_eq!(next, [200; 8]);
    }

    async fn a_watch_shows_the_last_value_and_each_change_once(rt: Rt) {
        let (tx, mut rx) = rt.watch(0);
        assert!(!rx.has_changed());
        tx.send(1);
        assert_eq!(tx.send(2), 1);
        assert!(rx.has_changed());
        rx.changed().await.unwrap();
        assert_eq!(rx.get(), 2);
        let mut other = tx.subscribe();
        let task = rt.spawn("waits", async move { other.wait_for(|v| *v >= 5).await.map(|()| other.get()) });
        for i in 3..=5 { tx.modify(|v| *v = i); Yield::default().await; }
        assert_eq!(task.await.unwrap(), Ok(5));
        rx.changed().await.unwrap();
        drop(tx);
        assert!(rx.changed().await.is_err());
    }

    async fn a_stored_notification_is_one(rt: Rt) {
        let notify = rt.notify();
        notify.notify_one();
        notify.notify_one();
        notify.notified().await;
        assert!(rt.timeout(2 * MS, notify.notified()).await.is_err());
    }

    async fn notifying_all_reaches_those_that_exist(rt: Rt) {
        let notify = rt.notify();
        let before: Vec<_> = (0..4).map(|_| rt.spawn("waits", notify.notified())).collect();
        notify.notify_waiters();
        for task in before { task.await.unwrap(); }
        assert!(rt.timeout(2 * MS, notify.notified()).await.is_err());
    }

    async fn a_notification_given_to_one_that_goes_passes_on(rt: Rt) {
        let notify = rt.notify();
        let mut first = Box::pin(notify.notified());
        assert!(futures::poll!(first.as_mut()).is_pending());
        let second = rt.spawn_local("waits", notify.notified());
        for _ in 0..3 { Yield::default().await; }
        notify.notify_one();
        drop(first);
        second.await.unwrap();
    }

    async fn a_semaphore_never_gives_more_than_it_has(rt: Rt) {
        let semaphore = rt.semaphore(3);
        let (held, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let tasks: Vec<_> = (0..20).map(|_| {
            let (semaphore, held, peak) = (semaphore.clone(), held.clone(), peak.clone());
            rt.spawn("holds", async move {
                let permit = semaphore.acquire().await.unwrap();
                peak.fetch_max(held.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                Yield::default().await;
                held.fetch_sub(1, Ordering::SeqCst);
                drop(permit);
            })
        }).collect();
        for task in tasks { task.await.unwrap(); }
        assert!(peak.load(Ordering::SeqCst) <= 3);
        assert_eq!(semaphore.available(), 3);
    }

    async fn a_semaphore_is_fair_and_cancelling_unblocks_who_waits_behind(rt: Rt) {
        let semaphore = rt.semaphore(1);
        let mut large = Box::pin(semaphore.acquire_many(2));
        assert!(futures::poll!(large.as_mut()).is_pending());
        assert!(semaphore.try_acquire_many(1).is_none(), "the one that waits is not overtaken");
        let mut small = Box::pin(semaphore.acquire());
        assert!(futures::poll!(small.as_mut()).is_pending());
        drop(large);
        let permit = small.await.unwrap();
        assert_eq!(semaphore.available(), 0);
        permit.forget();
        semaphore.add(1);
        semaphore.close();
        assert!(semaphore.acquire().await.is_err());
    }

    async fn streams_have_names_and_forks(rt: Rt) {
        let mut a = rt.stream("a");
        let mut fork = rt.stream("b").fork(3);
        assert_eq!(a.u64(), executor::Stream::new(1, "a").u64());
        assert_eq!(fork.u64(), executor::Stream::new(1, "b").fork(3).u64());
    }

    async fn a_local_value_is_one_a_runtime(rt: Rt) {
        #[derive(Default)]
        struct Counter(AtomicUsize);
        rt.local::<Counter>().0.fetch_add(1, Ordering::SeqCst);
        let other = rt.clone();
        rt.spawn("counts", async move { other.local::<Counter>().0.fetch_add(1, Ordering::SeqCst) }).await.unwrap();
        assert_eq!(rt.local::<Counter>().0.load(Ordering::SeqCst), 2);
    }
}
