//! Profiles and their handler (scheduling spec 3.1).

use std::rc::Rc;

use super::Loader;
use crate::config::assembly::ProfilePlan;
use crate::config::fault::Fault;
use crate::config::problem::Located;
use crate::config::schema::SchedulingProfile;
use crate::plugin::Instance;
use crate::scheduling::{Profile, ProfileHandler, Scheduler};

/// Type of the handler that runs one profile only.
const SINGLE_PROFILE_HANDLER: &str = "single-profile-handler";
const DEFAULT_WEIGHT: f64 = 1.0;

/// The scheduler, and what it consists of.
pub(super) struct BuiltScheduler {
    pub(super) plans: Vec<ProfilePlan>,
    pub(super) scheduler: Scheduler,
    pub(super) handler: Rc<str>,
}

impl Loader<'_> {
    /// Builds every profile and finds the handler; `None` where a problem was reported.
    pub(super) fn build_profiles(
        &mut self,
        profiles: &[Located<SchedulingProfile>],
    ) -> Option<BuiltScheduler> {
        let built: Vec<Option<(ProfilePlan, Profile)>> =
            profiles.iter().map(|p| self.build_profile(p)).collect();
        let handler = self.find_handler(profiles.len());
        let (plans, profiles) = built.into_iter().collect::<Option<Vec<_>>>()?.into_iter().unzip();
        let (name, handler) = handler?;
        Some(BuiltScheduler { plans, scheduler: Scheduler::new(handler, profiles), handler: name })
    }

    /// Enters each plugin into every slot whose role it has. A plugin without such a role is passed over.
    fn build_profile(&mut self, profile: &Located<SchedulingProfile>) -> Option<(ProfilePlan, Profile)> {
        let mut builder = Profile::builder(&profile.name);
        let (mut filters, mut scorers, mut picker) = (Vec::new(), Vec::new(), None);
        for entry in &profile.plugins {
            let Some(instance) = self.instance(&entry.plugin_ref).cloned() else { continue };
            let name: Rc<str> = entry.plugin_ref.as_str().into();
            let weight = entry.weight.unwrap_or(DEFAULT_WEIGHT);
            if let Err(error) = builder.add(&instance, Some(weight)) {
                self.problems.push_at(Fault::SecondPicker, entry, error.to_string());
                return None;
            }
            if instance.roles.filter.is_some() {
                filters.push(Rc::clone(&name));
            }
            if instance.roles.scorer.is_some() {
                scorers.push((Rc::clone(&name), weight));
            }
            if let Some(role) = &instance.roles.picker {
                picker = Some((name, Rc::clone(role)));
            }
        }
        // The defaults gave every profile a picker, unless someone registered another role under its type.
        let Some((picker, role)) = picker else {
            let message =
                format!("profile '{}' has no picker: its default picker is of another role", profile.name);
            self.problems.push_at(Fault::DefaultPluginFailed, profile, message);
            return None;
        };
        let plan = ProfilePlan { name: profile.name.as_str().into(), filters, scorers, picker };
        Some((plan, builder.build(|| role)))
    }

    /// Returns the one profile handler among all plugins.
    fn find_handler(&mut self, profiles: usize) -> Option<(Rc<str>, Rc<dyn ProfileHandler>)> {
        let handlers: Vec<(Rc<str>, Instance)> = self
            .plugins
            .iter()
            .map(|p| (Rc::clone(&p.name), p.instance.clone()))
            .filter(|(_, instance)| instance.roles.profile_handler.is_some())
            .collect();
        let place = self.config.plugins.iter().find(|s| handlers.last().is_some_and(|h| *h.0 == *s.name));
        let (at, path) = place.map_or((None, String::new()), |s| (s.at, s.path.clone()));
        match handlers.as_slice() {
            [(_, instance)] if profiles > 1 && *instance.id.plugin_type == *SINGLE_PROFILE_HANDLER => {
                let message = format!(
                    "{SINGLE_PROFILE_HANDLER} runs one scheduling profile, and there are {profiles}; \
                     accepted: one profile, or another profile handler"
                );
                self.problems.push(Fault::SingleHandlerWithManyProfiles, at, path, message);
                None
            }
            [(name, instance)] => Some((Rc::clone(name), instance.roles.profile_handler.clone()?)),
            [] => {
                let message =
                    format!("{profiles} scheduling profiles need a profile handler, and no plugin is one");
                self.problems.push(Fault::NoProfileHandler, None, "schedulingProfiles", message);
                None
            }
            many => {
                let names: Vec<String> = many.iter().map(|(name, _)| format!("'{name}'")).collect();
                let message =
                    format!("multiple profile handlers found ({}); only one is allowed", names.join(", "));
                self.problems.push(Fault::MultipleProfileHandlers, at, path, message);
                None
            }
        }
    }
}
