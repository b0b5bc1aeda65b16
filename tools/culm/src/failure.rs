//! Failures of the tool for which no description is at fault: a missing program, a build that
//! fails, a guest that ends badly.
//!
//! Mistakes in descriptions point into a file and have a form of their own; a [`Failure`] says who
//! failed, what was wrong, and what to do.

use std::fmt;

/// A reason to stop, for a person to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    message: String,
    details: Vec<String>,
    help: Option<String>,
}

impl Failure {
    /// A failure that says what is wrong: lower case, no full stop.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), details: Vec::new(), help: None }
    }

    /// A failure of an operating-system call, of which `action` says what it was for.
    pub fn io(action: impl fmt::Display, error: &std::io::Error) -> Self {
        Self::new(format!("cannot {action}: {error}"))
    }

    /// The same failure with another line of what is known about it.
    pub fn detail(mut self, line: impl Into<String>) -> Self {
        self.details.push(line.into());
        self
    }

    /// The same failure with advice.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The message without details and advice.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The advice.
    pub fn advice(&self) -> Option<&str> {
        self.help.as_deref()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)?;
        for line in &self.details {
            write!(formatter, "\n  {line}")?;
        }
        if let Some(help) = &self.help {
            write!(formatter, "\n  help: {help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}
