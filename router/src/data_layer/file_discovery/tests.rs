use executor::Real;

use super::*;

/// Writes down what is reported.
#[derive(Default)]
struct Recorder(RefCell<Vec<String>>);

impl EndpointNotifier for Recorder {
    fn upsert(&self, metadata: EndpointMetadata) {
        self.0.borrow_mut().push(format!("+{} {}", metadata.id, metadata.metrics_host));
    }

    fn delete(&self, id: &EndpointId) {
        self.0.borrow_mut().push(format!("-{id}"));
    }
}

impl Recorder {
    fn take(&self) -> Vec<String> {
        self.0.take()
    }
}

fn discovery(path: &std::path::Path, rule: Rule) -> FileDiscovery {
    FileDiscovery { path: path.into(), watch: true, rule, known: RefCell::default() }
}

fn real() -> Real {
    Real::builder().current_thread().build().expect("a runtime")
}

#[test]
fn what_is_not_in_the_file_any_more_goes_after_what_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("endpoints.yaml");
    real().run(|rt| async move {
        let (discovery, seen) = (discovery(&path, Rule::Pods), Recorder::default());
        let entry =
            |name: &str, address: &str| format!("- {{name: {name}, address: {address}, port: \"80\"}}\n");
        std::fs::write(&path, format!("endpoints:\n{}{}", entry("b", "10.0.0.2"), entry("a", "10.0.0.1")))
            .unwrap();
        assert_eq!(discovery.load(&rt, &seen).await, Ok(()));
        assert_eq!(seen.take(), ["+default/b 10.0.0.2:80", "+default/a 10.0.0.1:80"]);

        std::fs::write(&path, format!("endpoints:\n{}{}", entry("a", "10.0.0.300"), entry("c", "10.0.0.3")))
            .unwrap();
        let Err(LoadError::Entries(errors)) = discovery.load(&rt, &seen).await else {
            panic!("one entry is bad")
        };
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].problem, EntryProblem::Address("10.0.0.300".into()));
        assert!(errors[0].place.ends_with("endpoints.yaml:2:3"), "{}", errors[0]);
        assert_eq!(seen.take(), ["+default/c 10.0.0.3:80", "-default/a", "-default/b"]);

        for (text, shape) in [("endpoints: [", false), ("endpoints: 5\n", true), ("- a\n", true)] {
            std::fs::write(&path, text).unwrap();
            let error = discovery.load(&rt, &seen).await.unwrap_err();
            assert_eq!(matches!(error, LoadError::Shape(_)), shape, "{text:?}: {error}");
        }
        std::fs::write(&path, vec![b'#'; (1 << 20) + 1]).unwrap();
        assert!(matches!(discovery.load(&rt, &seen).await, Err(LoadError::TooLarge(_))));
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(discovery.load(&rt, &seen).await, Err(LoadError::Unreadable { .. })));
        assert_eq!(seen.take(), [""; 0], "a file that cannot be read changes nothing");
        assert_eq!(discovery.known(), [EndpointId::new("default", "c")]);
    });
}

