use executor::Real;

use super::*;
use crate::data_layer::datastore::Plan;
use crate::metrics::Registry;

fn with_objects(test: impl FnOnce(&Objects, &RefCell<Vec<Vec<i32>>>)) {
    let real = Real::builder().current_thread().build().expect("a runtime");
    real.run(async |rt| {
        let told = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&told);
        let identity = PoolIdentity { namespace: "ns".into(), name: "pool".into(), group: "g".into() };
        let store = Rc::new(Datastore::new(&rt, Plan::default(), &Registry::default()));
        let sink: PrioritySink = Box::new(move |priorities| sink.borrow_mut().push(priorities.to_vec()));
        test(&Objects::new(identity, store, Some(sink)), &told);
    });
}

fn named(namespace: &str, name: &str) -> ObjectName {
    ObjectName { namespace: namespace.into(), name: name.into() }
}

fn ours() -> PoolReference {
    PoolReference { name: "pool".into(), group: "g".into() }
}

fn ids(objects: &Objects) -> Vec<String> {
    objects.endpoints().iter().map(|endpoint| endpoint.metadata.id.to_string()).collect()
}

#[test]
fn endpoints_follow_pool_and_pods() {
    with_objects(|objects, _| {
        let pod = |app: &str, ready| Pod {
            labels: [("app".to_owned(), app.to_owned())].into(),
            ready,
            ..Pod::default()
        };
        let pool = |app: &str, ports: &[u16]| PoolSpec {
            selector: [("app".to_owned(), app.to_owned())].into(),
            target_ports: ports.into(),
        };
        objects.set_pod(named("ns", "early"), pod("x", true));
        assert_eq!((ids(objects), objects.pool_has_synced()), (vec![], false));
        objects.set_pool(pool("x", &[8000, 8001]));
        assert_eq!(ids(objects), ["ns/early-rank-0", "ns/early-rank-1"]);
        objects.set_pool(pool("x", &[8000]));
        assert_eq!(ids(objects), ["ns/early-rank-0"]);
        objects.set_pod(named("ns", "late"), pod("x", true));
        objects.set_pod(named("ns", "early"), pod("x", false));
        assert_eq!(ids(objects), ["ns/late-rank-0"]);
        objects.set_pod(named("ns", "late"), pod("y", true));
        assert_eq!(ids(objects), [""; 0]);
        objects.set_pool(pool("y", &[8000]));
        assert_eq!(ids(objects), ["ns/late-rank-0"]);
        objects.delete_pool();
        assert_eq!((ids(objects), objects.pool_has_synced()), (vec![], false));
    });
}

#[test]
fn priorities_are_told_after_each_event() {
    with_objects(|objects, told| {
        let objective =
            |pool: &PoolReference, priority| Objective { pool: pool.clone(), priority, deleting: false };
        let other = PoolReference { name: "other".into(), ..ours() };
        objects.set_objective(named("ns", "gold"), objective(&ours(), Some(4)));
        objects.set_objective(named("ns", "silver"), objective(&ours(), Some(-1)));
        objects.set_objective(named("ns", "plain"), objective(&ours(), None));
        objects.set_objective(named("ns", "theirs"), objective(&other, Some(9)));
        assert_eq!(*told.borrow(), [vec![4], vec![-1, 4], vec![-1, 4], vec![-1, 4]]);
        assert_eq!((objects.priority("gold"), objects.priority("plain")), (Some(4), None));
        objects.set_objective(named("ns", "gold"), objective(&other, Some(4)));
        assert_eq!(told.borrow().last(), Some(&vec![-1]));
        objects.delete_pool();
        assert_eq!((objects.priority("silver"), told.borrow().len()), (None, 5));
    });
}

#[test]
fn a_rewrite_of_another_pool_is_none_of_ours() {
    with_objects(|objects, _| {
        let rule = RewriteRule { matches: vec![Some("m".into())], targets: Vec::new() };
        let rewrite = |pool| Rewrite { pool, created: 1, rules: vec![rule.clone()] };
        objects.set_rewrite(&named("ns", "a"), rewrite(Some(ours())));
        assert!(objects.rewrite_rule("m").is_some());
        objects.set_rewrite(&named("ns", "a"), rewrite(None));
        assert!(objects.rewrite_rule("m").is_none());
    });
}
