//! The demo as a WebAssembly module: text in, text out (docs/decisions/0029-the-demo-in-the-browser.md).
//!
//! The page writes a JSON object as UTF-8 to the address that [`freeblock_question`] returns, calls [`freeblock_ask`], which
//! returns the length of the answer, and reads the answer, JSON as well, at [`freeblock_answer`]. The module imports nothing: the
//! page passes the time. A question has some of these fields, which are handled in this order:
//!
//! | field | meaning | answer |
//! |---|---|---|
//! | `now_ms` | the page's time in ms, which never goes back | |
//! | `set` | changes, as to `demo::Asked::changed` | |
//! | `step` | `true`: advance by some requests | `more`: whether the virtual time is still behind |
//! | `behind` | `true`: this machine is too slow; the virtual time counts on from its present value | |
//! | `look` | `true`: the state for the page is wanted | `snapshot` |
//!
//! Every answer has `error`, which is null if all was done.

use demo::{Asked, Demo};
use serde_json::{Value, json};
use std::cell::RefCell;
use units::{Duration, Instant};

/// The longest question in bytes.
const QUESTION_MAX: u32 = 4 << 10;

/// The module's state. One is enough for all calls, because a module has one thread.
#[derive(Default)]
struct Site {
    question: Vec<u8>,
    answer: Vec<u8>,
    demo: Option<Demo>,
}

thread_local! {
    static SITE: RefCell<Site> = RefCell::default();
}

impl Site {
    fn reply(&mut self) -> Result<Value, String> {
        let question: Value = serde_json::from_slice(&self.question).map_err(|error| error.to_string())?;
        let ms = question["now_ms"].as_f64().unwrap_or_default();
        let now =
            Instant::ZERO + Duration::from_millis_f64(ms).ok_or(format!("now_ms: {ms}; give a time"))?;
        let demo = match &mut self.demo {
            Some(demo) => demo,
            none => none.insert(Demo::new(Asked::default(), None, now).map_err(|error| error.to_string())?),
        };
        if let Some(set) = question.get("set") {
            let asked = demo.asked().clone().changed(set, None)?;
            demo.ask(asked, now).map_err(|error| error.to_string())?;
        }
        let mut answer = json!({ "error": null });
        if question["step"] == true {
            answer["more"] = demo.step(now).map_err(|error| error.to_string())?.into();
        }
        if question["behind"] == true {
            demo.fall_behind(now);
        }
        if question["look"] == true {
            answer["snapshot"] = demo.snapshot();
        }
        Ok(answer)
    }
}

/// Returns the address at which the page writes a question of this many bytes, 4,096 at most.
#[allow(unsafe_code, reason = "the name of an export; no other export of this module has it")]
#[unsafe(no_mangle)]
pub extern "C" fn freeblock_question(bytes: u32) -> *mut u8 {
    SITE.with_borrow_mut(|site| {
        site.question.clear();
        site.question.resize(bytes.min(QUESTION_MAX) as usize, 0);
        site.question.as_mut_ptr()
    })
}

/// Answers the question, and returns the length of the answer in bytes.
#[allow(unsafe_code, reason = "the name of an export; no other export of this module has it")]
#[unsafe(no_mangle)]
pub extern "C" fn freeblock_ask() -> u32 {
    SITE.with_borrow_mut(|site| {
        let reply = site.reply().unwrap_or_else(|error| json!({ "error": error }));
        site.answer = reply.to_string().into_bytes();
        u32::try_from(site.answer.len()).unwrap_or(0)
    })
}

/// Returns the address of the answer, which is valid until the next question.
#[allow(unsafe_code, reason = "the name of an export; no other export of this module has it")]
#[unsafe(no_mangle)]
pub extern "C" fn freeblock_answer() -> *const u8 {
    SITE.with_borrow(|site| site.answer.as_ptr())
}
