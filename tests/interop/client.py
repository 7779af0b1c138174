"""A keepline client that shares no code with keepline: written from the text of `spec`, on libraries of others.

    client.py INVITATION-FILE

It claims the invitation by XX over a WebSocket and asks for a workspace, loses its carrier before it has looked at the
answer, resumes the link by IK on another one, gets the answer there, changes its key, and asks again under the same
idempotency key. What it learns it prints as one JSON object. Each part names its chapter of `spec`.
"""

import asyncio
import hashlib
import hmac
import json
import os
import struct
import sys

import websockets
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from dissononce.cipher.aesgcm import AESGCMCipher
from dissononce.dh.x25519.x25519 import X25519DH
from dissononce.hash.sha256 import SHA256Hash
from dissononce.processing.handshakepatterns.interactive.IK import IKHandshakePattern
from dissononce.processing.handshakepatterns.interactive.XX import XXHandshakePattern
from dissononce.processing.impl.cipherstate import CipherState
from dissononce.processing.impl.handshakestate import HandshakeState
from dissononce.processing.impl.symmetricstate import SymmetricState
from dissononce.processing.modifiers.psk import PSKPatternModifier
from kyber_py.ml_kem import ML_KEM_768

VERSION = 1
# An end ignores feature bits that it does not know (registry.md).
FEATURES = 1 << 63


# README.md: postcard.


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def blob(value):
    return varint(len(value)) + value


def string(text):
    return blob(text.encode())


def option(value):
    return b"\x00" if value is None else b"\x01" + value


class Reader:
    def __init__(self, data):
        self.data = data

    def take(self, count):
        assert count <= len(self.data), "a body that is too short"
        taken, self.data = self.data[:count], self.data[count:]
        return taken

    def varint(self):
        number = shift = 0
        while True:
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    def bool(self):
        return self.take(1) != b"\x00"

    def bytes(self):
        return self.take(self.varint())

    def string(self):
        return self.bytes().decode()

    def strings(self):
        return [self.string() for _ in range(self.varint())]


# handshake.md: identities and certificates, the psk.


def raw(public_key):
    return public_key.public_bytes(Encoding.Raw, PublicFormat.Raw)


def hkdf(material, info):
    """HKDF-SHA256 without a salt, 32 bytes (RFC 5869): one block."""
    key = hmac.digest(bytes(32), material, "sha256")
    return hmac.digest(key, info + b"\x01", "sha256")


def certificate(identity, noise_key, serial):
    signed = b"keepline device certificate v1" + noise_key + struct.pack(">Q", serial)
    return raw(identity.public_key()) + noise_key + varint(serial) + blob(identity.sign(signed))


def check_daemon(reader, used, pinned):
    """Reads the daemon's certificate, which holds for the Noise key that was used, and is the pinned daemon's."""
    identity, noise_key = reader.take(32), reader.take(32)
    serial, signature = reader.varint(), reader.bytes()
    assert noise_key == used, "a certificate for another key"
    signed = b"keepline daemon certificate v1" + noise_key + struct.pack(">Q", serial)
    Ed25519PublicKey.from_public_bytes(identity).verify(signature, signed)
    assert identity == pinned, "another daemon"


class Noise(HandshakeState):
    """A handshake whose psk is known only after it has begun."""

    def __init__(self, pattern, place, prologue, static, known=None):
        super().__init__(SymmetricState(CipherState(AESGCMCipher()), SHA256Hash()), X25519DH())
        pattern = PSKPatternModifier(place).modify(pattern)
        self.initialize(pattern, True, prologue, s=static, rs=known, psks=[])

    def set_psk(self, psk):
        self._psks = [psk]


def rekey(cipher):
    """REKEY of the Noise specification, section 4.2: the first 32 bytes; nonces count on. The library's own does neither."""
    cipher._key = cipher.cipher.rekey(cipher._key)[:32]


