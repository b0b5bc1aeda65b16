//! A guest in its compartment: the smallest one that uses each part of its machine, and Linux.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::curl;
use culm_tests_harness::debugger::{Debugger, code};
use culm_tests_harness::terminal::Terminal;
use culm_tests_harness::volume::{program, run as run_program};
use culm_tests_harness::{Boot, free_port, root, tiny_guest};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::thread::JoinHandle;
use tempfile::TempDir;

/// A guest that has the console, beside a component that greets all the time.
const DESCRIPTION: &str = r#"
name = "guest"
description = "The smallest guest, beside a component that greets"
board = "virt"

[device.uart0]
priority = 60

[pd.hello]
component = "hello"
priority = 100
config = { whom = "world", every = "100ms" }

[pd.monitor]
component = "vmm"
priority = 50
may_halt = true
config = { halts = true }
guest = "tiny"
console = { device = "uart0", input = true }

[guest.tiny]
kernel = "tiny.image"
memory = "8MiB"
priority = 40
"#;

/// The system in a folder of its own.
fn boot() -> (TempDir, Boot) {
    describe("guest", DESCRIPTION)
}

/// A system of this name in a folder of its own.
fn describe(name: &str, description: &str) -> (TempDir, Boot) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    std::fs::write(folder.path().join("tiny.image"), tiny_guest::image()).expect("the folder is writable");
    let file = folder.path().join(format!("{name}.toml"));
    std::fs::write(&file, description).expect("the folder is writable");
    let boot = Boot::system(file.to_str().expect("temporary paths are text"));
    boot.build();
    (folder, boot)
}

/// Runs the guest until it waits for input.
fn run(boot: &Boot) -> Terminal {
    let mut terminal = Terminal::run(&boot.run_command());
    begins(&mut terminal);
    terminal
}

/// What the guest says until it waits for input.
const WORDS: [&str; 3] = ["tiny: hello", "tiny: the timer went off", "tiny: an interrupt to itself"];

/// What its second CPU says, if it has one, in the meantime.
const SECOND: &str = "tiny: an interrupt to the second";

/// The guest says all of that.
fn begins(terminal: &mut Terminal) {
    WORDS.into_iter().for_each(|words| terminal.expect(words));
}

/// It does so anew, and somebody says why. That line may come later than what the guest says: it
/// waits a while for the end of the line that the guest has begun by its echo.
fn begins_anew(terminal: &mut Terminal, why: &str) {
    terminal.expect_all(&[why, WORDS[0], WORDS[1], WORDS[2]]);
}

