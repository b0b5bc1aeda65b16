//! Rules that take others' place while there are flows.

use super::*;
use crate::desk::Desk;
use crate::settings::policy;
use culm::Region;
use culm_flow::flags;
use culm_guard::{Guard, read_hash};
use culm_report::{Proposal, Since, Verdict, View, proposal_words, report_words};

const KEY: culm_flow::Key = culm_flow::Key([1, 2]);

/// A token, and its hash by sha256sum.
const TOKEN: &str = "open-sesame";
const HASH: &str = "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7";

/// The router's desk, and the other side of it.
struct Counter {
    report: &'static [AtomicU64],
    proposals: &'static [AtomicU64],
}

impl Counter {
    fn new() -> Self {
        Self::with_report_of(4096)
    }

    /// One whose report has room for so many bytes of rules.
    fn with_report_of(bytes: usize) -> Self {
        let words = |count| (0..count).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak();
        Self { report: words(report_words(bytes)), proposals: words(proposal_words(4096)) }
    }

    fn desk(&self) -> Desk {
        self.guarded_desk(read_hash(HASH).map(|hash| Guard::new(hash, u64::MAX / 100, [0; 4])))
    }

    fn guarded_desk(&self, guard: Option<Guard>) -> Desk {
        let [report, proposals] = [self.report, self.proposals].map(Region::from_words);
        Desk::new(Some(report), Some(proposals), None, guard, KEY, FLOWS)
    }

    fn view(&self) -> View<'static> {
        View::new(self.report).expect("it is large enough")
    }

    /// Proposes rules, and returns what becomes of them.
    fn propose(&self, desk: &mut Desk, world: &mut World, rules: &str) -> (Verdict, String, u64) {
        self.propose_with(TOKEN, desk, world, rules)
    }

    fn propose_with(&self, token: &str, desk: &mut Desk, world: &mut World, rules: &str) -> (Verdict, String, u64) {
        let proposal = Proposal::new(self.proposals).expect("it is large enough");
        let number = proposal.propose(token, rules).expect("it has room");
        desk.serve(&mut world.router);
        let answer = self.view().answer(number).expect("it is answered at once");
        (answer.verdict, answer.said, answer.ended)
    }

    /// What is shown: whether the rules were proposed, their text, and the counts by line.
    fn shown(&self) -> (bool, String, Vec<(u32, u64)>) {
        let shown = self.view().rules().expect("there are rules");
        (shown.since.is_proposed, shown.text, shown.counts)
    }
}

#[test]
fn flows_that_new_rules_let_be_go_on_and_others_end() {
    let mut world = World::new();
    let out = |port| udp(("10.0.1.9", 5000), ("192.0.2.80", port), 10);
    let mapped = |world: &mut World, port| {
        let (packet, _) = world.passes(INNER, &out(port), OUTER);
        packet.transport.ports().expect("it has ports").0
    };
    let outer = mapped(&mut world, 53);
    assert_eq!(mapped(&mut world, 99), outer);
    let answer = |port| udp(("192.0.2.80", port), ("192.0.2.2", outer), 10);
    let rules = RULES.replace("allow in inner out outer\n", "allow udp in inner out outer port 53\n");
    let networks = networks(1500);
    let rules = read(&rules, &networks).expect("rules");
    let ended = world.router.replace(Policy::new(rules, &networks, KEY, FLOWS).expect("they can be used"));
    assert_eq!(ended, 1);
    world.passes(OUTER, &answer(53), INNER);
    assert_eq!(mapped(&mut world, 53), outer, "it is seen as before");
    assert_eq!(world.drops(OUTER, &answer(99)).denied, 1);
    assert_eq!(world.drops(INNER, &out(99)).denied, 1);
    // The port is the flow's, so that nobody else gets it.
    let (other, _) = world.passes(INNER, &udp(("10.0.1.8", 5000), ("192.0.2.80", 53), 10), OUTER);
    assert_ne!(other.transport.ports().expect("it has ports").0, outer);
}

