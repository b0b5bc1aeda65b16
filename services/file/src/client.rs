//! One client: its port, its folder, what it has open and what it waits for.

use crate::open::OpenId;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use culm::connection::FileProviderClient;
use culm::{Region, start};
use culm_file::{Error, MAX_FILES, Port, Taken};

/// Something that waits for the volume.
#[derive(Debug)]
pub enum Item {
    /// A request.
    Request(Taken),
    /// A transfer that must know where its next bytes lie.
    Locate(usize),
    /// Something that an earlier life had open.
    Close(OpenId),
}

/// One client.
#[derive(Debug)]
pub struct Client {
    pub name: &'static str,
    pub port: Port,
    /// Its root on the volume; empty for the volume's.
    pub folder: String,
    pub may_write: bool,
    /// Where its memory begins in that of the disk.
    pub place: usize,
    /// Its lives that were seen to end ([`Port::lives`]).
    pub lives: u32,
    /// Its open files and folders, by the numbers that it uses.
    pub files: Vec<Option<OpenId>>,
    /// The count of its open files and folders, those included that are being closed.
    pub opened: usize,
    pub items: VecDeque<Item>,
    /// Transfers that have something to send.
    pub sending: VecDeque<usize>,
    /// Blocks of its data that are at the disk.
    pub under_way: u32,
}

impl Client {
    /// Takes up the queues to a client.
    pub fn new(connection: &FileProviderClient) -> Self {
        let FileProviderClient { requests, answers, memory, place, channel, .. } = *connection;
        let may_write = connection.may_write != 0;
        let folder = start::text(connection.folder);
        Self {
            name: start::text(connection.name),
            port: Port::new(requests, answers, channel, Region::new(memory), may_write),
            folder: if folder == "/" { String::new() } else { folder.into() },
            may_write,
            place: place as usize,
            lives: 0,
            files: vec![None; MAX_FILES],
            opened: 0,
            items: VecDeque::new(),
            sending: VecDeque::new(),
            under_way: 0,
        }
    }

    /// Returns a path of the client's as one of the volume's.
    pub fn on_volume(&self, path: &str) -> String {
        let path = if path == "/" { "" } else { path };
        let mut whole = self.folder.clone();
        whole.push_str(path);
        if whole.is_empty() {
            whole.push('/');
        }
        whole
    }

    /// Returns the number of what a client has open, as all clients' have one.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if it has nothing open by this one.
    #[inline]
    pub fn open(&self, file: u8) -> Result<OpenId, Error> {
        self.files.get(usize::from(file)).copied().flatten().ok_or(Error::Invalid)
    }
}
