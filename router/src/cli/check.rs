use std::path::{Path, PathBuf};

use clap::Args;
use executor::{Real, Rt};

use super::Failure;
use crate::config::effective::effective;
use crate::config::json_schema::json_schema;
use crate::config::schema::{EndpointPickerConfig, source_name};
use crate::config::{check, loader};
use crate::plugin::Handle;
use crate::support::Registry;

/// The arguments of `lockstep-router check`.
#[derive(Args, Clone, Debug)]
pub struct CheckArgs {
    /// EndpointPickerConfig file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Let plugins of Alpha stability run
    #[arg(long)]
    pub allow_experimental_plugins: bool,
    /// Check, too, that the llm-d Router would take the file
    #[arg(long)]
    pub llm_d: bool,
    /// Print a summary for people instead
    #[arg(long)]
    pub summary: bool,
}

impl CheckArgs {
    /// Loads the file as `serve` would and prints what it amounts to: a configuration, as YAML; notes go to standard
    /// error.
    ///
    /// # Errors
    /// Everything that is wrong with it, with its place.
    pub fn run(&self) -> Result<(), Failure> {
        let text = read(&self.file)?;
        let real = Real::builder().current_thread().build().map_err(Failure::Runtime)?;
        real.run(|rt| self.load(rt, &text))
    }

    #[expect(clippy::unused_async, reason = "instances are built inside a runtime")]
    async fn load(&self, rt: Rt, text: &str) -> Result<(), Failure> {
        let options = loader::Options {
            allow_experimental: self.allow_experimental_plugins,
            ..loader::Options::default()
        };
        let file = self.file.display().to_string();
        let config = EndpointPickerConfig::parse(&file, text).map_err(Failure::Configuration)?;
        let name = source_name(&file, text);
        let (registry, handle) = (Registry::default(), Handle::new(rt.clone()));
        let assembly = loader::load_parsed(name, &config, &registry, &handle, &options)
            .map_err(Failure::Configuration)?;
        if self.llm_d {
            config.check_llm_d(name).map_err(Failure::Configuration)?;
        }
        match self.summary {
            true => print!("{}", check::summary(&assembly)),
            false => {
                print!("{}", effective(&config, &assembly, &registry, &Handle::new(rt)));
                assembly.notices.iter().for_each(|notice| eprintln!("note: {notice}"));
            }
        }
        Ok(())
    }
}

/// The arguments of `lockstep-router plugins`.
#[derive(Args, Clone, Debug)]
pub struct PluginsArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl PluginsArgs {
    /// Prints every plugin type with its area, stability and whether this build has it; as JSON with its parameters
    /// too.
    ///
    /// # Errors
    /// When no runtime starts.
    pub fn run(&self) -> Result<(), Failure> {
        let registry = Registry::default();
        match self.json {
            true => println!("{:#}", with_handle(|handle| check::plugin_types_json(&registry, handle))?),
            false => print!("{}", check::plugin_types(&registry)),
        }
        Ok(())
    }
}

/// The arguments of `lockstep-router schema`.
#[derive(Args, Clone, Copy, Debug)]
pub struct SchemaArgs {}

impl SchemaArgs {
    /// Prints the JSON Schema of the configuration file, for editors.
    ///
    /// # Errors
    /// When no runtime starts.
    pub fn run(self) -> Result<(), Failure> {
        println!("{:#}", with_handle(|handle| json_schema(&Registry::default(), handle))?);
        Ok(())
    }
}

/// Lets `ask` ask factories what they decode.
fn with_handle<T>(ask: impl FnOnce(&Handle) -> T) -> Result<T, Failure> {
    let real = Real::builder().current_thread().build().map_err(Failure::Runtime)?;
    Ok(real.run(|rt| async move { ask(&Handle::new(rt)) }))
}

/// Reads a configuration file.
///
/// # Errors
/// When it cannot be read.
pub(super) fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| Failure::Unreadable(path.to_owned(), error))
}
