//! The set-ups that the llm-d Router ships as samples, in our own words (configuration spec 13): each loads, or is
//! refused because of a plugin type that this build does not have, and of nothing else.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use router::support::{Registry, Support};

/// How many samples there are.
const SAMPLES: usize = 19;

fn samples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    let entries = folder.read_dir().expect("the samples are beside this file");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    files
}

fn check(sample: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep-router"));
    command.arg("check").args(arguments).arg(sample.file_name().expect("a file"));
    command.current_dir(sample.parent().expect("a folder")).output().expect("the binary starts")
}

#[test]
fn every_sample_loads_or_lacks_only_plugin_types_that_are_not_built() {
    assert_eq!(samples().len(), SAMPLES);
    let registry = Registry::default();
    for sample in samples() {
        let output = check(&sample, &["--allow-experimental-plugins", "--llm-d"]);
        if output.status.success() {
            continue;
        }
        assert_eq!(output.status.code(), Some(2), "{}", sample.display());
        let errors = String::from_utf8(output.stderr).expect("text");
        for error in errors.lines().skip(1) {
            let (_, rest) = error.split_once("plugin type ").unwrap_or_else(|| panic!("{error}"));
            let plugin_type = rest.split([' ', ',']).next().unwrap_or_default();
            let registered = registry.get(plugin_type).unwrap_or_else(|| panic!("{error}"));
            // The type as a whole, or the part of it that the sample asks for.
            let is_missing =
                matches!(registered.support, Support::NotBuilt) || error.ends_with("is not built yet");
            assert!(is_missing, "{}: {error}", sample.display());
        }
    }
}

/// What `check` says of each sample, word for word: the effective configuration, its warnings, or its errors.
#[test]
fn check_says_of_every_sample_what_it_amounts_to() {
    for sample in samples() {
        let output = check(&sample, &["--allow-experimental-plugins", "--llm-d"]);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let code = output.status.code().expect("it ends by itself");
        let said = format!("exit code {code}\n{}{}", text(output.stdout), text(output.stderr));
        let name = sample.file_stem().expect("a file").to_string_lossy().into_owned();
        insta::assert_snapshot!(name, said);
    }
}

/// What `check` prints is a configuration that amounts to itself.
#[test]
fn the_effective_configuration_of_every_sample_amounts_to_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let written = folder.path().join("effective.yaml");
    let lines = |bytes: &[u8]| -> Vec<String> {
        let text = String::from_utf8_lossy(bytes);
        text.lines().map(|line| line.split("  # ").next().unwrap_or_default().to_owned()).collect()
    };
    for sample in samples() {
        let once = check(&sample, &["--allow-experimental-plugins"]);
        if once.status.success() {
            std::fs::write(&written, &once.stdout).expect("it can be written");
            let twice = check(&written, &["--allow-experimental-plugins"]);
            let errors = String::from_utf8_lossy(&twice.stderr);
            assert_eq!(lines(&twice.stdout), lines(&once.stdout), "{}: {errors}", sample.display());
        }
    }
}

/// Which samples need leave to run, as the table of configuration spec 13 and the stability of their types say.
#[test]
fn samples_with_alpha_plugins_need_leave() {
    for sample in samples() {
        if !check(&sample, &["--allow-experimental-plugins"]).status.success() {
            continue;
        }
        let text = std::fs::read_to_string(&sample).expect("a sample");
        let alpha = ["topology-extractor", "dcgm-", "burst-", "soft-reflective-"];
        let needs_leave = alpha.iter().any(|prefix| text.contains(&format!("type: {prefix}")));
        assert_eq!(check(&sample, &[]).status.success(), !needs_leave, "{}", sample.display());
    }
}

/// A producer that is not told of endpoints subscribes to none of them: whoever configures it so is told.
#[test]
fn samples_whose_producer_subscribes_to_nobody_say_so() {
    for sample in samples() {
        let text = std::fs::read_to_string(&sample).expect("a sample");
        let output = check(&sample, &["--allow-experimental-plugins"]);
        if !output.status.success() {
            continue;
        }
        let summary = String::from_utf8(output.stderr).expect("text");
        let needs_events = text.contains("type: precise-prefix-cache-producer");
        let is_told = text.contains("extractors: [{pluginRef: precise-prefix-cache-producer}]");
        let has_own_socket = text.contains("zmqEndpoint");
        assert_eq!(
            summary.contains("hears of no KV events"),
            needs_events && !is_told && !has_own_socket,
            "{}: {summary}",
            sample.display()
        );
    }
}
