//! Every test that threats.md names is there.

use std::fs;
use std::path::Path;

#[test]
fn named_tests_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = 0;
    let rows = include_str!("../../threats.md").lines();
    for row in rows.filter(|row| row.starts_with("| ") && row.contains('`')) {
        let shown_by = row.rsplit(" | ").next().unwrap();
        let names: Vec<&str> = shown_by.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "nothing shows: {row}");
        for name in names {
            let (file, function) = name.split_once("::").unwrap_or((name, ""));
            let source = fs::read_to_string(root.join(file));
            let source = source.unwrap_or_else(|error| panic!("{file}: {error}"));
            let test = format!("fn {function}(");
            assert!(source.contains("#[test]") || source.contains("#[tokio::test"), "{file} has no test");
            assert!(function.is_empty() || source.contains(&test), "{name} is not there");
            found += 1;
        }
    }
    assert!(found > 40, "only {found} tests are named");
}
