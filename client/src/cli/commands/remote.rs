//! `remote invite|pending|approve|deny|devices|connections|revoke|scope`, and `rotate-key` of the daemon.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use keepline_protocol::api::Empty;
use keepline_protocol::api::remote::{DeviceChanged, DeviceRef, DeviceScopes, Invite as Params};
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::DeviceId;
use keepline_protocol::invitation::Invitation;
use keepline_protocol::registry::method::{
    RemoteApprove, RemoteConnections, RemoteDeny, RemoteDevices, RemoteInvite, RemotePending, RemoteRevoke,
    RemoteRotateKey, RemoteScope,
};
use keepline_protocol::scope::Scopes;
use serde_json::json;

use super::{Outcome, Said, json_line, milliseconds, request};
use crate::cli::context::{Context, Host};
use crate::cli::print;
use crate::cli::settings::Invite;
use crate::cli::text::{age, clean, now_ms, table};

/// The file comes before the invitation: an invitation that could not be written would stay claimable for nothing.
pub(super) async fn invite<H: Host>(context: &Context<H>, invite: Invite) -> Outcome {
    let mut client = context.client().await?;
    let (path, mut file) = match invite.out {
        Some(path) => {
            let file = create(&path).map_err(|error| not_written(&path, &error))?;
            (path, file)
        }
        None => create_here()?,
    };
    let params = Params {
        ttl_seconds: invite.ttl_seconds,
        no_approval: invite.no_approval.then_some(true),
        routes: (!invite.routes.is_empty()).then_some(invite.routes),
        scopes: invite.scopes.map(Scopes::names),
    };
    let written = match client.request::<RemoteInvite>(&params, context.common.timeout).await {
        Ok(invited) => file
            .write_all(invited.file.as_bytes())
            .and_then(|()| file.sync_all())
            .map(|()| invited)
            .map_err(|error| not_written(&path, &error)),
        Err(failure) => Err(failure),
    };
    let invited = written.inspect_err(|_| {
        // It is empty or cut; leaving it would only puzzle whoever finds it.
        let _ = std::fs::remove_file(&path);
    })?;
    if names_no_way(&invited.file) {
        print::note(
            "the invitation names no way to this daemon, which listens nowhere: start it with --remote-ws, or name a \
             --route that leads to its socket",
        );
    }
    Ok(Said::Data(if context.common.json {
        json_line(&json!({
            "file": path.to_string_lossy(),
            "invitation": invited.invitation,
            "expires_ms": invited.expires_ms,
        }))?
    } else {
        format!("{}\n", path.display())
    }))
}

fn names_no_way(file: &str) -> bool {
    Invitation::from_file(file).is_ok_and(|invitation| invitation.routes.is_empty())
}

