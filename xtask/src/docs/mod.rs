//! The documentation: the book, and the files that are generated from code and results.

pub(crate) mod book;
mod command;
mod companions;
pub(crate) mod generate;
mod headline;
mod inline;
mod json;
mod markdown;
mod marked;
mod pages;
mod picture;
mod reference;
mod studies;
