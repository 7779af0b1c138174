//! `remote invite|pending|approve|deny|devices|connections|revoke`.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use keepline_protocol::api::Empty;
use keepline_protocol::api::remote::{DeviceChanged, DeviceRef, Invite as Params};
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::registry::method::{
    RemoteApprove, RemoteConnections, RemoteDeny, RemoteDevices, RemoteInvite, RemotePending,
    RemoteRevoke,
};
use serde_json::json;

use super::{Outcome, Said, ask, json_line};
use crate::cli::context::{Context, Host};
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
    };
    let written = match client
        .request::<RemoteInvite>(&params, context.common.timeout)
        .await
    {
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

fn create(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

fn create_here() -> Result<(PathBuf, File), Failure> {
    loop {
        let mut random = [0; 4];
        getrandom::fill(&mut random).map_err(|error| {
            Failure::new(
                Code::Failed,
                format!("no randomness from the system: {error}"),
            )
        })?;
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
        format!(
            "{} exists and is not overwritten: choose another --out",
            path.display()
        )
    } else {
        format!("cannot write {}: {error}", path.display())
    };
    Failure::new(Code::Failed, message)
}

pub(super) async fn pending<H: Host>(context: &Context<H>) -> Outcome {
    let pending = ask::<RemotePending, H>(context, Empty {}).await?.pending;
    if context.common.json {
        return Ok(Said::Data(json_line(&pending)?));
    }
    let rows: Vec<_> = pending
        .into_iter()
        .map(|device| {
            vec![
                device.id.to_string(),
                device.name,
                device.fingerprint,
                age(now_ms(), device.since),
            ]
        })
        .collect();
    Ok(Said::Data(table(
        &["ID", "NAME", "FINGERPRINT", "SINCE"],
        &rows,
    )))
}

pub(super) async fn devices<H: Host>(context: &Context<H>) -> Outcome {
    let devices = ask::<RemoteDevices, H>(context, Empty {}).await?.devices;
    if context.common.json {
        return Ok(Said::Data(json_line(&devices)?));
    }
    let rows: Vec<_> = devices
        .into_iter()
        .map(|device| {
            vec![
                device.device.to_string(),
                device.name,
                device.state,
                device.fingerprint,
                age(now_ms(), device.since),
            ]
        })
        .collect();
    Ok(Said::Data(table(
        &["DEVICE", "NAME", "STATE", "FINGERPRINT", "SINCE"],
        &rows,
    )))
}

pub(super) async fn connections<H: Host>(context: &Context<H>) -> Outcome {
    let connections = ask::<RemoteConnections, H>(context, Empty {})
        .await?
        .connections;
    if context.common.json {
        return Ok(Said::Data(json_line(&connections)?));
    }
    let rows: Vec<_> = connections
        .into_iter()
        .map(|link| {
            vec![
                link.name,
                link.state,
                link.carrier,
                link.peer,
                link.epoch.to_string(),
                link.rtt_us.map_or_else(
                    || "-".to_owned(),
                    |rtt| format!("{}.{} ms", rtt / 1000, rtt % 1000 / 100),
                ),
                age(now_ms(), link.since),
                link.device.to_string(),
            ]
        })
        .collect();
    Ok(Said::Data(table(
        &[
            "NAME", "STATE", "CARRIER", "PEER", "EPOCH", "RTT", "SINCE", "DEVICE",
        ],
        &rows,
    )))
}

pub(super) async fn approve<H: Host>(context: &Context<H>, device: String) -> Outcome {
    let changed = ask::<RemoteApprove, H>(context, DeviceRef { device }).await?;
    said(context, &changed)
}

pub(super) async fn deny<H: Host>(context: &Context<H>, device: String) -> Outcome {
    let changed = ask::<RemoteDeny, H>(context, DeviceRef { device }).await?;
    said(context, &changed)
}

pub(super) async fn revoke<H: Host>(context: &Context<H>, device: String) -> Outcome {
    let changed = ask::<RemoteRevoke, H>(context, DeviceRef { device }).await?;
    said(context, &changed)
}

fn said<H>(context: &Context<H>, changed: &DeviceChanged) -> Outcome {
    Ok(Said::Data(if context.common.json {
        json_line(changed)?
    } else {
        format!("{} {}\n", changed.device, clean(&changed.state))
    }))
}
