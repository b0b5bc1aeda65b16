//! QEMU's monitor for programs (QMP): what happens to a machine from outside, such as a card that
//! is pulled.

use crate::PATIENCE;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpStream;

/// A connection to a machine's monitor.
#[derive(Debug)]
pub struct Qmp {
    stream: BufReader<TcpStream>,
}

impl Qmp {
    /// Returns the options of `./culm run` by which a machine has a monitor at this port.
    pub fn options(port: u16) -> [String; 2] {
        ["--qemu=-qmp".to_string(), format!("--qemu=tcp:127.0.0.1:{port},server=on,wait=off")]
    }

    /// Connects to the monitor of a machine that runs.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the machine has a monitor");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket can wait for so long");
        let mut monitor = Self { stream: BufReader::new(stream) };
        assert!(monitor.line().get("QMP").is_some(), "the monitor greets");
        monitor.execute("qmp_capabilities", &json!({}));
        monitor
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("the monitor answers");
        serde_json::from_str(&line).expect("the monitor speaks JSON")
    }

    /// Has a command carried out, and returns what it returns.
    ///
    /// # Panics
    ///
    /// If it cannot be.
    pub fn execute(&mut self, command: &str, arguments: &Value) -> Value {
        let line = json!({ "execute": command, "arguments": arguments });
        writeln!(self.stream.get_mut(), "{line}").expect("the monitor listens");
        loop {
            let answer = self.line();
            assert!(answer.get("error").is_none(), "{line}: {answer}");
            // Events come between answers; they are passed over.
            if let Some(found) = answer.get("return") {
                return found.clone();
            }
        }
    }
}
