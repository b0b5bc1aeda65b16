//! Files in memory that take their time.

use super::{Clock, TIMEOUTS, exchange_with, site};
use culm_http::Server;
use culm_http::files::{Entry, Files, Found, Offer, Permission, Purpose, Trouble};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

/// After as many questions in vain there will be no answer.
pub const PATIENCE: u32 = 8;

/// The token of those who may change files.
pub const TOKEN: &str = "open-sesame";

/// Bytes that an upload may have.
pub const LIMIT: u64 = 100_000;

/// When all files were changed.
pub const MODIFIED: &[u8; 29] = b"Sun, 06 Nov 1994 08:49:37 GMT";

/// The content of all files by path; folders are those that files are in.
pub type Contents = BTreeMap<String, Vec<u8>>;

/// The work that a slot has under way.
pub struct Job {
    path: String,
    purpose: Purpose,
    /// The old content, which a reader keeps; and the version.
    old: Option<Vec<u8>>,
    version: u64,
    new: Option<Vec<u8>>,
    is_done: bool,
    /// Questions until the next answer.
    delay: u32,
}

/// Files in memory. A copy has the same files.
#[derive(Clone)]
pub struct Shelf {
    pub contents: Rc<RefCell<Contents>>,
    pub versions: Rc<RefCell<BTreeMap<String, u64>>>,
    pub jobs: Rc<RefCell<BTreeMap<usize, Job>>>,
    /// Bytes that were said to be here last.
    pub fetched: usize,
    /// Questions in vain before each answer, fewer than [`PATIENCE`].
    pub delay: u32,
    /// Bytes that are taken or given at a time.
    pub grasp: usize,
    pub is_strong: bool,
    /// The trouble that all that is begun from now on meets.
    pub trouble: Option<Trouble>,
    /// The trouble that writing and committing meet.
    pub late_trouble: Option<Trouble>,
    pub permission: Rc<Cell<Permission>>,
}

impl Default for Shelf {
    fn default() -> Self {
        let shelf = Self {
            contents: Rc::default(),
            versions: Rc::default(),
            jobs: Rc::default(),
            fetched: 0,
            delay: 0,
            grasp: usize::MAX,
            is_strong: true,
            trouble: None,
            late_trouble: None,
            permission: Rc::new(Cell::new(Permission::Granted)),
        };
        for (path, content) in [
            ("kept.txt", b"hello, shelf".to_vec()),
            ("hello.txt", b"hidden by the site".to_vec()),
            ("album/index.html", b"<p>album".to_vec()),
            ("album/large.bin", super::BIG.to_vec()),
            ("empty", Vec::new()),
        ] {
            shelf.contents.borrow_mut().insert(path.into(), content);
        }
        shelf
    }
}

impl Shelf {
    /// Returns the answers of a server of these files: see [`super::exchange`].
    pub fn exchange(&self, input: &[u8], cuts: &[usize], piece: usize, room: usize) -> Vec<u8> {
        exchange_with(self.server(1), input, cuts, piece, room)
    }

    /// A server of these files.
    pub fn server(&self, capacity: usize) -> Server<Clock, Shelf> {
        Server::with_files(site(), Clock, self.clone(), capacity, TIMEOUTS)
    }

    /// How many slots have something under way.
    pub fn under_way(&self) -> usize {
        self.jobs.borrow().len()
    }

    fn asked(&mut self, slot: usize) -> Option<()> {
        let mut jobs = self.jobs.borrow_mut();
        let job = jobs.get_mut(&slot).expect("something is under way");
        let Some(left) = job.delay.checked_sub(1) else {
            return Some(());
        };
        job.delay = left;
        None
    }

    fn again(&self, slot: usize) {
        self.jobs.borrow_mut().get_mut(&slot).expect("something is under way").delay = self.delay;
    }
}

impl Files for Shelf {
    fn offer(&self) -> Offer {
        Offer::Write { limit: LIMIT }
    }

    fn permit(&mut self, token: Option<&[u8]>, _: Option<IpAddr>, _: u64) -> Permission {
        match self.permission.get() {
            Permission::Granted if token != Some(TOKEN.as_bytes()) => Permission::Denied,
            permission => permission,
        }
    }