#[test]
fn a_flow_whose_address_is_lent_no_more_ends() {
    let mut world = World::new();
    world.passes(INNER, &udp(("10.0.1.9", 5000), ("192.0.2.80", 53), 10), OUTER);
    world.passes(INNER, &udp(("2001:db8:1::9", 5000), ("2001:db8::80", 53), 10), OUTER);
    let networks = networks(1500);
    let rules = read(&RULES.replace("40000-40999", "50000-50999"), &networks).expect("rules");
    assert_eq!(world.router.replace(Policy::new(rules, &networks, KEY, FLOWS).expect("they can be used")), 1);
    let (packet, _) = world.passes(INNER, &udp(("10.0.1.9", 5000), ("192.0.2.80", 53), 10), OUTER);
    assert!((50_000..51_000).contains(&packet.transport.ports().expect("it has ports").0));
}

#[test]
fn a_flow_that_no_rule_forwards_any_more_ends() {
    let forward = "forward tcp in outer,inner port 8080 to 10.0.1.5 port 80\n";
    let elsewhere = forward.replace("port 80\n", "port 81\n");
    let begin = |world: &mut World| {
        let syn = tcp(("198.51.100.9", 999), ("192.0.2.2", 8080), flags::SYN, [5, 0]);
        world.passes(OUTER, &syn, INNER);
    };
    for (by, ended) in [(forward, 0), ("", 1), (&*elsewhere, 1)] {
        let mut world = World::new();
        begin(&mut world);
        let networks = networks(1500);
        let rules = read(&RULES.replace(forward, by), &networks).expect("rules");
        let policy = Policy::new(rules, &networks, KEY, FLOWS).expect("they can be used");
        assert_eq!(world.router.replace(policy), ended, "{by:?}");
    }
    // So it is for a router's next life.
    let mut world = World::new();
    begin(&mut world);
    assert_eq!(World::on(world.memory, &RULES.replace(forward, ""), 1500, world.now).kept, 0);
}

#[test]
fn a_next_life_judges_flows_by_the_rules_that_it_has() {
    let mut world = World::new();
    world.passes(INNER, &udp(("10.0.1.9", 5000), ("192.0.2.80", 53), 10), OUTER);
    world.passes(INNER, &udp(("10.0.1.9", 5000), ("192.0.2.80", 54), 10), OUTER);
    let rules = RULES.replace("default deny\n", "default deny\ndeny udp port 54\n");
    let world = World::on(world.memory, &rules, 1500, world.now);
    assert_eq!(world.kept, 1);
    // It is shown with the line that lets it be now.
    let lines: Vec<u64> = culm_flow::Watch::new(world.memory).flows().map(|(_, flow)| flow.tag).collect();
    assert_eq!(lines, [3]);
}

/// Rules that cannot be shown would be lost with the life that uses them.
#[test]
fn rules_longer_than_the_report_are_refused() {
    let (mut world, counter) = (World::new(), Counter::with_report_of(256));
    let mut desk = counter.desk();
    let rules = format!("default allow\n{}", "# a comment that says nothing\n".repeat(20));
    let (verdict, said, _) = counter.propose(&mut desk, &mut world, &rules);
    assert!(verdict == Verdict::Refused && said.contains("room"), "{said}");
    assert_eq!(counter.propose(&mut desk, &mut world, "default allow\n").0, Verdict::Taken);
}

#[test]
fn a_mistake_keeps_the_rules_and_says_so() {
    let (counter, mut world) = (Counter::new(), World::new());
    let mut desk = counter.desk();
    let networks = networks(1500);
    let mut own = policy(&desk, RULES, &networks, KEY, FLOWS);
    assert!(!counter.shown().0);
    world.passes(INNER, &udp(("10.0.1.9", 5000), ("192.0.2.80", 53), 10), OUTER);
    for (rules, expected) in [
        ("allow in inner out nowhere\n", "nowhere"),
        ("deny\nallow in inner\n", "the rule that hides it"),
        ("nat in inner out outer to own ports 1-9\nnat in inner out outer to 192.0.2.2 ports 5-20\n", ""),
        ("nat out outer to 10.9.0.0/20\n", "256 addresses"),
    ] {
        let (verdict, said, ended) = counter.propose(&mut desk, &mut world, rules);
        assert_eq!((verdict, ended), (Verdict::Refused, 0), "{rules}");
        assert!(said.starts_with("error: ") && said.contains(expected), "{said}");
        assert_eq!((counter.shown().0, counter.shown().1), (false, RULES.into()));
    }
    // Its counts are shown as they change.
    let bytes = udp(("10.0.1.9", 5001), ("192.0.2.80", 53), 10);
    let packet = Packet::read(&bytes).expect("a packet");
    own.judge(&packet, &packet.tuple().expect("it has ports"), INNER, Some(OUTER));
    assert_eq!(counter.shown().2[0], (2, 1));
}

