//! Debian's nginx in a guest, as anybody gets it by `./culm run nginx-guest`. It is asked a few
//! thousand times, and a hundred thousand times if `CULM_SOAK` is set.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::{curl, run};
use culm_tests_harness::deaths::is_soak;
use culm_tests_harness::terminal::Terminal;
use culm_tests_harness::{Boot, free_port};

/// Rounds, and answers that each asks for, besides a large one.
const ROUNDS: u32 = 3;
const PATHS: [&str; 3] = ["", "10240", "none"];

/// Returns the requests of one round over one connection, for each of those answers.
fn requests() -> u32 {
    if is_soak() { 100_000_u32.div_ceil(ROUNDS * PATHS.len() as u32) } else { 500 }
}

/// What `seq` writes, as much as the guest's files have of it.
fn lines(length: usize) -> Vec<u8> {
    let all = (1_u32..).flat_map(|number| format!("{number}\n").into_bytes());
    all.take(length).collect()
}

/// Asks nginx's worker for the memory that it has resident, in KiB.
fn resident(terminal: &mut Terminal, round: u32) {
    let worker = "$(pidof nginx | tr ' ' '\\n' | sort -n | tail -1)";
    terminal.press(&format!(
        "new=$(sed -n 's/^VmRSS:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/{worker}/status); echo has ${{new:-none}} in round $(({round} + 40))\r"
    ));
    terminal.expect(&format!("in round {}", round + 40));
}

#[test]
fn debians_nginx_serves_from_a_guest_in_constant_memory() {
    let boot = Boot::system("systems/nginx-guest.toml");
    boot.build();
    let port = free_port();
    let mut terminal = Terminal::run(&boot.option(&["--forward", &format!("{port}:80")]).run_command());
    terminal.expect("nginx:~ # ");
    let url = |path: &str| format!("http://127.0.0.1:{port}/{path}");
    assert_eq!(curl(&url("none"), &[]).status, 404);
    for (path, length) in [("", 354), ("10240", 10_240), ("large", 33_400_000)] {
        let answer = curl(&url(path), &[]);
        assert_eq!(answer.header("server").map(|server| server.starts_with("nginx/")), Some(true));
        assert!(answer.body == lines(length), "{} bytes of {length}", answer.body.len());
    }
    for round in 0..ROUNDS {
        for path in PATHS {
            let requests = requests();
            let many = url(&format!("{path}?[1-{requests}]"));
            let codes =
                run(1800, "curl", &["--silent", "--output", "/dev/null", "--write-out", "%{http_code}\n", &many]);
            let expected = if path == "none" { "404" } else { "200" };
            let count = codes.lines().filter(|code| *code == expected).count();
            assert_eq!(count, requests as usize, "{path}");
        }
        assert!(curl(&url("large"), &[]).body == lines(33_400_000), "the large one in round {round}");
        resident(&mut terminal, round);
        // The first round warms it up.
        let kept =
            if round + 1 < ROUNDS { "old=$new" } else { "[ $new -le $((old + 64)) ] && echo con$((40 + 2))stant" };
        terminal.press(&format!("{kept}\r"));
    }
    terminal.expect("con42stant");
    terminal.press("poweroff -f\r");
    terminal.expect("the guest has switched itself off");
    assert_eq!(terminal.wait().code(), Some(0));
}
