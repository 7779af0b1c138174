//! The text's tables say what the code says.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

mod limits;
mod registry;
mod structs;
mod threats;

/// The rows of the first table below the heading `## name` (of any depth), each cell without its backquotes.
fn table(text: &str, name: &str) -> Vec<Vec<String>> {
    let is_heading = |line: &str| line.trim_start_matches('#').trim() == name && line.starts_with('#');
    let rows: Vec<&str> = text
        .lines()
        .skip_while(|line| !is_heading(line))
        .skip(1)
        .take_while(|line| !line.starts_with('#'))
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .collect();
    assert!(rows.len() >= 2, "there is no table below '{name}'");
    // The first two are the table's head and its rule.
    rows[2..].iter().map(|row| cells(row)).collect()
}

fn cells(row: &str) -> Vec<String> {
    row.trim_matches('|').split(" |").map(|cell| cell.trim().trim_matches('`').to_owned()).collect()
}

/// The first `columns` cells of each row.
fn columns(table: &[Vec<String>], columns: usize) -> Vec<Vec<String>> {
    table.iter().map(|row| row[..columns].to_vec()).collect()
}

/// A row of cells, from what can be shown.
macro_rules! row {
    ($($cell:expr),* $(,)?) => { vec![$($cell.to_string()),*] };
}
use row;

/// Every relative link in the chapters leads to a file.
#[test]
fn links_lead_somewhere() {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut seen = 0;
    for entry in std::fs::read_dir(here).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for link in text.split("](").skip(1) {
            let target = link.split(')').next().unwrap();
            if !target.contains("://") {
                seen += 1;
                assert!(here.join(target).exists(), "{} in {}", target, path.display());
            }
        }
    }
    assert!(seen >= 10, "the index names the chapters");
}
