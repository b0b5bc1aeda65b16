//! The figures to reach: `bench/targets.toml`.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::path::Path;

/// All targets.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Targets {
    #[serde(default)]
    target: Vec<Target>,
}

/// A figure to reach.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The benchmark.
    pub bench: String,
    /// The row within it.
    pub row: String,
    /// The unit of the count.
    pub unit: String,
    /// Which figures are good enough.
    #[serde(flatten)]
    pub bound: Bound,
}

/// On which side of the figure the target lies.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// The figure may be no more than this.
    Most(f64),
    /// The figure may be no less than this.
    Least(f64),
}

impl Bound {
    /// The sign that stands before the limit.
    pub fn sign(self) -> &'static str {
        match self {
            Bound::Most(_) => "≤",
            Bound::Least(_) => "≥",
        }
    }
}

impl Targets {
    /// Reads `bench/targets.toml`.
    pub fn read(root: &Path) -> Result<Targets> {
        let path = root.join("bench/targets.toml");
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is not a list of targets", path.display()))
    }

    /// The target of a figure.
    pub fn find(&self, bench: &str, row: &str, unit: &str) -> Option<&Target> {
        self.target.iter().find(|target| target.bench == bench && target.row == row && target.unit == unit)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Target> {
        self.target.iter()
    }
}

impl Target {
    /// The bound's figure.
    pub fn limit(&self) -> f64 {
        match self.bound {
            Bound::Most(limit) | Bound::Least(limit) => limit,
        }
    }

    /// Whether `value` reaches it.
    pub fn holds(&self, value: f64) -> bool {
        match self.bound {
            Bound::Most(limit) => value <= limit,
            Bound::Least(limit) => value >= limit,
        }
    }
}
