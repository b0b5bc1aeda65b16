//! What a failed program's output says of the failure.

/// Lines that are shown of each end of what is longer.
const ENDS: usize = 60;

/// Returns whether a line says that a test of a test program of Rust's has failed.
pub fn is_failure(line: &str) -> bool {
    line.starts_with("test ") && line.ends_with(" ... FAILED")
}

/// Returns what failed tests have said, each from its beginning and to its end. If no test of a
/// test program of Rust's has failed, it is the end of the output.
pub fn of(output: &str) -> String {
    let mut sections: Vec<Vec<&str>> = vec![];
    let mut is_within = false;
    for line in output.lines() {
        let is_title = line.starts_with("---- ") && line.ends_with(" stdout ----");
        // Behind the last section, "failures:" is the title of a list of names.
        is_within = is_title || is_within && line != "failures:";
        if is_title {
            sections.push(vec![]);
        }
        if let Some(section) = sections.last_mut().filter(|_| is_within) {
            section.push(line);
        }
    }
    if sections.is_empty() {
        let lines: Vec<&str> = output.lines().collect();
        return lines[lines.len().saturating_sub(ENDS)..].join("\n");
    }
    sections.iter().map(|lines| shortened(lines)).collect::<Vec<_>>().join("\n")
}

/// Joins lines, without those in the middle if there are many.
fn shortened(lines: &[&str]) -> String {
    let Some(left_out) = lines.len().checked_sub(2 * ENDS).filter(|count| *count > 0) else { return lines.join("\n") };
    let (first, last) = (&lines[..ENDS], &lines[ENDS + left_out..]);
    format!("{}\n… {left_out} lines …\n{}", first.join("\n"), last.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_failed_test_has_said_is_told() {
        let of_one = |name: &str| format!("---- {name} stdout ----\nthread panicked: {name} is wrong\n");
        let program = |names: &[&str]| {
            let said: Vec<String> = names.iter().map(|name| of_one(name)).collect();
            format!("test x ... ok\n\nfailures:\n\n{}\nfailures:\n    {}\n", said.join("\n"), names.join("\n    "))
        };
        let output = program(&["a", "b"]) + &"    Blocking waiting for a lock\n".repeat(200) + &program(&["c"]);
        let report = of(&output);
        for name in ["a", "b", "c"] {
            assert!(report.contains(&of_one(name)), "{report}");
        }
        assert!(!report.contains("Blocking") && !report.contains("test x"), "{report}");
    }

    #[test]
    fn a_long_one_is_told_by_its_ends() {
        let lines: Vec<String> = (0..1000).map(|number| format!("line {number}")).collect();
        let report = of(&format!("---- a stdout ----\n{}\nfailures:\n    a\n", lines.join("\n")));
        assert!(report.contains("line 0\n") && report.ends_with("line 999"), "{report}");
        assert!(report.contains("… 881 lines …") && !report.contains("line 500"), "{report}");
    }

    #[test]
    fn without_a_failed_test_it_is_the_end() {
        let lines: Vec<String> = (0..1000).map(|number| format!("line {number}")).collect();
        let report = of(&lines.join("\n"));
        assert!(report.starts_with("line 940\n") && report.ends_with("line 999"), "{report}");
    }

    #[test]
    fn a_failed_test_is_seen_at_once() {
        assert!(is_failure("test a::b ... FAILED"));
        assert!(!is_failure("test a::b ... ok") && !is_failure("test result: FAILED. 0 passed; 1 failed"));
    }
}
