//! Who gets in: devices and invitations, and the decisions about them.
//!
//! Pure: the moment, secrets and ids are arguments. What a call changed is taken by [`Enrolment::take_edits`] and made
//! durable before the decision is told to anybody.
//!
//! ```text
//! invitation:  open ──claim──▶ claimed by a key ──deny, revoke──▶ closed
//!
//! device:  unknown ──claim──▶ pending ──approve──▶ enrolled ──revoke──▶ revoked
//!             │                 ├─ deny ─▶ denied        (each but enrolled: a claim of a
//!             │                 └─ 24 h ─▶ unknown        fresh invitation starts it anew)
//!             └─ claim without approval ─▶ enrolled
//! ```

mod records;

use std::collections::BTreeMap;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use keepline_protocol::api::remote::{Device, DeviceChanged, PendingDevice};
use keepline_protocol::bounds::NAME_MAX;
use keepline_protocol::failure::{Code, Failure};
use keepline_protocol::id::{DeviceId, InvitationId};
use keepline_protocol::scope::Scopes;

pub use self::records::{Claimed, DeviceRecord, Edits, InvitationRecord, Standing, device_id, fingerprint};
use super::audit::Event;
use super::reference::{self, cut};
use crate::bounds::{DEVICES_MAX, INVITATION_KEPT_MS, INVITATION_TTL_MAX_MS, INVITATIONS_MAX};

/// An invitation to make.
#[derive(Clone)]
pub struct NewInvitation {
    /// A fresh id.
    pub id: InvitationId,
    /// K of its secret.
    pub key: [u8; 32],
    /// H of its secret.
    pub secret_hash: [u8; 32],
    /// Milliseconds in which it must be claimed.
    pub ttl_ms: u64,
    /// Whether the owner must approve who claims it.
    pub approval: bool,
    /// What who claims it may do.
    pub scopes: Scopes,
}

/// What an authenticated device shows when it asks to get in.
#[derive(Clone)]
pub struct Claim {
    /// Its Ed25519 identity key, proven by the handshake.
    pub key: [u8; 32],
    /// What it calls itself.
    pub name: String,
    /// Its certificate's serial.
    pub serial: u64,
    /// The invitation that it names, with the SHA-256 of the secret that it showed, if any.
    pub invitation: Option<(InvitationId, Option<[u8; 32]>)>,
    /// Whether its carrier lets every key in that was not revoked.
    pub trusted_carrier: bool,
}

/// The answer to a [`Claim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// It gets in.
    Enrolled,
    /// The owner has not decided yet.
    Pending,
    /// It does not get in.
    Refused(Reason),
}

/// Why a device does not get in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Its key is not known and it showed no invitation.
    UnknownDevice,
    /// No such invitation is known (any more).
    InvitationUnknown,
    /// The invitation was not claimed in time, or the owner did not decide in time.
    InvitationExpired,
    /// Another key claimed it.
    InvitationUsed,
    /// The secret is not the invitation's.
    InvitationWrong,
    /// The owner revoked the device.
    Revoked,
    /// It showed a newer certificate before.
    StaleSerial,
    /// The owner said no.
    Denied,
}

/// What can be decided about a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Lets a pending one in.
    Approve,
    /// Refuses a pending one.
    Deny,
    /// Puts an end to it, for good: only a fresh invitation lets it in again.
    Revoke,
    /// Changes what an enrolled or pending one may do.
    Scopes(Scopes),
}

/// All devices and invitations.
#[derive(Clone, Debug, Default)]
pub struct Enrolment {
    devices: BTreeMap<DeviceId, DeviceRecord>,
    invitations: BTreeMap<InvitationId, InvitationRecord>,
    edits: Edits,
}

impl Enrolment {
    /// What the store holds.
    pub fn with_records(
        devices: BTreeMap<DeviceId, DeviceRecord>,
        invitations: BTreeMap<InvitationId, InvitationRecord>,
    ) -> Self {
        Enrolment { devices, invitations, edits: Edits::default() }
    }

