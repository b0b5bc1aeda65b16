//! Fakes for host tests of the class's components: a client's connection, and files in memory that
//! play the provider.

use crate::listing::Writer;
use crate::{Done, Error, Info, MAX_FILES, Mode, Operation, Port, Request, Taken, Volume};
pub use culm::testing::memory;
use culm::{Progress, Region};
use culm_abi::connection::file::ENTRY_SIZE;
use culm_abi::connection::{FileClient, Ring};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::string::{String, ToString};
use std::vec::Vec;

/// The channel that the other side has; those of the component under test have other numbers.
const CHANNEL: u32 = 63;

/// An empty queue.
///
/// # Panics
///
/// Where `capacity` is no power of two.
pub fn ring(capacity: u32) -> Ring {
    let bytes = culm_queue::layout(capacity, ENTRY_SIZE as usize).expect("a power of two");
    Ring { address: memory(bytes, 0).address, capacity, reserved: 0 }
}

/// Returns a client's connection: queues of that capacity, and so many bytes of memory, paths
/// included.
pub fn connection(capacity: u32, bytes: usize, channel: u32) -> FileClient {
    FileClient { requests: ring(capacity), answers: ring(capacity), memory: memory(bytes, 0), channel }
}

/// A file or folder in memory.
#[derive(Clone, Debug)]
pub struct Node {
    /// The content; `None` for a folder.
    pub content: Option<Rc<Vec<u8>>>,
    /// When it was changed.
    pub modified: u64,
    mark: u64,
}

impl Node {
    fn info(&self) -> Info {
        let size = self.content.as_ref().map_or(0, |content| content.len() as u64);
        let (is_folder, is_read_only) = (self.content.is_none(), false);
        Info { is_folder, is_read_only, size, modified: self.modified, mark: self.mark }
    }
}

/// An open file.
#[derive(Clone, Debug)]
struct Open {
    path: String,
    mode: Mode,
    content: Option<Rc<Vec<u8>>>,
}

/// Files in memory. They take requests and keep them until a test lets them be carried out. Names
/// of different case are different names.
#[derive(Debug)]
pub struct RamFiles {
    /// Its end of the queues.
    pub port: Port,
    /// The volume as the client is told of it.
    pub volume: Volume,
    /// Its files and folders, by their paths; the root aside. All of them are durable.
    pub nodes: BTreeMap<String, Node>,
    /// The requests that it has taken and not carried out.
    pub taken: Vec<Taken>,
    /// The answer to requests, if they are not to be carried out.
    pub failing: Option<Error>,
    /// How many bytes all files can have.
    pub space: usize,
    /// The time for what is changed.
    pub time: u64,
    connection: FileClient,
    open: [Option<Open>; MAX_FILES],
    lives: u32,
    marks: u64,
}

impl RamFiles {
    /// No files, over the same queues as their client `connection`.
    pub fn new(connection: &FileClient, volume: Volume) -> Self {
        let mut port = Self::port(connection);
        port.set_volume(volume);
        Self {
            port,
            volume,
            nodes: BTreeMap::new(),
            taken: Vec::new(),
            failing: None,
            space: usize::MAX,
            time: 1_700_000_000,
            connection: *connection,
            open: [const { None }; MAX_FILES],
            lives: 0,
            marks: 0,
        }
    }

    fn port(connection: &FileClient) -> Port {
        Port::new(connection.requests, connection.answers, CHANNEL, Region::new(connection.memory), true)
    }

    /// Puts a file there, as another client would; folders on the way to it are made.
    ///
    /// # Panics
    ///
    /// If that is no path.
    pub fn put(&mut self, path: &str, content: &[u8]) {
        assert!(crate::path::is_valid(path) && path != "/", "{path} is no path of a file");
        let mut parent = path;
        while let Some((folder, _)) = parent.rsplit_once('/').filter(|(folder, _)| !folder.is_empty()) {
            self.set(folder, None);
            parent = folder;
        }
        self.set(path, Some(content.to_vec()));
    }

    fn set(&mut self, path: &str, content: Option<Vec<u8>>) {
        self.marks += 1;
        let node = Node { content: content.map(Rc::new), modified: self.time, mark: self.marks };
        self.nodes.insert(path.to_string(), node);
    }

    /// Returns the content of a file, if it is there.
    pub fn get(&self, path: &str) -> Option<&[u8]> {
        self.nodes.get(path)?.content.as_deref().map(Vec::as_slice)
    }

    /// Returns how many files are open.
    pub fn open_files(&self) -> usize {
        self.open.iter().flatten().count()
    }

    /// The provider's next life: no file is open.
    pub fn restarted(self) -> Self {
        let mut port = Self::port(&self.connection);
        port.set_volume(self.volume);
        Self { port, taken: Vec::new(), open: [const { None }; MAX_FILES], lives: 0, ..self }
    }

