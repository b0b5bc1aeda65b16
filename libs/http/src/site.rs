//! The files of a site, each with the heads of its responses rendered once, when the server starts.
//!
//! A path finds its resource by a hash table that is built at start and never changes. `index.html`
//! answers for its folder, a folder named without its slash is redirected, `404.html` at the root
//! answers for what is not there.
//!
//! A file that comes with its gzip form is two resources: the one that is found by the path names
//! the other, and each has an entity tag, ranges and a 304 of its own.

use crate::caching::{self, Caching};
use crate::media;
use crate::response::{self, Persistence, Status};
use crate::target::{self, Path};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Bytes of the longest body in memory that stands behind its head in one piece, and is sent with
/// it: to have the transport refer to one that short apart costs more.
const SHORT_BODY: usize = 512;

/// Names a resource within its site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceId(u16);

/// A file of a site.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// Its path relative to the root, `/` between folders.
    pub path: &'a str,
    /// Its content, which the transport refers to until it is acknowledged.
    pub content: &'static [u8],
    /// Its content as gzip, for clients that take it so.
    pub gzip: Option<&'static [u8]>,
}

impl<'a> From<(&'a str, &'static [u8])> for File<'a> {
    fn from((path, content): (&'a str, &'static [u8])) -> Self {
        Self { path, content, gzip: None }
    }
}

/// A resource that is rendered when it is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Document {
    /// Its path, with the leading `/`.
    pub path: &'static str,
    /// Its media type.
    pub media: &'static str,
}

/// A resource of the program's own, beside the site's files.
#[derive(Clone, Copy, Debug)]
pub struct Embedded {
    /// Its path, with the leading `/`.
    pub path: &'static str,
    /// Its media type.
    pub media: &'static str,
    /// Its content.
    pub content: &'static [u8],
}

/// A resource, which is sent for a path.
#[derive(Debug)]
pub struct Resource {
    path: String,
    kind: Kind,
    content: &'static [u8],
    media: &'static str,
    tag: String,
    /// The fields that say what the bytes are: type and coding.
    form: String,
    /// The fields that answers with parts of it have too (RFC 9110 §15.3.7).
    fields: String,
    /// The usual response in one piece, once for each [`Persistence`]: its head, the tail, and the
    /// body if that is short. Of others than files and error pages it is the head alone; of a
    /// redirect, up to the end of its path.
    answers: [&'static [u8]; 3],
    /// Bytes of the head, without its tail.
    head_length: usize,
    /// The head of a 304, without its tail; empty where there is none.
    not_modified: Box<[u8]>,
    /// The same as gzip.
    gzip: Option<ResourceId>,
}

/// The kind of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file: ranges and conditions apply.
    File,
    /// An error page: sent as it is.
    Fixed,
    /// A redirect: its head is completed with the request's query.
    Redirect,
    /// Rendered on request, by this number.
    Document(u16),
}

impl Resource {
    /// Returns its kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The bytes; none for a document or a redirect.
    pub fn bytes(&self) -> &'static [u8] {
        self.content
    }

    /// The media type.
    pub fn media(&self) -> &'static str {
        self.media
    }

    /// The entity tag, quotes included.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// The fields that say what the bytes are: type and coding.
    pub fn form(&self) -> &str {
        &self.form
    }

    /// The same as gzip, where there is such a form.
    #[inline]
    pub fn gzip(&self) -> Option<ResourceId> {
        self.gzip
    }

    /// The fields that every answer with some of it has: its entity tag and what caches may do.
    pub fn fields(&self) -> &str {
        &self.fields
    }

    /// The head of the response that sends all of it, without its tail.
    pub fn head(&self) -> &[u8] {
        &self.answers[0][..self.head_length]
    }

    /// Whether the body is so short that it stands behind its head.
    pub(crate) fn is_short(&self) -> bool {
        self.content.len() <= SHORT_BODY
    }

    /// The response that sends all of it: without the body, if that is not short.
    pub(crate) fn answer(&self, persistence: Persistence) -> &'static [u8] {
        self.answers[persistence as usize]
    }

    /// The head of the response to a client that has it already, without its tail.
    pub fn not_modified(&self) -> &[u8] {
        &self.not_modified
    }
}

/// Everything that a server serves.
#[derive(Debug)]
pub struct Site {
    resources: Vec<Resource>,
    /// Positions in `resources` plus one, at the hash of the path or after it; 0 is empty.
    table: Box<[u16]>,
    not_found: ResourceId,
}

/// Files beyond this count are not served; positions are 16 bits wide, and a file can have five
/// resources.
pub const MAX_FILES: usize = 12 * 1024;