    /// What changed since the last call.
    pub fn take_edits(&mut self) -> Edits {
        std::mem::take(&mut self.edits)
    }

    /// K of an invitation that is known: open, claimed, or expired within the last day.
    #[must_use]
    pub fn invitation_key(&self, id: InvitationId, now_ms: u64) -> Option<[u8; 32]> {
        let invitation = self.invitations.get(&id)?;
        (now_ms < invitation.expires_ms.saturating_add(INVITATION_KEPT_MS)).then_some(invitation.key)
    }

    /// What a device may do; nothing for an unknown one.
    #[must_use]
    pub fn standing(&self, id: DeviceId, now_ms: u64) -> Option<Standing> {
        self.devices.get(&id).filter(|device| !device.lapsed(now_ms)).map(|device| device.standing)
    }

    /// What an enrolled device may do by itself, on whatever carrier; nothing for every other one.
    #[must_use]
    pub fn scopes(&self, id: DeviceId) -> Scopes {
        let enrolled = self.devices.get(&id);
        let enrolled = enrolled.filter(|device| device.standing == Standing::Enrolled);
        enrolled.map_or(Scopes::NONE, |device| device.scopes)
    }

    /// The devices that wait for the owner, oldest first.
    #[must_use]
    pub fn pending(&self, now_ms: u64) -> Vec<PendingDevice> {
        let waiting = |device: &DeviceRecord| device.standing == Standing::Pending && !device.lapsed(now_ms);
        let pending = self.sorted(waiting).into_iter().map(|(id, device)| PendingDevice {
            id,
            device: id,
            name: device.name.clone(),
            fingerprint: fingerprint(&device.key),
            since: device.since_ms,
            scopes: device.scopes.names(),
        });
        pending.collect()
    }

    /// All devices but denied ones, oldest first.
    #[must_use]
    pub fn devices(&self, now_ms: u64) -> Vec<Device> {
        let listed = |device: &DeviceRecord| device.standing != Standing::Denied && !device.lapsed(now_ms);
        let devices = self.sorted(listed).into_iter().map(|(id, device)| Device {
            device: id,
            name: device.name.clone(),
            fingerprint: fingerprint(&device.key),
            state: device.standing.name().to_owned(),
            since: device.since_ms,
            scopes: device.scopes.names(),
        });
        devices.collect()
    }

    /// Makes an invitation; gives the Unix time in milliseconds at which it expires.
    ///
    /// # Errors
    /// [`Code::Invalid`] for a time to live of nothing or over [`INVITATION_TTL_MAX_MS`]; [`Code::TooLarge`] when as
    /// many invitations are open, or devices enrolled, as may be.
    pub fn invite(&mut self, new: &NewInvitation, now_ms: u64) -> Result<u64, Failure> {
        self.sweep(now_ms);
        if !(1..=INVITATION_TTL_MAX_MS).contains(&new.ttl_ms) {
            let days = INVITATION_TTL_MAX_MS / (24 * 3_600_000);
            return Err(Failure::new(Code::Invalid, format!("an invitation lives 1 second to {days} days")));
        }
        if self.invitations.len() >= INVITATIONS_MAX {
            let spent = self
                .invitations
                .iter()
                .filter(|(_, invitation)| invitation.claimed != Claimed::Open || invitation.expires_ms <= now_ms)
                .min_by_key(|(_, invitation)| invitation.expires_ms)
                .map(|(id, _)| *id);
            match spent {
                Some(id) => self.put_invitation(id, None),
                None => {
                    return Err(full(format!("{INVITATIONS_MAX} invitations are open; let some be claimed or expire")));
                }
            }
        }
        // Each open invitation can become a device.
        let open = self.invitations.values().filter(|invitation| invitation.claimed == Claimed::Open).count();
        while self.devices.len() + open >= DEVICES_MAX {
            if !self.forget_one() {
                return Err(full(format!("{DEVICES_MAX} devices are enrolled or invited; revoke some first")));
            }
        }
        let expires_ms = now_ms + new.ttl_ms;
        let record = InvitationRecord {
            key: new.key,
            secret_hash: new.secret_hash,
            expires_ms,
            approval: new.approval,
            claimed: Claimed::Open,
            scopes: new.scopes,
        };
        self.put_invitation(new.id, Some(record));
        Ok(expires_ms)
    }

