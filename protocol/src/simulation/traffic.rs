//! What happens in a world when time passes: bytes arrive, hands are shaken, clocks run out, packets are written.

use bytes::Bytes;

use super::actions::Told;
use super::daemon::Admitted;
use super::handshake::{ClientStep, DaemonStep, Foreseen, Proved};
use super::reference::{Checked, End, Violation, ensure};
use super::wire::Arrival;
use super::world::{ClientPhase, DaemonPhase, Whose, World, link_id, number_of};
use crate::Time;
use crate::fault::{self, Fault};
use crate::frame::{Frame, parse_packet};
use crate::handshake::{VERSIONS, Verdict};
use crate::id::LinkId;
use crate::link::Event;
use crate::refusal::Refusal;

const VERSION: u8 = *VERSIONS.end();
/// Bytes that an end may have under way: stands for a kernel's socket buffer.
const ROOM: usize = 64 << 10;
/// Why the daemon forgot a link.
const SUPERSEDED: &str = "another link took its place";

impl World {
    /// Lets time pass.
    pub(super) fn advance(&mut self, until: Time) -> Checked {
        loop {
            self.pump()?;
            let Some(next) = self.next().filter(|next| *next <= until) else {
                break;
            };
            self.now = self.now.max(next);
            self.happen()?;
            self.check()?;
        }
        self.now = self.now.max(until);
        Ok(())
    }

    /// When the next thing happens.
    fn next(&self) -> Option<Time> {
        let carriers = self.carriers.values();
        let on_carriers = carriers.flat_map(|carrier| {
            let arrivals = carrier.wires.iter().filter_map(|wire| wire.next());
            arrivals.chain(carrier.is_shaking().then_some(carrier.patience))
        });
        // What is due now and was not written waits for the carrier, not for the clock.
        let links = self.links.entries.values().map(|entry| &entry.link);
        let timeouts = links.chain([&self.client.link]).filter_map(|link| link.poll_timeout());
        let idle = self.client.carrier.is_none() && self.client.attempt.is_none();
        let ahead = timeouts.filter(|at| *at > self.now);
        ahead.chain(on_carriers).chain(self.links.next()).chain(idle.then_some(self.client.retry_at)).min()
    }

    fn happen(&mut self) -> Checked {
        let now = self.now;
        let carriers: Vec<u32> = self.carriers.keys().copied().collect();
        for id in carriers {
            for end in End::BOTH {
                while let Some(arrival) =
                    self.carriers.get_mut(&id).and_then(|carrier| carrier.wires[end as usize].receive(now))
                {
                    match end {
                        End::Client => self.at_client(id, arrival)?,
                        End::Daemon => self.at_daemon(id, arrival)?,
                    }
                }
            }
            self.give_up_slow(id)?;
            self.bury(id);
        }
        for end in End::BOTH {
            if let Some((link, _)) = self.end(end)
                && link.poll_timeout().is_some_and(|at| at <= now)
            {
                link.handle_timeout(now);
            }
        }
        for id in self.links.expire(now) {
            self.counts.lease_ends += 1;
            self.forget(id, "its lease was over");
        }
        if self.client.carrier.is_none() && self.client.attempt.is_none() && self.client.retry_at <= now {
            let ms = self.random.u32(1..60);
            self.dial(Told::Truth, ms);
        }
        Ok(())
    }

    fn forget(&mut self, id: LinkId, why: &'static str) {
        self.reference(id).forgotten = Some(why);
    }

    fn give_up_slow(&mut self, id: u32) -> Checked {
        let Some(carrier) = self.carriers.get_mut(&id) else {
            return Ok(());
        };
        if !carrier.is_shaking() || carrier.patience > self.now {
            return Ok(());
        }
        if matches!(carrier.client, Some(ClientPhase::Shaking(_) | ClientPhase::Deaf)) {
            self.client_goes(id);
        }
        if let Some(carrier) = self.carriers.get(&id)
            && matches!(carrier.daemon, Some(DaemonPhase::Shaking(_)))
        {
            self.daemon_goes(id);
        }
        Ok(())
    }

    /// Removes a carrier that both ends have left.
    fn bury(&mut self, id: u32) {
        if let Some(carrier) = self.carriers.get(&id)
            && carrier.client.is_none()
            && carrier.daemon.is_none()
            && let Some(carrier) = self.carriers.remove(&id)
        {
            self.keep_recording(carrier.hello, carrier.recorded);
        }
    }

    /// The client's end of a carrier is gone.
    fn client_goes(&mut self, id: u32) {
        let mine = [self.client.carrier, self.client.attempt].contains(&Some(id));
        if mine {
            self.leave();
        } else if let Some(carrier) = self.carriers.get_mut(&id) {
            carrier.client = None;
            carrier.wires[End::Daemon as usize].close(self.now);
        }
    }

