//! State files: private to their owner, whole or absent.
//!
//! A state directory has mode 0700 and its files 0600. What is owned by another user, or is itself a symbolic link, is
//! refused, never repaired: whoever put it there may have read or chosen what is in it.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use keepline_protocol::failure::{Code, Failure};
use rustix::fs::OFlags;

/// Makes `path` a private directory of ours, or finds it one; gives its path without symbolic links.
///
/// Missing parents are made, private too. An empty directory of ours that is open to others is closed to them.
///
/// # Errors
/// [`Code::Refused`] when it is a symbolic link, no directory, another user's, open to others and not empty, or reached
/// through a symbolic link that another user (but root) owns; [`Code::Failed`] when the system refuses.
pub fn private_dir(path: &Path) -> Result<PathBuf, Failure> {
    let absolute = std::path::absolute(path).map_err(|e| failed("resolve", path, &e))?;
    // Without a trailing slash or dot, with which a link would be followed.
    let absolute: PathBuf = absolute.components().collect();
    for ancestor in absolute.ancestors().skip(1) {
        if let Ok(link) = ancestor.symlink_metadata()
            && link.is_symlink()
            && link.uid() != 0
            && link.uid() != own_uid()
        {
            return Err(refused(&absolute, "is reached through another user's symbolic link"));
        }
    }
    if absolute.symlink_metadata().is_ok_and(|link| link.is_symlink()) {
        return Err(refused(&absolute, "is a symbolic link"));
    }
    DirBuilder::new().recursive(true).mode(0o700).create(&absolute).map_err(|e| failed("create", &absolute, &e))?;
    let found = absolute.symlink_metadata().map_err(|e| failed("inspect", &absolute, &e))?;
    if !found.is_dir() {
        return Err(refused(&absolute, "is not a directory"));
    }
    check_owner(&absolute, &found)?;
    if found.mode() & 0o077 != 0 {
        let mut entries = absolute.read_dir().map_err(|e| failed("read", &absolute, &e))?;
        if entries.next().is_some() {
            return Err(refused(&absolute, "is open to other users (make it `chmod 700`)"));
        }
        std::fs::set_permissions(&absolute, Permissions::from_mode(0o700))
            .map_err(|e| failed("close to others", &absolute, &e))?;
    }
    absolute.canonicalize().map_err(|e| failed("resolve", &absolute, &e))
}

/// Opens the private file `path` for reading and writing, making an empty one when there is none.
///
/// # Errors
/// [`Code::Refused`] when it is a symbolic link, no regular file, another user's, or open to others; [`Code::Failed`]
/// when the system refuses.
pub fn open_private(path: &Path) -> Result<File, Failure> {
    open(path, OpenOptions::new().read(true).write(true).create(true).truncate(false))
}

/// Reads the private file `path`: nothing when there is none.
///
/// # Errors
/// As [`open_private`]; [`Code::TooLarge`] when it is longer than `limit` bytes.
pub fn read_private(path: &Path, limit: usize) -> Result<Option<Vec<u8>>, Failure> {
    if path.symlink_metadata().is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
        return Ok(None);
    }
    let file = open(path, OpenOptions::new().read(true))?;
    let mut bytes = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(|e| failed("read", path, &e))?;
    if bytes.len() > limit {
        let message = format!("'{}' is longer than {limit} bytes", path.display());
        return Err(Failure::new(Code::TooLarge, message));
    }
    Ok(Some(bytes))
}

/// Replaces the private file `path` by one with these bytes: after a crash at any moment it holds the old bytes or the
/// new ones. Two writers of one file must not run at once.
///
/// # Errors
/// [`Code::Failed`] when the system refuses; then the old file is as it was.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut temporary = path.as_os_str().to_owned();
    // One fixed name, so that what a crash leaves behind is used up by the next write.
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    let written = (|| {
        match std::fs::remove_file(&temporary) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)?;
        match path.parent() {
            Some(parent) => File::open(parent)?.sync_all(),
            None => Ok(()),
        }
    })();
    written.map_err(|e| failed("write", path, &e))
}

fn open(path: &Path, options: &mut OpenOptions) -> Result<File, Failure> {
    // Non-blocking, because a FIFO would make the open wait for ever before it can be refused.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match options.mode(0o600).custom_flags(flags).open(path) {
        Err(e) if e.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(refused(path, "is a symbolic link"));
        }
        opened => opened.map_err(|e| failed("open", path, &e))?,
    };
    let found = file.metadata().map_err(|e| failed("inspect", path, &e))?;
    if !found.is_file() {
        return Err(refused(path, "is not a regular file"));
    }
    check_owner(path, &found)?;
    if found.mode() & 0o077 != 0 {
        return Err(refused(path, "is open to other users (make it `chmod 600`)"));
    }
    Ok(file)
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn check_owner(path: &Path, found: &Metadata) -> Result<(), Failure> {
    if found.uid() == own_uid() {
        Ok(())
    } else {
        Err(refused(path, &format!("belongs to another user (uid {})", found.uid())))
    }
}

fn refused(path: &Path, why: &str) -> Failure {
    Failure::new(Code::Refused, format!("'{}' {why}; keepline keeps no state there", path.display()))
}

fn failed(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::new(Code::Failed, format!("cannot {what} '{}': {error}", path.display()))
}
