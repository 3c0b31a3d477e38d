//! Form A: a script of explicit turns.

use engines::engine::{Admission, Next, RequestId};
use serde_json::{Map, Value, json};

use super::machine::Machine;
use super::script::{Op, PauseState};

/// Runs the script; returns the answer to each op.
pub(super) fn run(mut machine: Machine, ops: &[Op]) -> Result<Vec<Value>, String> {
    ops.iter().map(|op| answer(&mut machine, op).map(Value::Object)).collect()
}

fn answer(machine: &mut Machine, op: &Op) -> Result<Map<String, Value>, String> {
    let mut members = Map::new();
    match op {
        Op::Add(add) => {
            machine.add(add)?;
            members.insert("has_requests".into(), json!(machine.engine.has_requests()));
        }
        Op::Pause { state: Some(state), .. } => {
            machine.engine.set_admission(match state {
                PauseState::All => Admission::Nothing,
                PauseState::New => Admission::RunningOnly,
                PauseState::None => Admission::All,
            });
            members.insert("has_requests".into(), json!(machine.engine.has_requests()));
        }
        Op::Abort { ids } => {
            machine.abort(ids);
            show_state(machine, &mut members);
        }
        Op::AbortAll => {
            machine.engine.abort_all();
            show_state(machine, &mut members);
        }
        Op::Reset { running } => {
            let reset = machine.engine.reset_prefix_cache(*running);
            members.insert("ok".into(), json!(reset.done));
            machine.show_ids(&mut members, "preempted", reset.preempted.iter());
            show_state(machine, &mut members);
        }
        Op::Step { during } => step(machine, during, &mut members)?,
        Op::Pause { state: None, .. } | Op::Resume => return Err("an op of the other form".into()),
    }
    Ok(members)
}

fn show_state(machine: &Machine, members: &mut Map<String, Value>) {
    if !machine.is_brief() {
        machine.show_queues(members);
        machine.show_free_queue(members);
    }
}

fn step(machine: &mut Machine, during: &[Op], members: &mut Map<String, Value>) -> Result<(), String> {
    let turn = machine.engine.turn();
    if turn.scheduled {
        members.insert("schedule".into(), Value::Object(machine.schedule(Vec::<RequestId>::new())));
    }
    if turn.next == Next::Complete {
        for op in during {
            match op {
                Op::Abort { ids } => machine.abort(ids),
                _ => return Err("only aborts arrive during a step".into()),
            }
        }
        let (batch, update) = machine.update();
        if machine.engine.config().async_scheduling {
            members.insert("completed".into(), json!(batch));
        }
        members.insert("update".into(), Value::Object(update));
    }
    if !machine.engine.executed() {
        members.insert("executed".into(), json!(false));
    }
    Ok(())
}
