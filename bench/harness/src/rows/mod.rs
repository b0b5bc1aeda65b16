//! The rows, a file for each benchmark; [`echo`] is the load that several of them put on echo
//! servers, [`marks`] what programs in the guest count by themselves.

pub mod beside;
pub mod blk;
pub mod boot;
pub mod crossing;
pub mod curve;
pub mod disks;
pub mod echo;
pub mod file;
pub mod gateway;
pub mod growth;
pub mod guest;
pub mod guests;
pub mod http;
pub mod ipc;
pub mod loops;
pub mod marks;
pub mod net;
pub mod overload;
pub mod sd;
pub mod sharing;
pub mod steps;
pub mod tcp;
pub mod tools;
pub mod web;
pub mod wire;

use crate::lab::Lab;
use crate::results::Results;
use anyhow::Result;

/// Runs one benchmark.
type Run = fn(&Lab, &mut Results) -> Result<()>;

/// All benchmarks, in the order in which they run.
pub const ALL: &[(&str, &str, Run)] = &[
    ("ipc", "calls, notifications and faults; Linux: futex, pipe, eventfd, getpid", ipc::run),
    ("net", "UDP echo by size and window, round trips, overload; Linux: our echo server", net::run),
    ("tcp", "bulk TCP in, out and both ways; Linux: the same servers, and iperf3", tcp::run),
    ("web", "HTTP by size, by requests per connection and by rate, overload, floods; Linux: nginx", web::run),
    (
        "wire",
        "a large file over a wire that delays, loses, reorders and duplicates, and over a narrow link; Linux: nginx \
         with CUBIC and with Reno",
        wire::run,
    ),
    ("crossing", "what each further component in a packet's way costs", crossing::run),
    ("steps", "the echo path with and without each idea", steps::run),
    (
        "growth",
        "cost against work: clients of a network card or disk, partitions, components, connections; Linux: nginx",
        growth::run,
    ),
    ("blk", "a virtio disk by size and by requests under way; Linux: direct, pread and io_submit", blk::run),
    ("sd", "an SD card by size and by requests under way, by DMA and by the driver (PIO); Linux: as blk", sd::run),
    (
        "file",
        "a file of a FAT volume, by the file service and by a library, and HTTP from one; Linux: vfat, nginx",
        file::run,
    ),
    (
        "guest",
        "a Linux as a guest: network, disk, nginx, work without devices, boot, exits; the same Linux without Culm; \
         several guests: packets between them, and a card that they share; the native web server beside one that spins",
        guest::run,
    ),
    (
        "gateway",
        "packets from one network card to another: a switch, a router, a firewall, NAT; the same by Linux",
        gateway::run,
    ),
    ("cpu", "loops of four instructions by alignment; the same on Linux", loops::cpu),
    ("mem", "memory read, written and copied, by size and kind; the same on Linux", loops::mem),
    ("boot", "from QEMU's start to the first echo and the first byte of HTTP", boot::run),
];
