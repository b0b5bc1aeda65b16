//! Names on the command line: which benchmarks and rows there are, as far as that is known before
//! anything runs. Rows are known that were recorded or have a target.

use crate::record;
use crate::rows;
use crate::targets::Targets;
use anyhow::Result;
use culm_tool::bench::{Options, suggest};
use culm_tool::failure::Failure;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

/// Every benchmark with what it measures, and below it its rows.
pub fn list(root: &Path, targets: &Targets) -> Result<String> {
    let mut out = String::new();
    for (bench, what, _) in rows::ALL {
        let _ = writeln!(out, "{bench:<8} {what}");
        for row in known_rows(root, targets, bench)? {
            let _ = writeln!(out, "  {bench}/{row}");
        }
    }
    Ok(out)
}

/// Refuses a name of nothing, before anything runs for the others. With `--full` there are rows
/// that nobody records.
pub fn check(root: &Path, targets: &Targets, options: &Options) -> Result<()> {
    for name in &options.names {
        let (bench, row) = name.split_once('/').map_or((name.as_str(), None), |(bench, row)| (bench, Some(row)));
        let benches = rows::ALL.iter().map(|(known, ..)| *known);
        if !benches.clone().any(|known| known == bench) {
            let help = suggest(bench, benches).unwrap_or_default();
            return Err(Failure::new(format!("there is no benchmark `{bench}`")).help(help).into());
        }
        let Some(row) = row.filter(|_| !options.full) else { continue };
        let known = known_rows(root, targets, bench)?;
        if !known.contains(row) {
            let help = suggest(row, known.iter().map(String::as_str)).unwrap_or_default();
            return Err(Failure::new(format!("`{bench}` has no row `{row}`"))
                .help(format!("{help} (`./culm bench --list` lists them; one never recorded is run with --full)"))
                .into());
        }
    }
    Ok(())
}

fn known_rows(root: &Path, targets: &Targets, bench: &str) -> Result<BTreeSet<String>> {
    let recorded = record::read(root, bench)?;
    let recorded = recorded.into_iter().flat_map(|record| record.rows).map(|row| row.row);
    let wanted = targets.iter().filter(|target| target.bench == bench).map(|target| target.row.clone());
    Ok(recorded.chain(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn root() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    fn checked(line: &[&str]) -> Result<(), String> {
        let line = std::iter::once(&"bench").chain(line);
        let options = Line::try_parse_from(line).expect("it can be read").options;
        let targets = Targets::read(&root()).expect("they are there");
        check(&root(), &targets, &options).map_err(|error| error.to_string())
    }

    #[test]
    fn rows_are_listed_below_their_benchmark() {
        let list = list(&root(), &Targets::read(&root()).expect("they are there")).expect("the records are good");
        let net = list.find("\nnet ").expect("it is a benchmark");
        let row = list.find("\n  net/udp-64-w256\n").expect("it is a row");
        assert!(net < row && row < list.find("\ntcp ").expect("it is the next"), "{list}");
    }

    #[test]
    fn unknown_names_are_refused_with_the_nearest() {
        assert_eq!(checked(&["net", "net/udp-64-w256", "boot/first-echo"]), Ok(()));
        assert_eq!(checked(&["net/udp-96-w7", "--full"]), Ok(()));
        for (line, problem, advice) in [
            (&["ipc", "nte"][..], "there is no benchmark `nte`", "did you mean `net`?"),
            (&["net/udp-64-w255"], "`net` has no row `udp-64-w255`", "did you mean `udp-64-w256`?"),
            (&["nope/x", "--full"], "there is no benchmark `nope`", "choose one of `blk`"),
        ] {
            let said = checked(line).expect_err("it is none");
            assert!(said.contains(problem) && said.contains(advice), "{said}");
        }
    }
}
