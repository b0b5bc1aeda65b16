//! The macro that turns a component's manifest into its types.
