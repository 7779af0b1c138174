//! Binding a local socket.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use keepline_protocol::failure::{Code, Failure};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use tokio::net::{UnixListener, UnixStream};

use crate::bounds::{LOCK_POLL, LOCK_TIME};

/// A local socket that this process serves. A lock beside it keeps others from serving the same; both go when this is
/// dropped.
pub struct LocalListener {
    listener: UnixListener,
    path: PathBuf,
    /// Held for as long as the socket is served.
    _lock: File,
}

impl LocalListener {
    /// Binds `path`, in a directory that is this user's alone. A socket that a dead process left is replaced.
    ///
    /// # Errors
    /// [`Code::Busy`], naming the pid, when another process serves it; [`Code::Failed`] when the system refuses.
    pub fn bind(path: &Path) -> Result<Self, Failure> {
        let failed = |what: &str, error: std::io::Error| {
            Failure::new(Code::Failed, format!("cannot {what} {}: {error}", path.display()))
        };
        let lock_path = path.with_extension("lock");
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0))
            .open(&lock_path)
            .map_err(|error| failed("lock", error))?;
        if let Err(holder) = take(&mut lock) {
            let message = match holder {
                Some(pid) => format!("{} is served by process {pid} already", path.display()),
                None => format!("{} is served by another process already", path.display()),
            };
            return Err(Failure::new(Code::Busy, message));
        }
        let pid = std::process::id().to_string();
        lock.set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| lock.write_all(pid.as_bytes()))
            .map_err(|error| failed("lock", error))?;
        // Under the lock: whatever stands there belongs to nobody who lives.
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed("replace the stale socket", error));
            }
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(|error| failed("listen on", error))?;
        std::fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(|error| failed("protect", error))?;
        Ok(LocalListener { listener, path: path.to_owned(), _lock: lock })
    }

    /// The next consumer. One of another user is turned away.
    pub async fn accept(&self) -> UnixStream {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => match stream.peer_cred() {
                    Ok(peer) if peer.uid() == rustix::process::geteuid().as_raw() => return stream,
                    _ => tracing::warn!("a process of another user connected and was turned away"),
                },
                Err(error) => {
                    // Out of descriptors, most likely: others have to end first.
                    tracing::warn!(%error, "cannot accept a consumer");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            }
        }
    }
}

/// Takes a lock, or says which process has it. A holder that is dead has left it to a child that was just started and will
/// let go of it in a moment.
fn take(lock: &mut File) -> Result<(), Option<Pid>> {
    let deadline = Instant::now() + LOCK_TIME;
    loop {
        if flock(&*lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return Ok(());
        }
        let mut text = String::new();
        let _ = lock.rewind();
        let _ = (&*lock).take(32).read_to_string(&mut text);
        let holder = text.trim().parse().ok().and_then(Pid::from_raw);
        let holder = holder.filter(|pid| test_kill_process(*pid) != Err(Errno::SRCH));
        if holder.is_some() || Instant::now() > deadline {
            return Err(holder);
        }
        std::thread::sleep(LOCK_POLL);
    }
}

impl Drop for LocalListener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_served_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("daemon.sock");
        std::fs::write(&path, "left behind").unwrap();
        let listener = LocalListener::bind(&path).unwrap();
        let second = LocalListener::bind(&path).err().unwrap();
        assert_eq!(second.code, Code::Busy);
        assert!(second.message.contains(&std::process::id().to_string()), "{second}");
        let (near, far) = tokio::join!(UnixStream::connect(&path), listener.accept());
        drop((near.unwrap(), far));
        drop(listener);
        assert!(!path.exists());
        LocalListener::bind(&path).unwrap();
    }

    #[tokio::test]
    async fn a_lock_that_a_dead_process_left_to_its_child_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("daemon.sock");
        let lock = File::create(path.with_extension("lock")).unwrap();
        // A process that has ended, and whose id nobody has.
        let mut dead = std::process::Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        (&lock).write_all(dead.id().to_string().as_bytes()).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        let refused = LocalListener::bind(&path).err().unwrap();
        assert_eq!(refused.code, Code::Busy);
        assert!(!refused.message.contains(&dead.id().to_string()), "{refused}");
        let binding = std::thread::spawn({
            let path = path.clone();
            move || take(&mut File::open(path.with_extension("lock")).unwrap())
        });
        drop(lock);
        assert_eq!(binding.join().unwrap(), Ok(()));
    }
}