#[test]
fn a_guest_has_a_timer_interrupts_a_serial_port_and_power() {
    let (_folder, boot) = boot();
    let mut terminal = run(&boot);
    terminal.press("abc");
    terminal.expect("abc");
    terminal.press("q");
    assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn a_guest_that_resets_itself_begins_anew() {
    let (_folder, boot) = boot();
    let mut terminal = run(&boot);
    for _ in 0..3 {
        terminal.press("r");
        begins_anew(&mut terminal, "the guest has reset itself");
    }
    terminal.press("abc");
    terminal.expect("abc");
}

/// It was sent an interrupt before it begins, and one before the guest reset itself, of which it is
/// to know nothing.
#[test]
fn a_second_cpu_has_the_interrupts_that_it_was_sent_in_this_life() {
    let two = DESCRIPTION
        .replace("name = \"guest\"", "name = \"guest-of-two\"")
        .replace("memory = \"8MiB\"\n", "memory = \"8MiB\"\ncores = [0, 1]\n");
    let (_folder, boot) = describe("guest-of-two", &two);
    let mut terminal = run(&boot);
    terminal.expect(SECOND);
    for _ in 0..3 {
        terminal.press("r");
        let [first, second, third] = WORDS;
        terminal.expect_all(&["the guest has reset itself", first, second, third, SECOND]);
    }
    terminal.press("q");
    assert_eq!(terminal.wait().code(), Some(0));
}

/// The guest is on another core than its monitor, which loses all of its code for a while.
#[test]
fn a_guest_whose_monitor_dies_begins_anew() {
    let restart = "restart = { limit = 1000, window = \"1ms\", backoff = \"1ms\" }\n";
    let apart = DESCRIPTION
        .replace("name = \"guest\"", "name = \"guest-apart\"")
        .replace("may_halt = true\n", &format!("may_halt = true\n{restart}"))
        .replace("memory = \"8MiB\"\n", "memory = \"8MiB\"\ncores = [1]\n");
    let (_folder, boot) = describe("guest-apart", &apart);
    let port = free_port();
    let mut terminal = run(&boot.option(&["--qemu", "-gdb", "--qemu", &format!("tcp:127.0.0.1:{port}")]));
    let (address, size) = code("guest-apart-virt", "monitor");
    let text = Debugger::connect(port).read(address, size);
    for _ in 0..3 {
        // Undefined ones (Arm ARM C6.2, UDF).
        Debugger::connect(port).write(address, &vec![0; size]);
        terminal.press("a");
        terminal.expect("supervisor: monitor faulted");
        Debugger::connect(port).write(address, &text);
        begins_anew(&mut terminal, "the monitor was restarted: its guest begins anew");
    }
    terminal.press("q");
    assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn a_guest_that_leaves_its_memory_is_stopped_and_harms_nobody() {
    let (_folder, boot) = boot();
    let mut terminal = run(&boot);
    terminal.press("x");
    terminal.expect("the guest did what its machine has not");
    terminal.expect("hello: hello, world");
}

#[test]
fn a_guest_that_has_ended_begins_anew_if_it_is_to() {
    let description = DESCRIPTION.replace("name = \"guest\"", "name = \"guest-anew\"");
    let (_folder, boot) = describe("guest-anew", &description.replace("halts = true", "begins_anew = true"));
    let mut terminal = run(&boot);
    terminal.press("q");
    begins_anew(&mut terminal, "the guest has switched itself off");
    terminal.press("x");
    terminal.expect("the guest did what its machine has not");
    // The last lines of the life that ended have the same words.
    terminal.expect("tiny| x");
    begins(&mut terminal);
    terminal.press("abc");
    terminal.expect("abc");
}

#[test]
fn without_the_host_extensions_a_guest_is_refused() {
    let (_folder, boot) = boot();
    let mut machine = boot.processor("cortex-a72").start(&[]);
    machine.expect("guests need the kernel at EL2 on a processor with the Virtualization Host Extensions");
}

/// Debian's own kernel and busybox, as anybody gets them by `./culm run linux`.
#[test]
fn an_unmodified_linux_gives_its_shell_on_the_console() {
    let boot = Boot::system("systems/linux.toml");
    boot.build();
    let mut terminal = Terminal::run(&boot.run_command());
    // The shell's prompt: what is typed before may be lost, since the port is not open yet.
    terminal.expect("/ # ");
    terminal.press("echo $((6 * 7)) words\r");
    terminal.expect("42 words");
    terminal.press("uname -a\r");
    terminal.expect("Linux (none) 6.");
    terminal.expect("Debian");
    terminal.expect("aarch64 GNU/Linux");
    terminal.press("cat /proc/interrupts\r");
    for interrupt in ["arch_timer", "uart-pl011"] {
        terminal.expect(interrupt);
    }
    // Ctrl-C ends what runs in the shell, and nothing else. Who says so is the program that is to
    // end: were it the shell, the program might not be in the terminal's foreground yet. Linux does
    // not always show `^C`: if the shell is quicker to switch the echo off, there is its new prompt
    // alone.
    terminal.press("sh -c 'echo sleeps $((40 + 2)); exec sleep 1000000'\r");
    terminal.expect("sleeps 42");
    terminal.press("\x03");
    terminal.expect("/ # ");
    terminal.press("reboot -f\r");
    terminal.expect("the guest has reset itself");
    terminal.expect("/ # ");
    terminal.press("echo $((6 * 8)) words\r");
    terminal.expect("48 words");
    terminal.press("poweroff -f\r");
    terminal.expect("the guest has switched itself off");
    assert_eq!(terminal.wait().code(), Some(0));
}

/// The same with its shell on the virtio console: nothing is read or written by the serial port
/// but what the kernel says before it has the driver.
#[test]
fn an_unmodified_linux_gives_its_shell_on_the_virtio_console() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let boot = linux(folder.path(), "linux-hvc", &[("console=ttyAMA0", "console=hvc0")], "");
    boot.build();
    let mut terminal = Terminal::run(&boot.run_command());
    for is_first in [true, false] {
        terminal.expect("/ # ");
        terminal.press("echo on-$(tty)-$((6 * 7))\r");
        terminal.expect("on-/dev/hvc0-42");
        // More than all buffers hold, each way and as it is.
        terminal.press("seq 2000 | tail -n +1900 | tr '\\n' ,; seq 30000 | tail -n 1 | sed s/^/last-/\r");
        terminal.expect("1999,2000,last-30000");
        terminal.press("sh -c 'echo sleeps $((40 + 2)); exec sleep 1000000'\r");
        terminal.expect("sleeps 42");
        terminal.press("\x03");
        terminal.expect("/ # ");
        terminal.press("echo by-$(awk '/uart-pl011/ { n = $2 } END { print n + 0 }' /proc/interrupts)-of-uart\r");
        terminal.expect("by-0-of-uart");
        if is_first {
            terminal.press("reboot -f\r");
            terminal.expect("the guest has reset itself");
        }
    }
    terminal.press("poweroff -f\r");
    terminal.expect("the guest has switched itself off");
    assert_eq!(terminal.wait().code(), Some(0));
}

/// What gives the system `linux` two virtual CPUs, the second on another core than the monitor.
const TWO_CPUS: (&str, &str) = ("[guest.linux]\n", "[guest.linux]\ncores = [0, 1]\n");

/// Linux brings two virtual CPUs up, keeps both busy, takes one off and on again, and begins anew
/// with both.
#[test]
fn an_unmodified_linux_uses_two_cpus() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let boot = linux(folder.path(), "linux-two-cpus", &[TWO_CPUS], "");
    boot.build();
    let mut terminal = Terminal::run(&boot.run_command());
    for is_first in [true, false] {
        terminal.expect("/ # ");
        // What is awaited is not in the line that is typed, which the terminal shows too.
        let mut ask = |command: &str, answers: &[&str]| {
            terminal.press(&format!("{command}\r"));
            terminal.expect_all(answers);
        };
        ask("echo has-$(nproc)-cpus", &["has-2-cpus"]);
        // Each program is waked, and its memory unmapped, by interrupts between the two.
        let work =
            "n=0; while [ $n -lt 300 ]; do n=$((n + 1)); taskset $((n % 2 + 1)) true; done; echo done-$((n + $1))";
        ask(&format!("echo '{work}' >work; sh work 1 & sh work 2; wait"), &["done-301", "done-302"]);
        ask(
            "echo by-$(awk '/IPI[01]/ { if ($2 > 0 && $3 > 0) n++ } END { print n }' /proc/interrupts)-kinds",
            &["by-2-kinds"],
        );
        ask("cd /sys/devices/system/cpu/cpu1; echo 0 >online; echo now-$(nproc)-cpus", &["now-1-cpus"]);
        ask("echo 1 >online; echo again-$(nproc)-cpus; cd /", &["again-2-cpus"]);
        ask("echo $(dmesg | grep -c -E 'stall|lockup|unexpected')-complaints", &["0-complaints"]);
        if is_first {
            terminal.press("reboot -f\r");
            terminal.expect("the guest has reset itself");
        }
    }
    terminal.press("poweroff -f\r");
    terminal.expect("the guest has switched itself off");
    assert_eq!(terminal.wait().code(), Some(0));
}