#[test]
fn rules_without_the_token_are_not_even_read() {
    let (counter, mut world) = (Counter::new(), World::new());
    let (given, networks) = ("default deny\n", networks(1500));
    for (guard, said) in [(None, "no `reload_token_sha256`"), (Some([7; 32]), "not the token")] {
        let mut desk = counter.guarded_desk(guard.map(|hash| Guard::new(hash, 1000, [0; 4])));
        policy(&desk, RULES, &networks, KEY, FLOWS);
        let (verdict, answer, _) = counter.propose(&mut desk, &mut world, given);
        assert!(verdict == Verdict::Forbidden && answer.contains(said), "{answer}");
    }
    let mut desk = counter.desk();
    policy(&desk, RULES, &networks, KEY, FLOWS);
    for token in ["", "open-sesam", "open-sesame "] {
        let (verdict, answer, _) = counter.propose_with(token, &mut desk, &mut world, "no rule");
        assert!(verdict == Verdict::Forbidden && answer.contains("not the token"), "{answer}");
    }
    assert_eq!(counter.shown().1, RULES);
    assert_eq!(counter.propose(&mut desk, &mut world, given).0, Verdict::Taken);
    // Whoever guesses has to wait, and so has the one behind whom he guesses.
    while !counter.propose_with("guess", &mut desk, &mut world, given).1.contains("too many") {}
    let (verdict, answer, _) = counter.propose(&mut desk, &mut world, "default reject\n");
    assert!(verdict == Verdict::Forbidden && answer.contains("too many"), "{answer}");
    assert_eq!(counter.shown().1, given);
}

#[test]
fn rules_that_were_given_outlive_the_router_and_fatal_ones_do_not_come_back() {
    let (counter, mut world) = (Counter::new(), World::new());
    let mut desk = counter.desk();
    let networks = networks(1500);
    policy(&desk, RULES, &networks, KEY, FLOWS);
    let given = "default deny\n";
    assert_eq!(counter.propose(&mut desk, &mut world, given), (Verdict::Taken, String::new(), 0));
    assert_eq!(counter.shown(), (true, given.into(), vec![(0, 0)]));
    let bytes = udp(("10.0.1.9", 5000), ("192.0.2.80", 53), 10);
    assert_eq!(world.drops(INNER, &bytes).denied, 1);
    assert_eq!(counter.shown().2, [(0, 1)]);
    // The next life has them, and answers nothing twice.
    let mut next = counter.desk();
    policy(&next, RULES, &networks, KEY, FLOWS);
    next.serve(&mut world.router);
    assert_eq!((counter.shown().0, counter.shown().1), (true, given.into()));
    // One that dies over rules does not try them again.
    let proposal = Proposal::new(counter.proposals).expect("it is large enough");
    let number = proposal.propose(TOKEN, "allow\n").expect("it has room");
    let report = culm_report::Report::new(counter.report).expect("it is large enough");
    let begun = culm_report::Answer { number, verdict: Verdict::Begun, said: String::new(), ended: 0 };
    report.answer(&begun);
    counter.desk().serve(&mut world.router);
    let answer = counter.view().answer(number).expect("it is answered");
    assert!(answer.verdict == Verdict::Refused && answer.said.contains("did not get over"), "{answer:?}");
    assert_eq!(counter.shown().1, given);
    // One that dies after they are in use, and before it says so, has taken them.
    report.answer(&begun);
    report.show("allow\n", [1].into_iter(), Since { is_proposed: true, time: 1 });
    counter.desk().serve(&mut world.router);
    assert_eq!(counter.view().answer(number).expect("it is answered").verdict, Verdict::Taken);
    // Left rules that are wrong give way to those of the system.
    report.show("no rule\n", [].into_iter(), Since { is_proposed: true, time: 1 });
    policy(&counter.desk(), RULES, &networks, KEY, FLOWS);
    assert_eq!(counter.shown().1, RULES);
}