fn create(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn create_here() -> Result<(PathBuf, File), Failure> {
    loop {
        let mut random = [0; 4];
        getrandom::fill(&mut random)
            .map_err(|error| Failure::new(Code::Failed, format!("no randomness from the system: {error}")))?;
        let name = data_encoding::HEXLOWER.encode(&random);
        let path = PathBuf::from(format!("./keepline-invite-{name}.txt"));
        match create(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(not_written(&path, &error)),
        }
    }
}

fn not_written(path: &Path, error: &std::io::Error) -> Failure {
    let message = if error.kind() == ErrorKind::AlreadyExists {
        format!("{} exists and is not overwritten: choose another --out", path.display())
    } else {
        format!("cannot write {}: {error}", path.display())
    };
    Failure::new(Code::Failed, message)
}

pub(super) async fn pending<H: Host>(context: &Context<H>) -> Outcome {
    let pending = request::<RemotePending, H>(context, Empty {}).await?.pending;
    if context.common.json {
        return Ok(Said::Data(json_line(&pending)?));
    }
    let ids = short_ids(pending.iter().map(|device| device.id));
    let rows: Vec<_> = pending
        .into_iter()
        .zip(ids)
        .map(|(device, id)| {
            vec![id, device.name, device.fingerprint, age(now_ms(), device.since), device.scopes.join(",")]
        })
        .collect();
    Ok(Said::Data(table(&["ID", "NAME", "FINGERPRINT", "SINCE", "SCOPES"], &rows)))
}

pub(super) async fn devices<H: Host>(context: &Context<H>) -> Outcome {
    let devices = request::<RemoteDevices, H>(context, Empty {}).await?.devices;
    if context.common.json {
        return Ok(Said::Data(json_line(&devices)?));
    }
    let ids = short_ids(devices.iter().map(|device| device.device));
    let rows: Vec<_> = devices
        .into_iter()
        .zip(ids)
        .map(|(device, id)| {
            let scopes = match device.scopes.is_empty() {
                true => "-".to_owned(),
                false => device.scopes.join(","),
            };
            let since = age(now_ms(), device.since);
            vec![id, device.name, device.state, since, scopes]
        })
        .collect();
    Ok(Said::Data(table(&["DEVICE", "NAME", "STATE", "SINCE", "SCOPES"], &rows)))
}

pub(super) async fn connections<H: Host>(context: &Context<H>) -> Outcome {
    let connections = request::<RemoteConnections, H>(context, Empty {}).await?.connections;
    if context.common.json {
        return Ok(Said::Data(json_line(&connections)?));
    }
    let ids = short_ids(connections.iter().map(|link| link.device));
    let rows: Vec<_> = connections
        .into_iter()
        .zip(ids)
        .map(|(link, device)| {
            vec![
                link.name,
                link.state,
                age(now_ms(), link.since),
                link.lease_ms.map_or_else(|| "-".to_owned(), |left| format!("{}s", left / 1000)),
                milliseconds(link.rtt_us),
                link.peer,
                device,
            ]
        })
        .collect();
    Ok(Said::Data(table(&["NAME", "STATE", "SINCE", "LEASE", "RTT", "PEER", "DEVICE"], &rows)))
}

/// The shortest starts of ids, of eight digits at least, that tell those that are listed apart.
pub(super) fn short_ids(ids: impl Iterator<Item = DeviceId>) -> Vec<String> {
    const DIGITS: usize = 8;
    let mut ids: Vec<String> = ids.map(|id| id.to_string()).collect();
    let head = ids.first().map_or(0, |id| id.find('_').unwrap_or(0)) + 1;
    let longest = ids.first().map_or(0, String::len);
    let different = |length: usize| {
        let starts: BTreeSet<&str> = ids.iter().map(|id| &id[..length]).collect();
        starts.len()
    };
    let length = (head + DIGITS..longest).find(|length| different(*length) == different(longest)).unwrap_or(longest);
    ids.iter_mut().for_each(|id| id.truncate(length));
    ids
}

pub(super) async fn approve<H: Host>(context: &Context<H>, device: String) -> Outcome {
    let changed = request::<RemoteApprove, H>(context, DeviceRef { device }).await?;
    said(context, &changed)
}

pub(super) async fn deny<H: Host>(context: &Context<H>, device: String) -> Outcome {
    let changed = request::<RemoteDeny, H>(context, DeviceRef { device }).await?;
    said(context, &changed)
}

pub(super) async fn revoke<H: Host>(context: &Context<H>, device: String) -> Outcome {
    let changed = request::<RemoteRevoke, H>(context, DeviceRef { device }).await?;
    said(context, &changed)
}

pub(super) async fn scope<H: Host>(context: &Context<H>, device: String, scopes: Scopes) -> Outcome {
    let scopes = scopes.names();
    let params = DeviceScopes { device, scopes };
    let changed = request::<RemoteScope, H>(context, params).await?;
    said(context, &changed)
}

pub(super) async fn rotate_daemon_key<H: Host>(context: &Context<H>) -> Outcome {
    let rotated = request::<RemoteRotateKey, H>(context, Empty {}).await?;
    Ok(Said::Data(if context.common.json {
        json_line(&rotated)?
    } else {
        format!("the daemon's key is number {} now\n", rotated.serial)
    }))
}

fn said<H>(context: &Context<H>, changed: &DeviceChanged) -> Outcome {
    Ok(Said::Data(if context.common.json {
        json_line(changed)?
    } else {
        format!("{} {}\n", changed.device, clean(&changed.state))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_ids_tell_devices_apart() {
        let id = |last: u8| {
            let mut bytes = [7; 16];
            bytes[5] = last;
            DeviceId::from_bytes(bytes)
        };
        assert_eq!(short_ids([id(1)].into_iter()), ["dev_07070707"]);
        assert_eq!(short_ids([id(1), id(2)].into_iter()), ["dev_070707070701", "dev_070707070702"]);
        // A device may have several links.
        assert_eq!(short_ids([id(1), id(1)].into_iter())[1], "dev_07070707");
        assert!(short_ids(std::iter::empty()).is_empty());
    }
}
