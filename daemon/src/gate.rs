//! The gate: what connections may cost before they have proved who they are.
//!
//! A connection holds a place from its acceptance until its handshake is proved. When all [`HALF_OPEN_MAX`] places are
//! taken, a new connection is served all the same, and another one loses its place: the oldest one **of the source that
//! weighs most**. A source is an IPv4 address or an IPv6 /64; it weighs as many places as it holds, times one more than the
//! bad behaviour that is remembered of it. So
//!
//! - one address that opens connections without end pushes out its own, and nobody else's;
//! - an address that talks garbage or lets handshakes time out has a smaller share than one that does not, and gets its
//!   share back with time. Nobody is ever banned: the newest connection of the worst source is served;
//! - many addresses together push out the oldest first. A handshake takes few round trips, and who would push it out must
//!   open [`HALF_OPEN_MAX`] connections within them.
//!
//! A connection whose first message proves an enrolled device's key leaves its source's places for those of its device, of
//! which there are few, because the message may be a recording. There nothing that happens at its address reaches it.
//!
//! The core is pure: the time is an argument.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use keepline_protocol::id::DeviceId;
use tokio::sync::oneshot;

use crate::bounds::{BAD_BEHAVIOUR_HALVES, BAD_BEHAVIOUR_MAX, HALF_OPEN_DEVICE_MAX, HALF_OPEN_MAX, SOURCES_MAX};

/// On whose account a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Account {
    /// The first 64 bits of an IPv6 address, or an IPv4 address among those that are mapped.
    Source(u128),
    Device(DeviceId),
}

fn source(address: IpAddr) -> Account {
    Account::Source(match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits() >> 64 << 64,
    })
}

/// What is remembered of a source.
#[derive(Clone, Copy)]
struct Behaviour {
    bad: u32,
    at: Duration,
}

impl Behaviour {
    fn now(self, now: Duration) -> u32 {
        let halves = now.saturating_sub(self.at).as_secs() / BAD_BEHAVIOUR_HALVES.as_secs();
        self.bad.checked_shr(u32::try_from(halves).unwrap_or(u32::MAX)).unwrap_or(0)
    }
}

/// What an account holds, and is remembered for: beside each other, so that weighing all of them looks nothing up.
struct Held {
    /// The oldest first.
    places: VecDeque<u64>,
    behaviour: Behaviour,
}

/// The places. `T` is what tells their holders that they have lost them.
struct Table<T> {
    places: HashMap<u64, (Account, T)>,
    held: HashMap<Account, Held>,
    behaviour: HashMap<Account, Behaviour>,
    next: u64,
}

impl<T> Table<T> {
    fn new() -> Self {
        Table { places: HashMap::new(), held: HashMap::new(), behaviour: HashMap::new(), next: 0 }
    }

    /// Takes a place on an account; whoever loses theirs for it is forgotten here.
    fn enter(&mut self, account: Account, notice: T, now: Duration) -> u64 {
        if self.places.len() >= HALF_OPEN_MAX
            && let Some(number) = self.weightiest(now)
        {
            self.leave(number);
        }
        let number = self.next;
        self.next += 1;
        self.put(number, account, notice);
        number
    }

    fn put(&mut self, number: u64, account: Account, notice: T) {
        self.places.insert(number, (account, notice));
        let good = Behaviour { bad: 0, at: Duration::ZERO };
        let behaviour = &self.behaviour;
        let held = self.held.entry(account).or_insert_with(|| Held {
            places: VecDeque::new(),
            behaviour: behaviour.get(&account).copied().unwrap_or(good),
        });
        // One that moved to its device is among the newest there, though it may be older.
        held.places.push_back(number);
    }

    /// The oldest place of the source that weighs most; among equals the older place.
    fn weightiest(&self, now: Duration) -> Option<u64> {
        let sources = self.held.iter().filter_map(|(account, held)| {
            let oldest = *held.places.front()?;
            let weight = held.places.len() as u64 * u64::from(1 + held.behaviour.now(now));
            matches!(account, Account::Source(_)).then_some((weight, Reverse(oldest)))
        });
        sources.max().map(|(_, Reverse(oldest))| oldest)
    }