class Link:
    """A link and the carrier that it has (handshake.md, lanes-and-streams.md)."""

    def __init__(self, invitation):
        self.invitation = invitation
        self.identity = Ed25519PrivateKey.generate()
        self.static = X25519DH().generate_keypair()
        # The daemon's X25519 key, once it is known.
        self.known = None
        self.id = os.urandom(16)
        self.epoch = 0
        self.opened = False
        # By lane: the last sequences, and the frames that were not acknowledged.
        self.sent = [0] * 4
        self.received = [0] * 4
        self.kept = []
        self.next_stream = 1
        self.streams = {}

    async def connect(self):
        """A new carrier: a handshake of handshake.md over a WebSocket of carriers.md."""
        route = self.invitation["routes"][0]
        self.socket = await websockets.connect(route, compression=None, max_size=65535)
        self.epoch += 1
        cursors = await (self.xx() if self.known is None else self.ik())
        # The first packet proves to the daemon that this is no recording. What it misses goes along.
        self.opened = True
        self.acknowledged(cursors)
        await self.send(self.ack(), *(frame for _, _, frame in self.kept))

    def head(self, pattern, invitation):
        key, self.decapsulation_key = ML_KEM_768.keygen()
        head = b"KPLN" + bytes([VERSION, VERSION, pattern]) + invitation
        return head + struct.pack(">H", len(key)) + key

    async def reply(self, noise, head, key):
        """Message 2: its payload, with the psk set before Noise has to know it."""
        reply = await self.socket.recv()
        assert reply[0] == 0, f"refused in clear: {reply.hex()}"
        ciphertext, message = reply[1:1089], reply[1089:]
        shared = ML_KEM_768.decaps(self.decapsulation_key, ciphertext)
        transcript = hashlib.sha256(head + ciphertext).digest()
        noise.set_psk(hkdf(key + shared, b"keepline psk v1" + transcript))
        payload = bytearray()
        ciphers = noise.read_message(message, payload)
        return Reader(bytes(payload)), ciphers

    async def xx(self):
        """First contact: the invitation is claimed."""
        secret = bytes.fromhex(self.invitation["secret"])
        head = self.head(1, bytes.fromhex(self.invitation["id"].removeprefix("inv_")))
        noise = Noise(XXHandshakePattern(), 3, head, self.static)
        first = bytearray(head)
        noise.write_message(b"", first)
        assert len(first) == 1257
        await self.socket.send(bytes(first))

        key = hkdf(secret, b"keepline invitation key v1")
        hello, _ = await self.reply(noise, head, key)
        version, refusal = hello.take(1)[0], hello.varint()
        check_daemon(hello, noise.rs.data, bytes.fromhex(self.invitation["daemon"]))
        assert refusal == 0, f"refused with {refusal}"
        assert version == VERSION
        self.known = noise.rs

        third = bytearray()
        self.writing, self.reading = noise.write_message(self.device() + option(secret), third)
        await self.socket.send(bytes(third))
        frames = await self.packet()
        assert [kind for kind, _, _ in frames] == [7], f"no verdict: {frames}"
        return self.verdict(Reader(frames[0][2]))

    async def ik(self):
        """Afterwards: the daemon's X25519 key is known."""
        head = self.head(2, bytes(16))
        noise = Noise(IKHandshakePattern(), 2, head, self.static, self.known)
        first = bytearray(head)
        noise.write_message(self.device(), first)
        await self.socket.send(bytes(first))

        decision, (self.writing, self.reading) = await self.reply(noise, head, bytes(32))
        assert decision.take(1)[0] == VERSION
        check_daemon(decision, noise.rs.data, bytes.fromhex(self.invitation["daemon"]))
        return self.verdict(decision)

    def device(self):
        hello = certificate(self.identity, self.static.public.data, 1)
        hello += string("a python") + string("interop") + varint(FEATURES)
        cursors = b"".join(varint(cursor) for cursor in self.received)
        return hello + self.id + varint(self.epoch) + option(cursors if self.opened else None)

    def verdict(self, body):
        refusal, _retry, held = body.varint(), body.bool(), body.bool()
        assert refusal == 0 and not held, f"the verdict is {refusal}"
        self.host, _features = body.string(), body.varint()
        cursors = [body.varint() for _ in range(4)]
        self.lease = body.varint()
        return cursors

    # frames.md: packets and frames.

    async def packet(self):
        """The frames of the next packet: kind, flags, body."""
        plain = Reader(self.reading.decrypt_with_ad(b"", await self.socket.recv()))
        assert plain.take(1)[0] == VERSION
        frames = []
        while plain.data:
            kind, flags, length = struct.unpack(">BBH", plain.take(4))
            frames.append((kind, flags, plain.take(length)))
        if frames[-1][0] == 9:
            rekey(self.reading)
        return frames

    async def send(self, *frames):
        plain = bytes([VERSION])
        for kind, flags, body in frames:
            plain += struct.pack(">BBH", kind, flags, len(body)) + body
        await self.socket.send(self.writing.encrypt_with_ad(b"", plain))
        if frames[-1][0] == 9:
            rekey(self.writing)

    def ack(self):
        return 4, 0, struct.pack(">4Q", *self.received)

    def acknowledged(self, cursors):
        self.kept = [kept for kept in self.kept if kept[1] > cursors[kept[0]]]

    async def receive(self):
        """Takes a packet; what it says about streams goes to them."""
        answers = []
        for kind, flags, body in await self.packet():
            lane = flags & 3
            if kind == 1:
                stream, sequence = struct.unpack(">IQ", body[:12])
                assert sequence in range(1, self.received[lane] + 2), "a gap"
                if sequence == self.received[lane] + 1:
                    self.received[lane] = sequence
                    data, _ = self.streams[lane, stream]
                    self.streams[lane, stream] = (data + body[12:], bool(flags & 8))
                answers = [self.ack()]
            elif kind == 4:
                self.acknowledged(struct.unpack(">4Q", body))
            elif kind == 5:
                await self.send((6, 0, body))
            else:
                assert kind in (3, 6, 9), f"a frame of kind {kind}"
        if answers:
            await self.send(*answers)

    # messages.md: a request on a stream of its own.

    async def ask(self, method, params):
        lane, stream, self.next_stream = 1, self.next_stream, self.next_stream + 2
        message = struct.pack(">IH", 2 + len(params), method) + params
        self.sent[lane] += 1
        self.streams[lane, stream] = (b"", False)
        # Open and fin, all in one frame.
        data = (1, lane | 4 | 8, struct.pack(">IQ", stream, self.sent[lane]) + message)
        self.kept.append((lane, self.sent[lane], data))
        # The frame before it is of a kind that nobody knows, and is skipped.
        await self.send((99, 0xFF, b"from a later version"), data)
        return lane, stream

    async def answer(self, stream):
        while not self.streams[stream][1]:
            await self.receive()
        data, _ = self.streams.pop(stream)
        length, number = struct.unpack(">IH", data[:6])
        assert len(data) == 4 + length, "one message and nothing else"
        return number, Reader(data[6:])

    async def request(self, method, params):
        return await self.answer(await self.ask(method, params))


