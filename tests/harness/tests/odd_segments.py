"""A client whose segments no TCP makes, by scapy, for `odd_segments.rs`.

`DEVICE MAC ADDRESS SEED` opens a connection to port 80 of ADDRESS, at the station MAC, from an address that nobody else has, so
that no other TCP answers for it. It sends the bytes of its standard input in pieces of any length, which overlap, come in any order
and twice, and among them what was acknowledged before, with other bytes. It writes what the server sends to its standard output
until that closes. The generator with SEED chooses everything.
"""

import select
import sys
import time
from random import Random

from scapy.all import IP, TCP, Ether, IPv6, Raw, conf

STATION = "02:00:00:00:00:77"
ADDRESSES = {4: "198.18.0.77", 6: "fe80::77"}
PORT = 80
# Seconds after which the server is held to be silent for good.
PATIENCE = 120
# Seconds without a packet after which what is missing is sent again.
PAUSE = 0.05
NUMBERS = 1 << 32
LENGTHS = [1, 2, 3, 7, 20, 100, 400, 536]


class Client:
    def __init__(self, device, mac, address, seed):
        self.random = Random(seed)
        self.socket = conf.L2socket(iface=device)
        self.version = 6 if ":" in address else 4
        layer = IPv6 if self.version == 6 else IP
        self.head = Ether(src=STATION, dst=mac) / layer(src=ADDRESSES[self.version], dst=address)
        self.port = self.random.randrange(20_000, 60_000)
        # Sequence numbers pass zero in the middle of what is sent.
        self.first = NUMBERS - self.random.randrange(2, 4000)
        self.theirs = None
        # Bytes of ours that were sent, that are acknowledged, and up to where the server takes more, all from the first on.
        self.sent, self.acknowledged, self.limit = 0, 0, 0
        self.received = bytearray()
        self.has_ended = False
        self.until = time.monotonic() + PATIENCE

    def send(self, place, data=b"", flags="A", **fields):
        """Sends the bytes `data` from `place` on; -1 is the number of the SYN."""
        acknowledgement = 0 if self.theirs is None else (self.theirs + 1 + len(self.received) + self.has_ended) % NUMBERS
        segment = TCP(sport=self.port, dport=PORT, seq=(self.first + 1 + place) % NUMBERS, ack=acknowledgement, flags=flags, window=65_535)
        for name, value in fields.items():
            setattr(segment, name, value)
        self.socket.send(self.head / segment / Raw(data))
        self.sent = max(self.sent, place + len(data) + ("F" in flags))

    def receive(self):
        """Takes what comes until nothing comes for a while."""
        while select.select([self.socket], [], [], PAUSE)[0]:
            packet = self.socket.recv()
            if packet is None or packet.dst != STATION or TCP not in packet or packet[TCP].dport != self.port:
                continue
            self.take(packet[TCP])
        if time.monotonic() > self.until:
            sys.exit(f"{self.acknowledged} of {self.sent} bytes are acknowledged, {len(self.received)} came, and nothing goes on")

    def take(self, segment):
        if segment.flags.R:
            sys.exit("the server resets the connection")
        if segment.flags.S:
            self.theirs = segment.seq
        acknowledged = (segment.ack - self.first - 1) % NUMBERS
        if acknowledged > self.sent:
            sys.exit(f"{acknowledged} bytes are acknowledged, and {self.sent} were sent")
        if acknowledged > self.acknowledged:
            self.acknowledged, self.until = acknowledged, time.monotonic() + PATIENCE
        self.limit = max(self.limit, acknowledged + segment.window)
        data = segment.payload.load if Raw in segment else b""
        if not data and not segment.flags.F:
            return
        place = (segment.seq - self.theirs - 1) % NUMBERS
        if place <= len(self.received):
            known = self.received[place : place + len(data)]
            if known != data[: len(known)]:
                sys.exit(f"the server sends other bytes from {place} on than before")
            self.received += data[len(known) :]
            self.until = time.monotonic() + PATIENCE
            self.has_ended |= segment.flags.F and place + len(data) == len(self.received)
        self.send(self.sent)

    def pieces(self, data, begin, end):
        """Cuts the bytes from `begin` to `end` into pieces, in any order."""
        pieces = []
        while begin < end:
            length = self.random.choice(LENGTHS)
            first = max(0, begin - self.random.choice([0, 0, 1, 30]))
            last = min(end, begin + length + self.random.choice([0, 0, 1, 30]))
            pieces += [(first, data[first:last])] * self.random.choice([1, 1, 1, 2])
            begin += length
        self.random.shuffle(pieces)
        return pieces

    def open(self):
        while self.theirs is None:
            self.send(-1, flags="S", options=[("MSS", self.random.choice([536, 1000, 1440]))])
            self.receive()
        self.send(0)

    def send_all(self, data):
        while self.acknowledged < len(data):
            for place, piece in self.pieces(data, self.acknowledged, min(len(data), self.limit)):
                flags = self.random.choice(["A", "PA", "PA", "UPA"])
                self.send(place, piece, flags, urgptr=len(piece) if "U" in flags else 0)
                before = self.acknowledged - self.random.randrange(1, 200)
                if before >= 0 and self.random.random() < 0.1:
                    # It was taken, and is not changed any more.
                    self.send(before, b"?" * self.random.randrange(1, self.acknowledged - before + 1))
            self.receive()

    def end(self):
        while not self.has_ended:
            self.receive()
        end = self.sent
        while self.acknowledged <= end:
            self.send(end, flags="FA")
            self.receive()


def main():
    device, mac, address, seed = sys.argv[1:]
    data = sys.stdin.buffer.read()
    client = Client(device, mac, address, int(seed))
    client.open()
    client.send_all(data)
    client.end()
    sys.stdout.buffer.write(client.received)


main()
