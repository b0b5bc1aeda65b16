//! The book's page about rules: every example in it can be read, and the mistake that it shows is
//! said so.

use culm_firewall::{Zones, parse};

const PAGE: &str = include_str!("../../../docs/src/reference/firewall.md");

fn zones() -> Zones {
    Zones::new(&["inner", "outer", "guest"]).expect("names of zones")
}

/// Returns what stands between the fences of code that is marked so.
fn examples(mark: &str) -> Vec<&'static str> {
    let fence = format!("```{mark}\n");
    PAGE.split(&fence).skip(1).filter_map(|rest| rest.split_once("```")).map(|(example, _)| example).collect()
}

fn problems(text: &str) -> String {
    let mut out = String::new();
    for problem in parse(text, &zones()).err().unwrap_or_default() {
        problem.write(&mut out, "router.rules", text).expect("a string takes all");
    }
    out
}

#[test]
fn each_example_is_right() {
    let examples = examples("rules");
    assert!(examples.len() >= 7, "the page has examples: {}", examples.len());
    for example in examples {
        assert_eq!(problems(example), "", "{example}");
    }
}

#[test]
fn the_mistake_is_said_so() {
    let rules = "\ndeny log from 10.0.0.0/8 in outer\nallow tcp from 10.1.0.0/16 in outer port 80\n";
    assert_eq!(examples("text"), [problems(rules)]);
}
