#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""
The frames of our links in a packet capture: reads the TCP connections in a pcapng file, puts each one together, and
finds our frames by their first word and their length. Prints JSON: for each sender and receiver the frames, their bytes,
all bytes of these connections above TCP, and the bytes of the packets. Bytes that are missing in the capture are an error.

usage: frames.py FILE.pcapng
"""

import json
import struct
import sys

MAGIC = b"SvF\x01"
HEADER_BYTES = 32
LENGTH_AT = 24
ENHANCED_PACKET = 6


def packets(data):
    """Yields the packets of a pcapng file, little-endian, with Ethernet headers."""
    at = 0
    while at + 12 <= len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind == ENHANCED_PACKET:
            captured, original = struct.unpack_from("<II", data, at + 20)
            if captured != original:
                sys.exit(f"a packet of {original} bytes was cut to {captured}")
            yield data[at + 28 : at + 28 + captured]
        at += length


def segments(data):
    """Yields (sender, receiver, sequence number, payload, whether the connection begins, bytes of the packet)."""
    for packet in packets(data):
        if len(packet) < 54 or packet[12:14] != b"\x08\x00" or packet[23] != 6:
            continue
        ip = packet[14:]
        header = 4 * (ip[0] & 15)
        tcp = ip[header : struct.unpack_from(">H", ip, 2)[0]]
        source, target, number = struct.unpack_from(">HHI", tcp)
        dotted = [".".join(map(str, ip[at : at + 4])) for at in (12, 16)]
        begins = bool(tcp[13] & 2)
        yield (dotted[0], source), (dotted[1], target), number, tcp[4 * (tcp[12] >> 4) :], begins, len(packet)


def together(pieces, begin):
    """The bytes of one direction of a connection; bytes that were sent again are taken once."""
    stream = bytearray()
    for number, payload in sorted(((number - begin) % 2**32, payload) for number, payload in pieces):
        if number > len(stream):
            sys.exit(f"the capture lacks {number - len(stream)} bytes of a connection")
        stream += payload[len(stream) - number :]
    return bytes(stream)


def frames(stream):
    """Yields the length of each frame."""
    at = stream.find(MAGIC)
    while at >= 0 and at + HEADER_BYTES <= len(stream):
        (length,) = struct.unpack_from("<I", stream, at + LENGTH_AT)
        if length < HEADER_BYTES or at + length > len(stream):
            sys.exit(f"a frame of {length} bytes, of which {len(stream) - at} are there")
        yield length
        at = stream.find(MAGIC, at + length)


def main():
    with open(sys.argv[1], "rb") as file:
        data = file.read()
    pieces, begins, wire = {}, {}, {}
    for source, target, number, payload, has_begun, bytes_of_packet in segments(data):
        way = (source, target)
        wire[way] = wire.get(way, 0) + bytes_of_packet
        if has_begun:
            begins[way] = (number + 1) % 2**32
        if payload:
            pieces.setdefault(way, []).append((number, payload))
    found = {}
    for way, of_way in pieces.items():
        if way not in begins:
            continue
        stream = together(of_way, begins[way])
        lengths = list(frames(stream))
        if not lengths:
            continue
        sums = found.setdefault(f"{way[0][0]} {way[1][0]}", dict.fromkeys(("frames", "frame_bytes", "tcp_bytes", "packet_bytes"), 0))
        for name, value in zip(sums, (len(lengths), sum(lengths), len(stream), wire[way])):
            sums[name] += value
    print(json.dumps(found))


if __name__ == "__main__":
    main()