impl Site {
    /// A site of files, and of what the program itself brings, which hides a file of the same path.
    pub fn new<'a>(
        files: impl Iterator<Item: Into<File<'a>>>,
        caching: &Caching,
        embedded: &[Embedded],
        documents: &[Document],
    ) -> Self {
        let mut resources = Vec::new();
        let mut not_found = None;
        for (number, document) in documents.iter().enumerate() {
            resources.push(document_resource(document, number as u16));
        }
        for own in embedded {
            resources.push(file_resource(own.path.into(), own.content, own.media, caching::DEFAULT).rendered());
        }
        for file in files.take(MAX_FILES) {
            let file = file.into();
            if file.path == "404.html" {
                not_found = Some(file.content);
            } else {
                add_file(&mut resources, file, caching.of(file.path));
            }
        }
        let missing = not_found.unwrap_or(NOT_FOUND.as_bytes());
        resources.push(not_found_resource(missing));
        let not_found = ResourceId((resources.len() - 1) as u16);
        let table = build_table(&resources);
        Self { resources, table, not_found }
    }

    /// The resource at `path`, or what says that there is none.
    pub fn find(&self, path: Path) -> ResourceId {
        let mask = self.table.len() - 1;
        let mut at = path.hash as usize & mask;
        // The table is at most half full, so an empty place ends the search.
        while let Some(position) = self.table[at & mask].checked_sub(1) {
            if self.resources[usize::from(position)].path.as_bytes() == path.bytes {
                return ResourceId(position);
            }
            at += 1;
        }
        self.not_found
    }

    /// A resource.
    pub fn resource(&self, id: ResourceId) -> &Resource {
        &self.resources[usize::from(id.0)]
    }

    /// Returns the resource that answers for paths at which nothing is.
    pub fn not_found(&self) -> ResourceId {
        self.not_found
    }

    /// Whether `id` is what answers for missing paths.
    pub fn is_not_found(&self, id: ResourceId) -> bool {
        id == self.not_found
    }
}

const NOT_FOUND: &str = "<!doctype html><html lang=en><meta charset=utf-8><title>Not found</title><main><h1>Not found</h1>\
                         <p>There is nothing at this address. <a href=/>Start page</a></main>\n";

fn document_resource(document: &Document, number: u16) -> Resource {
    // Each rendering is another one, so there is no entity tag and nothing to keep.
    let fields = String::from("Cache-Control: no-store\r\n");
    Resource {
        path: document.path.into(),
        kind: Kind::Document(number),
        content: &[],
        media: document.media,
        tag: String::new(),
        form: String::new(),
        answers: [&[]; 3],
        head_length: 0,
        not_modified: head(Status::NotModified, &fields),
        fields,
        gzip: None,
    }
}

/// A rendered head: the status and these fields.
fn head(status: Status, fields: &str) -> Box<[u8]> {
    let mut head = String::new();
    response::begin(&mut head, status);
    head += fields;
    head.into_bytes().into()
}

/// Adds a file, and what else finds it: its folder, where it is an index, with and without the
/// slash.
fn add_file(resources: &mut Vec<Resource>, file: File<'_>, caching: &str) {
    let path = file.path;
    add_forms(resources, format!("/{path}"), file, media::of(path), caching);
    let Some(folder) = path.strip_suffix("index.html") else { return };
    if !folder.is_empty() && !folder.ends_with('/') {
        return;
    }
    add_forms(resources, format!("/{folder}"), file, media::HTML, caching);
    if let Some(name) = folder.strip_suffix('/') {
        resources.push(redirect_resource(name));
    }
}

/// Adds a file as it is and, where it comes with that, as gzip.
fn add_forms(resources: &mut Vec<Resource>, path: String, file: File<'_>, media: &'static str, caching: &str) {
    const VARY: &str = "Vary: Accept-Encoding\r\n";
    let mut plain = file_resource(path, file.content, media, caching);
    let Some(gzip) = file.gzip else { return resources.push(plain.rendered()) };
    // Without a path: no request finds it by itself.
    let mut other = file_resource(String::new(), gzip, media, caching);
    other.form += "Content-Encoding: gzip\r\n";
    for form in [&mut plain, &mut other] {
        form.fields += VARY;
    }
    plain.gzip = Some(ResourceId(resources.len() as u16));
    resources.extend([other, plain].map(Resource::rendered));
}

/// A file whose heads are not rendered yet.
fn file_resource(path: String, content: &'static [u8], media: &'static str, caching: &str) -> Resource {
    let tag = entity_tag(content);
    Resource {
        path,
        kind: Kind::File,
        content,
        media,
        form: format!("Content-Type: {media}\r\n"),
        fields: format!("ETag: {tag}\r\nCache-Control: {caching}\r\n"),
        tag,
        answers: [&[]; 3],
        head_length: 0,
        not_modified: Box::default(),
        gzip: None,
    }
}

