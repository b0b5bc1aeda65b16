//! The part of a disk that a client has.

use super::image::{self, Image};
use crate::diagnostics::Diagnostic;
use crate::expand::draft::Draft;
use culm_abi::connection::block::BLOCK;
use culm_manifest::Located;
use culm_manifest::problem::nearest;
use culm_manifest::units::format_size;
use culm_partition::{NotFound, Selector};
use std::ops::Range;

/// The part that a client asks for.
#[derive(Default)]
pub struct Wanted {
    /// A partition, as `culm_partition::Selector` reads it.
    pub partition: Option<Located<String>>,
    /// The first block, within that or the disk.
    pub offset: Option<Located<u64>>,
    /// The count of blocks.
    pub size: Option<Located<u64>>,
    /// Where it asks.
    pub at: Range<usize>,
}

/// A client's part of a disk.
pub struct Part {
    /// The partition, as `culm_partition::Selector` reads it; empty for the disk.
    pub partition: String,
    /// The first block, within that.
    pub first: u64,
    /// The count of blocks; 0 for all that follow.
    pub blocks: u64,
    /// Where it lies on the disk, if there is an image that tells.
    on_disk: Option<Range<u64>>,
}

impl Part {
    /// Returns whether the two have a block in common, or may have one.
    pub fn overlaps(&self, other: &Self) -> bool {
        let common = |first: &Range<u64>, second: &Range<u64>| first.start < second.end && second.start < first.end;
        match (&self.on_disk, &other.on_disk) {
            (Some(first), Some(second)) => common(first, second),
            _ if self.partition == other.partition => common(&self.within(), &other.within()),
            // The virtualiser refuses partitions that overlap.
            _ => self.partition.is_empty() || other.partition.is_empty(),
        }
    }

    /// Returns its blocks on the disk, if there is an image that tells.
    pub fn on_disk(&self) -> Option<Range<u64>> {
        self.on_disk.clone()
    }

    /// Returns its blocks within its partition or the disk.
    fn within(&self) -> Range<u64> {
        let end = if self.blocks == 0 { u64::MAX } else { self.first.saturating_add(self.blocks) };
        self.first..end
    }
}

/// Returns the part that a client asks for, or why the disk does not have it. Without an image,
/// what is there shows when the machine runs.
pub fn find(draft: &Draft<'_>, image: Option<&Image>, wanted: &Wanted) -> Result<Part, Box<Diagnostic>> {
    let number = |given: &Option<Located<u64>>| given.as_ref().map_or(0, |given| given.value);
    let on_disk = image.map(|image| {
        let (whole, what) = match &wanted.partition {
            None => (0..image.blocks, "the disk".to_string()),
            Some(partition) => partition_of(draft, image, partition)?,
        };
        range(draft, image, wanted, whole, &what)
    });
    Ok(Part {
        partition: wanted.partition.as_ref().map_or(String::new(), |partition| partition.value.clone()),
        first: number(&wanted.offset),
        blocks: number(&wanted.size),
        on_disk: on_disk.transpose()?,
    })
}

/// Returns the blocks of a partition of an image, and what messages call it.
fn partition_of(
    draft: &Draft<'_>,
    image: &Image,
    wanted: &Located<String>,
) -> Result<(Range<u64>, String), Box<Diagnostic>> {
    let name = &image.name;
    let failed = |message: String, help: String| {
        Box::new(draft.at(&wanted.span, message).related(draft.source, image.at.clone(), "the image").help(help))
    };
    let table = image.table.as_ref().map_err(|reason| {
        let help = match &image.file.path {
            Some(_) => "`sfdisk FILE` makes partitions in an image; without `partition` the client has all of the disk",
            None => "in place of `size`, `image` names a file with partitions; a range (`offset`, `size`) needs none",
        };
        failed(format!("{name} has no partitions: {reason}"), help.to_string())
    })?;
    let what = image::described(&wanted.value);
    let all = match table.partitions.is_empty() {
        true => "it has none".to_string(),
        false => format!("it has {}", image::list(table)),
    };
    let selector = Selector::parse(&wanted.value).map_err(|error| failed(error.to_string(), all.clone()))?;
    match table.find(&selector) {
        Ok(partition) => Ok((partition.first..partition.first + partition.blocks, what)),
        Err(NotFound::None) => {
            let names: Vec<String> = table.partitions.iter().map(|partition| partition.name().collect()).collect();
            let wanted = wanted.value.strip_prefix("name=");
            let meant = wanted.and_then(|wanted| nearest(wanted, names.iter().map(String::as_str)));
            let meant = meant.map_or_else(String::new, |meant| format!("did you mean `{meant}`? "));
            Err(failed(format!("{name} has no {what}"), meant + &all))
        }
        Err(NotFound::Ambiguous) => {
            Err(failed(format!("{name} has more than one {what}"), format!("choose one by its number: {all}")))
        }
        Err(NotFound::Bad(problem)) => {
            Err(failed(format!("{what} of {name} cannot be used: {problem}"), "repair the partition table".to_string()))
        }
    }
}

/// Returns the blocks on the disk of the range that a client asks for within `whole`.
fn range(
    draft: &Draft<'_>,
    image: &Image,
    wanted: &Wanted,
    whole: Range<u64>,
    what: &str,
) -> Result<Range<u64>, Box<Diagnostic>> {
    let there = whole.end - whole.start;
    let first = wanted.offset.as_ref().map_or(0, |offset| offset.value);
    let blocks = wanted.size.as_ref().map_or(there.saturating_sub(first), |size| size.value);
    if first < there && blocks <= there - first {
        return Ok(whole.start + first..whole.start + first + blocks);
    }
    let in_bytes = |blocks: u64| format_size(blocks.saturating_mul(BLOCK as u64));
    let (given, message) = match (&wanted.size, &wanted.offset) {
        (Some(size), _) if first < there => (Some(size), format!("reaches beyond {what}")),
        (_, Some(offset)) => (Some(offset), format!("begins beyond {what}")),
        _ => (None, format!("{what} has no blocks")),
    };
    let span = given.map_or(&wanted.at, |given| &given.span);
    let message = if given.is_some() { format!("the client's part {message}") } else { message };
    let has = match first {
        0 => format!("{what} has {}", in_bytes(there)),
        first if first < there => {
            format!("{what} has {}, of which {} follow the offset", in_bytes(there), in_bytes(there - first))
        }
        _ => format!("{what} has {}", in_bytes(there)),
    };
    let help = format!("{has}; ask for less, or make the image larger");
    Err(Box::new(draft.at(span, message).related(draft.source, image.at.clone(), "the image").help(help)))
}
