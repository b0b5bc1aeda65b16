//! Typed device registers.
