//! Captures of what goes over a wire: written by tcpdump, read by tshark.

use crate::client::{Background, run, try_run};
use crate::{PATIENCE, artefacts};
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A capture of a network device. Its file stays among the artefacts.
#[derive(Debug)]
pub struct Capture {
    path: String,
    tcpdump: Option<Background>,
}

impl Capture {
    /// Begins a capture of a device of the calling thread's namespace, with more options for
    /// tcpdump. `name` is its file's.
    ///
    /// # Panics
    /// Where it does not begin.
    pub fn start(device: &str, name: &str, options: &[&str]) -> Self {
        let path = artefacts().join(format!("{name}.pcap")).to_str().expect("a path in UTF-8").to_string();
        _ = fs::remove_file(&path);
        let usual = ["-i", device, "-U", "-B", "65536", "-Z", "root", "-w", &path];
        let tcpdump = Background::start("tcpdump", &[&usual[..], options].concat());
        let until = Instant::now() + PATIENCE;
        // It begins with the file's header.
        while fs::metadata(&path).map_or(0, |file| file.len()) == 0 {
            assert!(Instant::now() < until, "tcpdump does not begin");
            sleep(Duration::from_millis(20));
        }
        Self { path, tcpdump: Some(tcpdump) }
    }

    /// Ends it.
    pub fn stop(&mut self) {
        self.tcpdump = None;
    }

    /// Returns fields of each packet that a display filter takes, a line for each packet, with more
    /// options for tshark.
    ///
    /// # Panics
    /// Where tshark fails, unless the capture goes on: then its last packet may be cut off.
    pub fn read(&self, filter: &str, fields: &[&str], options: &[&str]) -> Vec<String> {
        let mut all = vec!["-n", "-r", &self.path, "-Y", filter, "-T", "fields"];
        fields.iter().for_each(|field| all.extend(["-e", field]));
        all.extend(options);
        let text = match self.tcpdump {
            Some(_) => String::from_utf8_lossy(&try_run(120, "tshark", &all).stdout).into_owned(),
            None => run(120, "tshark", &all),
        };
        text.lines().map(str::to_string).collect()
    }
}
