//! Protection domains: from the options that a table gives to a checked [`Domain`].

use super::config;
use super::draft::{Domain, Draft, is_application, number};
use crate::description::catalogue::CatalogueComponent;
use crate::description::system::{DEFAULT_RESTART, DomainOptions, DomainTable};
use crate::plan::{Budget, ConfigValue, FaultAction, LogLevel, Origin};
use culm_abi::memory::{HEAP_BASE, PAGE_SIZE, REGION_BASE, STACK_BASE, START_BASE};
use culm_abi::system::MIN_PERIOD;
use culm_manifest::reader::TableReader;
use culm_manifest::units::{format_duration, format_size};
use culm_manifest::{Located, Manifest};
use std::ops::Range;

/// Largest stack: what lies between the addresses of stack and start block, less a guard page.
pub const MAX_STACK: u64 = START_BASE - STACK_BASE - PAGE_SIZE;
/// Largest heap: what lies between the addresses of heap and regions, less a guard page.
pub const MAX_HEAP: u64 = REGION_BASE - HEAP_BASE - PAGE_SIZE;

/// Least budget, in nanoseconds: about what the kernel takes to enter and leave a domain.
pub const MIN_BUDGET: u64 = 1_000;
/// Longest period, in nanoseconds: a day.
pub const MAX_PERIOD: u64 = 24 * 3600 * 1_000_000_000;

/// The parts that a domain is made from.
pub struct Making<'a> {
    /// Its name; the place is where mistakes are reported that have no better one.
    pub name: Located<String>,
    pub component: &'a CatalogueComponent,
    pub manifest: &'a Manifest,
    pub origin: Origin,
    pub options: &'a DomainOptions,
    /// Priority and core where the options have none.
    pub priority: u8,
    pub core: u32,
    pub config: Option<TableReader<'a>>,
}

/// Resolves the `[pd]` tables.
pub fn resolve(draft: &mut Draft<'_>) {
    let file = draft.file;
    if file.is_empty {
        let diagnostic = draft
            .at(&file.first_line, "the system has no protection domain")
            .help("add one: `[pd.NAME]` with `component` and `priority`");
        draft.error(diagnostic);
    }
    for table in &file.domains {
        resolve_table(draft, table);
    }
}

fn resolve_table<'a>(draft: &mut Draft<'a>, table: &'a DomainTable<'a>) {
    if table.lacks_priority {
        require_priority(draft, &table.name, "pd");
    }
    let Some(component) = &table.component else { return };
    let Some((component, manifest)) = draft.component(&component.value, &component.span) else { return };
    if !is_application(component) {
        let span = table.component.as_ref().map_or(&table.span, |component| &component.span);
        let help = if manifest.driver.is_some() {
            "write `[device.NAME]`: the driver comes with the device".to_string()
        } else {
            "expansion adds it where a device or a client needs it; leave this table out".to_string()
        };
        let diagnostic = draft.at(span, format!("`{}` cannot be a `[pd]` of its own", manifest.name)).help(help);
        draft.error(diagnostic);
        return;
    }
    let making = Making {
        name: table.name.clone(),
        component,
        manifest,
        origin: Origin::Description,
        options: &table.options,
        priority: 0,
        core: 0,
        config: table.config.clone(),
    };
    let mut domain = make(draft, making);
    domain.passive = table.passive.as_ref().is_some_and(|passive| passive.value);
    domain.observe = table.observe;
    domain.may_halt = table.may_halt;
    if let (true, Some(passive), Some(budget)) = (domain.passive, &table.passive, &table.options.budget) {
        let diagnostic = draft
            .at(&budget.span, format!("`{}` is passive and cannot have a budget", table.name.value))
            .related(draft.source, passive.span.clone(), "it runs on its callers' budgets")
            .help("leave out either `passive` or `budget`");
        draft.error(diagnostic);
    }
    draft.domains.push(domain);
}

/// Reports that a table has no priority.
pub fn require_priority(draft: &mut Draft<'_>, name: &Located<String>, table: &str) {
    let diagnostic = draft
        .at(&name.span, format!("[{table}.{}] has no `priority`", name.value))
        .help("add `priority = …`, from 0 to 255: of the domains that can run, the one of the highest priority does");
    draft.error(diagnostic);
}

/// Makes a domain; what is wrong with its options is reported, and something sensible put in its
/// place.
pub fn make<'a>(draft: &mut Draft<'a>, making: Making<'a>) -> Domain<'a> {
    let Making { name, component, manifest, origin, options, priority, core, config } = making;
    if let Some(core) = &options.core {
        check_core(draft, core);
    }
    let stack = size(draft, &name, "stack", options.stack.as_ref(), manifest.stack, MAX_STACK);
    let heap = size(draft, &name, "heap", options.heap.as_ref(), manifest.heap, MAX_HEAP);
    check_least(draft, manifest, "stack", options.stack.as_ref(), manifest.min_stack);
    let configured = config.as_ref().map_or(name.span.clone(), |table| table.span.clone());
    let config = config::resolve(draft, &name, manifest, config);
    check_heap(draft, manifest, options.heap.as_ref(), &config, &configured);
    Domain {
        component,
        manifest,
        origin,
        core: options.core.as_ref().map_or(core, |core| core.value),
        priority: options.priority.as_ref().map_or(priority, |priority| priority.value),
        passive: false,
        budget: budget(draft, options),
        stack: stack.max(PAGE_SIZE),
        heap,
        log: options.log.unwrap_or(LogLevel::Info),
        observe: false,
        may_halt: false,
        on_fault: options.on_fault.as_ref().map_or(FaultAction::Restart, |action| action.value),
        restart: options.restart.as_ref().map_or(DEFAULT_RESTART, |restart| restart.value),
        config,
        name,
    }
}