/// The monitor of a Linux with two CPUs dies while both are at work, send each other interrupts and
/// use the network: each time the guest begins anew with both.
#[test]
fn a_linux_of_two_cpus_whose_monitor_dies_under_load_begins_anew() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let restart = "may_halt = true\nrestart = { limit = 1000, window = \"1ms\", backoff = \"1ms\" }\n";
    let boot = linux(folder.path(), "linux-monitor-dies", &[TWO_CPUS, ("may_halt = true\n", restart)], "");
    boot.build();
    let port = free_port();
    let boot = boot.option(&["--qemu", "-gdb", "--qemu", &format!("tcp:127.0.0.1:{port}")]);
    let mut terminal = Terminal::run(&boot.run_command());
    terminal.expect("/ # ");
    let (address, size) = code("linux-monitor-dies-virt", "monitor");
    let text = Debugger::connect(port).read(address, size);
    for _ in 0..3 {
        terminal.press("echo 'while :; do taskset 1 true; taskset 2 true; done' >work\r");
        terminal.press("sh work & sh work & ping -q 10.0.2.2 & echo $((40 + 2)) at work\r");
        terminal.expect("42 at work");
        Debugger::connect(port).write(address, &vec![0; size]);
        terminal.expect("supervisor: monitor faulted");
        Debugger::connect(port).write(address, &text);
        terminal.expect("the monitor was restarted: its guest begins anew");
        terminal.expect("/ # ");
    }
    terminal.press("echo has-$(nproc)-cpus\r");
    terminal.expect("has-2-cpus");
    terminal.press("poweroff -f\r");
    assert_eq!(terminal.wait().code(), Some(0));
}

