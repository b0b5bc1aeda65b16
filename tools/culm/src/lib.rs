//! The host tool: checks, builds, draws and runs systems.