def failure(body):
    return {"code": body.varint(), "message": body.string(), "candidates": body.strings()}


async def status(link):
    """`server.status`."""
    number, body = await link.request(0x0501, b"")
    assert number == 0x8501, failure(body)
    return {
        "pid": body.varint(),
        "version": body.string(),
        "generation": body.take(16).hex(),
        "fingerprint": body.string(),
        "listeners": body.strings(),
        "terminals": body.varint(),
        "links": body.varint(),
        "state_dir": body.string(),
    }


# `workspace.new`, always the same: key, no expected cursor, name.
WORKSPACE = option(string("one key")) + option(None) + option(string("from python"))


def receipt(number, body):
    assert number == 0x8201, failure(body)
    told = {
        # A path: the workspace, and neither screen, pane, tab nor terminal.
        "workspace": body.take(16).hex() if body.bool() else None,
        "no more": [body.bool() for _ in range(4)],
        "generation": body.take(16).hex(),
        "revision": body.varint(),
        "replayed": body.bool(),
    }
    assert not body.data, "nothing behind an answer"
    assert not any(told.pop("no more")), "a workspace alone"
    return told


async def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        link = Link(json.load(file))
    await link.connect()
    told = {"host": link.host, "lease_seconds": link.lease, "status": await status(link)}
    number, body = await link.request(0x0EEE, b"")
    assert number == 0xFFFF
    told["unknown_method"] = failure(body)

    # A packet of the daemon's is lost, and the carrier with it, but not the link.
    stream = await link.ask(0x0201, WORKSPACE)
    await link.socket.recv()
    link.socket.transport.abort()
    await link.connect()
    told["first"] = receipt(*await link.answer(stream))
    await link.send((9, 0, b""))
    told["second"] = receipt(*await link.request(0x0201, WORKSPACE))

    # The request is lost, or its answer: the daemon's cursors say which.
    stream = await link.ask(0x0201, WORKSPACE)
    link.socket.transport.abort()
    await link.connect()
    told["third"] = receipt(*await link.answer(stream))
    told["link"] = link.id.hex()
    told["epoch"] = link.epoch
    print(json.dumps(told))


asyncio.run(main())