    /// What [`claim`](Self::claim) would decide about a device that shows no invitation. Nothing is changed: who asks may
    /// be sending what another said earlier.
    #[must_use]
    pub fn foresee(&self, claim: &Claim, now_ms: u64) -> Decision {
        match self.admit(claim, now_ms) {
            Ok(Admitted::As(standing)) => decision(standing, claim),
            Ok(Admitted::By(_)) => Decision::Pending,
            Err(reason) => Decision::Refused(reason),
        }
    }

    fn admit(&self, claim: &Claim, now_ms: u64) -> Result<Admitted, Reason> {
        let id = device_id(&claim.key);
        let known = self.devices.get(&id).filter(|device| !device.lapsed(now_ms));
        let standing = known.map(|device| device.standing);
        let invited = self.claimable(id, standing, claim, now_ms);
        let admitted = match (standing, invited) {
            (Some(Standing::Enrolled), _) => Admitted::As(Standing::Enrolled),
            (_, Ok(invitation)) => Admitted::By(invitation),
            (Some(Standing::Revoked), Err(_)) => return Err(Reason::Revoked),
            (Some(standing), Err(_)) if claim.trusted_carrier => Admitted::As(standing),
            (None, Err(_)) if claim.trusted_carrier => Admitted::As(Standing::Trusted),
            (Some(Standing::Pending), Err(_)) => Admitted::As(Standing::Pending),
            (Some(Standing::Denied), Err(_)) => return Err(Reason::Denied),
            (Some(Standing::Trusted) | None, Err(reason)) => return Err(reason),
        };
        if known.is_some_and(|known| claim.serial < known.serial) {
            return Err(Reason::StaleSerial);
        }
        Ok(admitted)
    }

    /// Decides about a device that asks to get in.
    pub fn claim(&mut self, claim: &Claim, now_ms: u64) -> Decision {
        self.sweep(now_ms);
        let admitted = match self.admit(claim, now_ms) {
            Ok(admitted) => admitted,
            Err(reason) => return Decision::Refused(reason),
        };
        let id = device_id(&claim.key);
        let known = self.devices.get(&id).cloned();
        let (standing, invitation, scopes) = match (admitted, &known) {
            (Admitted::As(standing), Some(known)) => (standing, known.invitation, known.scopes),
            (Admitted::As(standing), None) => (standing, None, Scopes::NONE),
            (Admitted::By(invitation), _) => {
                let (standing, scopes) = self.use_invitation(invitation, id);
                (standing, Some(invitation), scopes)
            }
        };
        let since_ms = match &known {
            Some(known) if matches!(admitted, Admitted::As(_)) => known.since_ms,
            _ => now_ms,
        };
        let name = cut(&claim.name, NAME_MAX).to_owned();
        let record =
            DeviceRecord { key: claim.key, name, standing, since_ms, serial: claim.serial, invitation, scopes };
        let room = known.is_some() || self.devices.len() < DEVICES_MAX || self.forget_one();
        if known.as_ref() != Some(&record) && room {
            self.put_device(id, Some(record));
        }
        decision(standing, claim)
    }

    /// Does what was decided about a device. Said again, a decision is no error: its first answer may have been lost.
    ///
    /// # Errors
    /// [`Code::NotFound`] or [`Code::Ambiguous`] among the devices about which this can be decided.
    pub fn decide(&mut self, reference: &str, choice: Choice, now_ms: u64) -> Result<DeviceChanged, Failure> {
        use Standing::{Denied, Enrolled, Pending, Revoked, Trusted};
        self.sweep(now_ms);
        match choice {
            Choice::Approve => self.change(reference, now_ms, &[Pending], Enrolled),
            Choice::Deny => self.change(reference, now_ms, &[Pending], Denied),
            Choice::Revoke => self.change(reference, now_ms, &[Enrolled, Pending, Trusted], Revoked),
            Choice::Scopes(scopes) => {
                let device = self.find(reference, &[Enrolled, Pending])?;
                let mut record = self.devices[&device].clone();
                let state = record.standing.name().to_owned();
                record.scopes = scopes;
                self.put_device(device, Some(record));
                Ok(DeviceChanged { device, state })
            }
        }
    }

