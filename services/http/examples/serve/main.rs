//! Serves a folder on this machine, with the status pages of a system that is made up: for work on
//! the pages.
//!
//! `cargo run -p http --example serve -- site 8080`

mod imagined;

use culm_http::{Caching, Server, Site, Timeouts};
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_else(|| "site".into());
    let port: u16 = arguments.next().map_or(Ok(8080), |port| port.parse())?;
    let files = http::host::read_folder(Path::new(&folder))?;
    // They are served until the program ends.
    let files: Vec<(String, &'static [u8])> =
        files.into_iter().map(|(path, content)| (path, &*content.leak())).collect();
    let files: Vec<_> = files.iter().map(|(path, content)| (path.as_str(), *content)).collect();
    let picture = std::fs::read(arguments.next().unwrap_or_default()).unwrap_or_else(|_| imagined::PICTURE.into());
    let site = Site::new(
        files.into_iter(),
        &Caching::default(),
        &http::status::files(picture.leak()),
        &http::status::DOCUMENTS,
    );
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    println!("http://{}/", listener.local_addr()?);
    let mut server = Server::new(site, imagined::status(), 256, timeouts());
    Ok(http::host::serve(&listener, &mut server, &AtomicBool::new(false))?)
}

fn timeouts() -> Timeouts {
    const SECOND: u64 = 1_000_000_000;
    Timeouts {
        idle: 15 * SECOND,
        request: 10 * SECOND,
        response: 30 * SECOND,
        linger: 2 * SECOND,
        farewell: 30 * SECOND,
        fresh: SECOND / 5,
    }
}
