//! Hashes of prompts, and indexes over them.