    fn change(
        &mut self,
        reference: &str,
        now_ms: u64,
        from: &[Standing],
        to: Standing,
    ) -> Result<DeviceChanged, Failure> {
        let device = match self.find(reference, from) {
            Err(missing) if missing.code == Code::NotFound => self.find(reference, &[to]).map_err(|_| missing)?,
            found => found?,
        };
        let state = to.name().to_owned();
        let Some(mut record) = self.devices.get(&device).filter(|record| record.standing != to).cloned() else {
            return Ok(DeviceChanged { device, state });
        };
        record.standing = to;
        record.since_ms = now_ms;
        if to != Standing::Enrolled
            && let Some(id) = record.invitation
            && let Some(mut invitation) = self.invitations.get(&id).cloned()
        {
            invitation.claimed = Claimed::Closed(device);
            self.put_invitation(id, Some(invitation));
        }
        self.put_device(device, Some(record));
        Ok(DeviceChanged { device, state })
    }

    /// The device of these standings that `reference` means: its id, its unique name, or an unambiguous start of its id
    /// (with or without `dev_`).
    pub(super) fn find(&self, reference: &str, standings: &[Standing]) -> Result<DeviceId, Failure> {
        let among = || self.devices.iter().filter(|(_, device)| standings.contains(&device.standing));
        if let Ok(id) = DeviceId::from_str(reference)
            && among().any(|(known, _)| *known == id)
        {
            return Ok(id);
        }
        let named: Vec<_> =
            among().filter(|(_, device)| device.name == reference).map(|(id, device)| (*id, &device.name)).collect();
        let kind = match standings {
            [Standing::Pending] => "pending device",
            _ => "device",
        };
        if !named.is_empty() {
            return reference::only(kind, reference, named);
        }
        let start = reference.strip_prefix(DeviceId::PREFIX).unwrap_or(reference);
        let starts = |id: &DeviceId| !start.is_empty() && HEXLOWER.encode(id.as_bytes()).starts_with(start);
        let started = among().filter(|(id, _)| starts(id)).map(|(id, device)| (*id, &device.name));
        reference::only(kind, reference, started)
    }

    /// The invitation that `claim` may claim now, if it shows one.
    fn claimable(
        &self,
        device: DeviceId,
        standing: Option<Standing>,
        claim: &Claim,
        now_ms: u64,
    ) -> Result<InvitationId, Reason> {
        let (id, secret_hash) = claim.invitation.ok_or(Reason::UnknownDevice)?;
        let invitation = self.invitations.get(&id).ok_or(Reason::InvitationUnknown)?;
        // First, so that nobody without the secret learns what became of it.
        if secret_hash != Some(invitation.secret_hash) {
            return Err(Reason::InvitationWrong);
        }
        let expired = now_ms >= invitation.expires_ms;
        match invitation.claimed {
            Claimed::Closed(by) if by == device => Err(Reason::Denied),
            Claimed::By(by) | Claimed::Closed(by) if by != device => Err(Reason::InvitationUsed),
            // Its own claim, which still stands, or lapsed because the owner did not decide.
            Claimed::By(_) if matches!(standing, Some(standing) if standing != Standing::Trusted) => {
                Err(Reason::InvitationUsed)
            }
            _ if expired => Err(Reason::InvitationExpired),
            Claimed::Open | Claimed::By(_) | Claimed::Closed(_) => Ok(id),
        }
    }

