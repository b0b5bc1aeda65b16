//! A hand in the machine: QEMU's debugger stub, spoken to in the remote protocol of GDB.
//!
//! It serves to make a component fault that has no fault: its code is taken away, and put back once
//! it has noticed. The machine stands still while the debugger is connected.

use crate::PATIENCE;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

/// Bytes of memory in one packet.
const CHUNK: usize = 1024;

/// Where the code of a domain's component is in the built `system`: physical address and bytes.
///
/// # Panics
/// Where the system was not built, or has no such domain.
pub fn code(system: &str, domain: &str) -> (u64, usize) {
    let text = std::fs::read_to_string(crate::root().join("build").join(system).join("report.json"))
        .expect("there is a report");
    let report: serde_json::Value = serde_json::from_str(&text).expect("the report is JSON");
    let domains = report["domains"].as_array().expect("the report lists domains");
    let found = domains.iter().find(|found| found["name"] == domain).expect("the domain is in the report");
    let mut views = found["views"].as_array().expect("a domain has views").iter();
    let view = views.find(|view| view["permissions"] == "rx").expect("a domain has code");
    let number = |name: &str| view[name].as_u64().expect("a number");
    (number("physical"), number("size") as usize)
}

/// A connection to the stub. Dropping it lets the machine go on.
#[derive(Debug)]
pub struct Debugger {
    stream: TcpStream,
}

impl Debugger {
    /// Connects to the stub at a port of this host, which stops the machine.
    ///
    /// # Panics
    /// Where nobody answers there as a stub does.
    pub fn connect(port: u16) -> Self {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("QEMU listens for a debugger");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes a time-out");
        // Otherwise each packet would wait for the stub's delayed acknowledgement of the "+"
        // before.
        stream.set_nodelay(true).expect("a socket can send at once");
        let mut debugger = Self { stream };
        // Addresses are physical from here on, those of memory and not of whoever runs (QEMU's
        // manual, "GDB usage").
        assert_eq!(debugger.ask("Qqemu.PhyMemMode:1"), "OK");
        debugger
    }

    /// Reads physical memory.
    ///
    /// # Panics
    /// Where the stub does not answer as it should.
    pub fn read(&mut self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![];
        while bytes.len() < length {
            let count = CHUNK.min(length - bytes.len());
            let answer = self.ask(&format!("m{:x},{count:x}", address + bytes.len() as u64));
            let digits = answer.as_bytes().as_chunks::<2>().0.iter();
            let read = digits.map(|pair| u8::from_str_radix(&String::from_utf8_lossy(pair), 16));
            let read: Vec<u8> = read.collect::<Result<_, _>>().unwrap_or_else(|_| panic!("not memory: {answer}"));
            assert_eq!(read.len(), count, "at {address:#x}");
            bytes.extend(read);
        }
        bytes
    }

    /// Writes physical memory.
    ///
    /// # Panics
    /// Where the stub does not answer as it should.
    pub fn write(&mut self, address: u64, bytes: &[u8]) {
        for (number, chunk) in bytes.chunks(CHUNK).enumerate() {
            let digits: String = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
            let at = address + (number * CHUNK) as u64;
            assert_eq!(self.ask(&format!("M{at:x},{:x}:{digits}", chunk.len())), "OK", "at {at:#x}");
        }
    }

    /// Lets one core go on from another address.
    ///
    /// # Panics
    /// Where the stub does not answer as it should.
    pub fn jump(&mut self, core: usize, address: u64) {
        // QEMU counts cores, which are its threads, from 1. Register 32 of AArch64 is the program
        // counter.
        assert_eq!(self.ask(&format!("Hg{:x}", core + 1)), "OK", "there is core {core}");
        assert_eq!(self.ask(&format!("P20={:016x}", address.swap_bytes())), "OK");
    }

    /// Sends a packet and waits for the answer.
    fn ask(&mut self, text: &str) -> String {
        self.send(text);
        let mut answer = vec![];
        // Acknowledgements come before the packet.
        while self.byte() != b'$' {}
        loop {
            match self.byte() {
                b'#' => break,
                byte => answer.push(byte),
            }
        }
        // The checksum: what comes over a socket arrives as it was sent.
        self.byte();
        self.byte();
        self.stream.write_all(b"+").expect("the stub listens");
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn send(&mut self, text: &str) {
        let sum = text.bytes().fold(0_u8, u8::wrapping_add);
        let packet = format!("${text}#{sum:02x}");
        self.stream.write_all(packet.as_bytes()).expect("the stub listens");
    }

    fn byte(&mut self) -> u8 {
        let mut byte = [0];
        self.stream.read_exact(&mut byte).expect("the stub answers");
        byte[0]
    }
}

impl Drop for Debugger {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // Detach.
            self.ask("D");
        }
    }
}
