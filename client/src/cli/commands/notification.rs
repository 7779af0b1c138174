//! `notification watch`.

use super::Outcome;
use crate::cli::context::{Context, Host};

pub(super) async fn watch<H: Host>(_context: &Context<H>, _jsonl: bool) -> Outcome {
    todo!()
}
