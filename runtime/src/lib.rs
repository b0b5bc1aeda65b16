//! What every component links: entry, events, channels, log, configuration.
