//! Components that break a rule each, beside a web server from which a download goes on meanwhile:
//! every breach ends as it must, and nobody else notices.
//!
//! One machine runs all of them, half a second apart, each in a protection domain of its own; there
//! is a test per rule, which looks at what the supervisor said of it.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::{Boot, PATIENCE, client, download};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Rules as `tests/components/misbehave` names them, and what the supervisor says when one is
/// broken.
const FAULTS: &[(&str, &str)] = &[
    ("bad-system-call", "bad system call 9"),
    ("last-system-call", "bad system call 65535"),
    ("undeclared-channel", "no channel of this number"),
    ("far-channel", "no channel of this number"),
    ("undeclared-call", "no channel of this number"),
    ("call-without-right", "no channel of this number, or one that does not allow this"),
    ("huge-channel", "no channel of this number"),
    ("reply-without-call", "there is no call to reply to"),
    ("wait-while-owing", "it has to reply to a call before it waits"),
    ("deadline-of-passive", "a passive domain has no time of its own"),
    ("wait-signals-undeclared", "no channel of this number"),
    ("signal-far-group", "no channel of this number"),
    ("signal-wrapping-group", "no channel of this number"),
    ("signal-bit-63", "no channel of this number"),
    ("wait-signals-bit-63", "no channel of this number"),
    ("signal-bad-options", "register x10 has more in it than a group"),
    ("wait-bad-options", "register x10 has more in it than a group"),
    ("restart-without-right", "bad system call restart"),
    ("halt-without-right", "bad system call halt"),
    ("wild-read", "read at 0x7f00000000, where nothing is mapped"),
    ("null-read", "read at 0x8, where nothing is mapped"),
    ("kernel-read", "read at 0xffffff8000000000, which is the kernel's"),
    ("non-canonical-read", "where nothing is mapped"),
    ("wild-write", "write at 0x7f00000000, where nothing is mapped"),
    ("kernel-write", "write at 0xffffff8000000000, which is the kernel's"),
    ("write-code", "write at 0x200000, which is read-only"),
    ("write-constant", "which is read-only"),
    ("write-start-block", "write at 0x20000000, which is read-only"),
    ("jump-to-nothing", "jump to 0x7f00000000, where nothing is mapped"),
    ("jump-to-kernel", "jump to 0xffffff8000000000"),
    ("jump-unaligned", "not aligned"),
    ("execute-data", "which is no code"),
    ("stack-overflow", "just below the stack: 16 KiB are too few (`stack` in its component.toml)"),
    ("unaligned-exclusive", "not aligned"),
    ("undefined-instruction", "undefined instruction"),
    ("breakpoint", "breakpoint"),
    ("floating-point", "vector instruction: it needs `vectors = true`"),
    ("page-table-register", "undefined instruction"),
    ("interrupt-mask", "only the kernel may use"),
    ("timer-register", "only the kernel may use"),
    ("performance-counter", "only the kernel may use"),
    ("debug-channel", "only the kernel may use"),
    ("hypervisor-call", "undefined instruction"),
    ("monitor-call", "undefined instruction"),
    ("exception-return", "undefined instruction"),
    ("cache-maintenance", "undefined instruction"),
    ("panic", "panic"),
    ("allocation-without-heap", "panic"),
];

/// Those that are broken by a passive domain while it is called, in a domain of its own.
const WHEN_CALLED: &[&str] = &["wait-while-owing", "deadline-of-passive"];

/// Behaviour that is no fault, but takes all the time that it can get: a budget bounds it.
const GREED: &[&str] = &["endless-loop", "endless-notifications", "endless-log"];

/// Seconds until the first breach, so that the download is on its way.
const START: f32 = 4.0;
/// Seconds between two breaches.
const STEP: f32 = 0.25;

/// The lines of the machine's console, and how the downloads went.
struct Outcome {
    console: String,
    downloads: usize,
    after_the_last_breach: usize,
}

/// The protection domain that breaks `rule`.
fn domain(rule: &str) -> String {
    rule.replace('-', "_")
}

