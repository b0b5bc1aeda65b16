//! The table and the bridge by examples, and against simple models.

mod bridge;
mod table;
