//! The configuration file of the Endpoint Picker.