/// A web server, a component per rule, and a driver that misuses its device, all above the web
/// server's priority.
fn description() -> String {
    let mut text = String::from(
        "name = \"isolation\"\ndescription = \"Everybody breaks a rule\"\nboard = \"virt\"\n\
         [device.nic0]\npriority = 240\n[device.uart0]\npriority = 230\n\
         [device.nic1]\npriority = 160\ndriver = \"net-misbehave\"\non_fault = \"stop\"\n\
         [pd.http]\ncomponent = \"http\"\npriority = 100\nnet = \"nic0\"\nconfig = { site = \"site\" }\n",
    );
    let mut channels = String::new();
    let rules = FAULTS.iter().map(|(rule, _)| *rule).chain(GREED.iter().copied());
    for (index, rule) in rules.enumerate() {
        let after = ((START + STEP * index as f32) * 1000.0) as u32;
        let budget = if GREED.contains(&rule) { "budget = \"1ms\"\nperiod = \"20ms\"\n" } else { "" };
        let passive = WHEN_CALLED.contains(&rule);
        if passive {
            write!(
                text,
                "[pd.caller{index}]\ncomponent = \"misbehave\"\npriority = 149\n\
                 config = {{ rule = \"call-the-peer\", after = \"{after}ms\" }}\n"
            )
            .expect("a string takes everything");
            write!(
                channels,
                "[[channel]]\nends = [\"caller{index}.peer\", \"{0}.peer\"]\ncall = \"caller{index}\"\nnotify = []\n",
                domain(rule)
            )
            .expect("a string takes everything");
        }
        write!(
            text,
            "[pd.{}]\ncomponent = \"misbehave\"\npriority = 150\non_fault = \"stop\"\npassive = {passive}\n{budget}\
             config = {{ rule = \"{rule}\", after = \"{after}ms\" }}\n",
            domain(rule)
        )
        .expect("a string takes everything");
    }
    text + &channels
}

/// Runs the machine once for all tests.
fn outcome() -> &'static Outcome {
    static OUTCOME: OnceLock<Outcome> = OnceLock::new();
    OUTCOME.get_or_init(|| {
        let folder = tempfile::tempdir().expect("there is a place for temporary files");
        run(folder.path())
    })
}

fn run(folder: &Path) -> Outcome {
    let content = download::content();
    std::fs::create_dir(folder.join("site")).expect("the folder is writable");
    std::fs::write(folder.join("site/file.bin"), &content).expect("the folder is writable");
    let file = folder.join("isolation.toml");
    std::fs::write(&file, description()).expect("the folder is writable");
    let mut machine = Boot::system(file.to_str().expect("temporary paths are text")).start(&[80]);
    machine.wait_for_web();
    let url = machine.url("/file.bin");
    let (downloads, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let after_the_last_breach = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Relaxed) {
                assert!(client::curl(&url, &[]).body == content, "a download is not what was asked for");
                downloads.fetch_add(1, Relaxed);
            }
        });
        for (rule, _) in FAULTS {
            machine.expect_anywhere(&format!("supervisor: {} stays stopped", domain(rule)));
        }
        for rule in GREED {
            machine.expect_anywhere(&format!("now breaking the rule {rule}"));
        }
        let before = downloads.load(Relaxed);
        // One that was under way, and two whole ones beside those who take all they can get.
        let until = Instant::now() + PATIENCE;
        while downloads.load(Relaxed) < before + 3 && !machine.saw("http faulted") && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(100));
        }
        over.store(true, Relaxed);
        downloads.load(Relaxed) - before
    });
    Outcome { console: machine.console(), downloads: downloads.into_inner(), after_the_last_breach }
}

/// Checks what came of breaking one rule.
fn check(rule: &str) {
    let domain = domain(rule);
    let (_, expected) = FAULTS.iter().find(|(name, _)| *name == rule).expect("the rule has an entry");
    let lines: Vec<&str> = outcome().console.lines().filter(|line| line.contains(&domain)).collect();
    let text = lines.join("\n");
    assert!(text.contains(&format!("now breaking the rule {rule}")), "it did not try:\n{text}");
    assert!(!text.contains("survived"), "it was not stopped:\n{text}");
    let verdict = lines.iter().find(|line| line.contains(&format!("supervisor: {domain} faulted")));
    assert!(verdict.is_some_and(|line| line.contains(expected)), "not for `{expected}`:\n{text}");
}

