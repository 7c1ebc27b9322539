#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The Python of cargo-zigbuild (CARGO_ZIGBUILD_PYTHON_PATH), which calls `-m ziglang` with it. Zig's linker does not take `-z initfirst`, with
which the library of virtual clocks starts before the others. This leaves it out, and sets the flag in the file that was made.
"""
import struct
import subprocess
import sys

DT_FLAGS_1, DF_1_INITFIRST = 0x6FFFFFFB, 0x20
PT_DYNAMIC = 2


def set_initfirst(path: str) -> None:
    """Sets the flag in a 64-bit little-endian ELF file, which has DT_FLAGS_1 because it was linked with `-z now`."""
    with open(path, "r+b") as file:
        data = file.read()
        if data[:6] != b"\x7fELF\x02\x01":
            sys.exit(f"zig.py: {path}: not a 64-bit little-endian ELF file")
        headers, = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        for at in range(headers, headers + size * count, size):
            kind, = struct.unpack_from("<I", data, at)
            offset, = struct.unpack_from("<Q", data, at + 8)
            length, = struct.unpack_from("<Q", data, at + 32)
            if kind != PT_DYNAMIC:
                continue
            for entry in range(offset, offset + length, 16):
                tag, value = struct.unpack_from("<QQ", data, entry)
                if tag == DT_FLAGS_1:
                    file.seek(entry + 8)
                    file.write(struct.pack("<Q", value | DF_1_INITFIRST))
                    return
    sys.exit(f"zig.py: {path}: no DT_FLAGS_1; link with -z now")


def main() -> int:
    given = sys.argv[1:]
    kept = [argument for argument in given if argument not in ("-Wl,-z,initfirst", "-Wl,-zinitfirst")]
    done = subprocess.run([sys.executable, *kept]).returncode
    if done == 0 and kept != given:
        set_initfirst(kept[kept.index("-o") + 1])
    return done


sys.exit(main())
