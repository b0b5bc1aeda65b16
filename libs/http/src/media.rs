//! Media types by file extension.

/// The media type of the file at `path`, with its character set where it is text.
pub fn of(path: &str) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or(path);
    let Some((_, extension)) = name.rsplit_once('.') else { return UNKNOWN };
    TYPES.iter().find(|(candidate, _)| candidate.eq_ignore_ascii_case(extension)).map_or(UNKNOWN, |(_, media)| media)
}

/// The type of what has none (RFC 2046 §4.5.1).
pub const UNKNOWN: &str = "application/octet-stream";

/// HTML.
pub const HTML: &str = "text/html; charset=utf-8";

/// Plain text.
pub const TEXT: &str = "text/plain; charset=utf-8";

static TYPES: [(&str, &str); 30] = [
    ("html", HTML),
    ("htm", HTML),
    ("css", "text/css; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("map", "application/json"),
    ("webmanifest", "application/manifest+json"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("avif", "image/avif"),
    ("ico", "image/vnd.microsoft.icon"),
    ("txt", TEXT),
    ("md", "text/markdown; charset=utf-8"),
    ("toml", "application/toml"),
    ("csv", "text/csv; charset=utf-8"),
    ("xml", "application/xml"),
    ("atom", "application/atom+xml"),
    ("pdf", "application/pdf"),
    ("wasm", "application/wasm"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("webm", "video/webm"),
    ("gz", "application/gzip"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_decide() {
        assert_eq!(of("index.html"), HTML);
        assert_eq!(of("a/b.d/LOGO.SVG"), "image/svg+xml");
        assert_eq!(of("a.b/plain"), UNKNOWN);
        assert_eq!(of("archive.tar.gz"), "application/gzip");
        assert_eq!(of(""), UNKNOWN);
    }
}