    fn leave(&mut self, number: u64) -> Option<T> {
        let (account, notice) = self.places.remove(&number)?;
        if let Some(held) = self.held.get_mut(&account) {
            held.places.retain(|place| *place != number);
            if held.places.is_empty() {
                self.held.remove(&account);
            }
        }
        Some(notice)
    }

    /// Moves a place to a device's account, where the device's oldest makes room.
    fn proved(&mut self, number: u64, device: DeviceId) {
        let account = Account::Device(device);
        let Some(notice) = self.leave(number) else {
            return;
        };
        let held = self.held.get(&account).map(|held| &held.places);
        let full = held.filter(|places| places.len() >= HALF_OPEN_DEVICE_MAX);
        if let Some(oldest) = full.and_then(|places| places.front().copied()) {
            self.leave(oldest);
        }
        self.put(number, account, notice);
    }

    fn misbehaved(&mut self, account: Account, now: Duration) {
        if self.behaviour.len() >= SOURCES_MAX && !self.behaviour.contains_key(&account) {
            self.behaviour.retain(|_, known| known.now(now) > 0);
            // All are bad: the one seen longest ago is forgotten.
            let oldest = self.behaviour.iter().min_by_key(|(_, known)| known.at);
            if self.behaviour.len() >= SOURCES_MAX
                && let Some(oldest) = oldest.map(|(account, _)| *account)
            {
                self.behaviour.remove(&oldest);
            }
        }
        let known = self.behaviour.entry(account).or_insert(Behaviour { bad: 0, at: now });
        known.bad = (known.now(now) + 1).min(BAD_BEHAVIOUR_MAX);
        known.at = now;
        let known = *known;
        if let Some(held) = self.held.get_mut(&account) {
            held.behaviour = known;
        }
    }
}

/// The gate; clones are the same gate.
#[derive(Clone)]
pub(crate) struct Gate {
    table: Arc<Mutex<Table<oneshot::Sender<()>>>>,
    began: Instant,
}

/// A connection's place, given back when it is dropped.
pub(crate) struct Place {
    gate: Gate,
    number: u64,
    source: Account,
}

/// Tells when a place is lost to a newer connection.
pub(crate) struct Lost(oneshot::Receiver<()>);

impl Lost {
    /// Waits until the place is lost.
    pub(crate) async fn wait(&mut self) {
        // The sender goes with the place, unused.
        let _ = (&mut self.0).await;
    }
}

impl Gate {
    pub(crate) fn new() -> Self {
        Gate { table: Arc::new(Mutex::new(Table::new())), began: Instant::now() }
    }

    fn table(&self) -> MutexGuard<'_, Table<oneshot::Sender<()>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection from this address. There always is one.
    pub(crate) fn enter(&self, address: IpAddr) -> (Place, Lost) {
        let (notice, lost) = oneshot::channel();
        let source = source(address);
        let number = self.table().enter(source, notice, self.began.elapsed());
        let place = Place { gate: self.clone(), number, source };
        (place, Lost(lost))
    }
}

impl Place {
    /// The connection has shown the key of an enrolled device.
    pub(crate) fn proved(&self, device: DeviceId) {
        self.gate.table().proved(self.number, device);
    }

