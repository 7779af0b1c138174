//! Drives a keepline link over a carrier.