    /// The daemon's end of a carrier is gone.
    fn daemon_goes(&mut self, id: u32) {
        let now = self.now;
        let entries = self.links.entries.values_mut();
        for entry in entries.filter(|entry| entry.carrier == Some(id)) {
            entry.fence(now);
        }
        if let Some(carrier) = self.carriers.get_mut(&id) {
            carrier.daemon = None;
            carrier.wires[End::Client as usize].close(now);
        }
    }

    fn at_client(&mut self, id: u32, arrival: Arrival) -> Checked {
        let Some(carrier) = self.carriers.get_mut(&id) else {
            return Ok(());
        };
        let packet = match arrival {
            Arrival::Packet(packet) => packet,
            Arrival::End => {
                if carrier.client.is_some() {
                    self.client_goes(id);
                }
                return Ok(());
            }
        };
        let client = match carrier.client.take() {
            Some(ClientPhase::Shaking(client)) => client,
            Some(ClientPhase::Up) => {
                carrier.client = Some(ClientPhase::Up);
                let handled = self.client.link.handle_packet(self.now, &packet);
                return handled.map_err(|error| Violation(format!("the client was sent nonsense: {error}")));
            }
            other => {
                carrier.client = other;
                return Ok(());
            }
        };
        match client.handle(&packet)? {
            ClientStep::Send(next, message) => {
                carrier.client = Some(ClientPhase::Shaking(next));
                self.put(id, End::Client, &message);
            }
            ClientStep::Accepted(proof, cipher, cursors) => {
                ensure!(carrier.whose != Whose::Intruder, "an intruder was told that it has the link");
                carrier.client = Some(ClientPhase::Up);
                carrier.next[End::Client as usize] = cursors.map(|cursor| cursor + 1);
                if let Some(proof) = proof {
                    self.put(id, End::Client, &proof);
                }
                let client = &mut self.client;
                let established = client.link.establish(self.now, cipher, VERSION, cursors);
                ensure!(established.is_ok(), "the daemon's cursors {cursors:?} are not the link's");
                client.resumable = true;
                client.carrier = client.attempt.take();
            }
            ClientStep::Refused(refusal) => {
                let whose = carrier.whose;
                self.counts.refusals += 1;
                self.client_goes(id);
                if let Whose::Client { honest } = whose {
                    self.refused(refusal, honest)?;
                }
            }
        }
        Ok(())
    }

    /// The client's attempt, or its link, was refused.
    fn refused(&mut self, refusal: Refusal, honest: bool) -> Checked {
        let number = self.client.number;
        let forgotten = self.reference(link_id(number)).forgotten;
        let expected = match refusal {
            Refusal::LinkExpired => !honest || forgotten.is_some(),
            // By an attempt for a link that the client gave up, which was still under way.
            Refusal::Superseded => forgotten == Some(SUPERSEDED),
            _ => false,
        };
        ensure!(expected, "the client's newest attempt for link {number} was refused: {refusal}");
        self.new_link();
        Ok(())
    }

    fn at_daemon(&mut self, id: u32, arrival: Arrival) -> Checked {
        let Some(carrier) = self.carriers.get_mut(&id) else {
            return Ok(());
        };
        let packet = match arrival {
            Arrival::Packet(packet) => packet,
            Arrival::End => {
                if carrier.daemon.is_some() {
                    self.daemon_goes(id);
                }
                return Ok(());
            }
        };
        let daemon = match carrier.daemon.take() {
            Some(DaemonPhase::Shaking(daemon)) => daemon,
            Some(DaemonPhase::Up) => {
                carrier.daemon = Some(DaemonPhase::Up);
                return self.at_link(id, &packet);
            }
            None => return Ok(()),
        };
        match daemon.handle(&self.keys, self.real, &packet, &mut self.random) {
            DaemonStep::Send(next, message) => {
                carrier.daemon = Some(DaemonPhase::Shaking(next));
                self.put(id, End::Daemon, &message);
            }
            DaemonStep::Wait(next) => carrier.daemon = Some(DaemonPhase::Shaking(next)),
            DaemonStep::Foresee(foreseen) => self.foresee(id, foreseen)?,
            DaemonStep::Proved(proved, first) => self.admit(id, proved, first)?,
            DaemonStep::Failed => {
                ensure!(carrier.whose == Whose::Recording, "the daemon could not read the client's handshake");
                self.counts.refusals += 1;
                self.daemon_goes(id);
            }
        }
        Ok(())
    }

