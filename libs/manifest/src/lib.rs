//! Component manifests: what a component is, needs and is configured by.
