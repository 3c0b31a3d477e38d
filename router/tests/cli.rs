//! The binary `lockstep-router` as its users run it.
#![expect(clippy::disallowed_methods, reason = "these tests run processes on the machine they test")]

use std::process::{Command, Output};

fn router(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lockstep-router")).args(arguments).output().expect("the binary starts")
}

#[test]
fn bad_input_is_said_with_its_place_and_exit_code_2() {
    let unknown_type = "plugins:\n- type: queue-scorer\n- type: queue-scorr\n";
    let unknown_key = "plugins: []\nschedulingProfile: []\n";
    let not_built = "plugins:\n- type: precise-prefix-cache-producer\n  parameters: {indexerConfig: {kvBlockIndexConfig: {redisConfig: {}}}}\n";
    let parameter = "plugins:\n- {type: max-score-picker, parameters: {maxNumOfEndpoint: 2}}\n";
    let cases: &[(&[&str], &[&str])] = &[
        (&["serve"], &["dataLayer.discovery", "--endpoint"]),
        (&["serve", "--config-file", "no/such.yaml"], &["no/such.yaml", "EndpointPickerConfig"]),
        (&["serve", "--config-text", unknown_type], &["--config-text:3:", "queue-scorr", "queue-scorer"]),
        (
            &["serve", "--config-text", unknown_key],
            &["--config-text:2:", "schedulingProfile", "schedulingProfiles"],
        ),
        (&["serve", "--config-text", not_built], &["--config-text:2:", "not built"]),
        (&["serve", "--config-text", parameter], &["--config-text:2:", "maxNumOfEndpoint"]),
        (&["serve", "--endpoint", "nowhere"], &["nowhere", "host:port"]),
        (&["serve", "--listen", "here", "--endpoint", "127.0.0.1:1"], &["--listen"]),
        (&["check", "no/such.yaml"], &["no/such.yaml"]),
        (&["serve", "--endpoint", "127.0.0.1:0"], &["127.0.0.1:0", "from 1 to 65535"]),
        (
            &["serve", "--endpoint", "10.0.0.1:1", "--endpoint", "10.0.0.2:1", "--endpoint", "10.0.0.1:1"],
            &["10.0.0.1:1", "twice"],
        ),
        (&["serve", "--worker-threads", "0"], &["--worker-threads", "1..=1024"]),
        (&["serve", "--worker-threads", "1000000"], &["--worker-threads", "1..=1024"]),
        (&["serve", "--refresh-metrics-interval-ms", "0"], &["--refresh-metrics-interval-ms", "1..="]),
        (&["serve", "--response-timeout", "0"], &["--response-timeout", "1..="]),
        (&["serve", "--connect-timeout", "0"], &["--connect-timeout", "1..=600"]),
        (&["serve", "--drain-timeout", "18446744073709551615"], &["--drain-timeout", "0..="]),
        (&["serve", "--max-body-bytes", "0"], &["--max-body-bytes", "1..="]),
    ];
    for (arguments, said) in cases {
        let output = router(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(said.iter().all(|part| error.contains(part)), "{arguments:?}: {said:?} in {error}");
        assert!(!error.contains("panicked"), "{arguments:?}: {error}");
    }
}

#[test]
fn a_port_in_use_is_said() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("its address").to_string();
    let output = router(&["serve", "--listen", &address, "--endpoint", "127.0.0.1:1"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains(&address) && error.contains("in use"), "{error}");
}

#[test]
fn check_tells_what_a_configuration_amounts_to() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/default.yaml");
    let output = router(&["check", examples]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Scheduling spec 3.1: what the default configuration is completed with.
    for part in [
        "      - pluginRef: queue-scorer\n        weight: 2\n",
        "      - pluginRef: prefix-cache-scorer\n        weight: 3\n      - pluginRef: max-score-picker\n",
        "  - type: single-profile-handler  # added by default\n",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let summary = router(&["check", examples, "--summary"]);
    let summary = String::from_utf8_lossy(&summary.stdout);
    assert!(summary.contains("scorers  queue-scorer x 2"), "{summary}");
}

#[test]
fn plugins_lists_every_type_of_the_release() {
    let output = router(&["plugins", "--json"]);
    let types: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(types.as_array().map(Vec::len), Some(96));
    let picker = types.as_array().into_iter().flatten().find(|entry| entry["type"] == "max-score-picker");
    let parameters = &picker.expect("a type of the release")["parameters"]["properties"];
    assert_eq!(parameters["maxNumOfEndpoints"]["default"], 1);
}

#[test]
fn schema_is_a_json_schema_of_the_configuration_file() {
    let output = router(&["schema"]);
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(schema["title"], "EndpointPickerConfig");
    assert_eq!(schema["properties"]["plugins"]["items"]["required"][0], "type");
}
