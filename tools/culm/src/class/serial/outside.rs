//! Serial ports of an emulated machine beside the one on the terminal: TCP ports of this machine.

use crate::failure::Failure;
use crate::plan::{Device, Plan};
use std::collections::BTreeMap;

/// Options of `culm run`.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(skip)]
pub struct PortOptions {
    /// Lead a serial port other than the console to a TCP port of this machine. May be given
    /// several times; what leads nowhere hears nothing
    #[arg(long, value_name = "DEVICE:PORT", value_parser = port)]
    serial: Vec<(String, u16)>,
}

fn port(text: &str) -> Result<(String, u16), String> {
    let parts = text.split_once(':').and_then(|(device, port)| Some((device, port.parse().ok()?)));
    let parts = parts.filter(|(device, port)| !device.is_empty() && *port > 0);
    let (device, port) = parts.ok_or("expected a device and a port, such as uart1:1234")?;
    Ok((device.to_string(), port))
}

/// The ports of this machine, by the names of the devices.
#[derive(Clone, Debug, Default)]
pub struct Ports(BTreeMap<String, u16>);

/// Whether a device is a serial port that leads out of the emulated machine by a channel that QEMU
/// is to be told of.
fn leads_out(device: &Device) -> bool {
    device.board.classes.iter().any(|class| class.name() == super::NAME) && !device.board.qemu.is_empty()
}

impl PortOptions {
    /// Refuses ports of devices that have none.
    pub fn check(&self, plan: &Plan) -> Result<(), Failure> {
        for (name, _) in &self.serial {
            if !plan.devices.iter().any(|device| leads_out(device) && device.board.name == *name) {
                let message = format!("`{name}` is no serial port of the system `{}` beside its console", plan.name);
                return Err(Failure::new(message).help(format!(
                    "a system has one whose file has `[device.{name}]`, and whose board says what QEMU makes of it"
                )));
            }
        }
        Ok(())
    }

    /// Returns the ports.
    pub fn ports(&self) -> Ports {
        Ports(self.serial.iter().cloned().collect())
    }
}

impl Ports {
    /// QEMU's arguments for what a device leads to; none if it is no such serial port.
    pub fn arguments(&self, device: &Device) -> Vec<String> {
        let name = &device.board.name;
        if !leads_out(device) {
            return Vec::new();
        }
        let channel = match self.0.get(name) {
            Some(port) => format!("socket,id={name},host=127.0.0.1,port={port},server=on,wait=off,nodelay=on"),
            None => format!("null,id={name}"),
        };
        vec!["-chardev".to_string(), channel]
    }

    /// Which ports lead where.
    pub fn announcements(&self) -> Vec<String> {
        self.0.iter().map(|(name, port)| format!("{name} is at 127.0.0.1:{port}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::fixture::{self, Shape};
    use crate::plan::DeviceClass;

    #[test]
    fn a_serial_port_leads_to_the_port_that_was_named_or_nowhere() {
        let mut plan = fixture::parts(&Shape::default()).plan;
        let mut board = plan.board.devices[0].clone();
        (board.name, board.classes) = ("uart1".into(), vec![DeviceClass::named(super::super::NAME).expect("a class")]);
        board.qemu = vec!["-serial".into(), "chardev:{name}".into()];
        let device = fixture::used(board);
        let options = PortOptions { serial: vec![port("uart1:1234").expect("as it should be")] };
        assert!(options.check(&plan).is_err_and(|failure| failure.message().contains("`uart1` is no serial port")));
        plan.devices.push(device.clone());
        options.check(&plan).expect("it is there");
        let arguments = options.ports().arguments(&device).join(" ");
        assert_eq!(arguments, "-chardev socket,id=uart1,host=127.0.0.1,port=1234,server=on,wait=off,nodelay=on");
        assert_eq!(Ports::default().arguments(&device).join(" "), "-chardev null,id=uart1");
        for text in ["uart1", "uart1:", ":1", "uart1:0", "uart1:65536"] {
            assert!(port(text).is_err(), "{text}");
        }
    }
}
