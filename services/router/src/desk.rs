//! Rules that are exchanged while the router runs, and what it shows of those in use.
//!
//! Somebody proposes a text in memory of its own ([`culm_report`]) and notifies the router. It is
//! read and checked as the build tool reads the system's rules, and tables are made of it, all
//! beside the rules in use. Only if nothing is wrong it takes their place, in one step, before the
//! turn's first frame; otherwise they stay, and the answer says what is wrong. Meanwhile frames
//! wait.
//!
//! Rules come with a token, and are not even read if it is not the one of which the system has the
//! SHA-256. So whoever may write to that memory can give no rules by that alone.

use crate::policy::Policy;
use crate::router::Router;
use crate::settings;
use alloc::format;
use alloc::string::String;
use culm::{Channel, Region, time};
use culm_guard::{Guard, TooMany};
use culm_report::{Answer, Inbox, Report, Since, Verdict, Withdrawn};

/// Where rules are shown, and others proposed.
pub struct Desk {
    report: Option<Report<'static>>,
    inbox: Option<Inbox<'static>>,
    /// Who is told of an answer.
    asker: Option<Channel>,
    /// Knows the token. Without it nobody may give rules.
    guard: Option<Guard>,
    /// The number of the proposal that was answered last.
    answered: u64,
    key: culm_flow::Key,
    flows: usize,
}

/// What is said of rules over which a life of the router has ended.
const FATAL: &str = "error: the router did not get over these rules, and has begun anew\n";

impl Desk {
    /// A desk with this memory for the report, and for proposals, which takes rules from who has
    /// the token that `guard` knows. The key, of random bits, and the number of flows are for the
    /// tables of rules that come.
    pub fn new(
        report: Option<Region>,
        proposals: Option<Region>,
        asker: Option<Channel>,
        guard: Option<Guard>,
        key: culm_flow::Key,
        flows: usize,
    ) -> Self {
        let words = |region: Region| region.atomics_u64(0, region.len() / 8).unwrap_or_default();
        let report = report.map(words).and_then(Report::new);
        let inbox = proposals.map(words).and_then(Inbox::new);
        let last = report.and_then(|report| report.answered());
        if let (Some(report), Some(last)) = (report, &last)
            && last.verdict == Verdict::Begun
        {
            // It may have ended after the rules were in use, and before it said so.
            let proposed = inbox.and_then(|inbox| inbox.rules(last.number).ok().flatten());
            let is_in_use = |(text, _)| proposed == Some(text);
            let (verdict, said) = match report.left().is_some_and(is_in_use) {
                true => (Verdict::Taken, String::new()),
                false => (Verdict::Refused, FATAL.into()),
            };
            report.answer(&Answer { verdict, said, ..last.clone() });
            asker.inspect(|asker| asker.notify());
        }
        Self { report, inbox, asker, guard, answered: last.map_or(0, |last| last.number), key, flows }
    }

    /// Returns the rules that were given to a previous life while it ran.
    pub fn left(&self) -> Option<(String, Since)> {
        self.report?.left()
    }

    /// Shows the rules of `policy`, whose text this is, and has it count them there.
    pub fn show(&self, policy: &mut Policy, text: &str, since: Since) {
        let Some(report) = self.report else { return };
        if !report.show(text, policy.lines(), since) {
            culm::warn!(
                "the region `report` has no room for these rules: they are not shown, and a restart loses them"
            );
            return;
        }
        policy.count_at(report.counts());
    }

    /// Deals with what was proposed, if something was.
    #[inline]
    pub fn serve(&mut self, router: &mut Router) {
        if let Some(inbox) = self.inbox
            && let Some(number) = inbox.number().filter(|number| *number != self.answered)
        {
            self.deal_with(&inbox, number, router);
        }
    }

    #[cold]
    fn deal_with(&mut self, inbox: &Inbox<'static>, number: u64, router: &mut Router) {
        // A proposal that is withdrawn has been followed by another, with a number of its own.
        let (Some(report), Ok(token)) = (self.report, inbox.token(number)) else { return };
        let mut answer = Answer { number, verdict: Verdict::Begun, said: String::new(), ended: 0 };
        report.answer(&answer);
        let ended = match self.permit(token.as_deref()) {
            Ok(()) => match inbox.rules(number) {
                Ok(rules) => self.exchange(rules.as_deref(), router).map_err(|said| (Verdict::Refused, said)),
                Err(Withdrawn) => return,
            },
            Err(said) => Err((Verdict::Forbidden, said.into())),
        };
        self.answered = number;
        match ended {
            Ok(ended) => {
                culm::info!("other rules are in use; {ended} flows have ended by them");
                (answer.verdict, answer.ended) = (Verdict::Taken, ended as u64);
            }
            Err((verdict, said)) => (answer.verdict, answer.said) = (verdict, said),
        }
        report.answer(&answer);
        self.asker.inspect(|asker| asker.notify());
    }

    /// Looks at the token of who proposes rules. Whoever guesses it must wait, whomever the guess
    /// is said to be from.
    fn permit(&mut self, token: Option<&str>) -> Result<(), &'static str> {
        let guard = self.guard.as_mut().ok_or("error: the router's system has no `reload_token_sha256`\n")?;
        match guard.permit(token.map(str::as_bytes), None, time::now().ticks()) {
            Ok(true) => Ok(()),
            Ok(false) => {
                culm::warn!("rules were proposed without the token");
                Err("error: this is not the token of which the router has the SHA-256\n")
            }
            // Nothing is logged of these: there is no end of them.
            Err(TooMany) => Err("error: too many tokens were wrong\n"),
        }
    }

    /// Has the rules that are proposed take the place of those in use. Returns how many flows have
    /// ended by that, or what is wrong.
    fn exchange(&self, text: Option<&str>, router: &mut Router) -> Result<usize, String> {
        // What cannot be shown would be lost with this life.
        let has_room = |text: &&str| self.report.is_none_or(|report| text.len() <= report.room());
        let text = text.filter(has_room).ok_or("error: this is no text, or longer than there is room for\n")?;
        let refused = |said| {
            culm::warn!("the rules that were proposed are refused; those before them stay in use");
            said
        };
        let rules = settings::read(text, router.networks()).map_err(refused)?;
        let unusable = |why| format!("error: these rules cannot be used: {why}\n");
        let policy = Policy::new(rules, router.networks(), self.key, self.flows).map_err(unusable).map_err(refused)?;
        let time = crate::router::milliseconds(crate::instant());
        // Show rules after they are in use: a life that ends over them must leave those before them
        // to the next one, which would end over them again.
        let ended = router.replace(policy);
        self.show(router.policy_mut(), text, Since { is_proposed: true, time });
        Ok(ended)
    }
}
