//! The device tree of a guest: its memory, its CPUs, its interrupt controller, timer, serial port
//! and virtio devices, at the places that its monitor knows too ([`culm_abi::guest`]). Bindings:
//! Linux, Documentation/devicetree/bindings, by each node's `compatible`.

use crate::failure::Failure;
use crate::plan::{Guest, Plan};
use culm_abi::guest::{DISTRIBUTOR, GuestRange, MEMORY, SERIAL, SERIAL_CLOCK, SERIAL_INTERRUPT, redistributors};
use culm_abi::guest::{HYPERVISOR_TIMER_INTERRUPT, PHYSICAL_TIMER_INTERRUPT, SECURE_TIMER_INTERRUPT, TIMER_INTERRUPT};
use vm_fdt::{FdtWriter, FdtWriterResult};

/// References to nodes.
const CONTROLLER: u32 = 1;
const CLOCK: u32 = 2;

/// Kinds of interrupts (`arm,gic-v3`): shared ones count from 32, private ones from 16.
const SHARED: u32 = 0;
const PRIVATE: u32 = 1;

/// An interrupt is the rise of a line, or a level.
const EDGE: u32 = 1;
const LEVEL: u32 = 4;

/// Makes the device tree of a guest, as the bytes that its kernel finds.
pub fn device_tree(plan: &Plan, guest: &Guest) -> Result<Vec<u8>, Failure> {
    write(plan, guest).map_err(|error| {
        Failure::new(format!("cannot make the device tree of guest `{}`: {error}", guest.name))
            .help("the command line is text without a zero byte")
    })
}

fn range(range: GuestRange) -> [u64; 2] {
    [range.address, range.size]
}

fn write(plan: &Plan, guest: &Guest) -> FdtWriterResult<Vec<u8>> {
    let mut tree = FdtWriter::new()?;
    let root = tree.begin_node("")?;
    tree.property_string("compatible", "linux,dummy-virt")?;
    tree.property_string("model", "Culm guest")?;
    tree.property_u32("#address-cells", 2)?;
    tree.property_u32("#size-cells", 2)?;
    tree.property_u32("interrupt-parent", CONTROLLER)?;

    let chosen = tree.begin_node("chosen")?;
    tree.property_string("bootargs", &guest.command_line)?;
    tree.property_string("stdout-path", &format!("/serial@{:x}", SERIAL.address))?;
    if guest.initrd.is_some() {
        let start = guest.memory.initrd_at();
        tree.property_u64("linux,initrd-start", start)?;
        tree.property_u64("linux,initrd-end", start + guest.memory.initrd)?;
    }
    tree.end_node(chosen)?;

    let memory = tree.begin_node(&format!("memory@{MEMORY:x}"))?;
    tree.property_string("device_type", "memory")?;
    tree.property_array_u64("reg", &[MEMORY, guest.memory.size])?;
    tree.end_node(memory)?;

    let cpus = tree.begin_node("cpus")?;
    tree.property_u32("#address-cells", 1)?;
    tree.property_u32("#size-cells", 0)?;
    for number in 0..guest.cpus.len() {
        let cpu = tree.begin_node(&format!("cpu@{number:x}"))?;
        tree.property_string("device_type", "cpu")?;
        tree.property_string("compatible", "arm,armv8")?;
        tree.property_string("enable-method", "psci")?;
        // Its affinity.
        tree.property_u32("reg", number as u32)?;
        tree.end_node(cpu)?;
    }
    tree.end_node(cpus)?;

    let psci = tree.begin_node("psci")?;
    tree.property_string_list("compatible", vec!["arm,psci-1.0".to_string(), "arm,psci-0.2".to_string()])?;
    tree.property_string("method", "hvc")?;
    tree.end_node(psci)?;

    let timer = tree.begin_node("timer")?;
    tree.property_string("compatible", "arm,armv8-timer")?;
    let interrupts = [SECURE_TIMER_INTERRUPT, PHYSICAL_TIMER_INTERRUPT, TIMER_INTERRUPT, HYPERVISOR_TIMER_INTERRUPT];
    let cells: Vec<u32> = interrupts.iter().flat_map(|interrupt| [PRIVATE, interrupt - 16, LEVEL]).collect();
    tree.property_array_u32("interrupts", &cells)?;
    tree.property_null("always-on")?;
    tree.end_node(timer)?;

    let controller = tree.begin_node(&format!("interrupt-controller@{:x}", DISTRIBUTOR.address))?;
    tree.property_string("compatible", "arm,gic-v3")?;
    tree.property_u32("#interrupt-cells", 3)?;
    tree.property_null("interrupt-controller")?;
    tree.property_array_u64("reg", &[range(DISTRIBUTOR), range(redistributors(guest.cpus.len()))].concat())?;
    tree.property_phandle(CONTROLLER)?;
    tree.end_node(controller)?;

    let clock = tree.begin_node("clock")?;
    tree.property_string("compatible", "fixed-clock")?;
    tree.property_u32("#clock-cells", 0)?;
    tree.property_u32("clock-frequency", SERIAL_CLOCK)?;
    tree.property_phandle(CLOCK)?;
    tree.end_node(clock)?;

    let serial = tree.begin_node(&format!("serial@{:x}", SERIAL.address))?;
    tree.property_string_list("compatible", vec!["arm,pl011".to_string(), "arm,primecell".to_string()])?;
    tree.property_array_u64("reg", &range(SERIAL))?;
    tree.property_array_u32("interrupts", &[SHARED, SERIAL_INTERRUPT - 32, LEVEL])?;
    tree.property_array_u32("clocks", &[CLOCK, CLOCK])?;
    tree.property_string_list("clock-names", vec!["uartclk".to_string(), "apb_pclk".to_string()])?;
    tree.end_node(serial)?;

    for (_, slot) in plan.virtio_devices(guest) {
        let registers = slot.registers();
        let device = tree.begin_node(&format!("virtio_mmio@{:x}", registers.address))?;
        tree.property_string("compatible", "virtio,mmio")?;
        tree.property_array_u64("reg", &range(registers))?;
        tree.property_array_u32("interrupts", &[SHARED, slot.interrupt() - 32, EDGE])?;
        tree.property_null("dma-coherent")?;
        tree.end_node(device)?;
    }

    tree.end_node(root)?;
    tree.finish()
}
