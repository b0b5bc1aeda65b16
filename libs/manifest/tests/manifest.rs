//! Manifests as people write them: one that says everything, and each mistake with its message.

use culm_abi::connection::NetClient;
use culm_manifest::{ConfigType, ConnectionKind, DeviceClass, Manifest, Value};

const FULL: &str = r#"
name = "http"
description = "A web server"
stack = "128KiB"
heap = "4MiB"
counters = ["requests", "bytes"]

[[connection]]
name = "net"
kind = "net-client"
description = "Where requests come from"

[[connection]]
name = "store"
kind = "region"
optional = true

[[config]]
name = "port"
type = "u16"
default = 80
min = 1

[[config]]
name = "site"
type = "folder"

[[config]]
name = "idle"
type = "duration"
default = "10s"
min = "1s"
max = "1000s"

[[config]]
name = "names"
type = "list-of-string"
default = ["a", "b"]
"#;

#[test]
fn a_full_manifest() {
    let manifest = Manifest::parse(FULL).unwrap();
    assert_eq!((manifest.name.as_str(), manifest.stack, manifest.heap), ("http", 128 << 10, 4 << 20));
    assert_eq!(manifest.counters, ["requests", "bytes"]);
    assert_eq!(manifest.connection("store").unwrap().0, 1);
    assert_eq!(manifest.connections[0].kind, ConnectionKind::of::<NetClient>());
    assert_eq!(manifest.connections[0].kind.client_class(), DeviceClass::named("net"));
    assert_eq!(manifest.config[0].default, Some(Value::Unsigned(80)));
    assert!(manifest.config[1].required());
    assert_eq!(manifest.config[1].kind, ConfigType::Folder);
    assert_eq!(manifest.config[2].default, Some(Value::Unsigned(10_000_000_000)));
    assert_eq!(manifest.config[3].default, Some(Value::List(vec!["a".into(), "b".into()])));
}

#[test]
fn every_mistake_is_reported_with_its_place() {
    let text = r#"
name = "Http"
description = "x"
stak = "64KiB"
[[connection]]
name = "net"
kind = "net-cleint"
[[connection]]
name = "type"
kind = "channel"
[[config]]
name = "port"
type = "u16"
default = 65536
[[config]]
name = "port"
type = "u8"
optional = true
default = 1
"#;
    let problems = Manifest::parse(text).unwrap_err();
    let found: Vec<String> =
        problems.iter().map(|problem| format!("{}: {}", problem.position(text).0, problem.message)).collect();
    assert_eq!(
        found,
        [
            "2: `Http` is not a name for a component",
            "4: unknown key `stak` in the manifest",
            "7: `net-cleint` is not something that `kind` can be",
            "9: `type` is a word of Rust and cannot name a field",
            "14: `default` is out of range",
            "16: the name `port` is used twice",
            "19: a field with a default is never absent",
        ]
    );
    assert_eq!(problems[1].help.as_deref(), Some("did you mean `stack`?"));
}

#[test]
fn whoever_has_a_device_says_of_what_kind() {
    let driver = r#"
name = "x"
description = "x"
[driver]
class = "net"
compatible = ["virtio,net"]
[[connection]]
name = "device"
kind = "device"
"#;
    let problems = Manifest::parse(driver).unwrap_err();
    assert_eq!(problems[0].message, "a driver of the class `net` needs a connection of the kind `net-driver`");
    let application = "name = \"x\"\ndescription = \"x\"\n[[connection]]\nname = \"device\"\nkind = \"device\"\n";
    let problems = Manifest::parse(application).unwrap_err();
    assert_eq!(problems[0].message, "a connection of the kind `device` that does not say of which devices");
}

#[test]
fn connections_leave_the_keys_of_a_domain_alone() {
    let text = "name = \"x\"\ndescription = \"x\"\n[[connection]]\nname = \"core\"\nkind = \"channel\"\n";
    let problems = Manifest::parse(text).unwrap_err();
    assert_eq!(problems[0].message, "a connection cannot be called `core`");
}

#[test]
fn broken_toml_is_a_problem_and_no_panic() {
    for text in ["", "name = ", "[[[", "name = \"x", "\u{0}"] {
        let problems = Manifest::parse(text).unwrap_err();
        assert!(!problems.is_empty(), "{text:?}");
        for problem in problems {
            problem.position(text);
        }
    }
}
