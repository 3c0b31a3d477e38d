//! How many tokens an image, a sound or a video counts for.

use super::image_size;
use super::parameters::{EstimateParameters, Resolution, VideoParameters};
use crate::headers::Headers;

const FALLBACK: Resolution = Resolution { width: 640, height: 360 };
const FALLBACK_FACTOR: f64 = 1024.0;
const FALLBACK_DURATION: f64 = 10.0;
const FALLBACK_SAMPLE_FPS: f64 = 2.0;
const FALLBACK_SOURCE_FPS: f64 = 24.0;

/// Most tokens of one asset, so that no header or configuration can make a prompt of any length.
const MOST_TOKENS: f64 = 1_048_576.0;

/// Returns the first positive value.
fn positive(values: impl IntoIterator<Item = f64>, fallback: f64) -> f64 {
    values.into_iter().find(|value| *value > 0.0).unwrap_or(fallback)
}

/// Returns a count as tokens: whole, at least one.
fn at_least_one(tokens: f64) -> usize {
    tokens.clamp(1.0, MOST_TOKENS) as usize
}

/// Returns tokens by size: pixels over pixels a token, each side from the first source that knows it.
fn by_size(sources: &[Resolution], factor: f64) -> f64 {
    let side =
        |of: fn(&Resolution) -> i64| positive(sources.iter().map(|r| of(r) as f64), of(&FALLBACK) as f64);
    (side(|r| r.width) * side(|r| r.height) / positive([factor], FALLBACK_FACTOR)).trunc()
}

/// Returns the tokens of an image. `base64` is its content, where the request carries it.
pub(super) fn image(parameters: &EstimateParameters, base64: Option<&str>) -> usize {
    let image = &parameters.image;
    if image.mode == "static" {
        return at_least_one(image.fixed.static_token as f64);
    }
    let known = base64.and_then(image_size::of).unwrap_or_default();
    at_least_one(by_size(&[known, image.default_resolution], image.dynamic.factor))
}

/// Returns the tokens of a sound, from the length of its content as text: base64, then the format's name.
pub(super) fn audio(content: &str) -> usize {
    content.len().div_ceil(4).max(1)
}

/// Returns the tokens of a video; headers of the request may say what it is like.
pub(super) fn video(parameters: &EstimateParameters, headers: &Headers) -> usize {
    let video = &parameters.video;
    let frames = &video.tokens_per_frame;
    let per_frame = if frames.mode == "static" {
        frames.fixed.num_tokens_per_frame as f64
    } else {
        let told = headers.get("x-llm-d-video-resolution").and_then(resolution).unwrap_or_default();
        by_size(&[told, video.default_resolution], frames.dynamic.factor)
    };
    let tokens = number_of_frames(video, headers) * per_frame.max(1.0);
    let cap = Some(video.max_video_tokens as f64).filter(|cap| *cap > 0.0).unwrap_or(MOST_TOKENS);
    at_least_one(tokens.min(cap))
}

fn number_of_frames(video: &VideoParameters, headers: &Headers) -> f64 {
    let told = |name| headers.get(name).and_then(|text| text.trim().parse::<f64>().ok()).unwrap_or(0.0);
    let duration =
        positive([told("x-llm-d-video-duration-seconds"), video.default_duration], FALLBACK_DURATION);
    let frames = &video.frames;
    let bounded = |n: f64| {
        let n = if frames.min_frames > 0 { n.max(frames.min_frames as f64) } else { n };
        if frames.max_frames > 0 { n.min(frames.max_frames as f64) } else { n }
    };
    if frames.mode == "strided" {
        let fps =
            positive([told("x-llm-d-video-fps"), frames.strided.default_source_fps], FALLBACK_SOURCE_FPS);
        bounded(((duration * fps).trunc() / frames.strided.frame_stride.max(1) as f64).trunc())
    } else {
        let n = bounded((duration * positive([frames.sampled.sample_fps], FALLBACK_SAMPLE_FPS)).trunc());
        let patch = frames.sampled.temporal_patch_size;
        if patch > 1 { (n / patch as f64).trunc() } else { n }
    }
}

/// Reads `WIDTHxHEIGHT`.
fn resolution(text: &str) -> Option<Resolution> {
    let (width, height) = text.split_once(['x', 'X'])?;
    let side = |text: &str| text.trim().parse::<i64>().ok().filter(|side| *side > 0);
    Some(Resolution { width: side(width)?, height: side(height)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_of_the_specification() {
        let parameters = EstimateParameters::default();
        assert_eq!(image(&parameters, None), 225);
        assert_eq!(audio("abcde"), 2);
        assert_eq!(video(&parameters, &Headers::new()), 4500);
    }

    #[test]
    fn headers_describe_a_video_where_they_are_well_formed() {
        let parameters = EstimateParameters::default();
        for (name, value, expected) in [
            ("x-llm-d-video-duration-seconds", "1", 2 * 225),
            ("x-llm-d-video-duration-seconds", "-1", 4500),
            ("x-llm-d-video-resolution", "64 X 32", 20 * 2),
            ("x-llm-d-video-resolution", "64", 4500),
        ] {
            let headers: Headers = [(name, value)].into_iter().collect();
            assert_eq!(video(&parameters, &headers), expected, "{name}: {value}");
        }
    }
}
