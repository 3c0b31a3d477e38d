//! The JSON Schema of a configuration file, for editors.
//!
//! Nothing is declared here: the document's fields are those that its decoder asks for, a plugin's those that its
//! factory decodes.

use serde_json::{Value, json};

use super::decode::Decode;
use super::schema::EndpointPickerConfig;
use super::shape::Shape;
use crate::plugin::{Factory, Handle, Parameters};
use crate::support::{Registry, Support};

/// Returns the schema of an `EndpointPickerConfig` whose plugins are those of `registry` that this build has.
///
/// Their factories run once, without effect; `handle` is one that nothing else uses.
pub fn json_schema(registry: &Registry, handle: &Handle) -> Value {
    let mut document = EndpointPickerConfig::shape().json_schema();
    document["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    document["title"] = json!("EndpointPickerConfig");
    let (mut types, mut cases) = (Vec::new(), Vec::new());
    for registered in registry.iter() {
        let Support::Supported(factory) = registered.support else { continue };
        let name = registered.info.name;
        types.push(name);
        if let Some(shape) = parameters(factory, handle) {
            cases.push(json!({
                "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
                "then": {"properties": {"parameters": shape.json_schema()}},
            }));
        }
    }
    let plugin = &mut document["properties"]["plugins"]["items"];
    plugin["properties"]["type"] = json!({"enum": types});
    plugin["required"] = json!(["type"]);
    plugin["allOf"] = json!(cases);
    document
}

/// Returns what a plugin type accepts as its parameters, with defaults; `None` where it takes none, and ignores what
/// it is given, as the llm-d Router does.
pub fn parameters(factory: Factory, handle: &Handle) -> Option<Shape> {
    // A type that needs a parameter refuses to be built here; by then it has said what it decodes.
    Parameters::shape_for(|parameters| drop(factory("parameters", parameters, handle)))
}

#[cfg(test)]
mod tests {
    use executor::Real;

    use super::*;

    fn with_handle<T>(test: impl FnOnce(&Registry, &Handle) -> T) -> T {
        let runtime = Real::builder().current_thread().seed(7).build().expect("the runtime starts");
        runtime.run(|rt| async move { test(&Registry::default(), &Handle::new(rt)) })
    }

    /// Whether a shape leaves something open, but for the settings of a backend that no longer exists.
    fn is_open(shape: &Shape) -> bool {
        match shape {
            Shape::Any => true,
            Shape::List(item) | Shape::Map(item) => is_open(item),
            Shape::Either(shapes) => shapes.iter().any(is_open),
            Shape::Fields(fields) => {
                fields.iter().any(|field| field.key != "udsTokenizerConfig" && is_open(&field.shape))
            }
            _ => false,
        }
    }

    #[test]
    fn every_type_tells_all_of_its_parameters() {
        with_handle(|registry, handle| {
            for registered in registry.iter() {
                let Support::Supported(factory) = registered.support else { continue };
                let Some(shape) = parameters(factory, handle) else { continue };
                assert!(!is_open(&shape), "{}: {shape:?}", registered.info.name);
                assert!(matches!(shape, Shape::Fields(_)), "{}: {shape:?}", registered.info.name);
            }
        });
    }

    #[test]
    fn the_schema_is_that_of_the_decoders() {
        let schema = with_handle(json_schema);
        let top = schema["properties"].as_object().expect("a mapping");
        // Configuration spec 1.1, and the section of our own.
        for key in [
            "apiVersion",
            "kind",
            "featureGates",
            "plugins",
            "schedulingProfiles",
            "dataLayer",
            "flowControl",
            "requestHandler",
            "saturationDetector",
            "parser",
            "lockstep",
        ] {
            assert!(top.contains_key(key), "{key}");
        }
        assert_eq!(top.len(), 11);
        let band = &top["flowControl"]["properties"]["priorityBands"]["items"]["properties"];
        assert_eq!(band["maxBytes"], json!({"anyOf": [{"type": "string"}, {"type": "number"}]}));
        let modes = &top["lockstep"]["properties"]["compat"]["properties"]["flowControl"];
        assert_eq!(modes, &json!({"enum": ["parity", "fixed"]}));

        let cases = top["plugins"]["items"]["allOf"].as_array().expect("a list");
        let case = |name: &str| cases.iter().find(|case| case["if"]["properties"]["type"]["const"] == name);
        let of = |name: &str| {
            let case = case(name).unwrap_or_else(|| panic!("{name} has no case"));
            &case["then"]["properties"]["parameters"]["properties"]
        };
        // A picker returns one endpoint where nothing else is said (scheduling spec 6).
        assert_eq!(of("max-score-picker")["maxNumOfEndpoints"], json!({"type": "integer", "default": 1}));
        assert_eq!(of("file-discovery")["watchFile"], json!({"type": "boolean", "default": false}));
        assert_eq!(case("queue-scorer"), None, "it takes no parameters");
    }
}
