//! Reads a file of 1 MiB again and again, between two marks that the counting plugin records:
//! `./culm bench file`. It is a client of the file service, or has the volume's disk and reads the
//! file system itself.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod library;
mod service;

use alloc::boxed::Box;
use culm::{Channels, Component, ROUNDS, run_rounds};
use culm_bench_guest::{file, mark};

culm::component!(FileBench);

/// The way in which the file is read.
enum FileBench {
    /// By the file service.
    Service(Box<service::Reader>),
    /// By the component itself.
    Library(Box<library::Reader>),
}

impl Component for FileBench {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let mut bench = match (&connections.files, &connections.disk) {
            (Some(files), _) => Self::Service(Box::new(service::Reader::new(files))),
            (None, Some(disk)) => Self::Library(Box::new(library::Reader::new(disk))),
            (None, None) => panic!("nothing to read from: connect `files` or `disk` in the system file"),
        };
        bench.run();
        bench
    }

    fn notified(&mut self, _: Channels) {
        self.run();
    }
}

impl FileBench {
    fn run(&mut self) {
        run_rounds(ROUNDS, || match self {
            Self::Service(reader) => reader.round(),
            Self::Library(reader) => reader.round(),
        });
    }
}

/// How often the file was read.
#[derive(Debug, Default)]
struct Count(u32);

impl Count {
    /// Counts one more time; begins and ends what is measured. Returns whether to read it again.
    fn add(&mut self) -> bool {
        self.0 += 1;
        if self.0 == file::WARM_UP {
            mark::begin(file::DIRECT, file::READS.into());
        }
        if self.0 == file::WARM_UP + file::READS {
            mark::end(file::DIRECT, file::READS.into());
            culm::info!("all is read");
        }
        self.0 < file::WARM_UP + file::READS
    }
}
