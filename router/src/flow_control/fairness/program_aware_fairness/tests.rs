use executor::Sim;

use super::*;

#[test]
fn wrong_parameters_are_refused_with_their_key() {
    Sim::new(1)
        .run(|rt| async move {
            let handle = Handle::new(rt);
            for (key, value) in [
                ("evictionTtlSeconds", json!(-1)),
                ("evictionSweepSeconds", json!(0)),
                ("lasWeightService", json!(-0.1)),
                ("lasWeightHeadWait", json!(-0.1)),
                ("lasDecayFactor", json!(1.5)),
                ("lasDecayFactor", json!(0)),
                ("lasHalfLifeSeconds", json!(-1)),
                ("strategy", json!("wfq")),
            ] {
                let parameters = Parameters::new(json!({ key: value }));
                let error = factory("las", &parameters, &handle).err().unwrap().to_string();
                assert!(error.starts_with(&format!("{key}: ")), "{error}");
            }
            for accepted in
                [json!({}), json!({"strategy": ""}), json!({"lasDecayFactor": 1, "evictionTtlSeconds": 0})]
            {
                let instance = factory("las", &Parameters::new(accepted), &handle).unwrap();
                assert_eq!(&*instance.id.name, "las");
            }
        })
        .unwrap();
}
