//! Data mining in free bandwidth.