    /// Puts another volume in, or none. No file is open any more.
    pub fn insert(&mut self, volume: Volume) {
        self.volume = volume;
        self.open = [const { None }; MAX_FILES];
        self.port.set_volume(volume);
    }

    /// Takes the volume out. The requests that were taken fail; so many of them were carried out
    /// all the same.
    pub fn pull(&mut self, carried_out: usize) {
        for (index, taken) in core::mem::take(&mut self.taken).into_iter().enumerate() {
            if index < carried_out {
                let _ = self.carry_out(&taken.request);
            }
            self.port.answer(&taken, Err(Error::Absent));
        }
        self.insert(Volume::ABSENT);
    }

    /// Begins a round and takes all requests that are there.
    pub fn take(&mut self) {
        self.port.begin();
        if self.port.lives() != self.lives {
            self.lives = self.port.lives();
            self.open = [const { None }; MAX_FILES];
            // Nobody waits for what the earlier life has asked for.
            for taken in self.taken.drain(..) {
                self.port.answer(&taken, Err(Error::Lost));
            }
        }
        while let Some(taken) = self.port.next_request() {
            self.taken.push(taken);
        }
    }

    /// Carries out the request of this index among those taken, and answers it.
    pub fn finish(&mut self, index: usize) {
        let taken = self.taken.remove(index);
        // Nothing keeps a file from being closed.
        let failing = self.failing.filter(|_| taken.request.operation != Operation::Close);
        let result = failing.map_or_else(|| self.carry_out(&taken.request), Err);
        self.port.answer(&taken, result);
    }

    /// Carries out all that were taken, in their order.
    pub fn finish_all(&mut self) {
        while !self.taken.is_empty() {
            self.finish(0);
        }
    }

    /// Ends a round.
    pub fn end_round(&mut self) -> Progress {
        self.port.end_round(true)
    }

    /// A round of a provider that carries out at once what it takes.
    pub fn round(&mut self) -> Progress {
        self.take();
        self.finish_all();
        self.end_round()
    }

    /// Does what a request asks for.
    fn carry_out(&mut self, request: &Request) -> Result<Done, Error> {
        match request.operation {
            Operation::Open(mode) => self.open(request, mode),
            Operation::Stat => self.info(&self.port.path(request)?).map(Done::file),
            Operation::MakeFolder => {
                let path = self.port.path(request)?;
                self.check_new(&path)?;
                self.set(&path, None);
                Ok(Done::NOTHING)
            }
            Operation::Remove => self.remove(&self.port.path(request)?),
            Operation::Rename => self.rename(&self.port.path(request)?, &self.port.second_path(request)?),
            Operation::Close => {
                self.open[usize::from(request.file)].take().ok_or(Error::Invalid)?;
                Ok(Done::NOTHING)
            }
            Operation::Read => self.read(request),
            Operation::Write => self.write(request),
            Operation::Commit => self.commit(request),
            Operation::List => self.list(request),
        }
    }

    fn info(&self, path: &str) -> Result<Info, Error> {
        if path == "/" {
            return Ok(Info { is_folder: true, ..Info::default() });
        }
        self.nodes.get(path).map(Node::info).ok_or(Error::NotFound)
    }

    /// Checks that there is a folder for a new path, and nothing else of that path.
    fn check_new(&self, path: &str) -> Result<(), Error> {
        if self.info(path).is_ok() {
            return Err(Error::Exists);
        }
        let (folder, _) = path.rsplit_once('/').ok_or(Error::Name)?;
        let folder = self.info(if folder.is_empty() { "/" } else { folder })?;
        if folder.is_folder { Ok(()) } else { Err(Error::WrongKind) }
    }

    /// Returns how many bytes all files have, those included that are open and nowhere else any
    /// more.
    fn used(&self) -> usize {
        let open = self.open.iter().flatten().filter(|open| open.mode == Mode::Read);
        let open = open.filter_map(|open| open.content.as_ref());
        let there = self.nodes.values().filter_map(|node| node.content.as_ref());
        let contents: BTreeMap<_, _> = there.chain(open).map(|content| (Rc::as_ptr(content), content.len())).collect();
        contents.values().sum()
    }

    fn open(&mut self, request: &Request, mode: Mode) -> Result<Done, Error> {
        let path = self.port.path(request)?;
        if self.open[usize::from(request.file)].is_some() {
            return Err(Error::Invalid);
        }
        let found = match (self.info(&path), mode) {
            (Ok(info), _) if info.is_folder && mode != Mode::Read => return Err(Error::WrongKind),
            (Ok(info), _) => info,
            (Err(Error::NotFound), Mode::New | Mode::Append) => {
                self.check_new(&path)?;
                if mode == Mode::Append {
                    self.set(&path, Some(Vec::new()));
                }
                Info { modified: self.time, ..Info::default() }
            }
            (Err(error), _) => return Err(error),
        };
        let is_busy = |open: &Open| open.path == path && open.mode == Mode::Append;
        if mode == Mode::Append && self.open.iter().flatten().any(is_busy) {
            return Err(Error::Busy);
        }
        if request.position > 0 && self.used().saturating_add(request.position as usize) > self.space {
            return Err(Error::Full);
        }
        let content = match mode {
            Mode::New => Some(Rc::new(Vec::new())),
            _ => self.nodes.get(&path).and_then(|node| node.content.clone()),
        };
        self.open[usize::from(request.file)] = Some(Open { path, mode, content });
        let info = if mode == Mode::New { Info { size: 0, mark: 0, ..found } } else { found };
        Ok(Done::file(info))
    }

