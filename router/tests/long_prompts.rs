//! A long prompt is copied once where it is read and once where it is written, and nowhere else.

#![expect(clippy::disallowed_macros, reason = "the test counts what its own thread allocates")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bytes::Bytes;
use router::headers::Headers;
use router::request::{ParserRegistry, Payload, json};
use serde_json::json;

/// Length of the prompt. Unit: bytes.
const LENGTH: usize = 400_000;

/// What may be allocated beside one copy: the other members, and tables. Unit: bytes.
const BESIDE: usize = 20_000;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, counting what each thread asks for.
struct Counting;

// SAFETY: every call is passed on to `System` unchanged; the counter is a thread-local without a destructor and does not
// allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get() + layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get() + size.saturating_sub(layout.size()));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns what `work` makes, and the bytes that it asks the allocator for.
fn counted<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATED.get();
    let made = work();
    (made, ALLOCATED.get() - before)
}

fn headers(path: &str) -> Headers {
    [(":path", path)].into_iter().collect()
}

/// Reads and writes a body whose prompt is `text`, and asserts how often the prompt is copied.
fn passes_with_one_copy_each(path: &str, body: serde_json::Value) {
    let body = Bytes::from(body.to_string());
    let (registry, headers) = (ParserRegistry::default(), headers(path));
    let given = body.clone();
    let (parsed, read) = counted(|| registry.parse(&headers, given).expect("it parses").0);
    assert!(read < LENGTH + BESIDE, "{path}: reading allocates {read} bytes");
    let (_, looked) = counted(|| drop(parsed.prompt()));
    assert!(looked < BESIDE, "{path}: looking at the prompt allocates {looked} bytes");
    let Payload::Json(fields) = &parsed.payload else { panic!("JSON") };
    let (written, wrote) = counted(|| json::encode_object_of_size(fields, body.len() + 128));
    assert!(wrote < LENGTH + BESIDE, "{path}: writing allocates {wrote} bytes");
    assert!(written.len() >= LENGTH);
}

#[test]
fn a_completion_is_copied_once_a_step() {
    let text = "All work and no play. ".repeat(LENGTH / 22);
    passes_with_one_copy_each("/v1/completions", json!({ "model": "m", "prompt": text }));
}

#[test]
fn a_chat_is_copied_once_a_step() {
    let text = "All work and no play. ".repeat(LENGTH / 22);
    let messages = json!([{ "role": "user", "content": text }]);
    passes_with_one_copy_each("/v1/chat/completions", json!({ "model": "m", "messages": messages }));
}

#[test]
fn messages_are_copied_once_a_step() {
    let text = "All work and no play. ".repeat(LENGTH / 22);
    let messages = json!([{ "role": "user", "content": text }]);
    passes_with_one_copy_each("/v1/messages", json!({ "model": "m", "max_tokens": 1, "messages": messages }));
}