macro_rules! rules {
    ($($name:ident $rule:literal),* $(,)?) => { $(
        #[test]
        fn $name() {
            check($rule);
        }
    )* };
}

rules!(
    bad_system_call "bad-system-call",
    last_system_call "last-system-call",
    undeclared_channel "undeclared-channel",
    far_channel "far-channel",
    undeclared_call "undeclared-call",
    call_without_right "call-without-right",
    huge_channel "huge-channel",
    reply_without_call "reply-without-call",
    wait_while_owing "wait-while-owing",
    deadline_of_passive "deadline-of-passive",
    wait_signals_undeclared "wait-signals-undeclared",
    signal_far_group "signal-far-group",
    signal_wrapping_group "signal-wrapping-group",
    signal_bit_63 "signal-bit-63",
    wait_signals_bit_63 "wait-signals-bit-63",
    signal_bad_options "signal-bad-options",
    wait_bad_options "wait-bad-options",
    restart_without_right "restart-without-right",
    halt_without_right "halt-without-right",
    wild_read "wild-read",
    null_read "null-read",
    kernel_read "kernel-read",
    non_canonical_read "non-canonical-read",
    wild_write "wild-write",
    kernel_write "kernel-write",
    write_code "write-code",
    write_constant "write-constant",
    write_start_block "write-start-block",
    jump_to_nothing "jump-to-nothing",
    jump_to_kernel "jump-to-kernel",
    jump_unaligned "jump-unaligned",
    execute_data "execute-data",
    stack_overflow "stack-overflow",
    unaligned_exclusive "unaligned-exclusive",
    undefined_instruction "undefined-instruction",
    breakpoint "breakpoint",
    floating_point "floating-point",
    page_table_register "page-table-register",
    interrupt_mask "interrupt-mask",
    timer_register "timer-register",
    performance_counter "performance-counter",
    debug_channel "debug-channel",
    hypervisor_call "hypervisor-call",
    monitor_call "monitor-call",
    exception_return "exception-return",
    cache_maintenance "cache-maintenance",
    panic "panic",
    allocation_without_heap "allocation-without-heap",
);

#[test]
fn a_panic_for_want_of_memory_says_what_to_set() {
    let advice =
        "allocation_without_heap: 2048 bytes were not to be had: it has no heap; set `heap` in its component.toml";
    assert!(outcome().console.contains(advice), "{}", outcome().console);
}

#[test]
fn every_rule_has_a_test() {
    let tests = include_str!("isolation.rs");
    for (rule, _) in FAULTS {
        assert!(tests.contains(&format!("    {} \"{rule}\",", domain(rule))), "{rule}");
    }
}

#[test]
fn unaligned_device_access() {
    let console = &outcome().console;
    assert!(console.contains("nic1_driver: now breaking the rule unaligned-device-access"));
    let verdict = console.lines().find(|line| line.contains("supervisor: nic1_driver faulted"));
    assert!(verdict.is_some_and(|line| line.contains("not aligned")), "{verdict:?}");
}

#[test]
fn greed_is_bounded_by_a_budget() {
    let outcome = outcome();
    assert!(outcome.after_the_last_breach >= 3, "{} downloads", outcome.after_the_last_breach);
    for rule in GREED {
        assert!(!outcome.console.contains(&format!("{} faulted", domain(rule))), "{rule} is no fault");
    }
}

#[test]
fn the_download_goes_on_undisturbed() {
    let outcome = outcome();
    assert!(outcome.downloads >= 3, "{} downloads", outcome.downloads);
    for bystander in ["http", "nic0_driver", "nic0_rx", "nic0_tx", "http_copier", "uart0_driver", "uart0_virt"] {
        assert!(!outcome.console.contains(&format!("supervisor: {bystander} faulted")), "{bystander} faulted");
    }
}
