//! Refusals: why a link is not opened, or is ended.

macro_rules! refusals {
    ($($(#[$doc:meta])* $number:literal $variant:ident $name:literal $retry:literal $sentence:literal;)*) => {
        /// Why a daemon does not open a link, or ends one. The numbers stand on the wire and are never reused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Refusal {
            $($(#[$doc])* $variant,)*
            /// A refusal that this version does not know.
            Unknown {
                /// Its number.
                number: u16,
                /// Whether the daemon says that trying again is worth it.
                retry: bool,
            },
        }

        impl Refusal {
            /// Every refusal of this version.
            pub const ALL: &'static [Refusal] = &[$(Refusal::$variant,)*];

            /// The number on the wire.
            #[must_use]
            pub const fn number(self) -> u16 {
                match self { $(Refusal::$variant => $number,)* Refusal::Unknown { number, .. } => number }
            }

            /// The refusal with this number; `retry` is the peer's word for numbers that this version does not know.
            #[must_use]
            pub const fn from_number(number: u16, retry: bool) -> Self {
                match number { $($number => Refusal::$variant,)* _ => Refusal::Unknown { number, retry } }
            }

            /// The name in JSON.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Refusal::$variant => $name,)* Refusal::Unknown { .. } => "unknown" }
            }

            /// Whether trying again later may end otherwise without anybody doing something at this end.
            #[must_use]
            pub const fn retry(self) -> bool {
                match self { $(Refusal::$variant => $retry,)* Refusal::Unknown { retry, .. } => retry }
            }

            /// One sentence for a person.
            #[must_use]
            pub const fn sentence(self) -> &'static str {
                match self {
                    $(Refusal::$variant => $sentence,)*
                    Refusal::Unknown { .. } => "the daemon refused for a reason that this version does not know",
                }
            }
        }
    };
}

refusals! {
    /// No common protocol version.
    1 Version "version" true "the daemon speaks other protocol versions: upgrade the older of the two";
    /// Too many handshakes at once.
    2 Busy "busy" true "the daemon is busy with other connections";
    /// The Noise key that the client knows was rotated.
    3 StaleKey "stale-key" true "the daemon's key was rotated";
    /// The device is not enrolled.
    16 UnknownDevice "unknown-device" false "this device is not enrolled there: ask the daemon's owner for an invitation";
    /// The device waits for the owner's decision.
    17 Pending "pending" true "the daemon's owner has not approved this device yet: `keepline remote approve` does it";
    /// The device was revoked.
    18 Revoked "revoked" false "this device was revoked: ask the daemon's owner for a new invitation";
    /// The owner denied the device.
    19 Denied "denied" false "the daemon's owner denied this device";
    /// The link to resume is gone.
    20 LinkExpired "link-expired" true "the link to resume has expired; a new one is opened";
    /// The device may not do this.
    21 Scope "scope" false "this device may not do that";
    /// The daemon never made this invitation, or has forgotten it.
    22 InvitationUnknown "invitation-unknown" false "the daemon does not know this invitation: ask its owner for a new one";
    /// The invitation's time is over.
    23 InvitationExpired "invitation-expired" false "this invitation has expired: ask the daemon's owner for a new one";
    /// Another device claimed the invitation.
    24 InvitationUsed "invitation-used" false "this invitation was used by another device: ask the daemon's owner for a new one";
    /// The secret is not the invitation's.
    25 InvitationWrong "invitation-wrong" false "the invitation's secret is wrong: ask the daemon's owner for a new one";
    /// A certificate with a lower serial than one seen before.
    26 StaleSerial "stale-serial" false "this device's key was rotated since: the older key is refused";
    /// A link attempt that is not newer than the last one.
    27 StaleEpoch "stale-epoch" true "a newer attempt of this link is under way";
    /// A new link of the same device and client took its place.
    28 Superseded "superseded" false "another client with the same id took over; it may be a second relay with the same state directory";
    /// The daemon is stopping.
    29 Stopping "stopping" true "the daemon is stopping";
    /// The peer broke the protocol.
    30 Protocol "protocol" true "the peer broke the protocol and the link was ended";
    /// The handshake's payload is malformed.
    31 Malformed "malformed" false "the daemon could not read what this device sent in the handshake";
}

impl Refusal {
    /// Whether this refusal may stand in clear. Anybody can forge those, so a client only shows and retries them.
    #[must_use]
    pub const fn in_clear(self) -> bool {
        matches!(self, Refusal::Version | Refusal::Busy | Refusal::StaleKey)
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.sentence())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_come_back() {
        for &refusal in Refusal::ALL {
            assert_eq!(Refusal::from_number(refusal.number(), false), refusal);
        }
        assert_eq!(Refusal::from_number(999, true), Refusal::Unknown { number: 999, retry: true });
    }
}
