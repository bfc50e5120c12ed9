//! The page for browsers: three files, which draw snapshots of one JSON form (docs/SERVE.md, "The page"), and the [`Rings`],
//! which show progress on its platter.
//!
//! A daemon and `freeblock demo --web` serve the files (`server::web`); `make site` puts them beside the simulator as WebAssembly
//! (`docs/site`).

mod rings;

pub use rings::{RINGS, Rings};

/// The document.
pub const INDEX: &str = include_str!("../files/index.html");
/// The style sheet, `page.css` beside the document.
pub const STYLE: &str = include_str!("../files/page.css");
/// The script, `page.js` beside the document.
pub const SCRIPT: &str = include_str!("../files/page.js");

#[cfg(test)]
mod tests {
    use super::*;

    /// The only URL is the XML namespace of SVG, which a browser does not load.
    #[test]
    fn the_page_names_no_other_place() {
        for part in [INDEX, STYLE, SCRIPT] {
            let text = part.replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("://") && !text.contains("url("), "{}", &text[..80]);
        }
        assert!(!INDEX.contains("<style") && !INDEX.contains(" style=") && !INDEX.contains(" onclick="));
    }
}