impl Resource {
    /// Renders a file's heads from its fields: once, as what is rendered stays.
    fn rendered(mut self) -> Self {
        let Self { form, fields, content, .. } = &self;
        let length = content.len();
        let head_of_all =
            head(Status::Ok, &format!("{form}Content-Length: {length}\r\nAccept-Ranges: bytes\r\n{fields}"));
        self.not_modified = head(Status::NotModified, fields);
        self.set_answer(head_of_all);
        self
    }

    /// Sets the usual responses to those with this head.
    fn set_answer(&mut self, head: Box<[u8]>) {
        self.head_length = head.len();
        let body = if self.is_short() { self.content } else { &[] };
        self.answers = Persistence::ALL.map(|persistence| kept([&head, persistence.tail(), body].concat()));
    }
}

/// Keeps bytes for good, as transports may refer to them: a site is made once.
fn kept(bytes: Vec<u8>) -> &'static [u8] {
    Box::leak(bytes.into_boxed_slice())
}

/// The redirect from a folder's name without its slash. Its head ends in the path, for the query to
/// follow.
fn redirect_resource(name: &str) -> Resource {
    let fields = format!("Content-Length: 0\r\nLocation: /{}/", escaped(name));
    let head = head(Status::MovedPermanently, &fields);
    Resource {
        path: format!("/{name}"),
        kind: Kind::Redirect,
        content: &[],
        media: media::HTML,
        tag: String::new(),
        form: String::new(),
        fields: String::new(),
        head_length: head.len(),
        answers: [kept(head.into_vec()); 3],
        not_modified: Box::default(),
        gzip: None,
    }
}

/// Returns the resource that answers for missing paths. It has no path of its own, so that no
/// request finds it.
fn not_found_resource(content: &'static [u8]) -> Resource {
    let fields = format!("Content-Type: {}\r\nContent-Length: {}\r\n", media::HTML, content.len());
    let mut resource = Resource {
        path: String::new(),
        kind: Kind::Fixed,
        content,
        media: media::HTML,
        tag: String::new(),
        form: String::new(),
        fields: String::new(),
        answers: [&[]; 3],
        head_length: 0,
        not_modified: Box::default(),
        gzip: None,
    };
    resource.set_answer(head(Status::NotFound, &fields));
    resource
}

/// A folder's name as it may stand in a URL.
fn escaped(name: &str) -> String {
    let mut url = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            url.push(byte.into());
        } else {
            url += &format!("%{byte:02X}");
        }
    }
    url
}

/// The digits of entity tags.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A strong entity tag: a 64-bit hash of the content, in quotes, with six bits a digit. Each answer
/// carries it, so it is short.
fn entity_tag(content: &[u8]) -> String {
    let hash = content_hash(content);
    let digits = (0..u64::BITS).step_by(6).map(|place| char::from(DIGITS[(hash >> place) as usize % DIGITS.len()]));
    ['"'].into_iter().chain(digits).chain(['"']).collect()
}

/// A hash that tells one version of a file from the next; eight bytes a step, because it runs over
/// the whole site at every start. Multiplying spreads each word upwards, the shift brings that down
/// again (the scheme of MurmurHash's finaliser); it need not withstand an attacker, since the site
/// is its author's.
fn content_hash(content: &[u8]) -> u64 {
    let step = |hash: u64, word: u64| {
        let mixed = (hash ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ (mixed >> 33)
    };
    let (words, rest) = content.as_chunks::<8>();
    let start = step(0, content.len() as u64);
    let hash = words.iter().fold(start, |hash, word| step(hash, u64::from_le_bytes(*word)));
    let last = rest.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
    step(step(hash, last), 0x9e37_79b9_7f4a_7c15)
}

/// Open addressing with linear probing, at most half full. The first resource of a path wins. What
/// has no path is not found.
fn build_table(resources: &[Resource]) -> Box<[u16]> {
    let size = (resources.len() * 2).next_power_of_two();
    let mut table = vec![0u16; size];
    for (position, resource) in resources.iter().enumerate().filter(|(_, resource)| !resource.path.is_empty()) {
        let mut at = target::hash(resource.path.as_bytes()) as usize & (size - 1);
        while table[at] != 0 {
            at = (at + 1) & (size - 1);
        }
        table[at] = position as u16 + 1;
    }
    table.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn tags_of_contents_that_differ_differ() {
        let contents: [&[u8]; 8] =
            [b"", b"\0", b"\0\0", b"a", b"\0a", b"12345678a", b"22345678\0a", b"12345678\0\0\0\0\0\0\0\0"];
        let tags: BTreeSet<String> = contents.iter().map(|content| entity_tag(content)).collect();
        assert_eq!(tags.len(), contents.len());
        // In quotes, of characters that a tag may have (RFC 9110 §8.8.3).
        let is_legal = |tag: &String| {
            let digits = tag.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default();
            digits.len() == 11 && digits.bytes().all(|digit| DIGITS.contains(&digit))
        };
        assert!(tags.iter().all(is_legal), "{tags:?}");
    }
}