/// Bytes of the page that the host serves, and of the guest's disk.
const PAGE: usize = 1 << 20;
const DISK: u64 = 32 << 20;

/// The system `linux` by another name, with pieces replaced and another at its end.
fn linux(folder: &Path, name: &str, pieces: &[(&str, &str)], end: &str) -> Boot {
    let system = std::fs::read_to_string(root().join("systems/linux.toml")).expect("the system is there");
    let beside = format!("\"{}/", root().join("systems/linux").display());
    let system = system.replacen("name = \"linux\"", &format!("name = \"{name}\""), 1);
    let system = pieces.iter().fold(system, |system, (old, new)| system.replace(old, new));
    let system = system.replace("\"linux/", &beside) + end;
    let file = folder.join(format!("{name}.toml"));
    std::fs::write(&file, system).expect("it is writable");
    Boot::system(file.to_str().expect("temporary paths are text"))
}

/// The system `linux`, with a disk that the host has made a file system on.
fn boot_with_disk(folder: &Path) -> Boot {
    let disk = folder.join("disk.img");
    let file = std::fs::File::create(&disk).expect("the folder is writable");
    file.set_len(DISK).expect("there is space");
    run_program(program("mkfs.ext4").arg("-q").arg(&disk));
    let with_disk = ("net = \"nic0\"", "net = \"nic0\"\ndisk = \"disk0\"");
    linux(folder, "linux-with-disk", &[with_disk], "\n[device.disk0]\npriority = 200\nimage = \"disk.img\"\n")
}

