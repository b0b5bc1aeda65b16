//! Bounded single-producer single-consumer rings between protection domains.
