//! A small file layer over logical blocks.
