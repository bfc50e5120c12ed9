//! The measured cost of background work, in words.

use crate::tables::grouped;
use serde_json::Value;

/// Returns a line about the field `measured` of a status; `None` if the cost is not measured.
pub(crate) fn measured(status: &Value) -> Option<String> {
    let measured = status.as_object()?;
    let arm = |name: &str| {
        let arm = &measured[name];
        (arm["requests"].as_u64().unwrap_or(0), arm["response_ms"].as_f64().unwrap_or(0.0))
    };
    let share = |name: &str| {
        let percent = |end: &str| measured[name][end].as_f64().map(|share| share * 100.0);
        let (low, mean, high) = (percent("low")?, percent("mean")?, percent("high")?);
        Some(format!("{mean:+.2}% ({low:+.2}% to {high:+.2}% with 95% confidence)"))
    };
    let ((with, with_ms), (without, without_ms)) = (arm("on"), arm("plain"));
    let Some(background) = share("background") else {
        let missing = measured["pairs_missing"][0].as_u64().unwrap_or(0);
        return Some(format!(
            "not yet: {missing} more pairs of windows with and without background work; so far {} and {} requests",
            grouped(with),
            grouped(without)
        ));
    };
    let order = share("order").map_or_else(String::new, |order| format!("; our order of requests {order}"));
    let unaccounted = measured["unaccounted"].as_f64().map_or_else(String::new, |share| {
        format!(
            "; not in the account {:+.2}%, which is taken off the bound as far as it is known",
            share * 100.0
        )
    });
    Some(format!(
        "background work {background}: {with_ms:.2} ms of {} requests with it, {without_ms:.2} ms of {} without{order}{unaccounted}",
        grouped(with),
        grouped(without)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_cost_is_stated_with_its_interval_or_with_the_missing_data() {
        assert_eq!(measured(&Value::Null), None);
        let arm = |requests: u64, ms: f64| json!({ "windows": 2, "requests": requests, "response_ms": ms });
        let of = |background: Value, order: Value| {
            json!({
                "on": arm(1_200, 12.5), "plain": arm(400, 12.4), "through": arm(0, 0.0), "pairs_missing": [5, 9],
                "background": background, "order": order, "unaccounted": 0.004,
            })
        };
        let early = measured(&of(Value::Null, Value::Null)).unwrap();
        assert_eq!(
            early,
            "not yet: 5 more pairs of windows with and without background work; so far 1,200 and 400 requests"
        );
        let share = json!({ "low": -0.001, "mean": 0.008, "high": 0.017 });
        let later = measured(&of(share.clone(), share)).unwrap();
        assert_eq!(
            later,
            "background work +0.80% (-0.10% to +1.70% with 95% confidence): 12.50 ms of 1,200 requests with it, \
             12.40 ms of 400 without; our order of requests +0.80% (-0.10% to +1.70% with 95% confidence); \
             not in the account +0.40%, which is taken off the bound as far as it is known"
        );
    }
}
