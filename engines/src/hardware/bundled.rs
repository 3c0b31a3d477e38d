use super::{Model, parse_config};
use crate::InputError;

macro_rules! models {
    ($($name:literal),* $(,)?) => {
        /// Name and Hugging Face configuration, in the order of the names.
        const BUNDLED: &[(&str, &str)] = &[$(($name, include_str!(concat!("models/", $name, ".json")))),*];
    };
}

models![
    "codellama-34b-instruct-hf",
    "deepseek-v2-lite",
    "glm-5.2-fp8",
    "llama-2-7b-hf",
    "llama-3.1-70b-instruct",
    "llama-3.1-8b-instruct",
    "llama-4-scout-17b-16e-instruct-fp8-dynamic",
    "mistral-nemo-instruct-2407",
    "mixtral-8x7b-v0.1",
    "qwen2.5-7b-instruct",
    "qwen3-14b",
    "qwen3-30b-a3b",
    "yi-34b",
];

/// Returns the names of the models whose shapes are built in, sorted.
pub fn bundled_models() -> impl Iterator<Item = &'static str> {
    BUNDLED.iter().map(|(name, _)| *name)
}

/// Returns the built-in model `name`; an organisation in front (`Qwen/Qwen3-14B`) and letters' case do not
/// matter, and the model keeps the name as it was asked for.
///
/// # Errors
/// When there is none: lists the built-in ones.
pub fn bundled_model(name: &str) -> Result<Model, InputError> {
    let short = name.rsplit('/').next().unwrap_or(name);
    let Some((_, config)) = BUNDLED.iter().find(|(known, _)| known.eq_ignore_ascii_case(short)) else {
        let mut known: Vec<&str> = bundled_models().collect();
        known.push("the path of a Hugging Face config.json");
        return Err(InputError::unknown("model", name, known));
    };
    parse_config(name, config.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bundled_configuration_parses() {
        for name in bundled_models() {
            let model = bundled_model(name).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(model.name, name);
        }
        assert!(bundled_models().is_sorted());
    }

    #[test]
    fn an_organisation_and_capitals_do_not_matter() {
        let model = bundled_model("Qwen/Qwen3-14B").unwrap();
        assert_eq!((model.name.as_str(), model.layers), ("Qwen/Qwen3-14B", 40));
    }

    #[test]
    fn an_unknown_model_is_refused_with_the_known_ones() {
        let error = bundled_model("qwen3-14").unwrap_err().to_string();
        assert!(error.starts_with(r#"unknown model "qwen3-14"; accepted: codellama-34b"#), "{error}");
        assert!(error.ends_with(r#"did you mean "qwen3-14b"?"#), "{error}");
    }
}