    fn use_invitation(&mut self, id: InvitationId, device: DeviceId) -> (Standing, Scopes) {
        let mut invitation = self.invitations.get(&id).expect("a claimable invitation is known").clone();
        invitation.claimed = Claimed::By(device);
        let standing = if invitation.approval { Standing::Pending } else { Standing::Enrolled };
        let scopes = invitation.scopes;
        self.put_invitation(id, Some(invitation));
        (standing, scopes)
    }

    /// Drops what time made void.
    fn sweep(&mut self, now_ms: u64) {
        let lapsed: Vec<DeviceId> =
            self.devices.iter().filter(|(_, device)| device.lapsed(now_ms)).map(|(id, _)| *id).collect();
        for id in lapsed {
            self.put_device(id, None);
        }
        let forgotten: Vec<InvitationId> = self
            .invitations
            .iter()
            .filter(|(_, invitation)| now_ms >= invitation.expires_ms.saturating_add(INVITATION_KEPT_MS))
            .map(|(id, _)| *id)
            .collect();
        for id in forgotten {
            self.put_invitation(id, None);
        }
    }

    /// Makes room for a device: one that was denied or only trusted goes, else the longest revoked, which as an unknown
    /// one does not get in either.
    fn forget_one(&mut self) -> bool {
        let rank = |standing| match standing {
            Standing::Denied | Standing::Trusted => Some(0),
            Standing::Revoked => Some(1),
            Standing::Enrolled | Standing::Pending => None,
        };
        let dropped =
            self.devices.iter().filter_map(|(id, device)| Some((rank(device.standing)?, device.since_ms, *id))).min();
        match dropped {
            Some((_, _, id)) => {
                self.put_device(id, None);
                true
            }
            None => false,
        }
    }

    fn sorted(&self, keep: impl Fn(&DeviceRecord) -> bool) -> Vec<(DeviceId, &DeviceRecord)> {
        let mut devices: Vec<_> =
            self.devices.iter().filter(|(_, device)| keep(device)).map(|(id, device)| (*id, device)).collect();
        devices.sort_by_key(|(id, device)| (device.since_ms, *id));
        devices
    }

    fn put_device(&mut self, id: DeviceId, record: Option<DeviceRecord>) {
        let before = match record.clone() {
            Some(record) => self.devices.insert(id, record),
            None => self.devices.remove(&id),
        };
        if let Some(record) = &record {
            let before = before.as_ref();
            let event = if before.is_none_or(|before| before.standing != record.standing) {
                Some((Event::Became(record.standing), record.name.clone()))
            } else if before.is_some_and(|before| before.scopes != record.scopes) {
                Some((Event::Scopes, record.scopes.to_string()))
            } else if before.is_some_and(|before| before.serial < record.serial) {
                Some((Event::KeyRotated, record.serial.to_string()))
            } else {
                None
            };
            let events = &mut self.edits.events;
            events.extend(event.map(|(event, detail)| (event, Some(id), detail)));
        }
        self.edits.devices.insert(id, record);
    }

    fn put_invitation(&mut self, id: InvitationId, record: Option<InvitationRecord>) {
        let before = match record.clone() {
            Some(record) => self.invitations.insert(id, record),
            None => self.invitations.remove(&id),
        };
        if let (None, Some(record)) = (before, &record) {
            let scopes = record.scopes.to_string();
            self.edits.events.push((Event::Invited, None, scopes));
        }
        self.edits.invitations.insert(id, record);
    }
}

/// Every standing: among these a reference finds a device that is known at all.
pub(super) const ANY: [Standing; 5] =
    [Standing::Pending, Standing::Enrolled, Standing::Revoked, Standing::Denied, Standing::Trusted];

fn decision(standing: Standing, claim: &Claim) -> Decision {
    match standing {
        Standing::Pending if !claim.trusted_carrier => Decision::Pending,
        _ => Decision::Enrolled,
    }
}

#[derive(Clone, Copy)]
enum Admitted {
    /// With the standing that it has.
    As(Standing),
    /// By claiming this invitation.
    By(InvitationId),
}

fn full(message: String) -> Failure {
    Failure::new(Code::TooLarge, message)
}
