use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use keepline_protocol::failure::Code;
use tempfile::tempdir;

use super::super::files::{open_private, private_dir, read_private, write_atomic};
use super::code;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_private_directory_is_made_with_its_parents() {
    let dir = tempdir().unwrap();
    let made = private_dir(&dir.path().join("a/b")).unwrap();
    assert_eq!(mode(&made), 0o700);
    assert_eq!(mode(made.parent().unwrap()), 0o700);
    assert_eq!(private_dir(&made).unwrap(), made);
}

#[test]
fn a_directory_open_to_others_is_closed_when_empty_and_refused_when_not() {
    let dir = tempdir().unwrap();
    let open = dir.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, Permissions::from_mode(0o755)).unwrap();
    private_dir(&open).unwrap();
    assert_eq!(mode(&open), 0o700);
    fs::set_permissions(&open, Permissions::from_mode(0o755)).unwrap();
    fs::write(open.join("theirs"), "").unwrap();
    assert_eq!(code(private_dir(&open)), Code::Refused);
    assert_eq!(mode(&open), 0o755);
}

#[test]
fn what_is_a_link_or_no_directory_or_foreign_is_refused() {
    let dir = tempdir().unwrap();
    let real = dir.path().join("real");
    fs::create_dir(&real).unwrap();
    let link = dir.path().join("link");
    symlink(&real, &link).unwrap();
    assert_eq!(code(private_dir(&link)), Code::Refused);
    assert_eq!(code(private_dir(&dir.path().join("link/."))), Code::Refused);
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(private_dir(&file).is_err());
    if is_root() {
        chown(&real, Some(1), None).unwrap();
        assert_eq!(code(private_dir(&real)), Code::Refused);
        rustix::fs::chownat(
            rustix::fs::CWD,
            &link,
            Some(rustix::fs::Uid::from_raw(1)),
            None,
            rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
        )
        .unwrap();
        assert_eq!(code(private_dir(&link.join("sub"))), Code::Refused);
    }
}

#[test]
fn a_private_file_is_made_private_and_a_doubtful_one_is_refused() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("file");
    assert_eq!(read_private(&path, 10), Ok(None));
    drop(open_private(&path).unwrap());
    assert_eq!(mode(&path), 0o600);
    let link = dir.path().join("link");
    symlink(&path, &link).unwrap();
    assert_eq!(code(open_private(&link)), Code::Refused);
    assert_eq!(code(read_private(&link, 10)), Code::Refused);
    assert_eq!(code(read_private(dir.path(), 10)), Code::Refused);
    let fifo = dir.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert_eq!(code(read_private(&fifo, 10)), Code::Refused);
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    assert_eq!(code(read_private(&path, 10)), Code::Refused);
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    if is_root() {
        chown(&path, Some(1), None).unwrap();
        assert_eq!(code(read_private(&path, 10)), Code::Refused);
    }
}

#[test]
fn an_atomic_write_replaces_the_whole_file() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("file");
    write_atomic(&path, b"first and long").unwrap();
    // What a crash left of another write is in nobody's way, be it a link to something precious.
    let precious = dir.path().join("precious");
    fs::write(&precious, "gold").unwrap();
    symlink(&precious, dir.path().join("file.new")).unwrap();
    write_atomic(&path, b"second").unwrap();
    assert_eq!(read_private(&path, 10).unwrap().unwrap(), b"second");
    assert_eq!(mode(&path), 0o600);
    assert_eq!(fs::read(&precious).unwrap(), b"gold");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    assert_eq!(code(read_private(&path, 5)), Code::TooLarge);
    assert_eq!(code(write_atomic(&dir.path().join("missing/file"), b"")), Code::Failed);
}
