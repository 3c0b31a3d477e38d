use std::collections::VecDeque;

use proptest::prelude::*;

use super::super::NewRequest;
use super::*;

fn requests(ranks: &[(i64, u64)]) -> (Requests, Vec<Slot>) {
    let mut requests = Requests::default();
    let slots = (0..)
        .zip(ranks)
        .map(|(id, &(priority, arrival))| {
            requests.insert(NewRequest { priority, arrival, ..NewRequest::new(RequestId(id), 1, 1) })
        })
        .collect();
    (requests, slots)
}

fn ids(queue: &WaitQueue, requests: &Requests) -> Vec<u64> {
    queue.iter(requests).map(|id| id.0).collect()
}

#[test]
fn priority_then_arrival_then_id_decides() {
    let cases = [
        (vec![(2, 0), (0, 0), (1, 0)], vec![1, 2, 0]),
        (vec![(0, 3), (0, 1), (0, 2)], vec![1, 2, 0]),
        (vec![(2, 1), (1, 3), (1, 2), (0, 4)], vec![3, 2, 1, 0]),
        (vec![(0, 0), (-1, 5), (0, 0)], vec![1, 0, 2]),
    ];
    for (ranks, order) in cases {
        let (mut requests, slots) = requests(&ranks);
        let mut queue = WaitQueue::new(SchedulingPolicy::Priority);
        for &slot in slots.iter().rev() {
            queue.push_front(slot, &mut requests);
        }
        assert_eq!(ids(&queue, &requests), order);
    }
}

proptest! {
    #[test]
    fn first_come_agrees_with_a_deque(ops in prop::collection::vec((0u8..4, 0usize..12), 0..200)) {
        let (mut requests, slots) = requests(&[(0, 0); 12]);
        let mut queue = WaitQueue::new(SchedulingPolicy::Fcfs);
        let mut plain: VecDeque<Slot> = VecDeque::new();
        for (op, which) in ops {
            let slot = slots[which];
            match (op, plain.contains(&slot)) {
                (0 | 1, false) => {
                    queue.push(slot, &mut requests);
                    plain.push_back(slot);
                }
                (2, false) => {
                    queue.push_front(slot, &mut requests);
                    plain.push_front(slot);
                }
                (3, true) => {
                    queue.remove(slot, &mut requests);
                    plain.retain(|&waiting| waiting != slot);
                }
                _ => {}
            }
            prop_assert_eq!(queue.len(), plain.len());
            prop_assert_eq!(queue.head(), plain.front().copied());
            let expected: Vec<u64> = plain.iter().map(|&slot| requests[slot].id.0).collect();
            prop_assert_eq!(ids(&queue, &requests), expected);
        }
    }
}