    /// A packet for the daemon's link.
    fn at_link(&mut self, id: u32, packet: &[u8]) -> Checked {
        let carrier = &self.carriers[&id];
        let link = carrier.hello.link;
        let Some(entry) = self.links.entries.get_mut(&link.id) else {
            return Ok(());
        };
        if entry.carrier != Some(id) && !fault::is(Fault::EpochNotFenced) {
            return Ok(());
        }
        let epoch = self.references[&number_of(link.id)].epoch;
        ensure!(link.epoch == epoch, "the daemon takes a packet of epoch {} after {epoch}", link.epoch);
        let handled = entry.link.handle_packet(self.now, packet);
        handled.map_err(|error| Violation(format!("the daemon was sent nonsense: {error}")))
    }

    fn foresee(&mut self, id: u32, foreseen: Foreseen) -> Checked {
        let foretold = self.links.foresee(&foreseen.hello);
        if foreseen.hello.link.cursors.is_some() {
            self.unopened(foreseen.hello.link.id);
        }
        let (verdict, ahead) = match foretold {
            Ok((cursors, ahead)) => (accepted(cursors), ahead),
            Err(refusal) => (Verdict::refused(refusal, "host"), Vec::new()),
        };
        let (next, messages) = foreseen.answer(&self.keys, &verdict, &ahead)?;
        for message in messages {
            self.put(id, End::Daemon, &message);
        }
        let Some(carrier) = self.carriers.get_mut(&id) else {
            return Ok(());
        };
        carrier.ahead = ahead;
        match next {
            Some(next) => carrier.daemon = Some(DaemonPhase::Shaking(next)),
            None => self.daemon_goes(id),
        }
        Ok(())
    }

    /// A link may be asked for before the packet that opens it has arrived, or when that never will: the daemon then does
    /// not know it, and the client begins another one.
    fn unopened(&mut self, id: LinkId) {
        let reference = self.reference(id);
        if reference.epoch == 0 {
            reference.forgotten = Some("it was not open when the client asked for it");
        }
    }

    fn admit(&mut self, id: u32, mut proved: Proved, first: Option<Bytes>) -> Checked {
        let whose = self.carriers[&id].whose;
        ensure!(whose != Whose::Recording, "a recording was taken for the device");
        let request = proved.hello.link;
        let known = self.links.entries.contains_key(&request.id);
        if request.cursors.is_some() {
            self.unopened(request.id);
        }
        let admitted = self.links.admit(self.now, &proved.hello);
        let Admitted { cursors, superseded } = match admitted {
            Ok(admitted) => admitted,
            Err(refusal) => {
                self.counts.refusals += 1;
                if known && !self.links.entries.contains_key(&request.id) {
                    ensure!(whose != Whose::Client { honest: true }, "true cursors ended the link");
                    self.forget(request.id, "a liar asked for it");
                }
                let packet = match first {
                    Some(_) => proved.seal(&Frame::Close(refusal)),
                    None => proved.verdict(&Verdict::refused(refusal, "host")),
                };
                self.put(id, End::Daemon, &packet);
                self.daemon_goes(id);
                return Ok(());
            }
        };
        ensure!(whose != Whose::Intruder, "an intruder has the link");
        self.counts.resumes += u64::from(known);
        let reference = self.reference(request.id);
        ensure!(known || reference.epoch == 0, "link {} is opened again", reference.number);
        reference.taken(request.epoch)?;
        for (old, mut entry) in superseded {
            if let (Some(carrier), Some(packet)) = (entry.carrier, entry.link.poll_packet(self.now)) {
                self.put(carrier, End::Daemon, &packet);
                self.daemon_goes(carrier);
            }
            self.counts.duplicates += entry.link.duplicates();
            self.forget(old, SUPERSEDED);
        }
        if first.is_none() {
            let packet = proved.verdict(&accepted(cursors));
            self.put(id, End::Daemon, &packet);
        }
        let ahead = match self.carriers.get_mut(&id) {
            Some(carrier) => {
                carrier.daemon = Some(DaemonPhase::Up);
                let told = request.cursors.unwrap_or_default();
                carrier.next[End::Daemon as usize] = told.map(|cursor| cursor + 1);
                std::mem::take(&mut carrier.ahead)
            }
            None => return Ok(()),
        };
        for frame in &ahead {
            self.in_turn(End::Daemon, id, frame)?;
        }
        let now = self.now;
        let Some(entry) = self.links.entries.get_mut(&request.id) else {
            return Ok(());
        };
        let peer_cursors = request.cursors.unwrap_or_default();
        let established = entry.link.establish(now, proved.cipher, VERSION, peer_cursors);
        ensure!(established.is_ok(), "an admitted carrier cannot be established");
        entry.carrier = Some(id);
        if let Some(first) = first {
            entry.link.sent_ahead(&ahead);
            let handled = entry.link.handle_plain(now, first);
            ensure!(handled.is_ok(), "the first packet is nonsense: {handled:?}");
        }
        Ok(())
    }

