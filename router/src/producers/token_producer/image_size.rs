use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use imagesize::ImageType;

use super::parameters::Resolution;

/// Returns the size of a PNG, JPEG or GIF in base64, `None` for anything else.
pub(super) fn of(base64: &str) -> Option<Resolution> {
    let bytes = BASE64_STANDARD.decode(base64).ok()?;
    if !matches!(imagesize::image_type(&bytes), Ok(ImageType::Png | ImageType::Jpeg | ImageType::Gif)) {
        return None;
    }
    let size = imagesize::blob_size(&bytes).ok()?;
    Some(Resolution { width: i64::try_from(size.width).ok()?, height: i64::try_from(size.height).ok()? })
}

/// Returns the base64 part of an image's data URI.
pub(super) fn in_data_uri(url: &str) -> Option<&str> {
    url.starts_with("data:image/").then(|| url.split_once("base64,")).flatten().map(|(_, data)| data)
}