/// A Linux that begins anew after a panic, and then one that does not, beside a web server that
/// shows how the system is.
#[test]
fn the_last_lines_of_a_linux_that_panics_are_told() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let server =
        "\n[pd.http]\ncomponent = \"http\"\npriority = 100\nobserve = true\nconfig = { port = 80 }\nnet = \"nic0\"\n";
    let boot = linux(folder.path(), "linux-panics", &[("net = \"nic0\"\n", "")], server);
    boot.build();
    let (http, to_server) = (free_port(), 80);
    let mut terminal = Terminal::run(&boot.option(&["--forward", &format!("{http}:{to_server}")]).run_command());
    for (prepare, end) in [("echo 1 > /proc/sys/kernel/panic; ", "resets itself"), ("", "stays as it is")] {
        terminal.expect("/ # ");
        terminal.press(&format!("{prepare}echo c > /proc/sysrq-trigger\r"));
        let panic = format!("guest linux {end}: Kernel panic - not syncing: sysrq triggered crash");
        terminal.expect(&panic);
        if !prepare.is_empty() {
            // Soon after a report another has no lines.
            terminal.expect("monitor: linux| ");
        }
        let page = curl(&format!("http://127.0.0.1:{http}/_status.json"), &[]);
        let page = String::from_utf8_lossy(&page.body).into_owned();
        assert!(page.contains(&format!("{panic}; last lines: ")), "{page}");
    }
}

/// Bytes that compress badly and are the same each time.
fn page() -> Vec<u8> {
    let words = (0..PAGE as u64 / 8).map(|word| (word + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    words.flat_map(u64::to_le_bytes).collect()
}

/// Serves the page to one client; returns the port.
fn serve_page() -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let server = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client comes");
        let mut request = [0; 4096];
        let length = client.read(&mut request).expect("it asks");
        assert!(request[..length].starts_with(b"GET /page "), "{:?}", String::from_utf8_lossy(&request[..length]));
        let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {PAGE}\r\n\r\n");
        client.write_all(head.as_bytes()).expect("it listens");
        client.write_all(&page()).expect("it listens");
    });
    (port, server)
}

/// Debian's own drivers find the devices that the monitor has connections for. The page goes from
/// the host to the guest's memory, to its disk, and back to the host, by the network and on the
/// disk.
#[test]
fn an_unmodified_linux_uses_network_disk_and_random_bytes() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let boot = boot_with_disk(folder.path());
    boot.build();
    let (page_port, server) = serve_page();
    let (http, to_guest) = (free_port(), 80);
    let mut terminal = Terminal::run(&boot.option(&["--forward", &format!("{http}:{to_guest}")]).run_command());
    terminal.expect("/ # ");
    // Await a text that is not in the typed line: the terminal shows that too.
    let mut ask = |command: &str, answer: &str| {
        terminal.press(&format!("{command}\r"));
        terminal.expect(answer);
    };
    ask("until ip route | grep -q ^default; do sleep 1; done; echo is $((41 + 1)) routed", "is 42 routed");
    ask("ping -c 3 10.0.2.2", "3 packets received, 0% packet loss");
    ask("echo is $(head -c 32 /dev/hwrng | wc -c) bytes", "is 32 bytes");
    ask("mkdir /mnt && mount -t ext4 /dev/vda /mnt && echo is $((40 + 2)) mounted", "is 42 mounted");
    ask(&format!("wget -q -O /mnt/page http://10.0.2.2:{page_port}/page && echo got $((40 + 2))"), "got 42");
    server.join().expect("it has served");
    ask("httpd -h /mnt && echo serves $((40 + 2))", "serves 42");
    let answer = curl(&format!("http://127.0.0.1:{http}/page"), &[]);
    assert_eq!(answer.body, page(), "by the network");
    // The server may not have ended when `killall` has.
    ask("killall httpd; until umount /mnt; do sleep 1; done; echo un$((40 + 2))mounted", "un42mounted");
    terminal.press("poweroff -f\r");
    terminal.expect("the guest has switched itself off");
    assert_eq!(terminal.wait().code(), Some(0));
    let disk = folder.path().join("disk.img");
    run_program(program("e2fsck").args(["-f", "-n"]).arg(&disk));
    let copy = folder.path().join("page");
    run_program(program("debugfs").arg("-R").arg(format!("dump page {}", copy.display())).arg(&disk));
    assert_eq!(std::fs::read(copy).expect("the file is on the disk"), page(), "on the disk");
}
