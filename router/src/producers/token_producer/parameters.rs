use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::config::scalars::parse_duration;
use crate::outbound::Server;
use crate::plugin::ParameterError;

/// Parameters of `token-producer`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct TokenProducerParameters {
    /// Model that a render server tokenizes for; setting it chooses that backend.
    pub model_name: String,
    /// Render server.
    pub vllm: Option<VllmParameters>,
    /// Estimation, the default backend.
    pub estimate: Option<EstimateParameters>,
    /// Deprecated, and impossible to use: it needs `modelName`, which excludes it.
    pub uds_tokenizer_config: Option<Map<String, Value>>,
}

/// A vLLM server that renders and tokenizes.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct VllmParameters {
    /// Base URL, `http://localhost:8000` where empty.
    pub url: String,
    /// Time limit of a request of text, a duration; `5s` where empty.
    pub timeout: String,
    /// Time limit of a request with media, a duration; `30s` where empty.
    pub mm_timeout: String,
}

/// Base URL of the render server where none is given.
const DEFAULT_URL: &str = "http://localhost:8000";

/// Time limits of requests of text and with media where none are given. Unit: seconds.
const DEFAULT_LIMITS: (u64, u64) = (5, 30);

impl VllmParameters {
    /// Returns the server and the time limits of requests of text and with media; one below zero is zero.
    pub(super) fn checked(&self) -> Result<(Server, Duration, Duration), String> {
        let url = if self.url.is_empty() { DEFAULT_URL } else { &self.url };
        let limit = |name: &str, text: &str, default| match text {
            "" => Ok(Duration::from_secs(default)),
            text => match parse_duration(text) {
                Ok(nanos) => Ok(Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))),
                Err(why) => Err(format!("invalid '{name}': {why}")),
            },
        };
        let timeout = limit("timeout", &self.timeout, DEFAULT_LIMITS.0)?;
        let mm_timeout = limit("mmTimeout", &self.mm_timeout, DEFAULT_LIMITS.1)?;
        let server = Server::parse(url).map_err(|why| format!("invalid 'url': {why}"))?;
        Ok((server, timeout, mm_timeout))
    }
}

/// How media are estimated.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct EstimateParameters {
    /// Images.
    pub image: ImageParameters,
    /// Videos.
    pub video: VideoParameters,
}

/// How images are estimated.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageParameters {
    /// `dynamic` (also where empty) or `static`.
    pub mode: String,
    /// Stands in for an unknown resolution.
    pub default_resolution: Resolution,
    /// Mode `static`.
    #[serde(rename = "static")]
    pub fixed: StaticImageTokens,
    /// Mode `dynamic`.
    pub dynamic: DynamicFactor,
}

/// How videos are estimated.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct VideoParameters {
    /// Stands in for an unknown resolution.
    pub default_resolution: Resolution,
    /// Stands in for an unknown duration. Unit: seconds.
    pub default_duration: f64,
    /// Tokens of one frame.
    pub tokens_per_frame: TokensPerFrame,
    /// Number of frames.
    pub frames: FrameParameters,
    /// Cap on a video's tokens; zero or less = none.
    pub max_video_tokens: i64,
}

/// A size in pixels; a side that is not positive is unknown.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Resolution {
    /// Width.
    pub width: i64,
    /// Height.
    pub height: i64,
}

/// Tokens of every image.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct StaticImageTokens {
    /// Tokens, 1 where not positive.
    pub static_token: i64,
}

/// Tokens by size.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct DynamicFactor {
    /// Pixels a token, 1024 where not positive.
    pub factor: f64,
}

/// Tokens of one frame.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct TokensPerFrame {
    /// `dynamic` (also where empty) or `static`.
    pub mode: String,
    /// Mode `static`.
    #[serde(rename = "static")]
    pub fixed: StaticFrameTokens,
    /// Mode `dynamic`.
    pub dynamic: DynamicFactor,
}

/// Tokens of every frame.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct StaticFrameTokens {
    /// Tokens, 1 where not positive.
    pub num_tokens_per_frame: i64,
}

/// How many frames of a video count.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct FrameParameters {
    /// `sampled` (also where empty) or `strided`.
    pub mode: String,
    /// Fewest frames; zero = no bound.
    pub min_frames: i64,
    /// Most frames; zero = no bound.
    pub max_frames: i64,
    /// Mode `sampled`.
    pub sampled: SampledFrames,
    /// Mode `strided`.
    pub strided: StridedFrames,
}

/// Frames sampled at a rate.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct SampledFrames {
    /// Frames a second, 2 where not positive.
    #[serde(rename = "sampleFPS")]
    pub sample_fps: f64,
    /// Frames that share tokens.
    #[serde(rename = "temporalPatchSize")]
    pub temporal_patch_size: i64,
}

/// Every n-th frame of the source.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct StridedFrames {
    /// Frames a second of the source where unknown, 24 where not positive.
    #[serde(rename = "defaultSourceFPS")]
    pub default_source_fps: f64,
    /// n, at least 1.
    #[serde(rename = "frameStride")]
    pub frame_stride: i64,
}

impl TokenProducerParameters {
    /// Returns whether a render server is to tokenize.
    pub fn wants_render(&self) -> bool {
        self.vllm.is_some() || !self.model_name.is_empty()
    }

    pub(super) fn checked(self) -> Result<Self, ParameterError> {
        let refuse = |why: &str| {
            let message = format!("invalid configuration for 'token-producer' plugin: {why}");
            Err(ParameterError::new(message))
        };
        let backends = [self.estimate.is_some(), self.wants_render(), self.uds_tokenizer_config.is_some()];
        if backends.iter().filter(|chosen| **chosen).count() > 1 {
            return refuse("only one of 'estimate', 'vllm', or 'udsTokenizerConfig' may be set");
        }
        if (self.vllm.is_some() || self.uds_tokenizer_config.is_some()) && self.model_name.is_empty() {
            return refuse("'modelName' must be specified");
        }
        if let Some(vllm) = &self.vllm
            && let Err(why) = vllm.checked()
        {
            return refuse(&why);
        }
        let Some(EstimateParameters { image, video }) = &self.estimate else { return Ok(self) };
        if !matches!(image.mode.as_str(), "" | "dynamic" | "static") {
            return refuse(r#"estimate.image.mode must be "dynamic" or "static""#);
        }
        if !matches!(video.tokens_per_frame.mode.as_str(), "" | "dynamic" | "static") {
            return refuse(r#"estimate.video.tokensPerFrame.mode must be "dynamic" or "static""#);
        }
        if !matches!(video.frames.mode.as_str(), "" | "sampled" | "strided") {
            return refuse(r#"estimate.video.frames.mode must be "sampled" or "strided""#);
        }
        Ok(self)
    }
}