    /// The connection's peer did what no honest one does.
    pub(crate) fn misbehaved(&self) {
        let now = self.gate.began.elapsed();
        self.gate.table().misbehaved(self.source, now);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.gate.table().leave(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_000);

    fn address(text: &str) -> Account {
        source(text.parse().unwrap())
    }

    fn device(number: u8) -> DeviceId {
        DeviceId::from_bytes([number; 16])
    }

    #[test]
    fn a_source_is_an_address_or_a_network() {
        assert_eq!(address("10.0.0.1"), address("::ffff:10.0.0.1"));
        assert_ne!(address("10.0.0.1"), address("10.0.0.2"));
        assert_eq!(address("2001:db8::1"), address("2001:db8::2:3"));
        assert_ne!(address("2001:db8::1"), address("2001:db8:0:1::1"));
    }

    #[test]
    fn who_opens_without_end_pushes_out_its_own_oldest() {
        let mut table = Table::new();
        let honest = table.enter(address("10.0.0.1"), (), NOW);
        let first = table.enter(address("10.0.0.2"), (), NOW);
        for _ in 0..10_000 {
            table.enter(address("10.0.0.2"), (), NOW);
        }
        assert_eq!(table.places.len(), HALF_OPEN_MAX);
        assert!(table.places.contains_key(&honest));
        assert!(!table.places.contains_key(&first));
        assert_eq!(table.held[&address("10.0.0.2")].places.len(), HALF_OPEN_MAX - 1);
    }

    #[test]
    fn many_sources_push_out_the_oldest() {
        let mut table = Table::new();
        let numbers: Vec<u64> =
            (0..HALF_OPEN_MAX as u128 + 3).map(|number| table.enter(Account::Source(number), (), NOW)).collect();
        let mut kept: Vec<u64> = table.places.keys().copied().collect();
        kept.sort_unstable();
        assert_eq!(kept, numbers[3..]);
    }

    #[test]
    fn bad_behaviour_shrinks_a_share_which_comes_back() {
        let mut table = Table::new();
        let (good, bad) = (address("10.0.0.1"), address("10.0.0.2"));
        for _ in 0..7 {
            table.misbehaved(bad, NOW);
        }
        let fill = |table: &mut Table<()>, now| {
            for _ in 0..HALF_OPEN_MAX {
                table.enter(good, (), now);
                table.enter(bad, (), now);
            }
            let places = |account| table.held[account].places.len();
            (places(&good), places(&bad))
        };
        let (well, badly) = fill(&mut table, NOW);
        assert!(badly > 0, "nobody is banned");
        assert!(well >= 7 * badly, "{well} and {badly}");
        let (well, badly) = fill(&mut table, NOW + 10 * BAD_BEHAVIOUR_HALVES);
        assert!(well.abs_diff(badly) <= 1, "{well} and {badly}");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut table: Table<()> = Table::new();
        for number in 0..3 * SOURCES_MAX as u128 {
            table.misbehaved(Account::Source(number), NOW);
        }
        assert_eq!(table.behaviour.len(), SOURCES_MAX);
        for _ in 0..2 * BAD_BEHAVIOUR_MAX {
            table.misbehaved(Account::Source(1), NOW);
        }
        assert_eq!(table.behaviour[&Account::Source(1)].bad, BAD_BEHAVIOUR_MAX);
    }

    #[test]
    fn a_proved_device_is_out_of_reach_of_its_address_and_has_few_places() {
        let mut table = Table::new();
        let proved = table.enter(address("10.0.0.1"), (), NOW);
        table.proved(proved, device(1));
        for _ in 0..10_000 {
            table.enter(address("10.0.0.1"), (), NOW);
        }
        assert!(table.places.contains_key(&proved));
        // Recordings of its first message cost other attempts of the same device at most.
        let other = table.enter(address("10.0.0.1"), (), NOW);
        table.proved(other, device(2));
        for _ in 0..HALF_OPEN_DEVICE_MAX {
            let recorded = table.enter(address("10.0.0.3"), (), NOW);
            table.proved(recorded, device(1));
        }
        assert!(!table.places.contains_key(&proved));
        assert!(table.places.contains_key(&other));
        assert_eq!(table.held[&Account::Device(device(1))].places.len(), HALF_OPEN_DEVICE_MAX);
    }

    #[tokio::test]
    async fn a_lost_place_is_told_and_a_dropped_one_is_free() {
        let gate = Gate::new();
        let address = "10.0.0.1".parse().unwrap();
        let (first, mut lost) = gate.enter(address);
        let others: Vec<_> = (0..HALF_OPEN_MAX).map(|_| gate.enter(address)).collect();
        lost.wait().await;
        drop(others);
        drop(first);
        assert!(gate.table().places.is_empty() && gate.table().held.is_empty());
    }
}