/// Configuration spec 7.1: what the file may say, and how its fields read.
#[test]
fn fields_are_texts_and_keys_match_in_any_case() {
    let discovery = discovery(std::path::Path::new("f"), Rule::Pods);
    let read = |entry: &str| -> Result<String, bool> {
        let entries = document::parse("f", &format!("endpoints: [{{{entry}}}]")).map_err(|_| true)?;
        let entry = entries.into_iter().next_back().expect("one entry");
        let metadata = discovery.metadata(entry).map_err(|_| false)?;
        Ok(format!("{} {} {:?}", metadata.id, metadata.metrics_host, metadata.labels))
    };
    let accepted = |text: &str| Ok(text.to_owned());
    let (whole_file, this_entry) = (Err(true), Err(false));
    for (entry, want) in [
        ("name: a, address: 10.0.0.1, port: '80'", accepted("default/a 10.0.0.1:80 {}")),
        ("NAME: a, Namespace: ns, ADDRESS: 10.0.0.1, Port: '80'", accepted("ns/a 10.0.0.1:80 {}")),
        ("address: 10.0.0.1, port: '80', extra: [1]", accepted("default/ 10.0.0.1:80 {}")),
        ("name: a, name: b, address: 10.0.0.1, port: '80'", accepted("default/b 10.0.0.1:80 {}")),
        ("name: null, address: 10.0.0.1, port: '80', labels: null", accepted("default/ 10.0.0.1:80 {}")),
        (
            "address: 10.0.0.1, port: '+080', labels: {a: b}",
            accepted("default/ 10.0.0.1:+080 {\"a\": \"b\"}"),
        ),
        ("address: '::ffff:10.0.0.1', port: '80'", accepted("default/ [::ffff:10.0.0.1]:80 {}")),
        ("address: 10.0.0.1, port: 80", whole_file.clone()),
        ("name: 5, address: 10.0.0.1, port: '80'", whole_file.clone()),
        ("address: 10.0.0.1, port: '80', labels: {a: y}", whole_file.clone()),
        ("address: 10.0.0.1, port: '80', labels: {a: off}", whole_file),
        ("address: 10.0.0.01, port: '80'", this_entry.clone()),
        ("address: localhost, port: '80'", this_entry.clone()),
        ("address: 'fd00::1', port: '80'", this_entry.clone()),
        ("address: 10.0.0.1, port: '0'", this_entry.clone()),
        ("address: 10.0.0.1, port: '65536'", this_entry.clone()),
        ("address: 10.0.0.1, port: 'http'", this_entry.clone()),
        ("address: 10.0.0.1", this_entry),
    ] {
        assert_eq!(read(entry), want, "{entry}");
    }
    for none in ["", "{}", "endpoints: null", "endpoints: []", "other: 1", "{\"endpoints\": []}"] {
        assert_eq!(document::parse("f", none), Ok(vec![]), "{none:?}");
    }
    let first = document::parse("f", "endpoints: []\n---\nendpoints: [{name: b}]");
    assert_eq!(first, Ok(vec![]), "only the first document is read");
}

#[test]
fn clusters_may_have_names_and_metrics_elsewhere() {
    for (address, accepted) in [
        ("10.0.0.1", true),
        ("fd00::1", true),
        ("web-1.example.com", true),
        ("300.1.1.1", true),
        ("Web.example.com", false),
        ("web.example.com.", false),
        ("my_host", false),
        ("-a.b", false),
        ("fe80::1%eth0", false),
        ("", false),
    ] {
        assert_eq!(is_host(address), accepted, "{address:?}");
    }
    let discovery = discovery(std::path::Path::new("f"), Rule::Clusters);
    let metrics_host = |labels: &str| {
        let text = format!("endpoints: [{{name: a, address: web, port: '443', labels: {{{labels}}}}}]");
        let entry = document::parse("f", &text).unwrap().remove(0);
        discovery.metadata(entry).unwrap().metrics_host
    };
    assert_eq!(metrics_host(""), "web:443");
    assert_eq!(metrics_host("metricsPort: '9'"), "web:443");
    assert_eq!(metrics_host("metricsAddress: m"), "m:443");
    assert_eq!(metrics_host("metricsAddress: 'fd00::9', metricsPort: '9'"), "[fd00::9]:9");
}

#[test]
fn a_watched_file_is_loaded_again_when_another_is_moved_over_it() {
    let folder = tempfile::tempdir().unwrap();
    let (path, new) = (folder.path().join("endpoints.yaml"), folder.path().join("new"));
    real().run(|rt| async move {
        let (discovery, seen) = (discovery(&path, Rule::Pods), Recorder::default());
        std::fs::write(&path, "endpoints: []\n").unwrap();
        assert_eq!(discovery.load(&rt, &seen).await, Ok(()));
        let changed = async {
            rt.sleep(Duration::from_millis(20)).await;
            std::fs::write(&new, "endpoints: [{name: a, address: 10.0.0.1, port: '80'}]\n").unwrap();
            std::fs::rename(&new, &path).unwrap();
            while seen.0.borrow().is_empty() {
                rt.sleep(Duration::from_millis(20)).await;
            }
        };
        let (watch, changed) = (discovery.watch(&rt, &seen).boxed_local(), changed.boxed_local());
        let first = futures::future::select(watch, changed);
        assert!(rt.timeout(Duration::from_secs(10), first).await.is_ok(), "the change is seen");
        assert_eq!(seen.take(), ["+default/a 10.0.0.1:80"]);
    });
}
