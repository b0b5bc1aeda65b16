"""Packets that no honest station sends, made by scapy for `router_hostile.rs`.

`send DEVICE MAC SIDE` sends those of a side to the station MAC, a marker in each. `listen DEVICE` writes what comes until its
standard input ends: of each packet with a marker a line "MARKER SOURCE", and of each ICMP error "error TYPE SOURCE MARKER",
where the marker is of the packet that it is about. `flood DEVICE MAC COUNT KIND` sends packets that each begin a flow: first segments
of TCP, each from another source (`sources`) or all from one (`segments`), or datagrams from one inside (`datagrams`).
"""

import re
import sys
from random import Random

from scapy.all import ICMP, IP, TCP, UDP, Ether, ICMPv6EchoRequest, IPOption, IPv6, Raw, conf, fragment, get_if_hwaddr, raw

OUTSIDE, INSIDE = "10.0.2.2", "10.0.3.2"
# Those from which floods come, and nobody answers.
FLOODER, FLOODER_INSIDE = "198.51.100.66", "10.0.3.66"
OUTSIDE6, INSIDE6 = "2001:db8:2::2", "2001:db8:3::2"


def mark(name):
    return Raw(f"<{name}>".encode())


def echo(name, **fields):
    return IP(**{"src": OUTSIDE, "dst": INSIDE, **fields}) / ICMP(id=1) / mark(name)


def echo6(name, **fields):
    return IPv6(**{"src": OUTSIDE6, "dst": INSIDE6, **fields}) / ICMPv6EchoRequest(id=1) / mark(name)


def segment(name, flags, **fields):
    return IP(src=OUTSIDE, dst=INSIDE, **fields) / TCP(sport=4000, dport=8000, flags=flags) / mark(name)


def part(name, identification, offset, more, payload):
    payload = payload + f"<{name}>".encode()
    payload += b"." * (-len(payload) % 8)
    flags = "MF" if more else 0
    return IP(src=OUTSIDE, dst=INSIDE, id=identification, flags=flags, frag=offset // 8, proto=1) / Raw(payload)


def from_outside():
    yield echo("good-first")
    yield echo6("good-first6")
    for number, source in enumerate(["10.0.3.7", "10.0.3.15", "10.0.2.15", "10.0.3.255"]):
        yield echo(f"bad-spoofed-{number}", src=source)
    yield echo6("bad-spoofed6", src="2001:db8:3::7")
    martians = ["127.0.0.1", "224.0.0.1", "255.255.255.255", "0.0.0.0", "10.0.2.255"]
    for number, source in enumerate(martians):
        yield echo(f"bad-martian-{number}", src=source)
    for number, source in enumerate(["::1", "ff02::1", "::"]):
        yield echo6(f"bad-martian6-{number}", src=source)
    yield echo("bad-land", src=INSIDE)
    yield IP(src=INSIDE, dst=INSIDE) / TCP(sport=8000, dport=8000, flags="S") / mark("bad-land-tcp")
    for kind in (b"\x83", b"\x89"):
        yield echo("bad-source-route", options=[IPOption(kind + b"\x07\x04\x0a\x00\x03\x02")])
    yield echo("bad-checksum", chksum=1)
    yield echo("late-ttl", ttl=1)
    yield echo6("late-ttl6", hlim=1)
    yield segment("bad-syn-fin", "SF")
    yield segment("bad-null", "")
    yield segment("bad-xmas", "FPU")
    yield segment("bad-stray", "A")
    # A message of ICMP whose bytes are no echo in any other order: the header is in the first fragment only.
    header = raw(ICMP(id=2))
    yield part("good-fragment", 1, 0, True, header)
    yield part("good-rest", 1, 32, False, b"")
    # Each begins in what the one before it has.
    yield part("good-covered", 2, 0, True, header + b"." * 16)
    yield part("bad-overlap", 2, 16, False, b"")
    yield part("bad-again", 2, 0, True, header + b"." * 16)
    # A part without its first, one that ends beyond any packet, and headers of TCP in pieces.
    yield part("bad-orphan", 3, 32, False, b"")
    yield part("bad-long", 4, 65_528, False, b"." * 16)
    tiny = raw(TCP(sport=4001, dport=8000, flags="S"))
    yield IP(src=OUTSIDE, dst=INSIDE, id=5, flags="MF", proto=6) / Raw(tiny[:8])
    yield IP(src=OUTSIDE, dst=INSIDE, id=5, frag=1, proto=6) / Raw(tiny[8:]) / mark("bad-tiny")
    yield from fragment(echo("good-many", id=6) / Raw(b"." * 3000) / mark("good-last"), 1000)


def from_inside():
    yield echo("bad-spoofed-out", src="198.51.100.7", dst=OUTSIDE)
    yield echo("bad-spoofed-outer", src=OUTSIDE, dst="198.51.100.7")
    yield echo6("bad-spoofed-out6", src="2001:db8:9::7", dst=OUTSIDE6)
    yield echo("good-out", src=INSIDE, dst=OUTSIDE)


def frames(mac, packets):
    for packet in packets:
        yield Ether(dst=mac) / packet


def listen(device):
    """Writes a line for each packet that matters."""
    import select

    own = get_if_hwaddr(device)
    socket = conf.L2listen(iface=device)
    print("ready", flush=True)
    while True:
        ready, _, _ = select.select([socket, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        packet = socket.recv()
        # What this side sends itself is not what comes.
        if packet is None or packet.src == own:
            continue
        names = re.findall(rb"<([a-z0-9-]+)>", raw(packet))
        source = packet[IP].src if IP in packet else packet[IPv6].src if IPv6 in packet else "?"
        error = packet[ICMP].type if ICMP in packet else None
        kind = raw(packet[IPv6].payload)[0] if IPv6 in packet and packet[IPv6].nh == 58 else None
        for name in names:
            name = name.decode()
            if error in (3, 11, 12) or kind in (1, 2, 3, 4):
                print("error", error if kind is None else kind, source, name, flush=True)
            elif error != 0 and kind != 129:
                print(name, source, flush=True)


def begins_a_flow(kind, number, random):
    """Returns a packet with which a flow begins, another one for each number below 60,000."""
    if kind == "sources":
        source = f"10.{random.randrange(16, 200)}.{number // 250 % 250}.{1 + number % 250}"
        return IP(src=source, dst=INSIDE) / TCP(sport=1024 + number % 60_000, dport=8000, flags="S")
    if kind == "segments":
        return IP(src=FLOODER, dst=INSIDE) / TCP(sport=1024 + number, dport=8000, flags="S", seq=random.getrandbits(32))
    return IP(src=FLOODER_INSIDE, dst=FLOODER) / UDP(sport=1024 + number, dport=8000)


def main():
    action, device, *rest = sys.argv[1:]
    if action == "listen":
        return listen(device)
    socket = conf.L2socket(iface=device)
    if action == "send":
        mac, side = rest
        for frame in frames(mac, from_outside() if side == "outside" else from_inside()):
            socket.send(frame)
    else:
        mac, count, kind = rest
        random = Random(1)
        for number in range(int(count)):
            socket.send(Ether(dst=mac) / begins_a_flow(kind, number, random))


main()