    fn begin(&mut self, slot: usize, purpose: Purpose, path: &str) {
        assert!(!path.is_empty() && path.split('/').all(|segment| !matches!(segment, "" | "." | "..")), "{path}");
        let old = self.contents.borrow().get(path).cloned();
        let version = self.versions.borrow().get(path).copied().unwrap_or_default();
        let (path, delay) = (path.to_owned(), self.delay);
        let job = Job { path, purpose, old, version, new: None, is_done: false, delay };
        assert!(self.jobs.borrow_mut().insert(slot, job).is_none(), "two at a time");
    }

    fn found(&mut self, slot: usize) -> Option<Result<Found, Trouble>> {
        self.asked(slot)?;
        let jobs = self.jobs.borrow();
        let job = &jobs[&slot];
        let is_taken = |other: &Job| other.purpose == Purpose::Change && other.path == job.path;
        if let Some(trouble) = self.trouble {
            return Some(Err(trouble));
        }
        if job.purpose == Purpose::Change && jobs.values().filter(|other| is_taken(other)).count() > 1 {
            return Some(Err(Trouble::Busy));
        }
        let folder = format!("{}/", job.path);
        Some(Ok(match &job.old {
            Some(old) => Found::File(Entry {
                length: old.len() as u64,
                version: job.version,
                is_strong: self.is_strong,
                modified: Some(*MODIFIED),
            }),
            None if self.contents.borrow().keys().any(|path| path.starts_with(&folder)) => Found::Folder,
            None => Found::Missing,
        }))
    }

    fn fetch(&mut self, slot: usize, at: u64, count: usize) -> Result<usize, Trouble> {
        if self.asked(slot).is_none() {
            return Ok(0);
        }
        if let Some(trouble) = self.late_trouble {
            return Err(trouble);
        }
        let jobs = self.jobs.borrow();
        let rest = &jobs[&slot].old.as_ref().expect("it was found")[at as usize..];
        assert!(count <= rest.len() && count > 0);
        self.fetched = count.min(self.grasp);
        Ok(self.fetched)
    }

    fn take(&mut self, slot: usize, at: u64, into: &mut [u8]) -> usize {
        assert!(into.len() <= self.fetched, "more than there is");
        self.again(slot);
        let jobs = self.jobs.borrow();
        let rest = &jobs[&slot].old.as_ref().expect("it was found")[at as usize..];
        into.copy_from_slice(&rest[..into.len()]);
        into.len()
    }

    fn replace(&mut self, slot: usize, length: Option<u64>) {
        assert!(length.is_none_or(|length| length <= LIMIT));
        self.again(slot);
        self.jobs.borrow_mut().get_mut(&slot).expect("it was begun").new = Some(Vec::new());
    }

    fn write(&mut self, slot: usize, bytes: &[u8]) -> Result<usize, Trouble> {
        if self.asked(slot).is_none() {
            return Ok(0);
        }
        self.again(slot);
        if let Some(trouble) = self.late_trouble {
            return Err(trouble);
        }
        let count = bytes.len().min(self.grasp);
        let mut jobs = self.jobs.borrow_mut();
        let new = jobs.get_mut(&slot).and_then(|job| job.new.as_mut()).expect("it was begun");
        new.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn commit(&mut self, slot: usize) {
        self.again(slot);
        let mut jobs = self.jobs.borrow_mut();
        let job = jobs.get_mut(&slot).expect("it was begun");
        job.is_done = true;
        self.contents.borrow_mut().insert(job.path.clone(), job.new.take().expect("there is a new file"));
        *self.versions.borrow_mut().entry(job.path.clone()).or_default() += 1;
    }

    fn remove(&mut self, slot: usize) {
        self.again(slot);
        let path = self.jobs.borrow()[&slot].path.clone();
        self.contents.borrow_mut().remove(&path).expect("it is there");
    }

    fn done(&mut self, slot: usize) -> Option<Result<(), Trouble>> {
        self.asked(slot)?;
        let is_late = self.jobs.borrow()[&slot].is_done;
        Some(self.late_trouble.filter(|_| is_late).map_or(Ok(()), Err))
    }

    fn close(&mut self, slot: usize) {
        self.jobs.borrow_mut().remove(&slot);
    }
}