/// Checks that a component has at least what it says that it needs: with less it would fault, be
/// restarted, and fault again.
fn check_least(draft: &mut Draft<'_>, manifest: &Manifest, what: &str, given: Option<&Located<u64>>, least: u64) {
    let Some(given) = given.filter(|given| given.value < least) else { return };
    let message = format!("a {what} of {} is less than `{}` needs", format_size(given.value), manifest.name);
    let diagnostic = draft
        .at(&given.span, message)
        .help(format!("give it {} at least, or leave `{what}` out for what its manifest says", format_size(least)));
    draft.error(diagnostic);
}

/// The same of its heap, which can be counted from its configuration, that stands at `configured`.
fn check_heap(
    draft: &mut Draft<'_>,
    manifest: &Manifest,
    given: Option<&Located<u64>>,
    config: &[ConfigValue],
    configured: &Range<usize>,
) {
    let need = &manifest.min_heap;
    let least = need.bytes(|name| number(manifest, config, name));
    if need.fields().is_empty() {
        return check_least(draft, manifest, "heap", given, least);
    }
    let heap = given.map_or(manifest.heap, |given| given.value);
    if heap >= least {
        return;
    }
    let (has, needs) = (format_size(heap), format_size(least.checked_next_multiple_of(PAGE_SIZE).unwrap_or(least)));
    let span = given.map_or(configured, |given| &given.span);
    let message =
        format!("a heap of {has} is less than the {needs} that `{}` needs with this configuration", manifest.name);
    let advice = match least <= MAX_HEAP {
        true => format!("write `heap = \"{needs}\"`, or configure it for less"),
        false => format!("configure it for less: a heap has {} at most", format_size(MAX_HEAP)),
    };
    let diagnostic = draft.at(span, message).help(format!("{advice}; it needs {need}"));
    draft.error(diagnostic);
}

fn check_core(draft: &mut Draft<'_>, core: &Located<u32>) {
    let board = &draft.board.board;
    let cores = board.mpidr.len();
    if core.value as usize >= cores {
        let help = match cores {
            1 => "it has one core: 0".to_string(),
            _ => format!("its cores are 0 to {}", cores - 1),
        };
        let diagnostic =
            draft.at(&core.span, format!("the board `{}` has no core {}", board.name, core.value)).help(help);
        draft.error(diagnostic);
    }
}

/// A stack or heap, rounded up to whole pages.
fn size(
    draft: &mut Draft<'_>,
    name: &Located<String>,
    what: &str,
    given: Option<&Located<u64>>,
    default: u64,
    max: u64,
) -> u64 {
    let value = given.map_or(default, |size| size.value);
    if value > max {
        let span: Range<usize> = given.map_or(name.span.clone(), |size| size.span.clone());
        let diagnostic = draft
            .at(&span, format!("a {what} of {} does not fit the address space", format_size(value)))
            .help(format!("it can have {} at most", format_size(max)));
        draft.error(diagnostic);
        return PAGE_SIZE;
    }
    value.next_multiple_of(PAGE_SIZE)
}

fn budget(draft: &mut Draft<'_>, options: &DomainOptions) -> Option<Budget> {
    let (budget, period) = match (&options.budget, &options.period) {
        (Some(budget), Some(period)) => (budget, period),
        (Some(budget), None) => {
            let diagnostic = draft
                .at(&budget.span, "a budget without a period")
                .help("add `period`: the domain may run for its budget in each period");
            draft.error(diagnostic);
            return None;
        }
        (None, Some(period)) => {
            let diagnostic = draft
                .at(&period.span, "a period without a budget")
                .help("add `budget`: how long the domain may run in each period");
            draft.error(diagnostic);
            return None;
        }
        (None, None) => return None,
    };
    if budget.value > period.value {
        let message = format!(
            "a budget of {} is over its period of {}",
            format_duration(budget.value),
            format_duration(period.value)
        );
        let diagnostic = draft
            .at(&budget.span, message)
            .related(draft.source, period.span.clone(), "the period")
            .help("a domain cannot run longer than the time there is; leave both out for no limit");
        draft.error(diagnostic);
    } else if budget.value == 0 {
        let diagnostic =
            draft.at(&budget.span, "a budget of no time: the domain would never run").help("give it some time");
        draft.error(diagnostic);
    } else if budget.value < MIN_BUDGET {
        let message = format!("a budget of {} is over before a turn begins", format_duration(budget.value));
        let diagnostic = draft.at(&budget.span, message).help(format!(
            "give it {} at least; what is sensible begins at some ten microseconds",
            format_duration(MIN_BUDGET)
        ));
        draft.error(diagnostic);
    } else if period.value < MIN_PERIOD {
        let message = format!("a period of {} keeps the kernel busy with its end", format_duration(period.value));
        let diagnostic = draft.at(&period.span, message).help(format!(
            "each period costs the core a few interrupts: give it {} at least",
            format_duration(MIN_PERIOD)
        ));
        draft.error(diagnostic);
    } else if period.value > MAX_PERIOD {
        let message = format!("a period of {} is longer than a day", format_duration(period.value));
        let diagnostic =
            draft.at(&period.span, message).help("a domain waits so long for its time; leave both out for no limit");
        draft.error(diagnostic);
    }
    Some(Budget { budget: budget.value, period: period.value })
}