    fn opened(&self, request: &Request) -> Result<&Open, Error> {
        self.open[usize::from(request.file)].as_ref().ok_or(Error::Invalid)
    }

    fn read(&self, request: &Request) -> Result<Done, Error> {
        let open = self.opened(request)?;
        let content = open.content.as_ref().filter(|_| open.mode == Mode::Read).ok_or(Error::WrongKind)?;
        let begin = (request.position as usize).min(content.len());
        let end = (begin + request.length as usize).min(content.len());
        self.port.memory().write(request.offset(), &content[begin..end]).map_err(|_| Error::Invalid)?;
        Ok(Done::bytes((end - begin) as u32))
    }

    fn write(&mut self, request: &Request) -> Result<Done, Error> {
        let (memory, space, used) = (*self.port.memory(), self.space, self.used());
        let open = self.open[usize::from(request.file)].as_mut().ok_or(Error::Invalid)?;
        let content = open.content.as_mut().filter(|_| open.mode != Mode::Read).ok_or(Error::Invalid)?;
        if request.position != content.len() as u64 {
            return Err(Error::Invalid);
        }
        let (length, end) = (request.length as usize, content.len());
        if used.saturating_add(end + length) > space {
            return Err(Error::Full);
        }
        let content = Rc::make_mut(content);
        content.resize(end + length, 0);
        memory.read(request.offset(), &mut content[end..]).map_err(|_| Error::Invalid)?;
        Ok(Done::bytes(request.length))
    }

    fn commit(&mut self, request: &Request) -> Result<Done, Error> {
        let open = self.opened(request)?;
        let (path, mode) = (open.path.clone(), open.mode);
        let content = open.content.clone().filter(|_| mode != Mode::Read).ok_or(Error::Invalid)?;
        match self.info(&path) {
            Ok(info) if info.is_folder => return Err(Error::WrongKind),
            Ok(_) => {}
            Err(_) => self.check_new(&path)?,
        }
        self.set(&path, Some(content.to_vec()));
        self.open[usize::from(request.file)] = Some(Open { path, mode: Mode::Append, content: Some(content) });
        Ok(Done::NOTHING)
    }

    fn children<'t>(&'t self, path: &str) -> impl Iterator<Item = (&'t str, &'t Node)> {
        let folder = if path == "/" { "/".to_string() } else { path.to_string() + "/" };
        self.nodes.iter().filter_map(move |(path, node)| {
            let name = path.strip_prefix(&folder)?;
            (!name.contains('/')).then_some((name, node))
        })
    }

    fn list(&self, request: &Request) -> Result<Done, Error> {
        let open = self.opened(request)?;
        if !self.info(&open.path)?.is_folder {
            return Err(Error::WrongKind);
        }
        let mut list = Writer::new(request.length);
        let mut next = None;
        for (index, (name, node)) in self.children(&open.path).enumerate().skip(request.position as usize) {
            if !list.push(name, &node.info()) {
                next = Some(index as u64);
                break;
            }
        }
        self.port.memory().write(request.offset(), list.bytes()).map_err(|_| Error::Invalid)?;
        Ok(Done { next, ..Done::bytes(list.bytes().len() as u32) })
    }

    fn remove(&mut self, path: &str) -> Result<Done, Error> {
        if path == "/" {
            return Err(Error::Invalid);
        }
        let info = self.info(path)?;
        if info.is_folder && self.children(path).next().is_some() {
            return Err(Error::NotEmpty);
        }
        if self.open.iter().flatten().any(|open| open.path == path && open.mode == Mode::Append) {
            return Err(Error::Busy);
        }
        self.nodes.remove(path);
        Ok(Done::NOTHING)
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<Done, Error> {
        if from == "/" || to.strip_prefix(from).is_some_and(|rest| rest.starts_with('/')) {
            return Err(Error::Invalid);
        }
        self.info(from)?;
        self.check_new(to)?;
        let is_below =
            |path: &String| path.strip_prefix(from).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if self.open.iter().flatten().any(|open| is_below(&open.path) && open.mode == Mode::Append) {
            return Err(Error::Busy);
        }
        let moved: Vec<String> = self.nodes.keys().filter(|path| is_below(path)).cloned().collect();
        for path in moved {
            if let Some(node) = self.nodes.remove(&path) {
                self.nodes.insert(to.to_string() + &path[from.len()..], node);
            }
        }
        Ok(Done::NOTHING)
    }
}
