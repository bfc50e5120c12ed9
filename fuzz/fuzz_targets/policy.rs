//! Any text as a policy's name: an error, or a policy whose own name gives it again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use scheduler::policy::PolicyName;

fuzz_target!(|text: &str| {
    if let Ok(policy) = text.parse::<PolicyName>() {
        assert_eq!(policy.to_string().parse(), Ok(policy));
    }
});
