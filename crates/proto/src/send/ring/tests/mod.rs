//! Tests that compare the outstanding chunks with slow models, and examples worked by hand.

mod compare_paths;
mod give_up;
mod model;
mod model_cmt;
mod model_paths;
mod paths;

pub(crate) use model::fragment;