    /// Passes on what happened on the links, and writes what they have to say.
    pub(super) fn pump(&mut self) -> Checked {
        for end in End::BOTH {
            self.tell(end)?;
            loop {
                let carrier = match end {
                    End::Client => self.client.carrier,
                    End::Daemon => self.links.entries.values().find_map(|entry| entry.carrier),
                };
                let Some(id) = carrier else { break };
                let wire = &self.carriers[&id].wires[end.peer() as usize];
                if wire.bytes() >= ROOM {
                    break;
                }
                let now = self.now;
                let packet = self.end(end).and_then(|(link, _)| {
                    link.handle_timeout(now);
                    link.poll_packet(now)
                });
                self.tell(end)?;
                let Some(packet) = packet else { break };
                self.watch(end, id, &packet)?;
                self.put(id, end, &packet);
            }
        }
        Ok(())
    }

    /// Tells the model, and the drivers, of a link's events.
    fn tell(&mut self, end: End) -> Checked {
        while let Some((link, reference)) = self.end(end)
            && let Some(event) = link.poll_event()
        {
            match event {
                Event::Opened(id) => reference.heard_of(end, id)?,
                Event::Readable(id) => reference.side(end, id)?.blocked = false,
                Event::Alive => {}
                Event::Writable(id) => reference.side(end, id)?.starved = false,
                Event::CarrierDead => self.silent(end),
                Event::Closed(refusal) => {
                    ensure!(end == End::Client, "the client closed the link: {refusal}");
                    let carrier = self.client.carrier.and_then(|id| self.carriers.get(&id));
                    let whose = carrier.map(|carrier| carrier.whose);
                    self.counts.refusals += 1;
                    self.leave();
                    self.refused(refusal, whose == Some(Whose::Client { honest: true }))?;
                }
            }
        }
        Ok(())
    }

    /// An end has heard nothing for too long.
    fn silent(&mut self, end: End) {
        self.counts.silences += 1;
        let mut entries = self.links.entries.values();
        match end {
            End::Client => self.leave(),
            End::Daemon => {
                if let Some(id) = entries.find_map(|entry| entry.carrier) {
                    self.daemon_goes(id);
                }
            }
        }
    }

    /// Looks at a packet that an end writes, unless it is encrypted.
    fn watch(&mut self, end: End, id: u32, packet: &[u8]) -> Checked {
        if self.real {
            return Ok(());
        }
        let nonsense = |error| Violation(format!("the {end} writes nonsense: {error}"));
        let frames = parse_packet(VERSION, Bytes::copy_from_slice(packet)).map_err(nonsense)?;
        for frame in frames {
            match frame.map_err(nonsense)? {
                Frame::Credit { stream, limit } => {
                    if let Some((_, reference)) = self.end(end) {
                        reference.grants(end, stream, limit)?;
                    }
                }
                Frame::Ack { cursors } => {
                    if let Some((link, _)) = self.end(end) {
                        ensure!(cursors == link.cursors(), "the {end} acknowledges what it has not");
                    }
                }
                frame => self.in_turn(end, id, &frame)?,
            }
        }
        Ok(())
    }

    /// On a carrier, each lane goes on behind the cursor that the peer told, without a gap and without a repetition.
    fn in_turn(&mut self, end: End, id: u32, frame: &Frame) -> Checked {
        if let Some((lane, sequence)) = frame.sequence()
            && let Some(carrier) = self.carriers.get_mut(&id)
        {
            let next = &mut carrier.next[end as usize][lane.index()];
            ensure!(*next == sequence, "the {end} writes {sequence} of lane {lane:?} where {next} is due");
            *next += 1;
        }
        Ok(())
    }

    /// What holds at any time.
    pub(super) fn check(&mut self) -> Checked {
        ensure!(self.links.entries.len() <= 1, "the daemon has two links of one client");
        for end in End::BOTH {
            if let Some((link, reference)) = self.end(end) {
                reference.stands(end, link.cursors())?;
                link.check();
            }
        }
        for (id, entry) in &self.links.entries {
            if let Some(carrier) = entry.carrier {
                let has = self.carriers[&carrier].hello.link.epoch;
                let epoch = self.references[&number_of(*id)].epoch;
                ensure!(has == epoch, "epoch {has} has the link, which epoch {epoch} took");
            }
        }
        Ok(())
    }
}

impl super::world::Carrier {
    fn is_shaking(&self) -> bool {
        matches!(self.client, Some(ClientPhase::Shaking(_) | ClientPhase::Deaf))
            || matches!(self.daemon, Some(DaemonPhase::Shaking(_)))
    }
}

fn accepted(cursors: [u64; 4]) -> Verdict {
    Verdict { refusal: 0, cursors, ..Verdict::refused(Refusal::Busy, "host") }
}
